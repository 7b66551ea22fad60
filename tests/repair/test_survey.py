"""What a repair takes from verification: which logs are damaged, what is unsound beside them, and what is an end."""

from __future__ import annotations

import os
from errno import EIO
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.disk import reading
from kdump.findings.finding import Finding, found
from kdump.formats import names
from kdump.formats.codecs import GZIP, compress
from kdump.formats.encode import NewRecord, encode_message
from kdump.mend.survey import Survey, beside, is_end, survey
from kdump.recovery.startup import Startup
from tests.recovery.building import NOW, batch, broken, file, make_log, with_last_delta
from tests.repair.damaged import DAMAGES, STARTUP, edit, flip, name

LOG, OTHER = "/data/orders-0/00000000000000000000.log", "/data/orders-0/00000000000000000020.log"


def at(code: str, position: int | None, path: str = LOG) -> Finding:
    return found(code, path, f"{code} there", position)


class TestSurvey:
    SURVEY = Survey(
        (
            at("KD-BATCH-RECORDS", 300),
            at("KD-BATCH-COUNT", 100),
            at("KD-BATCH-CODEC", 200),
            at("KD-BATCH-DELTA", None),
            at("KD-LOG-CRC", 400),
            at("KD-LOG-ZEROS", 500),
            at("KD-BATCH-DELTA", 50, OTHER),
            at("KD-LOG-PREALLOCATED", 600, OTHER),
        )
    )

    def test_the_logs_with_damage(self) -> None:
        assert self.SURVEY.damaged_logs == {file(0, "log"), file(20, "log")}

    def test_batches_that_are_given_up_although_their_crc_holds(self) -> None:
        assert self.SURVEY.faults(file(0, "log")) == [(100, "KD-BATCH-COUNT there"), (300, "KD-BATCH-RECORDS there")]
        assert self.SURVEY.faults(file(20, "log")) == [(50, "KD-BATCH-DELTA there")]

    def test_batches_to_be_read_again(self) -> None:
        """Also those whose payload was not decompressed."""
        assert self.SURVEY.suspects(file(0, "log")) == {100, 200, 300}
        assert self.SURVEY.suspects(file(20, "log")) == {50}

    @pytest.mark.parametrize(
        ("log", "position", "zeros"),
        [(0, 500, True), (0, 400, False), (0, 600, False), (20, 600, True), (20, 500, False), (40, 500, False)],
    )
    def test_zeros_up_to_the_end(self, log: int, position: int, zeros: bool) -> None:
        assert self.SURVEY.is_zeros(file(log, "log"), position) is zeros

    @pytest.mark.parametrize(
        ("field", "value"),
        [("damage", SURVEY.damage), ("unsound", frozenset("a")), ("leftovers", frozenset("a"))],
    )
    def test_what_calls_for_a_repair(self, field: str, value: Any) -> None:
        assert Survey()._replace(**{field: value})
        assert not Survey(noted=frozenset("a"))


def test_indexes_of_which_there_is_a_note_in_segments_that_are_repaired() -> None:
    """A missing index has the broker build all of its segment, which a note may count on."""
    noted = [file(0, "index"), file(20, "timeindex"), file(20, "snapshot"), "leader-epoch-checkpoint"]
    assert list(beside([file(20, "index"), file(0, "snapshot")], noted)) == [file(20, "timeindex")]
    assert list(beside([], noted)) == []


def test_an_empty_offset_index_beside_an_unsound_time_index(partition: Path) -> None:
    """Only the time index tells that the other one had entries."""
    for file_name in (name(20, "index"), name(20, "timeindex"), name(40, "timeindex")):
        (partition / file_name).write_bytes(b"")
    unsound = survey(kdump.open_log(str(partition)), STARTUP, deep=False).unsound
    assert unsound == {name(20, "index"), name(20, "timeindex"), name(40, "timeindex")}


def test_without_an_unsound_time_index_an_empty_offset_index_is_judged_by_it(partition: Path) -> None:
    """One entry tells nothing: the .index of so short a segment has none."""
    times = (partition / name(20, "timeindex")).read_bytes()[-12:]
    (partition / name(20, "timeindex")).write_bytes(times)
    for base in (0, 20):
        (partition / name(base, "index")).write_bytes(b"")
    edit(name(20, "snapshot"), flip(20))(partition)
    unsound = survey(kdump.open_log(str(partition)), STARTUP, deep=False).unsound
    assert unsound == {name(0, "index"), name(20, "snapshot")}


@pytest.mark.parametrize(
    ("damage", "ends"),
    [
        ("last segment, torn tail", True),
        ("last segment, zero tail", True),
        ("last segment, garbage tail", True),
        ("middle segment, torn tail", False),
        ("last segment, payload", False),
    ],
)
def test_the_incomplete_end_of_a_log(partition: Path, damage: str, ends: bool) -> None:
    DAMAGES[damage](partition)
    log = kdump.open_log(str(partition))
    (finding,) = survey(log, STARTUP, deep=False).damage
    assert is_end(log, finding) is ends


def test_without_segments_nothing_is_an_end(tmp_path: Path) -> None:
    assert not is_end(make_log(tmp_path, {}), at("KD-LOG-TORN", 0))


class TestDeepens:
    """Records are decoded only where somebody has to decide, who has to know of those that cannot be read."""

    UNREADABLE = with_last_delta(batch(1)[:57] + (3).to_bytes(4, "big") + batch(1)[61:], 2)

    def found(self, folder: Path, data: bytes) -> list[str]:
        log = make_log(folder, {file(0, "log"): data})
        return [each.code for each in survey(log, Startup(NOW), deep=False, deepens=True).damage]

    def test_behind_damage(self, tmp_path: Path) -> None:
        assert self.found(tmp_path, batch(0) + self.UNREADABLE + broken(batch(5)) + batch(6)) == [
            "KD-BATCH-RECORDS",
            "KD-LOG-CRC",
        ]

    def test_not_where_nobody_asks_for_it(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {file(0, "log"): self.UNREADABLE + broken(batch(5)) + batch(6) + broken(batch(7))})
        found = survey(log, Startup(NOW), deep=False).damage
        assert [(each.code, each.position) for each in found] == [
            ("KD-LOG-CRC", len(self.UNREADABLE)),
            ("KD-LOG-CRC", len(self.UNREADABLE) + 2 * len(batch(6))),
        ]

    def test_not_for_an_incomplete_end(self, tmp_path: Path) -> None:
        assert self.found(tmp_path, batch(0) + self.UNREADABLE + batch(5)[:-1]) == ["KD-LOG-TORN"]


class TestWhatCannotBeRead:
    @pytest.fixture
    def log(self, tmp_path: Path) -> str:
        files = {file(0, "log"): batch(0), names.LEADER_EPOCH_CHECKPOINT: b"0\n1\n0 0\n"}
        return make_log(tmp_path, files).path

    def test_a_file_is_an_error(self, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
        really = reading.open_for_reading

        def failing(path: str) -> int:
            if path.endswith(names.LEADER_EPOCH_CHECKPOINT):
                raise OSError(EIO, os.strerror(EIO), path)
            return really(path)

        monkeypatch.setattr(reading, "open_for_reading", failing)
        with pytest.raises(OSError, match=os.strerror(EIO)) as raised:
            survey(kdump.open_log(log), Startup(NOW), deep=False)
        assert raised.value.errno == EIO
        assert raised.value.filename == os.path.join(log, names.LEADER_EPOCH_CHECKPOINT)

    def test_what_vanishes_meanwhile_is_none(self, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
        really = reading.open_for_reading

        def vanishing(path: str) -> int:
            if path.endswith(names.LEADER_EPOCH_CHECKPOINT):
                Path(path).unlink(missing_ok=True)
            return really(path)

        monkeypatch.setattr(reading, "open_for_reading", vanishing)
        assert not survey(kdump.open_log(log), Startup(NOW), deep=False).damage

    def test_a_link_is_none(self, log: str) -> None:
        """No broker has made it; what it leads to, a repair does not touch."""
        os.symlink(os.path.dirname(log), os.path.join(log, file(0, "timeindex")))
        assert not survey(kdump.open_log(log), Startup(NOW), deep=False).damage


class TestAroundThePartition:
    def test_the_log_start_is_that_of_the_startup(self, partition: Path) -> None:
        """Leader epochs below it are dropped; the checkpoint is read once for all partitions."""
        (partition.parent / names.LOG_START_CHECKPOINT).write_text("0\n1\norders 0 20\n")
        (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n1 20\n2 40\n")
        log = kdump.open_log(str(partition))
        assert survey(log, STARTUP._replace(log_start_offset=20), deep=False).noted == frozenset()
        assert survey(log, STARTUP, deep=False).noted == {names.LEADER_EPOCH_CHECKPOINT}

    def test_a_directory_that_is_not_named_as_a_partition(self, partition: Path) -> None:
        edit(name(20, "log"), flip(70))(partition)
        expected = survey(kdump.open_log(str(partition)), STARTUP, deep=False)
        copy = partition.rename(partition.with_name("copy"))
        found = survey(kdump.open_log(str(copy)), STARTUP, deep=False)
        assert [(each.code, each.position) for each in found.damage] == [("KD-LOG-CRC", 0)]
        assert found._replace(damage=()) == expected._replace(damage=())

    def test_what_waits_to_replace_a_segment(self, partition: Path) -> None:
        DAMAGES["swap complete"](partition)
        edit(name(0, "log"), flip(70))(partition)
        found = survey(kdump.open_log(str(partition)), STARTUP, deep=False)
        assert [(each.code, os.path.basename(each.path)) for each in found.damage] == [("KD-LOG-CRC", name(0, "log"))]
        assert found.leftovers == {name(0, f"{kind}.swap") for kind in ("log", "index", "timeindex")}

    def test_leader_epochs_that_contradict_the_batches(self, partition: Path) -> None:
        """The finding is about the batch; what is repaired is the checkpoint."""
        (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n3\n0 0\n1 10\n2 40\n")
        assert survey(kdump.open_log(str(partition)), STARTUP, deep=False) == Survey(
            unsound=frozenset({names.LEADER_EPOCH_CHECKPOINT})
        )


def test_what_a_walk_keeps_is_what_headers_tell(tmp_path: Path) -> None:
    """A deep look knows the first offset of a v1 wrapper; whoever walks the log again does not expect it."""
    inner = b"".join(encode_message(NewRecord(at, 1000, None, b"x" * 30), 1, 0) for at in range(3))
    wrapper = encode_message(NewRecord(7, 1000, None, compress(GZIP, inner, magic=1)), 1, GZIP)
    single = encode_message(NewRecord(8, 1000, None, b"x"), 1, 0)
    uncounted = with_last_delta(batch(9)[:57] + (-1).to_bytes(4, "big", signed=True) + batch(9)[61:], 0)
    log = make_log(tmp_path, {file(0, "log"): batch(0) + wrapper + single + uncounted})
    survey(log, Startup(NOW), deep=True)
    assert log.walked is not None
    block = log.walked.block(file(0, "log"), 0, 1 << 20)
    assert block is not None
    assert list(block.base_offset[: block.length]) == [0, -1, 8, 9]
