"""The transactions of a partition: open ones, those that markers ended, the last stable offset and what holds it."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.disk.reading import read_small
from kdump.errors import CorruptSnapshotError, KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.producer_snapshot import MAX_SNAPSHOT_BYTES, ProducerEntry, decode_producer_snapshot
from kdump.query.contents import marker_in, runs
from kdump.storage.damage import Damage
from kdump.storage.replica import Replica
from kdump.storage.scan import Run, scan
from kdump.storage.segment import Segment
from kdump.txns.producers import CompletedTxn, ProducerTable, TransactionOpened, opens_transaction
from kdump.txns.txn_index import EndedTxn, IndexMismatch, index_mismatches

LATE_BUFFER_MS = 300_000
"""What Kafka waits beyond the longest timeout before it calls a transaction late."""

_MARKED = bytes(bool(flags & (TRANSACTIONAL | CONTROL)) for flags in range(256))
_LOW_BYTE = 0 if sys.byteorder == "little" else 7


@dataclass
class OpenTxn:
    """A transaction without a marker. Offsets are absolute, timestamps in ms, `size` in bytes.

    `coordinator_epoch` is that of the producer's last marker before, -1 without one. `is_older` where its first batch
    is no longer in the log: a producer snapshot tells of it, and batches, records and size count the rest only.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    coordinator_epoch: int = -1
    batches: int = 0
    records: int = 0
    size: int = 0
    is_older: bool = False

    def add(self, block: BatchBlock, row: int) -> None:
        """Count a batch of it."""
        self.producer_epoch = block.producer_epoch[row]
        self.last_offset = block.last_offset[row]
        self.last_timestamp = block.max_timestamp[row]
        self.batches += 1
        self.records += max(0, block.count[row])
        self.size += block.size[row]


class StableLimit(StrEnum):
    """What keeps the last stable offset below the log's end.

    An open transaction, one whose marker is not below the high watermark, or the high watermark alone.
    """

    TRANSACTION = "transaction"
    MARKER = "marker"
    HIGH_WATERMARK = "high watermark"


@dataclass
class PartitionTxns:
    """What a walk over a partition found; offsets are absolute.

    `commits` and `aborts` count markers, `empty` those of them that ended nothing. `ended` is filled on demand only.
    `is_ordered`: each batch lies behind those before it; looked at where `ended` is filled.
    `unreplicated` is the first offset of the earliest transaction whose marker lies behind the high watermark.
    `producers` are those that a broker would know, where the walk began at a snapshot.
    """

    replica: Replica
    end_offset: int = 0
    batches: int = 0
    open: list[OpenTxn] = field(default_factory=list)
    ended: list[EndedTxn] = field(default_factory=list)
    commits: int = 0
    aborts: int = 0
    empty: int = 0
    mismatches: list[IndexMismatch] = field(default_factory=list)
    unreplicated: int | None = None
    producers: list[ProducerEntry] = field(default_factory=list)
    is_ordered: bool = True

    @property
    def high_watermark(self) -> int:
        """The checkpoint's, within the log; the log end offset without one."""
        known = self.replica.high_watermark
        return self.end_offset if known is None else min(max(known, self.replica.log_start_offset), self.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to where a read_committed consumer gets to read."""
        unstable = [txn.first_offset for txn in self.open]
        if self.unreplicated is not None:
            unstable.append(self.unreplicated)
        first = max(min(unstable), self.replica.log_start_offset) if unstable else self.end_offset
        return min(self.high_watermark, first)

    @property
    def blocking_txn(self) -> OpenTxn | None:
        """The open transaction that keeps the last stable offset below the high watermark."""
        first = min(self.open, key=lambda txn: txn.first_offset, default=None)
        if first is None or max(first.first_offset, self.replica.log_start_offset) >= self.high_watermark:
            return None
        if self.unreplicated is not None and self.unreplicated < first.first_offset:
            return None
        return first

    @property
    def stable_limit(self) -> StableLimit | None:
        """What a read_committed consumer waits for; None where it gets all of the log."""
        stable = self.last_stable_offset
        if stable == self.end_offset:
            return None
        if self.blocking_txn:
            return StableLimit.TRANSACTION
        is_marker = self.unreplicated is not None and stable < self.high_watermark
        return StableLimit.MARKER if is_marker else StableLimit.HIGH_WATERMARK


def transactions_of(replica: Replica, report: Report, *, keep_ended: bool = False) -> PartitionTxns:
    """Walk the batch headers of a whole partition, control batches decoded; damage is reported and skipped."""
    return _Walk(replica, report, keep_ended).run()


def transactions_since_snapshot(replica: Replica, end_offset: int, report: Report) -> PartitionTxns:
    """Return the transactions that are open, and those ended since the newest producer snapshot up to `end_offset`.

    As a broker's recovery (UnifiedLog.rebuildProducerState), it walks only what lies behind that snapshot; without one
    that can be read, the whole log. Transaction indexes are not looked at. Raises OSError.
    """
    return _Walk(replica, report, keep_ended=True).run_from_snapshot(end_offset)


class NextMarker(NamedTuple):
    """A marker of a producer, at absolute `last_offset` of a segment."""

    segment: Segment
    last_offset: int
    is_abort: bool


def next_marker(segments: Iterable[Segment], position: int, producer_id: int, report: Report) -> NextMarker | None:
    """Return the first marker of a producer from byte `position` of the first segment on; None where there is none.

    `position` is a batch's. What lies between is all that is read; damage is reported and skipped. Raises OSError.
    """
    for segment in segments:
        with segment.open_log() as file:
            for part in scan(file, segment.base_offset, position, whole=False):
                if isinstance(part, Damage):
                    report(Problem(segment.log_path, part.position, part.text))
                    continue
                found = _marker_in_run(segment, part, producer_id, report)
                if found is not None:
                    return found
        position = 0
    return None


def _marker_in_run(segment: Segment, run: Run, producer_id: int, report: Report) -> NextMarker | None:
    block = run.block
    for row in _marked_rows(run):
        if block.magic[row] < 2 or not block.attributes[row] & CONTROL or block.producer_id[row] != producer_id:
            continue
        try:
            marker = marker_in(block, row)
        except KdumpError as error:
            report(Problem(segment.log_path, block.position[row], str(error)))
            continue
        if marker is not None:
            return NextMarker(segment, block.last_offset[row], marker.is_abort)
    return None


class _Walk:
    def __init__(self, replica: Replica, report: Report, keep_ended: bool) -> None:
        self._found = PartitionTxns(replica)
        self._keep_ended = keep_ended
        self._table = ProducerTable()
        self._open: dict[int, OpenTxn] = {}
        self._aborted: list[EndedTxn] = []
        self._is_damaged = False
        self._last_offset = -1
        self._report = report

    def run(self) -> PartitionTxns:
        from kdump.storage.facts import log_end_offset

        found = self._found
        replica = found.replica
        try:
            found.end_offset = log_end_offset(replica.log, replica.log_start_offset)
        except OSError as error:
            self._report(Problem.unreadable(replica.log.path, error))
        self._seed()
        for segment in replica.log.segments:
            self._is_damaged = False
            self._aborted.clear()
            for _, run in runs([segment], self._damaged, whole=False):
                self._take(segment, run, _marked_rows(run))
            found.mismatches += index_mismatches(segment, self._aborted, self._report, is_whole=not self._is_damaged)
        found.open = sorted(self._open.values(), key=lambda txn: txn.first_offset)
        return found

    def run_from_snapshot(self, end_offset: int) -> PartitionTxns:
        found = self._found
        log = found.replica.log
        start = self._seed_newest(end_offset)
        for segment in log.segments_from(start) if start < end_offset else ():
            with segment.open_log() as file:
                position = segment.position_of(file, start)
                for part in scan(file, segment.base_offset, position, whole=False):
                    if isinstance(part, Damage):
                        self._damaged(Problem(segment.log_path, part.position, part.text))
                        continue
                    first = bisect_left(part.block.last_offset, start, part.first, part.stop)
                    if first < part.stop:
                        self._take(segment, part._replace(first=first), range(first, part.stop))
        found.open = sorted(self._open.values(), key=lambda txn: txn.first_offset)
        found.end_offset = end_offset
        found.producers = sorted(self._table.entries())
        return found

    def _seed_newest(self, end_offset: int) -> int:
        """Know the transactions that were open at the newest snapshot up to `end_offset`; the snapshot's offset."""
        log = self._found.replica.log
        base = log.segments[0].base_offset if log.segments else end_offset
        start = max(base, self._found.replica.log_start_offset)
        # a broker deletes those up to the log start offset (ProducerStateManager.truncateAndReload)
        for offset, path in sorted(self._snapshots(start + 1), reverse=True):
            entries = self._entries(path) if offset <= end_offset else None
            if entries is not None:
                self._know(entries, offset)
                return offset
        return start

    def _seed(self) -> None:
        """Know the transactions that were open before the first segment, from the earliest snapshot there is."""
        log = self._found.replica.log
        if not log.segments:
            return
        base = log.segments[0].base_offset
        for offset, path in sorted(self._snapshots(base)):
            entries = self._entries(path)
            if entries is None:
                continue
            is_same = offset == base  # of a later one only what is older than the log is certain
            entries = [each for each in entries if each.current_txn_first_offset < base]
            entries = [each for each in entries if is_same or each.has_open_txn]
            self._know(entries, base)
            return

    def _know(self, entries: list[ProducerEntry], offset: int) -> None:
        """Begin with what a snapshot tells of the log before an offset."""
        self._table.load(entries)
        for entry in entries:
            if entry.has_open_txn:
                self._open[entry.producer_id] = OpenTxn(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.current_txn_first_offset,
                    min(entry.last_offset, offset - 1),
                    -1,
                    entry.timestamp,
                    entry.coordinator_epoch,
                    is_older=True,
                )

    def _snapshots(self, least: int) -> Iterator[tuple[int, str]]:
        """Yield the snapshots from an offset on, each with its path."""
        log = self._found.replica.log
        for offset, name in names.producer_snapshots(log.files).items():
            if offset >= least:
                yield offset, os.path.join(log.path, name)

    def _entries(self, path: str) -> list[ProducerEntry] | None:
        """Return what a snapshot has; None where it cannot be read, which is reported."""
        try:
            return list(decode_producer_snapshot(read_small(path, MAX_SNAPSHOT_BYTES)))
        except (CorruptSnapshotError, OSError) as error:
            self._report(Problem.failed(path, error))
            return None

    def _damaged(self, problem: Problem) -> None:
        self._is_damaged = True
        self._report(problem)

    def _take(self, segment: Segment, run: Run, rows: Iterable[int]) -> None:
        """Take a run of batches, of which the `rows` may change what is known of producers."""
        block = run.block
        self._found.batches += run.stop - run.first
        if self._keep_ended and self._found.is_ordered:
            ends = block.last_offset[run.first : run.stop]
            self._found.is_ordered = self._last_offset <= ends[0] and not kernels.column_stats(ends)[2]
            self._last_offset = ends[-1]
        for row in rows:
            if block.magic[row] < 2 or block.producer_id[row] < 0:
                continue
            if block.attributes[row] & CONTROL:
                self._end(segment, block, row)
            else:
                self._batch(block, row)

    def _batch(self, block: BatchBlock, row: int) -> None:
        producer_id, epoch = block.producer_id[row], block.producer_epoch[row]
        first_offset, last_offset = block.base_offset[row], block.last_offset[row]
        producer = self._table.producer(producer_id)
        txn = self._open.get(producer_id)
        if block.attributes[row] & TRANSACTIONAL and (txn or opens_transaction(block.count[row])):
            if isinstance(producer.join_txn(first_offset, is_transactional=True), TransactionOpened):
                self._table.begin(producer_id, first_offset)
            if txn is None:
                txn = self._open[producer_id] = OpenTxn(
                    producer_id, epoch, first_offset, -1, block.base_timestamp[row], -1, producer.coordinator_epoch
                )
            txn.add(block, row)
        producer.take_batch(epoch, block.base_sequence[row], first_offset, last_offset, block.max_timestamp[row])

    def _end(self, segment: Segment, block: BatchBlock, row: int) -> None:
        try:
            marker = marker_in(block, row)
        except KdumpError as error:
            self._damaged(Problem(segment.log_path, block.position[row], str(error)))
            return
        if marker is None:
            return
        found = self._found
        watermark = found.replica.high_watermark
        producer_id, epoch, last_offset = block.producer_id[row], block.producer_epoch[row], block.last_offset[row]
        self._open.pop(producer_id, None)
        event = self._table.producer(producer_id).take_marker(epoch, marker.coordinator_epoch, block.max_timestamp[row])
        txn = CompletedTxn(producer_id, event.first_offset if event else -1, last_offset, marker.is_abort)
        self._table.end(txn)
        if marker.is_abort:
            found.aborts += 1
        else:
            found.commits += 1
        if event is None:
            found.empty += 1
        elif watermark is not None and last_offset >= watermark:
            before = found.unreplicated
            found.unreplicated = txn.first_offset if before is None else min(txn.first_offset, before)
        if not marker.is_abort and not self._keep_ended:
            return
        ended = EndedTxn(
            producer_id,
            epoch,
            txn.first_offset,
            last_offset,
            marker.is_abort,
            marker.coordinator_epoch,
            marker.timestamp,
            self._table.stable_after(txn),
        )
        if marker.is_abort:
            self._aborted.append(ended)
        if self._keep_ended:
            found.ended.append(ended)


def _marked_rows(run: Run) -> Iterator[int]:
    """Yield the rows with the transactional or the control bit, without a look in Python at the others."""
    marks = run.block.attributes.tobytes()[_LOW_BYTE::8].translate(_MARKED)
    row = marks.find(1, run.first, run.stop)
    while row >= 0:
        yield row
        row = marks.find(1, row + 1, run.stop)
