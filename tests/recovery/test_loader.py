"""The whole of log loading: what is recovered, dropped, started anew, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import CREATE, DELETE, DROP, EMPTY, HIDE, RECOVER, TRIM, TRUNCATE, WARN, WRITE, LoadOutcome
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition, content_of
from tests.recovery.building import (
    METADATA,
    NOW,
    batch,
    broken,
    exception,
    file,
    load,
    loaded,
    make_log,
    produced,
    steps,
    with_offset,
)

BASES = (0, 4, 8)
BATCHES = {base: [batch(base, 2), batch(base + 2, 2)] for base in BASES}
LOGS = {file(base, "log"): b"".join(batches) for base, batches in BATCHES.items()}
INDEXES = {file(base, "index"): b"" for base in BASES} | {file(base, "timeindex"): b"" for base in BASES}
SNAPSHOT = bytes.fromhex("0001" + "1c5a3b58" + "00000000")
SIZE = len(batch(0, 2))
EPOCHS = names.LEADER_EPOCH_CHECKPOINT


def recovered(outcome: LoadOutcome) -> list[str]:
    return [step.file for step in steps(outcome, RECOVER)]


def test_only_segments_from_the_recovery_point_on_are_checked(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES)
    assert recovered(load(log)) == [file(base, "log") for base in BASES]
    assert recovered(load(log, recovery_point=3)) == [file(base, "log") for base in BASES]
    assert recovered(load(log, recovery_point=4)) == [file(4, "log"), file(8, "log")]
    assert recovered(load(log, recovery_point=99)) == [file(8, "log")]
    assert recovered(load(log, clean=True)) == []
    assert load(log, recovery_point=99).recovery_point == 12
    assert load(log, recovery_point=4).recovery_point == 4
    assert load(log, recovery_point=4, clean=True).recovery_point == 12


def test_a_missing_index_is_rebuilt_whatever_the_shutdown_was(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES)
    Path(log.path, file(4, "index")).unlink()
    (step,) = steps(load(make_log(tmp_path, {}), clean=True), RECOVER)
    assert (step.file, step.size) == (file(4, "log"), 2 * SIZE)
    assert "missing" in step.why
    assert not Path(log.path, file(4, "index")).exists()


def test_a_missing_time_index_is_not_rebuilt(tmp_path: Path) -> None:
    log = make_log(tmp_path, {name: data for name, data in (LOGS | INDEXES).items() if name != file(0, "timeindex")})
    assert loaded(log, clean=True)[file(0, "timeindex")] == b""
    (step,) = steps(load(log, clean=True), CREATE)
    assert (step.file, step.size) == (file(0, "timeindex"), 0)


@pytest.mark.parametrize("entry", [(99, 0), (3, 10_000), (1, 2 * SIZE)])
def test_an_index_that_leads_to_no_batch_hides_what_the_last_segment_holds(
    tmp_path: Path, entry: tuple[int, int]
) -> None:
    """LogSegment.readNextOffset: the base offset where nothing is found from the last index entry on."""
    index = {file(8, "index"): b"".join(number.to_bytes(4, "big") for number in entry)}
    log = make_log(tmp_path, LOGS | INDEXES | index)
    outcome = load(log, clean=True)
    assert (outcome.log_end_offset, outcome.hides) == (8, True)
    (step,) = steps(outcome, HIDE)
    assert step.file == file(8, "log")
    assert step.why.startswith(f"the last entry of {file(8, 'index')} leads to no batch")
    assert (outcome.loss.batches, outcome.loss.records) == (2, 4)
    assert (outcome.loss.first_offset, outcome.loss.last_offset) == (8, 11)
    assert not load(log).hides  # after an unclean shutdown the index is rebuilt
    assert not load(make_log(tmp_path, {file(8, "index"): bytes(8)}), clean=True).hides


def test_damage_cuts_the_segment_and_drops_later_ones_with_their_snapshots(tmp_path: Path) -> None:
    cut = {file(4, "log"): BATCHES[4][0] + broken(BATCHES[4][1])}
    log = make_log(tmp_path, LOGS | INDEXES | cut | {file(8, "snapshot"): SNAPSHOT, EPOCHS: b"0\n2\n0 0\n3 8\n"})
    outcome = load(log, recovery_point=4)
    assert (outcome.log_start_offset, outcome.log_end_offset, outcome.recovery_point) == (0, 6, 4)
    (step,) = steps(outcome, TRUNCATE)
    assert (step.file, step.position, step.size) == (file(4, "log"), SIZE, SIZE)
    assert "CRC" in step.why
    assert step.loss is not None
    assert (step.loss.bytes, step.loss.batches, step.loss.zeros) == (SIZE, 0, 0)
    (dropped,) = steps(outcome, DROP)
    assert dropped.file == file(8, "log")
    assert dropped.loss is not None
    assert (dropped.loss.batches, dropped.loss.records) == (2, 4)
    assert (outcome.loss.bytes, outcome.loss.first_offset, outcome.loss.last_offset) == (3 * SIZE, 8, 11)
    assert file(8, "snapshot") in [gone.file for gone in steps(outcome, DELETE)]
    assert [wrote.why for wrote in steps(outcome, WRITE) if wrote.file == EPOCHS] == ["drops epoch 3 from offset 8"]
    files = loaded(log, recovery_point=4)
    assert [name for name in files if name.endswith(".log")] == [file(0, "log"), file(4, "log")]
    assert files[EPOCHS] == b"0\n1\n0 0\n"


def test_zeros_at_the_end_are_cut_and_take_later_segments_with_them(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {file(8, "log"): LOGS[file(8, "log")] + bytes(500)})
    outcome = load(log)
    assert (outcome.loss.bytes, outcome.loss.zeros) == (500, 500)
    assert not outcome.loss.has_data
    log = make_log(tmp_path, {file(4, "log"): LOGS[file(4, "log")] + bytes(500)})
    outcome = load(log)
    assert outcome.log_end_offset == 8
    assert outcome.loss.has_data
    assert [step.file for step in steps(outcome, DROP)] == [file(8, "log")]


def test_offsets_that_go_back_empty_the_segment_where_an_entry_is_due(tmp_path: Path) -> None:
    config = LoadingSettings(index_interval_bytes=SIZE // 2)
    twice = b"".join([batch(4, 2), batch(6, 2), with_offset(batch(4, 2), 4)])
    log = make_log(tmp_path, LOGS | INDEXES | {file(4, "log"): twice})
    outcome = load(log, config=config)
    (step,) = steps(outcome, EMPTY)
    assert (step.file, step.size) == (file(4, "log"), 0)
    assert step.why.startswith("Attempt to append an offset 5 to position 1")
    assert outcome.log_end_offset == 4
    assert outcome.loss.bytes == 3 * SIZE + len(LOGS[file(8, "log")])
    # where the segment is recovered for another reason, nobody catches it
    Path(log.path, file(4, "index")).unlink()
    outcome = load(make_log(tmp_path, {}), clean=True, config=config)
    assert exception(outcome) == "InvalidOffsetException"


def test_a_log_that_ends_before_it_starts_begins_anew(tmp_path: Path) -> None:
    before = {file(8, "snapshot"): SNAPSHOT, file(6, "snapshot"): SNAPSHOT, EPOCHS: b"0\n1\n0 0\n"}
    log = make_log(tmp_path, LOGS | INDEXES | before)
    for clean in (False, True):
        outcome = load(log, log_start_offset=20, clean=clean)
        assert (outcome.log_start_offset, outcome.log_end_offset) == (20, 20)
        assert len(steps(outcome, DROP)) == 3
        assert outcome.loss.records == 12
        why = {step.file: step.why for step in steps(outcome, DELETE)}
        assert not clean or why[file(8, "snapshot")] == f"the segment {file(8, 'log')} is removed"
        again = "all segments are removed and the log starts again at offset 20"
        assert not clean or why[file(6, "snapshot")] == again
        files = loaded(log, log_start_offset=20, clean=clean)
        assert [name for name in files if name.endswith("log")] == [file(20, "log")]
        assert [name for name in files if name.endswith("snapshot")] == [file(20, "snapshot")] * clean
        assert files[EPOCHS] == b"0\n0\n"


def test_the_log_start_offset_may_lie_in_a_segment_or_before_the_first(tmp_path: Path) -> None:
    log = make_log(tmp_path, {name: data for name, data in (LOGS | INDEXES).items() if "0000.log" not in name})
    assert load(log, log_start_offset=6).log_start_offset == 6
    assert load(log, log_start_offset=2).log_start_offset == 4
    assert load(log, log_start_offset=2, config=LoadingSettings(has_remote_storage=True)).log_start_offset == 2


def test_an_empty_directory_gets_an_empty_segment(tmp_path: Path) -> None:
    outcome = load(make_log(tmp_path, {}), log_start_offset=7)
    assert (outcome.log_start_offset, outcome.log_end_offset) == (7, 7)
    assert [(step.file, step.size) for step in steps(outcome, CREATE)] == [(file(7, "log"), 0)]
    assert set(loaded(make_log(tmp_path, {}), log_start_offset=7)) == {
        *(file(7, kind) for kind in ("log", "index", "timeindex")), EPOCHS
    }  # fmt: skip


def test_what_waits_for_deletion_is_loaded_without_recovery(tmp_path: Path) -> None:
    name = f"topic-0.{'0123456789abcdef' * 2}-delete"
    log = make_log(tmp_path, LOGS | INDEXES | {file(4, "log"): broken(BATCHES[4][0])}, name)
    outcome = load(log)
    assert recovered(outcome) == []
    assert (outcome.loss.bytes, outcome.log_end_offset, outcome.recovery_point) == (0, 0, 0)
    empty = load(make_log(tmp_path / "empty", {}, name))
    assert [step.file for step in steps(empty, CREATE)] == [file(0, "log")]


def test_an_older_message_format_has_neither_epochs_nor_producers(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {EPOCHS: b"0\n1\n0 0\n", file(0, "log"): produced(0, 7) + batch(1, 3)})
    config = LoadingSettings(record_version=1)
    files = loaded(log, config=config)
    assert EPOCHS not in files
    assert [len(data) for name, data in sorted(files.items()) if name.endswith("snapshot")] == [10, 10, 10]
    assert any(step.file == EPOCHS for step in steps(load(log, config=config), DELETE))


def test_epochs_are_learnt_from_recovered_batches_only(tmp_path: Path) -> None:
    data = batch(0, 2) + batch(2, 2, leader_epoch=5)
    log = make_log(tmp_path, {file(0, "log"): data, file(0, "index"): b"", file(0, "timeindex"): b""})
    assert loaded(log)[EPOCHS] == b"0\n2\n0 0\n5 2\n"
    assert loaded(log, clean=True)[EPOCHS] == b""
    written = [step.why for step in steps(load(log), WRITE) if step.file == EPOCHS]
    assert written == ["missing: made with 2 epochs"]


def test_epochs_at_the_ends_of_the_log_are_forgotten(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {EPOCHS: b"0\n3\n0 0\n1 3\n2 12\n"})
    outcome = load(log, log_start_offset=5, clean=True)
    assert loaded(log, log_start_offset=5, clean=True)[EPOCHS] == b"0\n1\n1 5\n"
    (step,) = [step for step in steps(outcome, WRITE) if step.file == EPOCHS]
    assert step.why == (
        "drops epoch 0 from offset 0, epoch 1 from offset 3, epoch 2 from offset 12; adds epoch 1 from offset 5"
    )


@pytest.mark.parametrize(
    ("name", "content", "thrown", "offline"),
    [
        (EPOCHS, b"0\n1\nx 0\n", "NumberFormatException", False),
        (EPOCHS, b"0\n1\n0 99999999999999999999\n", "NumberFormatException", False),
        (EPOCHS, b"0\n1\n0 -1\n", "IllegalArgumentException", False),
        (EPOCHS, b"0\n-1\n", "IllegalArgumentException", False),
        (EPOCHS, b"0\nx\n", "KafkaStorageException", True),
        (EPOCHS, b"0\n1\n0 0 0\n", "KafkaStorageException", True),
        (EPOCHS, b"9\n0\n", "KafkaStorageException", True),
        (EPOCHS, b"\xff", "KafkaStorageException", True),
        (names.PARTITION_METADATA, b"version: 0\n", "NullPointerException", False),
        (names.PARTITION_METADATA, b"", "NullPointerException", False),
        (names.PARTITION_METADATA, b"version: 0\ntopic_id: x\n", "IllegalArgumentException", False),
        (names.PARTITION_METADATA, b"version: x\n", "KafkaStorageException", True),
        (names.PARTITION_METADATA, b"version: 0\ntopic_id:\n", "KafkaStorageException", True),
        ("copy of 0.log", b"", "NumberFormatException", False),
        ("x.snapshot", b"", "NumberFormatException", False),
        (file(4, "txnindex"), b"\7\0" + bytes(32), "KafkaException", False),
    ],
)
def test_files_that_end_loading(tmp_path: Path, name: str, content: bytes, thrown: str, offline: bool) -> None:
    outcome = load(make_log(tmp_path, LOGS | INDEXES | {name: content}))
    assert exception(outcome) == thrown
    assert outcome.failure is not None
    assert (outcome.failure.file, outcome.failure.offline) == (name, offline)
    assert outcome.files is None


def test_a_controller_does_without_nothing(tmp_path: Path) -> None:
    outcome = load(make_log(tmp_path, {EPOCHS: b"9\n0\n"}, names.CLUSTER_METADATA_DIR))
    assert outcome.failure is not None
    assert not outcome.failure.offline


def test_a_bad_transaction_index_is_rebuilt(tmp_path: Path) -> None:
    entry = b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (1, 0, 3, 4))
    log = make_log(tmp_path, LOGS | INDEXES | {file(4, "txnindex"): entry})
    outcome = load(log, clean=True)
    assert recovered(outcome) == [file(4, "log")]
    assert loaded(log, clean=True)[file(4, "txnindex")] == b""
    (step,) = [step for step in steps(outcome, WRITE) if step.file.endswith("txnindex")]
    assert (step.why, step.size) == ("rebuilt from the log: 0 aborted transactions", 0)


def test_orphans_and_partition_metadata_are_told_of(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {file(6, "timeindex"): b"", file(6, "txnindex"): b""})
    Path(log.path, names.PARTITION_METADATA).unlink()
    outcome = load(type(log)(log.path), clean=True)
    assert [step.file for step in steps(outcome, DELETE)] == [file(6, "timeindex"), file(6, "txnindex")]
    (note,) = steps(outcome, WARN)
    assert note.file == names.PARTITION_METADATA
    assert "-stray" in note.why


def test_indexes_are_trimmed_to_whole_entries(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {file(8, "timeindex"): bytes(17), file(0, "timeindex"): bytes(17)})
    outcome = load(log, clean=True)
    assert [(step.file, step.size) for step in steps(outcome, TRIM)] == [(file(8, "timeindex"), 12)]


def test_kraft_snapshots(tmp_path: Path) -> None:
    def snapshot(offset: int, suffix: str = "") -> str:
        return f"{offset:020d}-0000000001.checkpoint{suffix}"

    every = [snapshot(2), snapshot(4), snapshot(9), snapshot(4, ".deleted"), snapshot(12, ".part")]
    log = make_log(tmp_path, LOGS | INDEXES | dict.fromkeys(every, b""), names.CLUSTER_METADATA_DIR)
    gone = {step.file: step.why for step in steps(load(log, log_start_offset=4), DELETE)}
    assert gone[snapshot(2)] == "it is older than the log start offset 4"
    assert gone[snapshot(4, ".deleted")] == "it was scheduled for deletion"
    assert gone[snapshot(12, ".part")] == "it is not complete"
    assert snapshot(4) not in gone
    assert snapshot(9) not in gone
    assert {name for name in loaded(log, log_start_offset=4) if ".checkpoint" in name} == {snapshot(4), snapshot(9)}
    for name in every:
        Path(log.path, name).unlink()
    for start in (1, 4):
        outcome = load(type(log)(log.path), log_start_offset=start)
        assert exception(outcome) == "IllegalStateException"


def test_a_kraft_snapshot_beyond_the_log_is_told_of(tmp_path: Path) -> None:
    name = f"{99:020d}-0000000001.checkpoint"
    outcome = load(make_log(tmp_path, LOGS | INDEXES | {name: b""}, names.CLUSTER_METADATA_DIR))
    (note,) = [step for step in steps(outcome, WARN) if step.file == name]
    assert "above the log end offset 12" in note.why


@pytest.mark.parametrize(
    ("content", "thrown"),
    [
        (b"", "UncheckedIOException"),
        (b"{", "UncheckedIOException"),
        (b"[]", "UncheckedIOException"),
        (b"{}", "UncheckedIOException"),
        (b'{"data_version":5}', "IllegalStateException"),
        (b'{"data_version":1}', "RuntimeException"),
    ],
)
def test_a_broken_quorum_state_ends_the_process(tmp_path: Path, content: bytes, thrown: str) -> None:
    files = {file(0, "log"): b"", names.QUORUM_STATE: content}
    outcome = load(make_log(tmp_path, files, names.CLUSTER_METADATA_DIR))
    assert exception(outcome) == thrown
    assert outcome.failure is not None
    assert not outcome.failure.offline
    assert load(make_log(tmp_path, files, "orders-0")).ok


def test_directories_in_the_place_of_files(tmp_path: Path) -> None:
    for name in (EPOCHS, names.PARTITION_METADATA, file(8, "index"), file(8, "timeindex"), file(8, "txnindex")):
        log = make_log(tmp_path / name, LOGS | INDEXES)
        Path(log.path, name).unlink(missing_ok=True)
        Path(log.path, name).mkdir()
        outcome = load(PartitionLog(log.path))
        assert exception(outcome) == "FileNotFoundException"
        assert outcome.failure is not None
        assert outcome.failure.offline


def test_files_that_a_plan_has_changed_are_read_as_they_will_be(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | INDEXES | {EPOCHS: b"0\n1\n0 0\n"})
    directory = PlannedPartition(log)
    directory.write(EPOCHS, b"0\n1\n7 0\n")
    outcome = load_log(log, Startup(NOW, clean=True), directory.copy())
    assert outcome.files is not None
    assert b"".join(content_of(log.path, outcome.files[EPOCHS])) == b"0\n1\n7 0\n"
    directory.write(names.PARTITION_METADATA, b"version: 0\n")
    assert exception(load_log(log, Startup(NOW, clean=True), directory)) == "NullPointerException"
    Path(log.path, EPOCHS).write_bytes(b"nonsense")
    Path(log.path, names.PARTITION_METADATA).write_bytes(b"nonsense")
    log = PartitionLog(log.path)
    assert exception(load(log)) == "KafkaStorageException"
    directory = PlannedPartition(log)
    directory.write(EPOCHS, b"0\n0\n")
    directory.write(names.PARTITION_METADATA, METADATA)
    assert load_log(log, Startup(NOW, clean=True), directory).ok


def test_a_last_segment_of_one_record_may_be_hidden(tmp_path: Path) -> None:
    index = (99).to_bytes(4, "big") + bytes(4)
    log = make_log(tmp_path, LOGS | INDEXES | {file(8, "log"): batch(8), file(8, "index"): index})
    outcome = load(log, clean=True)
    assert (outcome.log_end_offset, outcome.hides, outcome.loss.records) == (8, True, 1)


def test_what_stands_behind_an_incomplete_batch_is_not_hidden_by_an_index(tmp_path: Path) -> None:
    torn = batch(9)[:8] + (9999).to_bytes(4, "big") + batch(9)[12:]
    log = make_log(tmp_path, LOGS | INDEXES | {file(8, "log"): batch(8) + torn + batch(10)})
    outcome = load(log, clean=True)
    assert (outcome.log_end_offset, outcome.hides) == (9, False)


def test_every_segment_that_is_checked_leaves_a_snapshot(tmp_path: Path) -> None:
    bases = range(0, 20, 4)
    files = {file(base, "log"): produced(base, base + 1, count=2) for base in bases}
    files |= {file(base, kind): b"" for base in bases for kind in ("index", "timeindex")}
    found = loaded(make_log(tmp_path, files))
    assert [int(name[:20]) for name in sorted(found) if name.endswith("snapshot")] == [4, 8, 12, 16, 18]


@pytest.mark.parametrize(("name", "partition"), [("orders-3", "orders-3"), ("nothing", "unknown")])
def test_texts_name_the_partition(tmp_path: Path, name: str, partition: str) -> None:
    data = produced(0, 7, transactional=True) + produced(1, 7)
    outcome = load(make_log(tmp_path, {file(0, "log"): data}, name))
    assert outcome.failure is not None
    assert outcome.failure.text.endswith(f"in partition {partition}")


def test_what_is_done_again_after_a_split_is_told_once(tmp_path: Path) -> None:
    far = 4 + (1 << 32)
    files = {file(0, "log"): batch(0), file(4, "log"): batch(4) + batch(far)}
    files |= {file(base, kind): b"" for base in (0, 4) for kind in ("index", "timeindex")}
    found = recovered(load(make_log(tmp_path / "far", files)))
    assert (found.count(file(0, "log")), found[-1]) == (1, file(far, "log"))
    moved = {file(3, "log"): batch(5) + batch(far), file(3, "index"): b"", file(3, "snapshot"): SNAPSHOT}
    outcome = load(make_log(tmp_path / "moved", moved))
    assert [(step.file, step.why) for step in steps(outcome, DELETE) if step.file.endswith("snapshot")] == [
        (file(3, "snapshot"), "the segment that begins there is split")
    ]
