"""What another node's copy of a partition has in place of damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.named_tuples import NamedTuple
from kdump.serve.checked import CheckedSegment
from kdump.serve.open_files import KeptFile
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import scan

if TYPE_CHECKING:
    from kdump.serve.served_log import ServedLog


class Good(NamedTuple):
    """Bytes of a log that may be sent, whole batches, and the absolute offset behind the last one."""

    segment: CheckedSegment
    log: KeptFile
    start: int
    end: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Instead:
    """A copy that has the batches which damage has destroyed: those before the one whose last offset is `stop`."""

    copy: ServedLog
    stop: int

    def between(self, start: int, stop: int) -> Iterator[Good]:
        """Yield its bytes from the batch that reaches `start`, before the batch that holds `stop`. Raises OSError."""
        yield from self.copy.between(start, min(stop, self.stop)) or ()


def first_that_has(start: int, stop: int, log: PartitionLog, copies: Iterable[ServedLog]) -> Instead | None:
    """Return the first copy that has all batches from offset `start` on, before the one whose last offset is `stop`.

    The same leader epochs must have written both logs there, for then they have the same records (KIP-101), and the
    batches must not begin before or end behind these offsets. Raises OSError.
    """
    for copy in copies:
        with suppress(KdumpError, OSError):
            found = copy.between(start, stop)
            if found and _epochs(log, start, stop) == _epochs(copy.log, start, stop) and _fits(found, start, stop):
                return Instead(copy, stop)
    return None


def _epochs(log: PartitionLog, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the leader epochs in force from one offset to another, each with the offset from which on it is."""
    entries = [entry for entry in log.leader_epochs if entry.start_offset <= stop]
    before = [(entry.epoch, start) for entry in entries if entry.start_offset <= start]
    return before[-1:] + [(entry.epoch, entry.start_offset) for entry in entries if entry.start_offset > start]


def _fits(found: Iterable[Good], start: int, stop: int) -> bool:
    for good in found:
        for part in scan(good.log, good.segment.base_offset, good.start, good.end, whole=False):
            if isinstance(part, Damage):
                return False
            block, first, last = part
            if any(0 <= each < start for each in block.base_offset[first:last]) or block.last_offset[last - 1] >= stop:
                return False
    return True
