"""Findings about one batch: its bytes and its offsets are their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kdump.findings.finding import Finding, Offsets, found


class BatchColumns(Protocol):
    """Batches as columns, those of batches or of a block."""

    @property
    def position(self) -> Sequence[int]:
        """Where each begins in its file."""

    @property
    def size(self) -> Sequence[int]:
        """How many bytes each has."""

    @property
    def base_offset(self) -> Sequence[int]:
        """The first offset of each; below 0 where only its records have it."""

    @property
    def last_offset(self) -> Sequence[int]:
        """The last offset of each."""


def batch_offsets(base: int, last: int) -> Offsets:
    """Return the offsets of a batch; of a v0/v1 wrapper that was not decompressed only the last one is known."""
    return base if base >= 0 else None, last


def found_in_batch(
    code: str,
    path: str,
    message: str,
    batches: BatchColumns,
    row: int,
    offset: int,
    *,
    is_record: bool = False,
    details: Mapping[str, int | None] | None = None,
) -> Finding:
    """Return a finding about the batch in a row, or about the record at `offset` in it."""
    whole = None if is_record else batch_offsets(batches.base_offset[row], batches.last_offset[row])
    position, length = batches.position[row], batches.size[row]
    return found(code, path, message, position, offset, length=length, offsets=whole, details=details)
