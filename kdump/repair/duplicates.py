"""Which of the valid batches that fit nowhere are there twice: what is kept has every byte of their records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from kdump.blocks import BatchBlock
from kdump.named_tuples import NamedTuple
from kdump.recovery.outcome import Loss, total_loss
from kdump.storage.damage import Damage
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.scan import scan
from kdump.storage.segment import Segment


class BatchIdentity(NamedTuple):
    """What two copies of one batch have in common: `last_offset` (absolute), `size` in bytes, and the CRC.

    The leader epoch is not part of it: a leader may set another one.
    """

    last_offset: int
    size: int
    crc: int

    @classmethod
    def of(cls, block: BatchBlock, row: int) -> BatchIdentity:
        """Return that of a batch by its header."""
        return cls(block.last_offset[row], block.size[row], block.crc[row])


class MisplacedBatch(NamedTuple):
    """A valid batch that is left out, with its first offset (absolute; a v0/v1 wrapper's last one)."""

    identity: BatchIdentity
    first_offset: int

    @property
    def loss(self) -> Loss:
        """What goes with it; its records are counted by its offsets."""
        last = self.identity.last_offset
        return Loss(self.identity.size, 0, 1, last - self.first_offset + 1, self.first_offset, last)


def misplaced_batches(
    directory: PlannedPartition, name: str, start: int, stop: int, first_offset: int | None = None
) -> Iterator[MisplacedBatch]:
    """Yield the batch of a .log from byte `start` up to byte `stop`; `first_offset` if it is known. Raises OSError."""
    with LogView(directory, name) as view:
        for block in view.blocks(start, stop):
            for row in range(block.length):
                yield _misplaced(block, row, first_offset)


def not_taken(segment: Segment, taken: Sequence[tuple[int, int]]) -> Iterator[MisplacedBatch]:
    """Yield the batches of a segment whose frames and CRCs hold, behind damage too, in no range of bytes `taken`.

    The ranges, start and stop, are in order. Raises OSError.
    """
    starts = [start for start, _ in taken]
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                continue
            block = part.block
            for row in range(part.first, part.stop):
                at = bisect_right(starts, block.position[row]) - 1
                if at < 0 or block.position[row] + block.size[row] > taken[at][1]:
                    yield _misplaced(block, row)


def _misplaced(block: BatchBlock, row: int, first_offset: int | None = None) -> MisplacedBatch:
    identity = BatchIdentity.of(block, row)
    header = block.base_offset[row] if block.base_offset[row] >= 0 else identity.last_offset
    return MisplacedBatch(identity, header if first_offset is None else first_offset)


def without_copy(
    directory: PlannedPartition, batches: Iterable[MisplacedBatch], kept: Iterable[tuple[int, int, str]]
) -> Loss:
    """Return what is lost with those of the batches of which no copy is kept. Raises OSError.

    `kept` are the offsets, first and last (absolute), that each .log of the directory keeps.
    """
    ranges = sorted(kept)
    known: dict[str, set[BatchIdentity]] = {}

    def has_copy(batch: MisplacedBatch) -> bool:
        for first, last, name in ranges:
            if first > batch.identity.last_offset:
                return False
            if last < batch.first_offset or not directory.exists(name):
                continue
            if name not in known:
                known[name] = _identities(directory, name)
            if batch.identity in known[name]:
                return True
        return False

    return total_loss(batch.loss for batch in batches if not has_copy(batch))


def _identities(directory: PlannedPartition, name: str) -> set[BatchIdentity]:
    with LogView(directory, name) as view:
        return {BatchIdentity.of(block, row) for block in view.blocks() for row in range(block.length)}
