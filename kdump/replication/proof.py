"""Whether a batch of another copy is the one that is damaged here, by what is left of that.

A CRC covers what a batch has, so the stored one decides. Where its bytes are damaged themselves, all others do: fields
of the header and records are the same but for one run of bytes, over the CRC. Of a batch that is missing nothing is
left: then batches that both copies have show that they are copies of one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple

from kdump.disk.reading import ReadOnlyFile, status_of
from kdump.errors import CheckpointError
from kdump.formats.batch import CRC_AT, FRAME, HEADER_SIZE, LOG_OVERHEAD, MAGIC_AT
from kdump.replication.healed_segments import FoundBatch
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import scan
from kdump.storage.segment import Segment

_MAX_EQUAL = 8
"""So many bytes in the middle of damaged ones may be right by chance."""


class Verdict(Enum):
    """Whether a batch is the damaged one."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()


class DamagedBatch(NamedTuple):
    """A damaged batch by its header. `ends_well`: damage ends, or another batch begins, where its size says."""

    path: str
    position: int
    base: int
    size: int
    crc: int
    ends_well: bool


class DamagedBatches:
    """The damaged batches of a copy, as far as their sizes lead from one to the next."""

    def __init__(self, log: PartitionLog) -> None:
        """Read the log. Raises OSError."""
        damaged = [batch for segment in log.segments for batch in _damaged(segment)]
        self._by_base = {batch.base: batch for batch in damaged}
        self._crcs = {batch.crc for batch in damaged}

    def verdict(self, batch: FoundBatch) -> tuple[Verdict, str]:
        """Return whether a valid batch of another copy is one of them, and in words why not. Raises OSError."""
        damaged = self._by_base.get(batch.base)
        if batch.crc in self._crcs:
            return Verdict.SAME, ""
        if damaged is None:
            return Verdict.UNKNOWN, "nothing is left of it here"
        if damaged.size == batch.size and _differs_at_crc(damaged, batch):
            return Verdict.SAME, ""
        text = f"the stored CRC is {damaged.crc:#010x} here, {batch.crc:#010x} there"
        if damaged.size != batch.size:
            text = f"{text}, the size {damaged.size} here, {batch.size} there"
        is_other = damaged.ends_well and damaged.size != batch.size
        return Verdict.OTHER if is_other else Verdict.UNKNOWN, text


def _differs_at_crc(damaged: DamagedBatch, batch: FoundBatch) -> bool:
    """Return whether two batches of one size differ in one run of bytes only, over the CRC. Raises OSError."""
    with ReadOnlyFile(damaged.path) as file:
        here = file.read(damaged.position + MAGIC_AT, damaged.size - MAGIC_AT)
    with ReadOnlyFile(batch.path) as file:
        there = file.read(batch.position + MAGIC_AT, batch.size - MAGIC_AT)
    differing = [at for at, (one, other) in enumerate(zip(here, there, strict=True)) if one != other]
    is_one_run = all(later - earlier <= _MAX_EQUAL for earlier, later in pairwise(differing))
    return is_one_run and differing[0] < HEADER_SIZE - MAGIC_AT and 2 * len(differing) < len(here)


def _damaged(segment: Segment) -> Iterator[DamagedBatch]:
    with segment.open_log() as file:
        for part in scan(file, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                yield from _in_damage(segment.log_path, file, part)


def _in_damage(path: str, file: LogFile, damage: Damage) -> Iterator[DamagedBatch]:
    position = damage.position
    while position + HEADER_SIZE <= damage.resumed:
        header = file.read(position, HEADER_SIZE)
        base, length, *_ = FRAME.unpack_from(header)
        size = length + LOG_OVERHEAD
        end = position + size
        if size < MAGIC_AT:
            return
        crc_at = CRC_AT if header[MAGIC_AT] >= 2 else LOG_OVERHEAD
        crc = int.from_bytes(header[crc_at : crc_at + 4], "big")
        yield DamagedBatch(path, position, base, size, crc, end <= damage.resumed)
        if end > damage.resumed:
            return
        position = end


class Unproved(NamedTuple):
    """Offsets `first` to `last` (inclusive, absolute) of the copy at `path` that nothing shows to fit here, and why."""

    path: str
    first: int
    last: int
    why: str


class Proof:
    """Collects which batches that are taken are not proved to be this partition's."""

    def __init__(self, log: PartitionLog, others: Iterable[PartitionLog]) -> None:
        self._log = log
        self._with_topic_id = {other.path for other in others if _topic_id(other)}
        self._damaged: DamagedBatches | None = None
        self._shared: set[str] = set()
        self._unknown: list[Unproved] = []
        self._others: list[Unproved] = []

    def shares(self, path: str) -> None:
        """Note that the copy at `path` has a valid batch that is here too."""
        self._shared.add(path)

    def takes(self, batch: FoundBatch, path: str) -> None:
        """Note a batch that is taken from the copy at `path`. Raises OSError."""
        if self._damaged is None:
            self._damaged = DamagedBatches(self._log)
        verdict, why = self._damaged.verdict(batch)
        if verdict is Verdict.SAME:
            self.shares(path)
        else:
            ranges = self._others if verdict is Verdict.OTHER else self._unknown
            last = ranges[-1] if ranges else None
            if last is not None and last.path == path:
                ranges[-1] = last._replace(last=batch.last)
            else:
                ranges.append(Unproved(path, batch.base, batch.last, why))

    def unproved(self) -> Sequence[Unproved]:
        """Return what is not proved, now that all batches were taken. Raises OSError.

        A log in which nothing is left has only the topic's id to go by.
        """
        proved = self._shared
        if not any(status_of(segment.log_path).size for segment in self._log.segments):
            if _topic_id(self._log) is None:
                return ()
            proved = proved | self._with_topic_id
        return [*self._others, *(each for each in self._unknown if each.path not in proved)]


def _topic_id(log: PartitionLog) -> bytes | None:
    try:
        return log.metadata.topic_id if log.metadata else None
    except (CheckpointError, OSError):
        return None
