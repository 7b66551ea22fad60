"""Strategy salvage: keep every valid batch of a damaged log, also those behind the damage.

What Kafka's recovery throws away with the first bad batch is kept here: the log is read on behind the damage, from the
next entry whose header is plausible, whose CRC holds and whose records can be read. The gap stays a gap in the offsets,
as after compaction. The rules for batches that do not fit:

- A batch whose records cannot be read to their end is left out, although its CRC holds; so is a transaction marker
  that the broker cannot read, and a batch whose header and records contradict each other in count or offsets.
- Offsets increase. Of all ways to leave out batches so that they do, two are compared: the one that keeps most batches,
  and the one that keeps most records; that with which fewer records go is taken, the first of equals. Of two ways that
  keep as many batches, the one is taken in which more of them have a record for each of their offsets, then the one in
  which more begin where the one before ends. No more than 4096 batches are weighed against each other at a time.
- A batch that does not fit where it stands, but fills empty offsets exactly, is put there.
- No CRC covers a base offset. A batch that fits nowhere by its own, but whose place in the log leaves one choice of
  offsets, gets those; so do several. One whose content is in the partition twice is a copy, and two that follow each
  other by their own offsets are a piece of another log: they get no others.
- Of batches at the same offsets those of the latest leader epoch stay, as after a truncation by epoch. Without epochs
  those stay with which fewer records go.
- A batch belongs to its segment: it neither starts before the segment's base offset nor reaches the base offset of the
  next segment that holds anything. A last batch more than 2^31 - 1 behind the base offset is believed only if it goes
  on where the one before it ends; no batch holds offsets further apart than that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.check.column_checks import is_uniform
from kdump.errors import CodecLimitError, CodecMissingError, KdumpError, LoadError
from kdump.formats.batch import CONTROL
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.java_text import LONG_MAX
from kdump.mend.offset_choice import WINDOW, increasing, joined
from kdump.mend.ranges import ByteRange, LeftOut, Orderly
from kdump.recovery.markers import read_marker
from kdump.storage.damage import Damage
from kdump.storage.decoded import first_offset
from kdump.storage.payloads import Payloads, inflate
from kdump.storage.planned_log import LogView
from kdump.storage.scan import scan
from kdump.storage.valid_batches import valid_runs

_ROWS = WINDOW // 4
"""So many batches at most are one part as long as nothing is in dispute."""


def choose_batches(
    log: LogView,
    base_offset: int,
    next_base: int | None,
    faults: Sequence[tuple[int, str]] = (),
    limit: int = DEFAULT_LIMIT,
    suspects: AbstractSet[int] | None = None,
    *,
    epoch_starts: Sequence[EpochEntry] = (),
    is_copy: Callable[[ByteRange], bool] = lambda _: False,
) -> Iterator[ByteRange | LeftOut]:
    """Yield what to keep of a .log, in the order of the offsets, and what to leave out.

    `base_offset` is the segment's, `next_base` that of the next segment. `faults` are what else is wrong with batches:
    byte positions inside them, ascending, and why. `limit` bounds what one batch may decompress to, in bytes; of one
    that would be larger the header has to do. `suspects` are where the batches begin whose records are in doubt, if
    that is known already; None: those of all batches are read. `epoch_starts` and `is_copy` as for `increasing`.
    Raises OSError, and CodecMissingError where a codec's library is not installed.
    """
    highest = LONG_MAX - 1 if next_base is None else next_base - 1
    batches = _readable(log, base_offset, limit) if suspects is None else _known(log, base_offset, limit, suspects)
    parts = _without(faults, batches)
    yield from joined(increasing(parts, base_offset, highest, epoch_starts, is_copy))


def _without(
    faults: Sequence[tuple[int, str]], parts: Iterable[ByteRange | Orderly | LeftOut]
) -> Iterator[ByteRange | Orderly | LeftOut]:
    """Leave out the batches that have faults."""
    for part in parts:
        at = bisect_left(faults, (part.start, ""))
        if isinstance(part, LeftOut) or at == len(faults) or faults[at][0] >= part.stop:
            yield part
        elif isinstance(part, Orderly):
            yield from _without(faults, part.apart())
        else:
            yield LeftOut(part.start, part.stop, faults[at][1], part)


def _readable(log: LogView, base_offset: int, limit: int) -> Iterator[ByteRange | Orderly | LeftOut]:
    """Yield the valid batches, those that are not orderly each as a range of its own, and what is not good."""
    for part in scan(log, base_offset):
        if isinstance(part, Damage):
            yield from _in_damage(log, part, limit)
            continue
        row = part.first
        while row < part.stop:
            inflated = inflate(part.block, row, min(part.stop, row + _ROWS), limit)
            if isinstance(inflated.error, CodecMissingError):
                raise inflated.error  # what cannot be judged must not be left out
            orderly = _orderly(part.block, row, inflated.stop)
            if orderly is not None and _are_whole(part.block, inflated):
                yield orderly
                row = inflated.stop
                continue
            for at, payload in enumerate(inflated.payloads, row):
                failure = inflated.error if at == inflated.stop - 1 else None
                yield _judged(log, part.block, at, payload, failure, limit)
            row = inflated.stop


def _in_damage(log: LogView, damage: Damage, limit: int) -> Iterator[ByteRange | LeftOut]:
    """Yield what is damaged, and between it the valid batches whose offsets do not fit there, as strays.

    What a damaged batch holds whose frame leads to the next batch is its content, not batches of this log.
    """
    position, header = damage.position, damage.header
    is_content = header is not None and position + header.size == damage.resumed < log.size
    for run in () if is_content else valid_runs(log, position, damage.resumed):
        for row in range(run.first, run.stop):
            start = run.block.position[row]
            if position < start:
                yield LeftOut(position, start, damage.text)
            part = _read_again(log, run.block, row, limit)
            yield part if isinstance(part, LeftOut) else part._replace(is_stray=True)
            position = part.stop
    if position < damage.resumed:
        yield LeftOut(position, damage.resumed, damage.text)


def _are_whole(block: BatchBlock, payloads: Payloads) -> bool:
    """Return whether the records of all rows whose payloads are given can be read."""
    rows = range(payloads.first, payloads.stop)
    return payloads.error is None and not any(map(kernels.check, repeat(block), rows, payloads.payloads))


def _known(
    log: LogView, base_offset: int, limit: int, suspects: AbstractSet[int]
) -> Iterator[ByteRange | Orderly | LeftOut]:
    """Yield as `_readable`, of a log that was walked: only the batches that are in doubt are read again."""
    for part in scan(log, base_offset, whole=False):
        if isinstance(part, Damage):
            yield from _in_damage(log, part, limit)
            continue
        block = part.block
        for first in range(part.first, part.stop, _ROWS):
            stop = min(part.stop, first + _ROWS)
            is_doubtful = bool(suspects) and not suspects.isdisjoint(block.position[first:stop])
            orderly = None if is_doubtful else _orderly(block, first, stop)
            if orderly is not None:
                yield orderly
                continue
            for row in range(first, stop):
                if _needs_look(block, row, suspects):
                    yield _read_again(log, block, row, limit)
                else:
                    yield _of_header(block, row, block.base_offset[row])


def _needs_look(block: BatchBlock, row: int, suspects: AbstractSet[int]) -> bool:
    """Return whether the header of a batch is not enough to judge it by."""
    return block.magic[row] != 2 or bool(block.attributes[row] & CONTROL) or block.position[row] in suspects


def _of_header(block: BatchBlock, row: int, first: int) -> ByteRange:
    last, start, records = block.last_offset[row], block.position[row], block.count[row]
    is_dense = records in (-1, last - first + 1)
    epoch, crc, stop = block.leader_epoch[row], block.crc[row], start + block.size[row]
    return ByteRange(start, stop, first, last, 1, is_dense, leader_epoch=epoch, records=records, crc=crc)


def _read_again(log: LogView, block: BatchBlock, row: int, limit: int) -> ByteRange | LeftOut:
    held, at = log.held(block, row)
    inflated = inflate(held, at, at + 1, limit)
    if isinstance(inflated.error, CodecMissingError):
        raise inflated.error
    return _judged(log, held, at, inflated.payloads[0], inflated.error, limit)


def _orderly(block: BatchBlock, first: int, stop: int) -> Orderly | None:
    """Return the rows from `first` up to `stop`; None where the header of one of them needs a closer look."""
    if not is_uniform(block.magic[first:stop], 2):
        return None
    if block.controls and any(attributes & CONTROL for attributes in block.attributes[first:stop]):
        return None
    starts, ends = block.base_offset[first:stop], block.last_offset[first:stop]
    if kernels.differences(starts, ends)[0] < 0:
        return None
    if len(starts) > 1 and kernels.differences(ends[:-1], starts[1:])[0] <= 0:
        return None
    columns = (column[first:stop] for column in (block.count, block.leader_epoch, block.crc))
    return Orderly(block.position[first:stop], block.size[first:stop], starts, ends, *columns)


def _judged(
    log: LogView, block: BatchBlock, row: int, payload: bytes | None, failure: KdumpError | None, limit: int
) -> ByteRange | LeftOut:
    """Return a batch, of which `failure` says why its payload cannot be had, by itself."""
    start = block.position[row]
    stop = start + block.size[row]
    if isinstance(failure, CodecLimitError):  # its CRC holds, and that has to do
        first = block.base_offset[row] if block.count[row] >= 0 else block.last_offset[row]
        return ByteRange(start, stop, first, block.last_offset[row], 1, False)
    if failure or not 0 <= block.magic[row] <= 2 or kernels.check(block, row, payload):
        return LeftOut(start, stop, f"the records of the batch at offset {block.last_offset[row]} cannot be read")
    if block.attributes[row] & CONTROL and block.producer_id[row] >= 0:
        try:
            read_marker(log, block, row)
        except LoadError as error:
            why = f"the transaction marker at offset {block.last_offset[row]}: {error}"
            return LeftOut(start, stop, why, _of_header(block, row, block.base_offset[row]))
    return _of_header(block, row, first_offset(block, row, limit))
