"""Tombstones and transaction markers of a compacted log that wait for their delete horizon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.blocks import RecordBlock
from kdump.errors import OnError
from kdump.storage.control_batches import is_control
from kdump.storage.damage import Damage
from kdump.storage.decoded import DecodedRows, decoded, delete_horizon
from kdump.storage.partition import PartitionLog


@dataclass(slots=True)
class Waiting:
    """How many of a kind there are: whose horizon is over (`due`), is to come (`waiting`), is not set yet (`unset`).

    `next_horizon` and `last_horizon` (ms) are the earliest and the latest of those to come.
    """

    due: int = 0
    waiting: int = 0
    unset: int = 0
    next_horizon: int | None = None
    last_horizon: int | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return self.due + self.waiting + self.unset

    def add(self, count: int, horizon: int | None, now: int) -> None:
        """Count some that have this horizon (ms; None: not set)."""
        if horizon is None:
            self.unset += count
        elif horizon <= now:
            self.due += count
        else:
            self.waiting += count
            self.next_horizon = horizon if self.next_horizon is None else min(horizon, self.next_horizon)
            self.last_horizon = horizon if self.last_horizon is None else max(horizon, self.last_horizon)


@dataclass(slots=True)
class Tombstones:
    """Records without a value, and markers that end transactions. `unreadable` batches could not be looked into."""

    records: Waiting
    markers: Waiting
    unreadable: int = 0


def tombstones_of(log: PartitionLog, now: int) -> Tombstones:
    """Read a whole log and count; `now` is the clock (ms). Raises OSError."""
    found = Tombstones(Waiting(), Waiting())
    for segment in log.segments:
        with segment.open_log() as file:
            for part in decoded(file, segment.base_offset, errors=OnError.YIELD):
                if isinstance(part, Damage):
                    found.unreadable += 1
                else:
                    _count(found, part, now)
    return found


def _count(found: Tombstones, rows: DecodedRows, now: int) -> None:
    block = rows.block
    for row in _nulls(rows.records):
        if not is_control(block, row):
            found.records.add(1, delete_horizon(block, row), now)
    if block.controls:
        for row, start, stop in rows.rows():
            if is_control(block, row):
                found.markers.add(stop - start, delete_horizon(block, row), now)


def _nulls(records: RecordBlock) -> Iterator[int]:
    """Return, for each record that has a key and no value, the row of its batch."""
    at = -1
    while True:
        try:
            at = records.value_length.index(-1, at + 1, records.length)
        except ValueError:
            return
        if records.key_length[at] >= 0:
            yield records.row[at]
