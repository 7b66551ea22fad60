"""Salvage of whole partitions: what stays, what follows from it, and that nothing is left to do afterwards."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import label_of, new_change
from kdump.formats import names
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.checkpoints import parse_leader_epochs
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.index_entries import decode_aborted_txns
from kdump.formats.metadata_files import parse_partition_metadata
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, encode_producer_snapshot
from kdump.mend.salvage_partition import Salvaged
from kdump.mend.strategies import plan_safe
from kdump.mend.task import Request
from kdump.recovery.outcome import DELETE, LEAVE_OUT, MOVE, WARN
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import TopicSettings
from tests.change.kept import change_files, only_change
from tests.repair.damaged import (
    BASES,
    DAMAGES,
    PRODUCER,
    STARTUP,
    edit,
    flip,
    marker,
    moved,
    name,
    segment_bytes,
)
from tests.repair.salvaging import batches, content, errors, examined, salvage
from tests.sampling import sampled

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
CASES = {row["case"]: row for row in map(json.loads, (FIXTURES / "cases.jsonl").read_text().splitlines())}
SETTINGS = {row["case"]: row for row in map(json.loads, (FIXTURES / "startup.jsonl").read_text().splitlines())}
NOW = 1_700_086_400_000


def offsets(partition: Path) -> list[int]:
    """The base offsets of the batches that can be read."""
    return [int.from_bytes(batch[:8], "big") for batch in batches(partition)]


def raw(partition: Path) -> list[bytes]:
    """The logs, and what waits to replace them, byte for byte."""
    return [path.read_bytes() for path in partition.iterdir() if ".log" in path.name]


def found(wanted: list[bytes], logs: list[bytes]) -> list[bytes]:
    """The batches that some log still holds."""
    return [batch for batch in wanted if any(batch in log for log in logs)]


def steps(salvaged: Salvaged, *actions: str) -> list[tuple[str, str]]:
    return [(step.file, step.why) for step in salvaged.outcome.steps if step.action in actions]


@pytest.mark.parametrize("damage", sampled(DAMAGES, 12))
def test_every_untouched_batch_is_kept_and_nothing_is_left_to_do(partition: Path, damage: str) -> None:
    originals = list(batches(partition))
    DAMAGES[damage](partition)
    untouched = found(originals, raw(partition))
    salvage(partition)
    assert errors(partition) == []
    kept = Counter(batches(partition))
    assert [batch for batch in untouched if batch not in kept] == []
    assert max(kept.values()) == 1
    again = examined(partition)
    assert again.plan is not None
    assert again.plan.operations == ()
    assert again.cuts == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("i-", "z-"))])
def test_of_what_kafka_wrote(tmp_path: Path, case: str) -> None:
    row = CASES[case]
    log_dir = tmp_path / case
    shutil.copytree(FIXTURES / "corpus" / case, log_dir)
    for checkpoint in names.OFFSET_CHECKPOINTS:  # the command moves them to the end of the log
        (log_dir / checkpoint).unlink(missing_ok=True)
    partition = tmp_path / row["dir"]
    settings = SETTINGS.get(case, {})
    startup = Startup(
        NOW,
        log_start_offset=settings.get("logStartOffset", 0),
        config=LoadingSettings.of(TopicSettings.of(settings["config"])),
    )
    before = raw(partition)
    salvage(partition, startup)
    assert errors(partition, startup) == []
    again = examined(partition, startup)
    assert again.plan is not None
    assert again.plan.operations == ()
    if row.get("source") in CASES:
        kept = Counter(batches(partition))
        source = FIXTURES / "corpus" / CASES[row["source"]]["dir"]
        assert [batch for batch in found(list(batches(source)), before) if batch not in kept] == []


def test_counts_against_strategy_kafka(partition: Path) -> None:
    before = list(batches(partition))
    edit(name(20, "log"), flip(70))(partition)
    salvaged = salvage(partition)
    assert salvaged.kept is not None
    assert salvaged.kafka_keeps is not None
    assert (salvaged.kept.batches, salvaged.kafka_keeps.batches) == (len(before) - 1, 10)
    assert (salvaged.kept.records, salvaged.kafka_keeps.records) == (3 * 19 - 2, 19)
    assert (salvaged.kept.first_offset, salvaged.kept.last_offset) == (0, 58)
    assert salvaged.kafka_keeps.last_offset == 18
    (cut,) = salvaged.cuts
    assert (cut.file, cut.start) == (name(20, "log"), 0)
    assert cut.stop - cut.start == len(before[10])


def test_what_is_cut_out_is_saved_although_nothing_else_is(partition: Path) -> None:
    damaged = flip(70)((partition / name(20, "log")).read_bytes())
    edit(name(20, "log"), lambda _: damaged)(partition)
    (cut,) = salvage(partition).cuts
    change = only_change(partition)
    (kept,) = change.cuts
    assert kept.cut == cut
    saved = Path(change.file(kept.file))
    assert saved.name.endswith(f"+cut+{name(20, 'log')}.from-{cut.start}-to-{cut.stop}")
    assert saved.read_bytes() == damaged[cut.start : cut.stop]
    assert {path.name.split("+")[2] for path in change_files(partition.parent)} == {"journal", "cut"}


def test_later_segments_stay_and_indexes_are_made_anew(partition: Path) -> None:
    edit(name(0, "log"), flip(300))(partition)
    salvage(partition)
    assert {each for each in content(partition) if each.endswith(".log")} == {name(base, "log") for base in BASES}
    assert (partition / name(40, "log")).read_bytes() == segment_bytes(40)


def test_mode_and_modification_time_of_a_log_are_kept(partition: Path) -> None:
    log = partition / name(20, "log")
    edit(name(20, "log"), flip(70))(partition)
    log.chmod(0o640)
    modified = 1_000_000_000_123_456_789
    os.utime(log, ns=(modified, modified))
    inode = log.stat().st_ino
    salvage(partition)
    info = log.stat()
    assert info.st_ino != inode
    assert (info.st_mtime_ns, info.st_mode & 0o777) == (modified, 0o640)


class TestSegments:
    def test_one_of_which_nothing_can_be_kept_goes(self, partition: Path) -> None:
        edit(name(20, "log"), lambda data: b"\xff" * len(data))(partition)
        salvaged = salvage(partition)
        assert (name(20, "log"), "nothing of the segment can be kept") in steps(salvaged, DELETE)
        assert not [each for each in content(partition) if each.startswith(name(20, "")) and "snapshot" not in each]
        assert [offset for offset in offsets(partition) if 20 <= offset < 40] == []

    def test_the_last_one_stays_empty_so_that_offsets_go_on_behind_it(self, partition: Path) -> None:
        edit(name(40, "log"), lambda data: b"\xff" * len(data))(partition)
        salvaged = salvage(partition)
        assert salvaged.outcome.log_end_offset == 40
        assert (partition / name(40, "log")).read_bytes() == b""

    def test_an_overlapping_copy_goes(self, partition: Path) -> None:
        shutil.copy(partition / name(40, "log"), partition / name(38, "log"))
        salvage(partition)
        assert not (partition / name(38, "log")).exists()
        assert offsets(partition)[-1] == 58
        assert errors(partition) == []

    def test_an_empty_one_inside_the_offsets_of_another_goes(self, partition: Path) -> None:
        (partition / name(30, "log")).write_bytes(b"")
        salvaged = salvage(partition)
        why = "the segment is empty, and the ones before it reach offset 38"
        assert (name(30, "log"), why) in steps(salvaged, DELETE)
        assert 30 in offsets(partition)

    def test_the_empty_active_segment_of_a_sound_log_stays(self, partition: Path) -> None:
        (partition / name(59, "log")).write_bytes(b"")
        salvage(partition)
        assert (partition / name(59, "log")).exists()

    def test_a_wrong_name_costs_what_lies_before_it(self, partition: Path) -> None:
        moved((name(40, "log"), name(45, "log")))(partition)
        salvaged = salvage(partition)
        assert errors(partition) == []
        assert [offset for offset in offsets(partition) if offset >= 40] == [46, 48, 50, 52, 54, 56, 58]
        assert {cut.file for cut in salvaged.cuts} == {name(45, "log")}

    def test_a_name_that_is_no_number_goes_and_what_was_in_it_is_saved(self, partition: Path) -> None:
        foreign = "00000000000000000000 (1).log"
        shutil.copy(partition / name(0, "log"), partition / foreign)
        before = list(batches(partition))
        salvaged = salvage(partition)
        assert salvaged.kafka_keeps is None
        assert list(batches(partition)) == before
        (cut,) = salvaged.cuts
        (saved,) = change_files(partition.parent, f"cut+{label_of(f'{foreign}.from-0-to-{cut.stop}')}")
        assert saved.read_bytes() == segment_bytes(0)
        assert not (partition / foreign).exists()

    @pytest.mark.parametrize("foreign", ["12.log", "9223372036854775807.log", "040.log"])
    def test_a_name_that_a_broker_takes_for_another_one(self, partition: Path, foreign: str) -> None:
        untouched = [offset for offset in offsets(partition) if offset != 22]
        shutil.copy(partition / name(0, "log"), partition / foreign)
        edit(name(20, "log"), flip(300))(partition)
        salvage(partition)
        assert offsets(partition) == untouched
        assert errors(partition) == []
        assert not (partition / foreign).exists()
        assert examined(partition).plan == (str(partition), (), {})

    def test_batches_out_of_order_are_put_in_order(self, partition: Path) -> None:
        whole = list(batches(partition))[:10]
        edit(name(0, "log"), lambda _: b"".join([*whole[:3], whole[4], whole[3], *whole[5:]]))(partition)
        salvaged = salvage(partition)
        assert (partition / name(0, "log")).read_bytes() == b"".join(whole)
        assert salvaged.cuts == ()
        assert steps(salvaged, MOVE) == [(name(0, "log"), "batch 8\N{EN DASH}9 stands where others belong")]

    def test_a_damaged_swap_whose_originals_are_there(self, partition: Path) -> None:
        """The segments that a broker would replace at its start are the better ones: they stay."""
        before = content(partition)
        for kind in ("log", "index", "timeindex"):
            (partition / name(0, f"{kind}.swap")).write_bytes(before[name(0, kind)])
        edit(name(0, "log.swap"), flip(200))(partition)
        assert [finding.path for finding in kdump.verify(str(partition)) if finding.code == "KD-FILE-SWAP-DAMAGED"] == [
            str(partition / name(0, "log.swap"))
        ]
        task = plan_safe(kdump.open_log(str(partition)), STARTUP, Request())
        assert task.decision is None
        assert task.plan is not None
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
        assert content(partition) == before

    def test_a_swap_of_which_nothing_can_be_read(self, partition: Path) -> None:
        before = content(partition)
        (partition / name(20, "log.swap")).write_bytes(b"\x7f" * 500)
        task = plan_safe(kdump.open_log(str(partition)), STARTUP, Request())
        assert task.decision is None
        assert task.plan is not None
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
        assert content(partition) == before

    @pytest.mark.parametrize("damages_original", [True, False])
    def test_a_damaged_swap_without_sound_originals_is_to_be_decided(
        self, partition: Path, damages_original: bool
    ) -> None:
        for kind in ("log", "index", "timeindex"):
            (partition / name(0, f"{kind}.swap")).write_bytes((partition / name(0, kind)).read_bytes())
        edit(name(0, "log.swap"), flip(200))(partition)
        if damages_original:
            edit(name(0, "log"), flip(200))(partition)
        else:
            (partition / name(0, "log")).unlink()
        assert plan_safe(kdump.open_log(str(partition)), STARTUP, Request()).decision is not None

    def test_a_swap_with_damage_in_it(self, partition: Path) -> None:
        edit(name(0, "log"), flip(300))(partition)
        moved(*((name(0, kind), name(0, f"{kind}.swap")) for kind in ("log", "index", "timeindex")))(partition)
        salvaged = salvage(partition)
        assert errors(partition) == []
        assert len(salvaged.cuts) == 1
        assert salvaged.cuts[0].file == name(0, "log.swap")
        assert offsets(partition)[0] == 0
        assert len(offsets(partition)) == 29
        assert examined(partition).plan == (str(partition), (), {})


class TestFilesBesideTheLogs:
    @pytest.mark.parametrize("bad", [b"", b"0\nx\n", b"0\n1\n7 7 7\n", b"\xff\xfe"])
    def test_leader_epochs_that_cannot_be_read(self, partition: Path, bad: bytes) -> None:
        (partition / "leader-epoch-checkpoint").write_bytes(bad)
        salvage(partition)
        entries = parse_leader_epochs((partition / "leader-epoch-checkpoint").read_bytes(), "")
        assert [(entry.epoch, entry.start_offset) for entry in entries] == [(0, 0), (1, 20), (2, 40)]

    @pytest.mark.parametrize("base", BASES)
    def test_leader_epochs_where_an_index_is_missing_too(self, partition: Path, base: int) -> None:
        (partition / "leader-epoch-checkpoint").write_bytes(b"")
        (partition / name(base, "index")).unlink()
        salvage(partition)
        assert (partition / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 20\n2 40\n"
        assert errors(partition) == []
        assert examined(partition).plan == (str(partition), (), {})

    @pytest.mark.parametrize("text", ["0\n1\n9 5\n", "0\n2\n0 0\n9 500\n", "0\n3\n0 0\n1 10\n2 40\n"])
    def test_leader_epochs_that_contradict_the_batches(self, partition: Path, text: str) -> None:
        (partition / "leader-epoch-checkpoint").write_text(text)
        salvage(partition)
        assert (partition / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 20\n2 40\n"
        assert errors(partition) == []

    def test_a_good_one_is_not_touched(self, partition: Path) -> None:
        metadata = (partition / "partition.metadata").read_bytes()
        edit(name(0, "log"), flip(300))(partition)
        salvage(partition)
        assert (partition / "partition.metadata").read_bytes() == metadata
        parse_partition_metadata(metadata, "")

    @pytest.mark.parametrize("leftover", ["partition.metadata.cleaned", "notes.swap", "x.log.deleted"])
    def test_a_leftover_whose_name_has_no_number(self, partition: Path, leftover: str) -> None:
        before = list(batches(partition))
        (partition / leftover).write_bytes(b"whatever")
        salvaged = salvage(partition)
        assert salvaged.outcome.ok
        assert list(batches(partition)) == before
        assert errors(partition) == []
        assert examined(partition).plan == (str(partition), (), {})

    def test_a_snapshot_at_the_log_start_tells_nothing_that_the_next_start_would_not_know(
        self, partition: Path
    ) -> None:
        other = ProducerEntry(99, 0, 4, 10, 0, 1010, 3, 6)  # with a transaction that is open from offset 6 on
        held = list(decode_producer_snapshot((partition / name(20, "snapshot")).read_bytes()))
        (partition / name(20, "snapshot")).write_bytes(encode_producer_snapshot([*held, other]))
        edit(name(0, "log"), lambda data: b"\xff" * len(data))(partition)
        salvaged = salvage(partition)
        assert salvaged.outcome.log_start_offset == 20
        assert salvaged.open_txns == ()
        producers = decode_producer_snapshot((partition / name(59, "snapshot")).read_bytes())
        assert [entry.producer_id for entry in producers] == [PRODUCER]
        assert errors(partition) == []
        assert examined(partition).plan == (str(partition), (), {})

    def test_snapshots_that_cannot_be_read(self, partition: Path) -> None:
        for path in partition.glob("*.snapshot"):
            path.write_bytes(b"\0\1garbage")
        salvage(partition)
        for path in partition.glob("*.snapshot"):
            decode_producer_snapshot(path.read_bytes())
        assert (partition / name(59, "snapshot")).exists()

    @pytest.mark.parametrize("damage", [b"\0" * 34, b"\7" * 68, b"\0\0short"])
    def test_a_txn_index_that_is_wrong(self, partition: Path, damage: bytes) -> None:
        right = (partition / name(20, "txnindex")).read_bytes()
        (partition / name(20, "txnindex")).write_bytes(damage)
        salvage(partition)
        assert (partition / name(20, "txnindex")).read_bytes() == right
        (txn,) = decode_aborted_txns(right)
        assert (txn.producer_id, txn.last_offset) == (PRODUCER, 38)

    def test_an_index_longer_than_its_configured_size(self, partition: Path) -> None:
        edit(name(40, "index"), lambda data: data + bytes(8 * 300))(partition)
        salvage(partition)
        assert errors(partition) == []


class TestLogStart:
    def test_beyond_the_end_is_taken_for_none(self, partition: Path) -> None:
        startup = STARTUP._replace(log_start_offset=500)
        before = list(batches(partition))
        salvaged = salvage(partition, startup)
        assert list(batches(partition)) == before
        assert (salvaged.outcome.log_start_offset, salvaged.outcome.log_end_offset) == (0, 59)
        assert any("is above the log end offset" in why for _, why in steps(salvaged, WARN))

    def test_inside_the_log_it_stays(self, partition: Path) -> None:
        edit(name(40, "log"), flip(70))(partition)
        (partition.parent / names.LOG_START_CHECKPOINT).write_text("0\n1\norders 0 30\n")
        salvaged = salvage(partition, STARTUP._replace(log_start_offset=30))
        assert salvaged.outcome.log_start_offset == 30
        assert errors(partition) == []

    def test_at_the_very_end_a_second_run_finds_nothing(self, partition: Path) -> None:
        startup = STARTUP._replace(log_start_offset=59)
        salvage(partition, startup)
        again = examined(partition, startup)
        assert again.plan is not None
        assert again.plan.operations == ()


class TestBatchesThatKafkaFailsOver:
    def test_data_outside_the_open_transaction_of_its_producer(self, partition: Path) -> None:
        # loading ends in an exception there, at every start
        plain = encode_batch([NewRecord(59, 5000, b"k", b"v")], NewBatch(0, PRODUCER, 0, 40, 2))
        opening = encode_batch([NewRecord(59, 5000, b"k", b"v")], NewBatch(TRANSACTIONAL, PRODUCER, 0, 30, 2))
        after = encode_batch([NewRecord(60, 5000, b"k", b"v")], NewBatch(0, PRODUCER, 0, 31, 2))
        assert plain != opening
        edit(name(40, "log"), lambda data: data + opening + after)(partition)
        salvaged = salvage(partition)
        assert salvaged.kafka_keeps is None
        assert offsets(partition)[-1] == 59
        assert any("Expected transactional write" in cut.why for cut in salvaged.cuts)
        assert errors(partition) == []

    def test_a_marker_that_it_cannot_read(self, partition: Path) -> None:
        bad = marker(59, 5000, "commit")
        record = NewRecord(59, 5000, b"\0\0\0\x09", b"\0\0\0\0\0\3")
        bad = encode_batch([record], NewBatch(0x30, PRODUCER, 0, -1, 2))
        edit(name(40, "log"), lambda data: data + bad)(partition)
        salvaged = salvage(partition)
        assert salvaged.kafka_keeps is None
        assert offsets(partition)[-1] == 58
        assert steps(salvaged, LEAVE_OUT)[0][1].startswith("the transaction marker at offset 59: ")

    def test_a_batch_with_an_odd_header_is_kept(self, partition: Path) -> None:
        # no producer sends it, but its CRC matches, Kafka loads it, and consumers read its record
        odd = encode_batch([NewRecord(59, 5000, b"k", b"v")], NewBatch(TRANSACTIONAL, 5, -1, 0, 2))
        edit(name(40, "log"), lambda data: data + odd)(partition)
        assert any("KD-BATCH-PRODUCER" in error for error in errors(partition))
        salvage(partition)
        assert list(batches(partition))[-1] == odd


@pytest.mark.parametrize("damage", [edit(name(20, "log"), lambda data: data[: -len(marker(38, 1020, "abort"))])])
def test_a_transaction_without_its_marker_is_told_of(partition: Path, damage: Callable[[Path], None]) -> None:
    damage(partition)
    edit(name(40, "log"), lambda data: b"")(partition)
    salvaged = salvage(partition)
    (producer,) = salvaged.open_txns
    assert (producer.producer_id, producer.current_txn_first_offset) == (PRODUCER, 20)
