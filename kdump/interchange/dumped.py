"""A batch and its records, as the lines of a dump describe them."""

from __future__ import annotations

from typing import NamedTuple

from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewRecord

NO_OFFSET = -1
"""The offset of a record that has none yet."""


class DumpedBatch(NamedTuple):
    """The header of a batch: the fields of records.Batch that do not follow from its records or its bytes.

    `base_offset` is None for a compressed v0/v1 wrapper, `base_timestamp` (ms) as stored.
    """

    magic: int = 2
    codec: int = 0
    is_append_time: bool = False
    is_transactional: bool = False
    is_control: bool = False
    has_delete_horizon: bool = False
    base_offset: int | None = None
    last_offset: int = -1
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1

    @property
    def attributes(self) -> int:
        """The attributes of a v2 batch as a producer sends it: without what is the broker's."""
        return self.codec | (TRANSACTIONAL if self.is_transactional else 0) | (CONTROL if self.is_control else 0)


Item = NewRecord | DumpedBatch
"""What a reader gives: a record, or the batch that the records after it belong to."""
