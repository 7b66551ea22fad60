"""The transactions of a partition: open ones, those that markers ended, the last stable offset and what holds it."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kdump.blocks import BatchBlock
from kdump.disk.reading import read_small
from kdump.errors import CorruptSnapshotError, KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.index_entries import AbortedTxn, check_aborted_txn_version
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.formats.sequences import last_sequence
from kdump.query.contents import marker_in, runs
from kdump.storage.damage import Damage
from kdump.storage.replica import Replica
from kdump.storage.scan import Run, scan
from kdump.storage.segment import Segment

MAX_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms."""

LATE_BUFFER_MS = 300_000
"""What Kafka waits beyond the longest timeout before it calls a transaction late."""

_MARKED = bytes(bool(flags & (TRANSACTIONAL | CONTROL)) for flags in range(256))
_LOW_BYTE = 0 if sys.byteorder == "little" else 7
_SNAPSHOT_LIMIT = 1 << 28


@dataclass(slots=True)
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

    def is_late(self, now: int, max_timeout_ms: int = MAX_TIMEOUT_MS) -> bool:
        """Whether Kafka counts it among the partitions' late transactions at the time `now` (ms)."""
        return self.is_overdue(now, max_timeout_ms + LATE_BUFFER_MS)

    def is_overdue(self, now: int, max_timeout_ms: int = MAX_TIMEOUT_MS) -> bool:
        """Whether its last record is older than any transaction may get: Kafka then asks the coordinator about it."""
        return self.last_timestamp > 0 and now - self.last_timestamp > max_timeout_ms


@dataclass(frozen=True, slots=True)
class EndedTxn:
    """A transaction that the marker at `last_offset` ended, or only a marker: `first_offset` is -1 then.

    `last_stable_offset` is the one that a broker puts into the transaction index with it.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    is_abort: bool
    coordinator_epoch: int
    timestamp: int
    last_stable_offset: int


Mismatch = Literal["missing", "extra", "starts late"]


@dataclass(frozen=True, slots=True)
class IndexMismatch:
    """What the transaction index at `path` has wrong of the transaction that an ABORT marker at `last_offset` ended.

    missing: no entry, so that consumers get the aborted records. extra: an entry without such a marker. starts late:
    the entry begins behind the transaction's first record. Offsets are absolute; `first_offset` is the entry's where
    there is one.
    """

    kind: Mismatch
    path: str
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class PartitionTxns:
    """What a walk over a partition found; offsets are absolute.

    `commits` and `aborts` count markers, `empty` those of them that ended nothing. `ended` is filled on demand only.
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
    def holder(self) -> OpenTxn | None:
        """The open transaction that keeps the last stable offset below the high watermark."""
        first = min(self.open, key=lambda txn: txn.first_offset, default=None)
        if first is None or max(first.first_offset, self.replica.log_start_offset) >= self.high_watermark:
            return None
        if self.unreplicated is not None and self.unreplicated < first.first_offset:
            return None
        return first


def transactions_of(replica: Replica, report: Report, *, keep_ended: bool = False) -> PartitionTxns:
    """Walk the batch headers of a whole partition, control batches decoded; damage is reported and passed over."""
    return _Walk(replica, report, keep_ended).run()


def transactions_since_snapshot(replica: Replica, end_offset: int, report: Report) -> PartitionTxns:
    """The transactions that are open, and those that ended since the newest producer snapshot up to `end_offset`.

    As a broker's recovery (UnifiedLog.rebuildProducerState), it walks only what lies behind that snapshot; without one
    that can be read, the whole log. Transaction indexes are not looked at. Raises OSError.
    """
    return _Walk(replica, report, keep_ended=True).run_from_snapshot(end_offset)


class _Walk:
    def __init__(self, replica: Replica, report: Report, keep_ended: bool) -> None:
        self._found = PartitionTxns(replica, replica.log_start_offset)
        self._keep_ended = keep_ended
        self._open: dict[int, OpenTxn] = {}
        self._coordinator_epochs: dict[int, int] = {}
        self._producers: dict[int, ProducerEntry] = {}
        self._aborted: list[EndedTxn] = []
        self._is_damaged = False
        self._report = report

    def run(self) -> PartitionTxns:
        found = self._found
        replica = found.replica
        self._seed()
        for segment in replica.log.segments:
            self._is_damaged = False
            self._aborted.clear()
            for _, run in runs([segment], self._damaged, whole=False):
                self._take(segment, run)
            self._compare(segment)
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
                        self._take(segment, part._replace(first=first))
                        self._note_producers(part.block, first, part.stop)
        found.open = sorted(self._open.values(), key=lambda txn: txn.first_offset)
        found.end_offset = max(found.end_offset, end_offset)
        found.producers = [self._with_txn(self._producers[number]) for number in sorted(self._producers)]
        return found

    def _note_producers(self, block: BatchBlock, first: int, stop: int) -> None:
        for row in range(first, stop):
            number, epoch = block.producer_id[row], block.producer_epoch[row]
            if number < 0 or block.magic[row] < 2:
                continue
            sequence, delta = block.base_sequence[row], block.last_offset[row] - block.base_offset[row]
            last_offset = block.last_offset[row]
            if block.attributes[row] & CONTROL:
                known = self._producers.get(number)
                is_same = known is not None and known.producer_epoch == epoch
                sequence, last_offset, delta = known[2:5] if known and is_same else (-1, -1, 0)
            elif sequence >= 0:
                sequence = last_sequence(sequence, delta)
            timestamp = block.max_timestamp[row]
            self._producers[number] = ProducerEntry(number, epoch, sequence, last_offset, delta, timestamp, -1, -1)

    def _with_txn(self, entry: ProducerEntry) -> ProducerEntry:
        txn = self._open.get(entry.producer_id)
        return entry._replace(
            coordinator_epoch=self._coordinator_epochs.get(entry.producer_id, -1),
            current_txn_first_offset=txn.first_offset if txn else -1,
        )

    def _seed_newest(self, end_offset: int) -> int:
        """Know the transactions that were open at the newest snapshot up to `end_offset`; the snapshot's offset."""
        log = self._found.replica.log
        base = log.segments[0].base_offset if log.segments else end_offset
        start = max(base, self._found.replica.log_start_offset)
        # a broker deletes those up to the log start offset (ProducerStateManager.truncateAndReload)
        for offset, path in sorted(self._snapshots(start + 1), reverse=True):
            entries = self._entries(path) if offset <= end_offset else None
            if entries is None:
                continue
            for entry in entries:
                self._producers[entry.producer_id] = entry
                self._coordinator_epochs[entry.producer_id] = entry.coordinator_epoch
                if entry.current_txn_first_offset >= 0:
                    self._open[entry.producer_id] = _older(entry, offset)
            return offset
        return start

    def _snapshots(self, least: int) -> Iterator[tuple[int, str]]:
        """The snapshots from an offset on, each with its path."""
        log = self._found.replica.log
        for name, says in log.files.items():
            is_snapshot = says.kind == names.PRODUCER_SNAPSHOT and not says.state
            if is_snapshot and says.offset is not None and says.offset >= least:
                yield says.offset, os.path.join(log.path, name)

    def _entries(self, path: str) -> list[ProducerEntry] | None:
        """What a snapshot has; None where it cannot be read, which is reported."""
        try:
            return list(decode_producer_snapshot(read_small(path, _SNAPSHOT_LIMIT)))
        except CorruptSnapshotError as error:
            self._report(Problem(path, None, str(error)))
        except OSError as error:
            self._report(Problem.unreadable(path, error))
        return None

    def _damaged(self, trouble: Problem) -> None:
        self._is_damaged = True
        self._report(trouble)

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
            for entry in entries:
                if offset == base:
                    self._coordinator_epochs[entry.producer_id] = entry.coordinator_epoch
                if 0 <= entry.current_txn_first_offset < base:
                    self._open[entry.producer_id] = _older(entry, base)
            return

    def _take(self, segment: Segment, run: Run) -> None:
        block = run.block
        found = self._found
        found.batches += run.stop - run.first
        found.end_offset = max(found.end_offset, block.last_offset[run.stop - 1] + 1)
        for row in _marked_rows(block, run.first, run.stop):
            producer_id = block.producer_id[row]
            if block.magic[row] < 2 or producer_id < 0:
                continue
            if block.attributes[row] & CONTROL:
                self._end(segment, block, row)
                continue
            txn = self._open.get(producer_id)
            if txn is None:
                if not opens_transaction(block.count[row]):
                    continue
                txn = self._open[producer_id] = OpenTxn(
                    producer_id,
                    block.producer_epoch[row],
                    block.base_offset[row],
                    -1,
                    block.base_timestamp[row],
                    -1,
                    self._coordinator_epochs.get(producer_id, -1),
                )
            txn.producer_epoch = block.producer_epoch[row]
            txn.last_offset = block.last_offset[row]
            txn.last_timestamp = block.max_timestamp[row]
            txn.batches += 1
            txn.records += max(0, block.count[row])
            txn.size += block.size[row]

    def _end(self, segment: Segment, block: BatchBlock, row: int) -> None:
        try:
            marker = marker_in(block, row)
        except KdumpError as error:
            self._damaged(Problem(segment.log_path, block.position[row], str(error)))
            return
        if marker is None:
            return
        found = self._found
        producer_id = block.producer_id[row]
        txn = self._open.pop(producer_id, None)
        self._coordinator_epochs[producer_id] = marker.coordinator_epoch
        is_abort = marker.control_type == ABORT
        if is_abort:
            found.aborts += 1
        else:
            found.commits += 1
        if txn is None:
            found.empty += 1
        elif block.last_offset[row] >= self._known_high_watermark():
            before = found.unreplicated
            found.unreplicated = txn.first_offset if before is None else min(txn.first_offset, before)
        if not is_abort and not self._keep_ended:
            return
        last_offset = block.last_offset[row]
        ended = EndedTxn(
            producer_id,
            block.producer_epoch[row],
            txn.first_offset if txn else -1,
            last_offset,
            is_abort,
            marker.coordinator_epoch,
            marker.timestamp,
            min((other.first_offset for other in self._open.values()), default=last_offset + 1),
        )
        if is_abort:
            self._aborted.append(ended)
        if self._keep_ended:
            found.ended.append(ended)

    def _known_high_watermark(self) -> int:
        known = self._found.replica.high_watermark
        return (1 << 63) - 1 if known is None else known

    def _compare(self, segment: Segment) -> None:
        """Hold the transaction index of a segment against the markers that were met in it."""
        path = segment.path(names.TXN_INDEX)
        entries: dict[tuple[int, int], AbortedTxn] = {}
        try:
            if segment.has(names.TXN_INDEX):
                with segment.txn_index() as index:
                    for entry in index:
                        check_aborted_txn_version(entry, path)
                        entries[entry.producer_id, entry.last_offset] = entry
        except KdumpError as error:
            self._report(Problem(path, None, str(error)))
        except OSError as error:
            self._report(Problem.unreadable(path, error))
        mismatches = self._found.mismatches
        for txn in self._aborted:
            found = entries.pop((txn.producer_id, txn.last_offset), None)
            if txn.first_offset < 0:  # nothing of it is left, which compaction and retention may have done
                continue
            if found is None:
                mismatches.append(
                    IndexMismatch("missing", path, txn.producer_id, txn.first_offset, txn.last_offset)
                )
            elif found.first_offset > txn.first_offset:
                mismatches.append(
                    IndexMismatch("starts late", path, txn.producer_id, found.first_offset, txn.last_offset)
                )
        if not self._is_damaged:
            mismatches += (
                IndexMismatch("extra", path, entry.producer_id, entry.first_offset, entry.last_offset)
                for entry in entries.values()
            )


def _older(entry: ProducerEntry, before: int) -> OpenTxn:
    """The transaction that a snapshot tells of, as far as it lies before an offset."""
    return OpenTxn(
        entry.producer_id,
        entry.producer_epoch,
        entry.current_txn_first_offset,
        min(entry.last_offset, before - 1),
        -1,
        entry.timestamp,
        entry.coordinator_epoch,
        is_older=True,
    )


def opens_transaction(count: int) -> bool:
    """Whether a transactional data batch of `count` records begins a transaction, where its producer has none open.

    One without records does not: the cleaner keeps a producer's last batch for its sequence when it has removed all
    records, and drops the marker (Cleaner.cleanInto, KIP-98). The transaction is over.
    """
    return count != 0


def _marked_rows(block: BatchBlock, first: int, stop: int) -> Iterator[int]:
    """The rows with the transactional or the control bit, without a look in Python at the others."""
    marks = block.attributes.tobytes()[_LOW_BYTE::8].translate(_MARKED)
    row = marks.find(1, first, stop)
    while row >= 0:
        yield row
        row = marks.find(1, row + 1, stop)
