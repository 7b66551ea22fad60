"""Which operations of a plan repair something, and which of a broker's routine are left to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Operation, Plan
from kdump.formats import names
from kdump.mend.needed import needed
from kdump.mend.survey import Survey
from kdump.storage.partition import PartitionLog
from tests.recovery.building import file, make_log

BASES = (0, 20, 40)
EPOCHS, METADATA = names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA
INDEXES = tuple(file(base, kind) for base in BASES for kind in ("index", "timeindex", "txnindex"))
SNAPSHOTS = tuple(file(base, "snapshot") for base in (20, 40, 59))
ALL = (*INDEXES, *SNAPSHOTS, EPOCHS)
"""What loading writes anew beside the logs of three segments."""


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return make_log(tmp_path, {file(base, kind): b"x" * 24 for base in BASES for kind in ("log", "index")})


def replaced(*files: str) -> list[Operation]:
    """The operations that give files other content."""
    return [Operation(REPLACE, each, 10, 1, 20) for each in files]


def left(log: PartitionLog, operations: list[Operation], *, clean: bool = True, **found: Any) -> set[str]:
    """The names of the files that are changed all the same."""
    plan = needed(Plan(log.path, tuple(operations), {}), log, Survey()._replace(**found), clean=clean)
    return {each.name for each in plan.operations}


def frozen(*files: str) -> frozenset[str]:
    return frozenset(files)


class TestAfterAnOrderlyStop:
    def test_what_is_sound_stays(self, log: PartitionLog) -> None:
        assert left(log, replaced(*ALL)) == set()

    @pytest.mark.parametrize("unsound", [file(20, "index"), file(0, "txnindex"), EPOCHS])
    def test_what_is_unsound_is_mended_alone(self, log: PartitionLog, unsound: str) -> None:
        assert left(log, replaced(*ALL), unsound=frozen(unsound)) == {unsound}

    def test_with_an_unsound_snapshot_go_all(self, log: PartitionLog) -> None:
        assert left(log, replaced(*ALL), unsound=frozen(file(40, "snapshot"))) == set(SNAPSHOTS)
        assert left(log, replaced(*ALL), unsound=frozen(file(99, "snapshot"))) == set(SNAPSHOTS)

    @pytest.mark.parametrize("base", BASES)
    @pytest.mark.parametrize("how", ["cut", "gone", "from a swap", "to a swap"])
    def test_what_follows_from_a_log_that_changes(self, log: PartitionLog, base: int, how: str) -> None:
        """With a marker that is gone a transaction stays open in later segments."""
        name = file(base, "log")
        change = {
            "cut": Operation(TRUNCATE, name, 5, 1, 24),
            "gone": Operation(REMOVE, name, 0, 1, 24),
            "from a swap": Operation(RENAME, name, 24, 1, 24, f"{name}.swap"),
            "to a swap": Operation(REMOVE, f"{name}.swap", 0, 1, 24),
        }[how]
        later = {file(each, "txnindex") for each in BASES if each >= base}
        own = {file(base, "index"), file(base, "timeindex")}
        assert left(log, [change, *replaced(*ALL)]) == {change.name, *own, *later, *SNAPSHOTS, EPOCHS}

    def test_a_log_that_waits_to_be_deleted_does_not_count(self, log: PartitionLog) -> None:
        gone = [Operation(REMOVE, file(20, f"{kind}.deleted"), 0, 1, 24) for kind in ("log", "txnindex")]
        assert left(log, [*gone, *replaced(*ALL)]) == set()

    def test_the_topics_id_is_written(self, log: PartitionLog) -> None:
        assert left(log, [Operation(REPLACE, METADATA, 10)]) == {METADATA}

    @pytest.mark.parametrize("name", ["abc.index", "abc.snapshot", "abc.cleaned", "notes.swap", "a.log"])
    def test_a_name_that_is_no_offset_goes(self, log: PartitionLog, name: str) -> None:
        assert left(log, [Operation(REMOVE, name, 0, 1, 24)]) == {name}

    @pytest.mark.parametrize("name", ["notes.txt", "abc.deleted"])
    def test_other_files_stay(self, log: PartitionLog, name: str) -> None:
        assert left(log, [Operation(REMOVE, name, 0, 1, 24)]) == set()

    def test_what_a_broker_was_about_to_replace(self, log: PartitionLog) -> None:
        swap = file(0, "index.swap")
        operations = [Operation(REMOVE, swap, 0, 1, 24), Operation(RENAME, file(20, "timeindex"), 24, 1, 24, swap)]
        assert left(log, operations, leftovers=frozen(swap)) == {swap, file(20, "timeindex")}
        assert left(log, operations) == set()

    def test_a_checkpoint_is_no_file_of_the_log(self, log: PartitionLog) -> None:
        assert left(log, [Operation(CHECKPOINT, names.RECOVERY_POINT_CHECKPOINT, 5, 0, 9)]) == set()


class TestAfterAnUncleanStop:
    def test_of_an_index_only_what_verification_finds(self, log: PartitionLog) -> None:
        """Those of the last segment were being written, but for its transactions; of closed ones old releases wrote
        other entries.
        """
        last = {file(40, kind) for kind in ("index", "timeindex")}
        assert left(log, replaced(*INDEXES), clean=False) == last
        assert left(log, replaced(*INDEXES), clean=False, unsound=frozen(file(0, "index"))) == {*last, file(0, "index")}

    def test_an_index_that_is_missing_is_made(self, log: PartitionLog) -> None:
        made = [Operation(REPLACE, file(20, "timeindex"), 10), Operation(REPLACE, file(20, "txnindex"), 10, 1, 0)]
        assert left(log, made, clean=False) == {file(20, "timeindex")}

    @pytest.mark.parametrize(
        ("content", "size", "cut"),
        [(b"x" * 8 + bytes(16), 8, True), (b"x" * 8 + bytes(15) + b"x", 8, False), (b"x" * 9 + bytes(15), 8, False)],
    )
    def test_a_preallocated_one_is_cut(self, log: PartitionLog, content: bytes, size: int, cut: bool) -> None:
        name = file(20, "index")
        Path(log.path, name).write_bytes(content)
        assert left(log, [Operation(TRUNCATE, name, size, 1, 24)], clean=False) == ({name} if cut else set())

    def test_one_without_its_log_goes(self, log: PartitionLog) -> None:
        assert left(log, [Operation(REMOVE, file(7, "index"), 0, 1, 24)], clean=False) == {file(7, "index")}

    def test_leader_epochs_that_are_sound_stay(self, log: PartitionLog) -> None:
        assert left(log, replaced(EPOCHS), clean=False) == set()

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_snapshot_is_written_where_there_is_none(self, log: PartitionLog, clean: bool) -> None:
        new = [Operation(REPLACE, file(59, "snapshot"), 10), *replaced(file(20, "snapshot"), file(40, "snapshot"))]
        assert left(log, new, clean=clean) == (set() if clean else {file(59, "snapshot")})

    def test_beside_a_new_one_the_newest_is_out_of_place(self, log: PartitionLog) -> None:
        Path(log.path, file(45, "snapshot")).write_bytes(b"x")
        Path(log.path, file(46, "snapshot.deleted")).write_bytes(b"x")
        log = PartitionLog(log.path)
        gone = Operation(REMOVE, file(45, "snapshot"), 0, 1, 1)
        assert left(log, [gone], clean=False) == set()
        new = Operation(REPLACE, file(59, "snapshot"), 10)
        assert left(log, [gone, new], clean=False) == {file(45, "snapshot"), file(59, "snapshot")}

    def test_an_empty_snapshot_goes(self, log: PartitionLog) -> None:
        gone = [Operation(REMOVE, file(20, "snapshot"), 0, 1, 0)]
        assert left(log, gone, clean=False) == set()
        assert left(log, gone, clean=False, noted=frozen(file(20, "snapshot"))) == {file(20, "snapshot")}


@pytest.mark.parametrize("clean", [True, False])
def test_without_a_segment_there_is_no_routine(tmp_path: Path, clean: bool) -> None:
    """A broker gives such a log its first segment at every start; what is unsound beside it goes."""
    log = make_log(tmp_path, {file(0, "index"): b"x"})
    first = [Operation(REPLACE, file(0, kind), 0) for kind in ("log", "timeindex", "snapshot")]
    gone = Operation(REMOVE, file(0, "index"), 0, 1, 1)
    assert left(log, [*first, gone], clean=clean) == set()
    assert left(log, [*first, gone], clean=clean, unsound=frozen(file(0, "index"))) == {file(0, "index")}
