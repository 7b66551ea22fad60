"""Whether a batch of another copy is the one that is damaged here, by what is left of that.

A CRC covers what a batch has, so the stored one decides. Where its bytes may be damaged themselves, the other fields of
the header and the bytes of the records do. Of a batch that is missing nothing is left: then batches that both copies
have show that they are copies of one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto

from kdump.disk.reading import ReadOnlyFile, status_of
from kdump.errors import CheckpointError
from kdump.formats.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from kdump.named_tuples import NamedTuple
from kdump.replicas.healed_segments import FoundBatch
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import scan
from kdump.storage.segment import Segment

_MAX_COMPARED = 1 << 16
"""Bytes of the records of a batch that are compared."""
_OLD_CRC_START = 16


class Verdict(Enum):
    """Whether a batch is the damaged one."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()


class DamagedBatch(NamedTuple):
    """A damaged batch by its header: where it is, its base offset, its CRC, and the other fields that a CRC covers.

    `ends_well`: damage ends, or another batch begins, where its size says.
    """

    path: str
    position: int
    base: int
    size: int
    crc: int
    fields: tuple[int, ...]
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
        with ReadOnlyFile(batch.path) as file:
            header = file.read(batch.position, HEADER_SIZE)
            crc, fields = _fields(header)
            same = sum(map(int.__eq__, fields, damaged.fields))
            if same >= len(fields) - 1 and self._has_same_records(damaged, batch, file):
                return Verdict.SAME, ""
        text = f"the stored CRC is {damaged.crc:#010x} here, {crc:#010x} there"
        if damaged.ends_well and damaged.size != batch.size:
            return Verdict.OTHER, f"{text}, the size {damaged.size} here, {batch.size} there"
        return Verdict.UNKNOWN, text

    @staticmethod
    def _has_same_records(damaged: DamagedBatch, batch: FoundBatch, file: ReadOnlyFile) -> bool:
        """Return whether most bytes of the records are the same."""
        size = min(damaged.size, batch.size, HEADER_SIZE + _MAX_COMPARED)
        with ReadOnlyFile(damaged.path) as own:
            here = own.read(damaged.position + CRC_START, size - CRC_START)
        there = file.read(batch.position + CRC_START, size - CRC_START)
        return 2 * sum(map(int.__eq__, here, there)) > len(there)


def _damaged(segment: Segment) -> Iterator[DamagedBatch]:
    with segment.open_log() as file:
        for part in scan(file, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                yield from _in_damage(segment.log_path, file, part)


def _in_damage(path: str, file: LogFile, damage: Damage) -> Iterator[DamagedBatch]:
    position = damage.position
    while position + HEADER_SIZE <= damage.resumed:
        header = file.read(position, HEADER_SIZE)
        base, length = HEADER.unpack(header)[:2]
        size = length + LOG_OVERHEAD
        end = position + size
        if size < MAGIC_AT:
            return
        crc, fields = _fields(header)
        yield DamagedBatch(path, position, base, size, crc, fields, end <= damage.resumed)
        if end > damage.resumed:
            return
        position = end


def _fields(header: bytes) -> tuple[int, tuple[int, ...]]:
    """Return a header's CRC, and the other fields but offset and leader epoch, which copies may have otherwise."""
    if header[MAGIC_AT] >= 2:
        _, length, _, magic, crc, *rest = HEADER.unpack(header)
        return crc, (length, magic, *rest)
    crc = int.from_bytes(header[LOG_OVERHEAD:_OLD_CRC_START], "big")
    length = int.from_bytes(header[LENGTH_AT:LOG_OVERHEAD], "big")
    return crc, (length, header[MAGIC_AT], header[MAGIC_AT + 1], int.from_bytes(header[18:26], "big"))


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
