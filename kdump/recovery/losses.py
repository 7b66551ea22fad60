"""What is lost with a range of a .log: bytes, and the batches and records that could still be read."""

from __future__ import annotations

from kdump.blocks import BatchBlock
from kdump.recovery.outcome import Loss, total_loss
from kdump.storage.damage import Damage, only_zeros
from kdump.storage.decoded import BadBatch, decode_rows
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import scan
from kdump.storage.valid_batches import valid_runs


def count_loss(log: LogFile, base_offset: int, position: int) -> tuple[Loss, str | None]:
    """Return what the bytes from `position` to the end of `log` hold, and the damage right at `position`, if any.

    `base_offset` is the segment's. Raises OSError.
    """
    size, reason = max(0, log.size - position), None
    first = next(iter(scan(log, base_offset, position, whole=False)), None)
    if isinstance(first, Damage):
        reason = first.text
    losses = []
    for block, row, stop in valid_runs(log, position):  # the offsets of what goes need not fit anywhere
        is_wrapper = block.count[row] < 0  # what its first offset is only its content tells
        offset = (block.last_offset if is_wrapper else block.base_offset)[row]
        losses.append(Loss(0, 0, stop - row, _records(log, block, row, stop), offset, block.last_offset[stop - 1]))
    zeros = size if only_zeros(log, position, log.size) else 0
    return total_loss(losses)._replace(bytes=size, zeros=zeros), reason


def _records(log: LogFile, block: BatchBlock, first: int, stop: int) -> int:
    counts = block.count[first:stop]
    if min(counts) >= 0:
        return sum(counts)
    return sum(_wrapped(log, block, row) if count < 0 else count for row, count in enumerate(counts, first))


def _wrapped(log: LogFile, block: BatchBlock, row: int) -> int:
    """Return how many records a v0/v1 wrapper holds (or a v2 batch whose count is negative: none)."""
    block, row = log.held(block, row)
    if block.magic[row] >= 2:
        return 0
    parts = decode_rows(block, row, row + 1)
    return sum(part.records.length for part in parts if not isinstance(part, BadBatch))
