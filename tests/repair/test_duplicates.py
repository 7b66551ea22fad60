"""Valid batches that salvage cannot place: what is there twice loses nothing, all others are counted as dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.change.plan import REPLACE, TRUNCATE
from kdump.formats.codecs import GZIP, compress
from kdump.formats.encode import NewRecord, encode_message
from kdump.recovery.outcome import Loss, total_loss
from kdump.repair.decision import Way
from kdump.repair.duplicates import BatchIdentity, MisplacedBatch, misplaced_batches, not_taken, without_copy
from kdump.repair.proposal import examine
from kdump.repair.task import SAFE, Request
from kdump.storage.planned import PlannedPartition
from tests.recovery.building import batch, broken, file, make_log
from tests.repair.damaged import STARTUP, data_batch, lost_by, name
from tests.repair.salvaging import examined


def appended(partition: Path, base: int, *batches: bytes) -> None:
    """Put batches at the end of a segment that is not the last."""
    log = partition / name(base, "log")
    log.write_bytes(log.read_bytes() + b"".join(batches))


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_batch_that_is_there_twice_loses_nothing(partition: Path, epoch: int) -> None:
    """Leaders set the leader epoch, which the CRC does not cover."""
    first = (partition / name(20, "log")).read_bytes()
    size = int.from_bytes(first[8:12], "big") + 12
    copy = first[:12] + epoch.to_bytes(4, "big") + first[16:size]
    appended(partition, 0, copy)
    task = examined(partition)
    assert lost_by(task).records == 0
    assert task.salvaged is not None
    assert task.plan is not None
    assert any(each.action in (TRUNCATE, REPLACE) and each.name == name(0, "log") for each in task.plan.operations)


def test_another_batch_at_offsets_that_are_taken_is_dropped(partition: Path) -> None:
    """Its records are nowhere else: two logs were put together, or an offset was damaged, which no CRC covers."""
    appended(partition, 0, data_batch(20, 5555))
    task = examined(partition)
    assert lost_by(task) == (1, 2, 20, 21)
    decision = examine(kdump.open_log(partition), STARTUP, Request(SAFE)).decision
    assert decision is not None
    assert 2 in [each.loses for each in decision.offers() if each.way is Way.SALVAGE]


def test_of_several_only_those_without_a_copy(partition: Path) -> None:
    first = (partition / name(20, "log")).read_bytes()
    size = int.from_bytes(first[8:12], "big") + 12
    appended(partition, 0, first[:size], data_batch(22, 7777), data_batch(24, 8888))
    assert lost_by(examined(partition)) == (2, 4, 22, 25)


SIZE = len(batch(0))


def identity(log: bytes, first_offset: int | None = None) -> MisplacedBatch:
    """What a v2 batch is told by."""
    base, delta = int.from_bytes(log[:8], "big"), int.from_bytes(log[23:27], "big")
    crc = int.from_bytes(log[17:21], "big")
    return MisplacedBatch(BatchIdentity(base + delta, len(log), crc), base if first_offset is None else first_offset)


class TestNotTaken:
    """Of a log with damage in it; what is taken are ranges of bytes."""

    PARTS = (batch(0), batch(1), broken(batch(2)), batch(3), batch(4))

    @pytest.mark.parametrize(
        ("taken", "left"),
        [
            ([], [0, 1, 3, 4]),
            ([(0, SIZE)], [1, 3, 4]),
            ([(0, SIZE - 1)], [0, 1, 3, 4]),
            ([(0, 2 * SIZE)], [3, 4]),
            ([(1, 2 * SIZE)], [0, 3, 4]),
            ([(0, SIZE), (3 * SIZE, 5 * SIZE)], [1]),
            ([(0, 5 * SIZE)], []),
            ([(SIZE, 2 * SIZE), (4 * SIZE, 5 * SIZE - 1)], [0, 3, 4]),
        ],
    )
    def test_batches_that_are_not_in_a_range(
        self, tmp_path: Path, taken: list[tuple[int, int]], left: list[int]
    ) -> None:
        log = make_log(tmp_path, {file(0, "log"): b"".join(self.PARTS)})
        assert list(not_taken(log.segments[0], taken)) == [identity(self.PARTS[each]) for each in left]


def test_a_batch_is_told_by_its_bytes_and_its_offsets(tmp_path: Path) -> None:
    inner = encode_message(NewRecord(0, 1000, None, b"x" * 30), 1, 0)
    wrapper = encode_message(NewRecord(9, 1000, None, compress(GZIP, inner, magic=1)), 1, GZIP)
    parts = [batch(0, 3), batch(7), wrapper]
    log = make_log(tmp_path, {file(0, "log"): b"".join(parts)})
    size, stop = len(parts[0]), sum(map(len, parts))
    found = list(misplaced_batches(PlannedPartition(log), file(0, "log"), 0, stop))
    assert found[:2] == [identity(parts[0]), identity(parts[1])]
    crc = int.from_bytes(wrapper[12:16], "big")
    assert found[2] == MisplacedBatch(BatchIdentity(9, len(wrapper), crc), 9)
    assert [each.loss for each in found] == [
        Loss(size, 0, 1, 3, 0, 2),
        Loss(SIZE, 0, 1, 1, 7, 7),
        Loss(len(wrapper), 0, 1, 1, 9, 9),
    ]
    (second,) = misplaced_batches(PlannedPartition(log), file(0, "log"), size, size + SIZE, 5)
    assert second == identity(parts[1], 5)
    assert second.loss == Loss(SIZE, 0, 1, 3, 5, 7)


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        ([], [5, 8]),
        ([(0, 9, file(0, "log"))], []),
        ([(0, 7, file(0, "log"))], [8]),
        ([(5, 5, file(0, "log"))], [8]),
        ([(6, 9, file(0, "log"))], [5]),
        ([(8, 20, file(0, "log"))], [5]),
        ([(9, 20, file(0, "log"))], [5, 8]),
        ([(0, 4, file(0, "log"))], [5, 8]),
        ([(0, 9, file(20, "log"))], [5, 8]),  # these offsets are there, but in other batches
        ([(0, 9, file(20, "log")), (0, 9, file(0, "log"))], []),
        ([(0, 9, file(99, "log"))], [5, 8]),  # it is gone since
        ([(0, 9, file(99, "log")), (0, 9, file(0, "log"))], []),
        ([(0, 3, file(20, "log")), (4, 9, file(0, "log"))], []),
    ],
)
def test_what_has_no_copy_where_its_offsets_are_kept(
    tmp_path: Path, kept: list[tuple[int, int, str]], lost: list[int]
) -> None:
    parts = {offset: batch(offset) for offset in (5, 8)}
    files = {file(0, "log"): b"".join(parts.values()), file(20, "log"): batch(5, 2) + batch(8, 2)}
    directory = PlannedPartition(make_log(tmp_path, files))
    found = without_copy(directory, map(identity, parts.values()), kept)
    assert found == total_loss(identity(parts[offset]).loss for offset in lost)
