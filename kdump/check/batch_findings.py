"""Findings about one batch: its bytes and its offsets are their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.finding import Finding, Offsets, found

if TYPE_CHECKING:
    from kdump.blocks import BatchBlock
    from kdump.check.batch_rows import BatchRows


def batch_offsets(base: int, last: int) -> Offsets:
    """Return the offsets of a batch; of a v0/v1 wrapper that was not decompressed only the last one is known."""
    return base if base >= 0 else None, last


def found_in_batch(
    code: str,
    path: str,
    message: str,
    batches: BatchRows | BatchBlock,
    row: int,
    offset: int,
    *,
    is_record: bool = False,
) -> Finding:
    """Return a finding about the batch in a row, or about the record at `offset` in it."""
    whole = None if is_record else batch_offsets(batches.base_offset[row], batches.last_offset[row])
    position, length = batches.position[row], batches.size[row]
    return found(code, path, message, position, offset, length=length, offsets=whole)
