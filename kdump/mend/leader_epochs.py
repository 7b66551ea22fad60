"""Leader epochs of batches that cannot be right: along a log they never decrease, and no CRC covers them.

Below -1, which stands for none, is no epoch at all.

A replica whose epochs are wrong is truncated at wrong offsets, so a salvaged log is not left with them. Of all ways to
give batches another epoch so that epochs do not decrease, the one that changes fewest is taken: a batch gets the epoch
of the one before it that stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.change.splice import spliced
from kdump.check.column_checks import is_uniform
from kdump.formats.batch import LOG_OVERHEAD
from kdump.formats.checkpoints import EpochEntry
from kdump.mend.ranges import ByteRange
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView

MAX_RUNS = 1000
"""With more changes of the epoch along a log nothing is told from them."""

MAX_BYTES = 1 << 26
"""How much of a log may be made again, in memory."""

NO_EPOCH = -1

_EPOCH_SIZE = 4


class WrongEpoch(NamedTuple):
    """A batch of the planned .log `name` at byte `position` whose leader epoch becomes `epoch`."""

    name: str
    position: int
    size: int
    first_offset: int
    old_epoch: int
    epoch: int

    def __str__(self) -> str:
        return (
            f"the batch at offset {self.first_offset} has leader epoch {self.old_epoch}, which its neighbours rule out:"
            f" it gets {self.epoch}"
        )


class _Batch(NamedTuple):
    name: str
    position: int
    size: int
    offset: int
    epoch: int


def wrong_epochs(directory: PlannedPartition, logs: Iterable[str]) -> list[WrongEpoch]:
    """Return the batches of these .log files, in order, whose leader epoch cannot be right. Raises OSError."""
    names = list(logs)
    runs: list[tuple[int, int]] = []
    for run in _runs(directory, names):
        if runs and runs[-1][0] == run.epoch:
            runs[-1] = (run.epoch, runs[-1][1] + run.stop - run.first)
        elif len(runs) == MAX_RUNS:
            return []
        else:
            runs.append((run.epoch, run.stop - run.first))
    believed = _believed(runs)
    if len(believed) == len(runs):
        return []
    right = _right_epochs([epoch for epoch, _ in runs], believed)
    wrong: list[WrongEpoch] = []
    size = 0
    for number, (_, group) in enumerate(groupby(_batches(directory, names), key=lambda batch: batch.epoch)):
        for batch in group if number not in believed else ():
            wrong.append(WrongEpoch(*batch, right[number]))
            size += batch.size
            if size > MAX_BYTES:
                return []
    return wrong


def put_right(directory: PlannedPartition, wrong: Iterable[WrongEpoch]) -> None:
    """Give batches their leader epoch in a planned directory. Raises OSError."""
    for name, group in groupby(wrong, key=lambda each: each.name):
        changes = []
        for each in group:
            data = directory.read(name, each.position, each.size)
            epoch = each.epoch.to_bytes(_EPOCH_SIZE, "big", signed=True)
            changed = data[:LOG_OVERHEAD] + epoch + data[LOG_OVERHEAD + _EPOCH_SIZE :]
            changes.append((each.position, each.position + each.size, changed))
        directory.put(name, spliced(directory.files[name], changes))


class EpochRun(NamedTuple):
    """Rows `first` to `stop` - 1 of a block, which have one leader epoch."""

    epoch: int
    first: int
    stop: int


def runs_of(block: BatchBlock) -> Iterator[EpochRun]:
    """Yield the runs of batches of one leader epoch, be it one that cannot be; those without an epoch are left out."""
    epochs, first = block.leader_epoch[: block.length], 0
    while first < block.length:
        epoch, stop = epochs[first], block.length
        if not is_uniform(epochs[first:], epoch):
            stop = next(row for row in range(first, stop) if epochs[row] != epoch)
        if epoch != NO_EPOCH:  # as of all batches of formats v0 and v1
            yield EpochRun(epoch, first, stop)
        first = stop


def _runs(directory: PlannedPartition, logs: Iterable[str]) -> Iterator[EpochRun]:
    for name in logs:
        with LogView(directory, name) as view:
            for block in view.blocks():
                yield from runs_of(block)


def _batches(directory: PlannedPartition, logs: Iterable[str]) -> Iterator[_Batch]:
    """Yield the batches that have a leader epoch."""
    for name in logs:
        with LogView(directory, name) as view:
            for block in view.blocks():
                for epoch, first, stop in runs_of(block):
                    for row in range(first, stop):
                        yield _Batch(name, block.position[row], block.size[row], block.base_offset[row], epoch)


def _believed(runs: list[tuple[int, int]]) -> set[int]:
    """Return the numbers of the runs of (epoch, batches) in the weightiest chain of epochs that do not decrease."""
    weights: list[int] = []
    before: list[int | None] = []
    for number, (epoch, batches) in enumerate(runs):
        earlier = (other for other in range(number) if 0 <= runs[other][0] <= epoch)
        best = max(earlier, key=weights.__getitem__, default=None)
        before.append(best)
        weights.append(0 if epoch < 0 else batches + (0 if best is None else weights[best]))
    chain: set[int] = set()
    at = max(range(len(runs)), key=weights.__getitem__, default=None)
    while at is not None and weights[at]:
        chain.add(at)
        at = before[at]
    return chain


def _right_epochs(epochs: list[int], believed: set[int]) -> list[int]:
    """Return the epoch of each run, or of the nearest believed one, before or else behind it; none if none is."""
    right = []
    latest = epochs[min(believed)] if believed else NO_EPOCH
    for number, epoch in enumerate(epochs):
        latest = epoch if number in believed else latest
        right.append(latest)
    return right


def outdated_batches(batches: Mapping[int, ByteRange], starts: Sequence[EpochEntry]) -> dict[int, int]:
    """Return the batches that those of a later leader replace, by their keys, with the epoch of that leader.

    A follower truncates its log to where the epoch of the new leader starts, and appends that leader's batches
    (KIP-101). `batches` are in the order in which they stand in a log. `starts` are the entries of
    leader-epoch-checkpoint, which have to confirm the epoch of a batch that replaces others, at the same offsets or
    before it in the log; without any, it begins where another batch ends, and the next one follows it, with no damage
    before it.
    """
    outdated: dict[int, int] = {}
    first_offsets: dict[int, int] = {}  # of each epoch, among the batches that come later
    ends = {part.last_offset + 1 for part in batches.values()}
    confirmed = sorted(
        (part.first_offset, part.last_offset)
        for part in batches.values()
        if starts and _epoch_at(starts, part.first_offset) == part.leader_epoch
    )
    next_offset: int | None = None
    for at, part in reversed(list(batches.items())):
        epoch, first = part.leader_epoch, part.first_offset
        newer = [other for other, start in first_offsets.items() if other > epoch >= 0 and start <= part.last_offset]
        epoch_there = _epoch_at(starts, first)
        if newer or (epoch_there > epoch >= 0 and _overlaps(confirmed, part)):
            outdated[at] = max((epoch_there, *newer))
        elif epoch >= 0 and (
            epoch_there == epoch
            if starts
            else not part.is_stray and first in ends and next_offset in (None, part.last_offset + 1)
        ):
            first_offsets[epoch] = min(first, first_offsets.get(epoch, first))
        next_offset = first
    return outdated


def _overlaps(ranges: Sequence[tuple[int, int]], part: ByteRange) -> bool:
    """Return whether one of the ranges of offsets, in order, or the one before it has an offset of a batch."""
    at = bisect_right(ranges, (part.last_offset, part.last_offset))
    return any(last >= part.first_offset for _, last in ranges[max(0, at - 2) : at])


def _epoch_at(starts: Sequence[EpochEntry], offset: int) -> int:
    """Return the leader epoch of an offset by the entries of leader-epoch-checkpoint; -1 where it has none."""
    return max((entry.epoch for entry in starts if entry.start_offset <= offset), default=NO_EPOCH)
