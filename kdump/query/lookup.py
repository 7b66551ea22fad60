"""Find an offset, a time or the aborted transactions of a fetch in a log, exactly as a broker would."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from kdump.blocks import BatchBlock
from kdump.errors import CorruptRecordError, KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.index_entries import AbortedTxn
from kdump.query.open_segment import OpenSegment, Trace, no_trace
from kdump.releases import NEWEST, OFFSET_SEARCH_BY_BASE, KafkaRelease
from kdump.storage.checkpoints import remote_start_offset
from kdump.storage.leader_epochs import loaded_epochs
from kdump.storage.log_reader import Entry
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment, first_offset_at

if TYPE_CHECKING:
    from kdump.storage.records import Record

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
"""The broker's special timestamps of ListOffsets."""


class OffsetPosition(NamedTuple):
    """Where a broker's read of an offset starts.

    `segment` is the base offset of the segment that is responsible, None where there is none. A read scans it from
    `index_position`; where `found`, the first batch that reaches the offset goes from `batch_base_offset` to
    `batch_last_offset` (absolute) and is `size` bytes from byte `position` on. A v0/v1 wrapper that cannot be
    decompressed has a base offset of -1. `is_valid` says whether it passes its CRC.
    """

    segment: int | None
    index_offset: int = -1
    index_position: int = 0
    found: bool = False
    batch_last_offset: int = -1
    position: int = -1
    size: int = 0
    batch_base_offset: int = -1
    is_valid: bool = True


class TimestampOffset(NamedTuple):
    """The answer to a search by time: an absolute offset, its record's timestamp (ms, -1 none) and leader epoch."""

    offset: int
    timestamp: int
    leader_epoch: int | None


class LogLookup:
    """Lookups in one log; its files stay open until it is closed.

    `log_start_offset` (absolute) is what the checkpoint says; the first segment's base offset is the least. Unless
    the log was closed cleanly (`clean`), a broker recovers it before it answers: zeros at the end of a file do not
    count, and the last segment's indexes have what its batches say.
    `trace` is given a line of words for every step. With a `last_stable_offset` (absolute) the answers are those that
    a read_committed client gets: nothing from there on (Partition.fetchOffsetForTimestamp). `release` names the release
    whose searches these are; it is asked only where batches are out of order, so that releases find different ones.
    `is_tiered` says whether what is before the first segment is in remote storage, which is not searched.
    """

    def __init__(
        self,
        log: PartitionLog,
        log_start_offset: int = 0,
        *,
        clean: bool,
        last_stable_offset: int | None = None,
        trace: Trace = no_trace,
        release: Callable[[], KafkaRelease] = lambda: NEWEST,
        is_tiered: Callable[[], bool] = lambda: False,
    ) -> None:
        self._last_stable_offset = last_stable_offset
        self._files = ExitStack()
        self._release = release
        self.log = log
        self._trace = trace
        self._segments = [
            OpenSegment(segment, self._files, trims=not clean, recovers=not clean and segment is log.segments[-1])
            for segment in log.segments
        ]
        first = self._segments[0].base_offset if self._segments else 0
        self._checkpoint = log_start_offset
        self.log_start_offset = max(log_start_offset, first)
        self._is_tiered = is_tiered

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._files.close()

    @property
    def remote_start_offset(self) -> int | None:
        """Where (absolute) the log of a tiered topic starts in remote storage; None where all of it is local."""
        return remote_start_offset(self._checkpoint, self.log_start_offset, self._is_tiered)

    @property
    def log_bytes_read(self) -> int:
        """How many bytes of .log files have been read so far."""
        return sum(segment.log_bytes_read for segment in self._segments)

    def find_offset(self, offset: int) -> OffsetPosition:
        """Return where a read of absolute `offset` starts in the segment that is responsible.

        None is found at or above the log end offset: a broker does not search there, even where damage or a wrong index
        ends the log before its last batches. Raises OSError, KdumpError.
        """
        at = self._floor(offset)
        if at < 0:
            self._trace(f"no segment has a base offset at or below {offset}")
            return OffsetPosition(None)
        answer = self._find_in(self._segments[at], offset)
        if answer.found and offset >= self.log_end_offset():
            self._trace(f"offset {offset} is not in the log, which ends at {self.log_end_offset()}")
            return OffsetPosition(answer.segment, answer.index_offset, answer.index_position)
        return answer

    def has_offset(self, offset: int) -> bool:
        """Return whether `offset` is in the log, from its start offset to its end. Raises OSError, KdumpError."""
        return self.log_start_offset <= offset < self.readable_end()

    def find_from(self, offset: int) -> OffsetPosition:
        """Return the first batch that reaches absolute `offset`, in later segments too, as a fetch goes on looking.

        None is found for an offset that is not in the log. Raises OSError, KdumpError.
        """
        if not self.has_offset(offset):
            self._trace(f"offset {offset} is not in the log, {self.log_start_offset} to {self.readable_end() - 1}")
            at = self._floor(offset)
            return OffsetPosition(self._segments[at].base_offset if at >= 0 else None)
        answer = self.find_offset(offset)
        for segment in self._segments[self._floor(offset) + 1 :]:
            if answer.found:
                break
            self._trace("nothing there: a fetch continues with the next segment")
            answer = self._find_in(segment, offset)
        return answer

    def batch_of(self, found: OffsetPosition | TimestampOffset) -> tuple[Segment, BatchBlock] | None:
        """Return the batch that was found, or that has the record found, alone in a block, and its segment.

        None without one, as for special times that are no record's, and where it fails its CRC. Raises OSError,
        KdumpError.
        """
        if isinstance(found, OffsetPosition):
            if not found.found or found.segment is None:
                return None
            segment, position, size = self._segments[self._floor(found.segment)], found.position, found.size
        else:
            at = self._floor(found.offset)
            if found.timestamp < 0 or at < 0:
                return None
            segment = self._segments[at]
            start = segment.index_entry(found.offset, no_trace).position
            reaching = (here for here in segment.entries(start) if here[1].last_offset >= found.offset)
            position, entry = next(reaching, (0, None))
            if entry is None:
                return None
            size = entry.size
        block = segment.log.batch_at(position, size)
        return (segment.segment, block) if block.length == 1 and block.valid[0] else None

    def _find_in(self, segment: OpenSegment, offset: int) -> OffsetPosition:
        self._trace(f"segment {segment.base_offset}: the largest base offset that is not above {offset}")
        entry = segment.index_entry(offset, self._trace)
        self._trace(f"offset index entry: offset {entry.offset} at byte {entry.position}")
        begun = segment.base_offset, entry.offset, entry.position
        found = self._scan(segment, entry.position, offset)
        if found is None:
            self._trace(f"no batch of the segment reaches offset {offset}")
            return OffsetPosition(*begun)
        position, batch = found
        self._trace(
            f"batch at byte {position} of {batch.size} bytes, last offset {batch.last_offset}, after"
            f" {position - entry.position} bytes of scanning"
        )
        base, is_valid = first_offset_at(segment.log, position, batch), segment.is_valid(position, batch)
        return OffsetPosition(*begun, True, batch.last_offset, position, batch.size, base, is_valid)

    def _scan(self, segment: OpenSegment, start: int, offset: int) -> tuple[int, Entry] | None:
        """Return the batch from byte `start` on that a read of `offset` gets, with its position (FileRecords).

        Up to Kafka 4.0 that is the first one that ends at the offset or above; later the one before the first that
        begins above it, if it reaches the offset. Batches in order make no difference.
        """
        reaching = before = by_base = None
        is_decided = False
        try:
            for here in segment.entries(start):
                if reaching is None and here[1].last_offset >= offset:
                    reaching = here
                if not is_decided:
                    base = first_offset_at(segment.log, *here)
                    is_decided = base >= offset
                    reaches = before is not None and before[1].last_offset >= offset
                    by_base = before if base > offset and reaches else here
                    before = here
                if is_decided and reaching:
                    break
            if not is_decided:
                by_base = before if before and before[1].last_offset >= offset else None
        except CorruptRecordError:
            if reaching is None or self._release().has(OFFSET_SEARCH_BY_BASE):
                raise
            return reaching
        if reaching == by_base or not self._release().has(OFFSET_SEARCH_BY_BASE):
            return reaching
        self._trace(f"batches are out of order: from Kafka {OFFSET_SEARCH_BY_BASE.since.value} on first offsets count")
        return by_base

    def find_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record at or after `timestamp` (ms), or the answer to one of the special ones below 0.

        None where the broker knows none. Raises OSError, KdumpError.
        """
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = self._first_offset() if timestamp == EARLIEST else self.log_start_offset
            begun = [entry.epoch for entry in self._epochs(None) if entry.start_offset <= start]
            return TimestampOffset(start, -1, begun[-1] if begun else None)
        if timestamp == LATEST:
            end = self.readable_end()
            epochs = self._epochs(end)
            return TimestampOffset(end, -1, epochs[-1].epoch if epochs else None)
        if timestamp == LATEST_TIERED:
            return TimestampOffset(-1, -1, -1)
        found = self._find_largest() if timestamp == MAX_TIMESTAMP else self._find_time(timestamp)
        if found is not None and found.offset >= self.readable_end():
            self._trace(f"offset {found.offset} is not below {self.readable_end()}, where what the client gets ends")
            return None
        return found

    def _find_time(self, timestamp: int) -> TimestampOffset | None:
        for segment in self._segments:
            if segment.largest_timestamp(self._trace) >= timestamp:
                return self._find_time_in(segment, timestamp)
        return None

    def _find_time_in(self, segment: OpenSegment, timestamp: int) -> TimestampOffset | None:
        entry = segment.time_entry(timestamp, self._trace)
        self._trace(f"time index entry: timestamp {entry.timestamp} at offset {entry.offset}")
        start = segment.index_entry(max(entry.offset, self.log_start_offset), self._trace).position
        for record, epoch in self._records(segment, start, lambda block: block.max_timestamp[0] >= timestamp):
            if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                self._trace(f"record at offset {record.offset}, timestamp {record.timestamp}")
                return TimestampOffset(record.offset, record.timestamp, epoch)
        return None

    def _find_largest(self) -> TimestampOffset | None:
        """Return the first record that has the log's largest timestamp.

        As with a broker it may be one below the log start offset, whose segment is still there. A log that ends below
        its log start offset is emptied by the start (LogLoader.recoverLog).
        """
        if not self._segments or self._segments[-1].next_offset < self.log_start_offset:
            return None
        segment = max(self._segments, key=lambda each: each.last_time_entry.timestamp)
        entry = segment.last_time_entry
        self._trace(f"segment {segment.base_offset} has the largest timestamp, {entry.timestamp}")
        start = segment.index_entry(entry.offset, self._trace).position
        for record, epoch in self._records(segment, start, lambda block: _has_largest(block, entry.timestamp)):
            if record.timestamp == entry.timestamp:
                return TimestampOffset(record.offset, record.timestamp, epoch)
        return None

    def _records(
        self, segment: OpenSegment, start: int, wanted: Callable[[BatchBlock], bool]
    ) -> Iterator[tuple[Record, int | None]]:
        """Yield the records, with their leader epochs, of the batches from byte `start` on that are wanted."""
        from kdump.storage.decoded import BadBatch
        from kdump.storage.records import records_of

        for position, entry in segment.entries(start):
            block = segment.log.batch_at(position, entry.size)
            if block.length == 0 or not wanted(block):
                continue
            self._trace(f"batch at byte {position}, max timestamp {block.max_timestamp[0]}")
            epoch = block.leader_epoch[0] if block.leader_epoch[0] >= 0 else None
            for record in records_of(block):
                if isinstance(record, BadBatch):
                    raise KdumpError(f"{segment.log.path}: batch at byte {position}: {record.error}")
                yield record, epoch

    def log_end_offset(self) -> int:
        """Return the offset that the next record would get. Raises OSError, KdumpError."""
        return max(self.log_start_offset, self._segments[-1].next_offset) if self._segments else self.log_start_offset

    def readable_end(self) -> int:
        """Return the first offset that the client does not get. Raises OSError, KdumpError."""
        end = self.log_end_offset()
        return end if self._last_stable_offset is None else min(end, self._last_stable_offset)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> Iterator[AbortedTxn]:
        """Yield what a read_committed fetch of [fetch_offset, upper_bound) (absolute) is told to leave out."""
        for segment in self._segments[max(0, self._floor(fetch_offset)) :]:
            if not segment.segment.has(names.TXN_INDEX):
                continue
            with segment.segment.txn_index() as index:
                for txn in index:
                    if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                        yield txn
                    if txn.last_stable_offset >= upper_bound:
                        return

    def _floor(self, offset: int) -> int:
        return bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1

    def _epochs(self, end: int | None) -> list[EpochEntry]:
        """Return the leader epochs as a broker loads them: from the log start offset to the log's end `end`."""
        return loaded_epochs(self.log.leader_epochs, self._first_offset(), end)

    def _first_offset(self) -> int:
        """Return the log start offset, in remote storage or here."""
        remote = self.remote_start_offset
        return self.log_start_offset if remote is None else remote


def _has_largest(block: BatchBlock, timestamp: int) -> bool:
    """Return whether a one-batch block has this max timestamp; v0 has none."""
    return block.magic[0] > 0 and block.max_timestamp[0] == timestamp
