"""Producers and transactions along the log: sequences, epochs, open transactions.

State begins where the log does: of what retention has deleted, a producer's first batch in the log is believed.
A batch that the cleaner has emptied but kept for its sequence opens no transaction: it may have dropped the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from kdump.check.batch_findings import found_in_batch
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import is_uniform
from kdump.check.gaps import Gaps
from kdump.findings.finding import Finding, found
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.producer_fields import has_running_sequences
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.sequences import MAX_SEQUENCE
from kdump.formats.words import duration
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.txns.producers import (
    CompletedTxn,
    EpochWentBack,
    NotInTransaction,
    Producer,
    ProducerTable,
    SequenceGap,
    TransactionOpened,
    opens_transaction,
)

_columns = attrgetter(
    "producer_id", "producer_epoch", "base_sequence", "base_offset", "last_offset", "attributes", "max_timestamp",
    "count",
)  # fmt: skip


class Coordinated(NamedTuple):
    """The state that a coordinator has of a producer's transaction, and whether its end brings a marker here."""

    state: str
    is_covered: bool


Coordinator = Callable[[int, int], Coordinated | None]
"""What a producer's coordinator says, by producer id and epoch; None where none is at hand."""


class AbortedHere(NamedTuple):
    """An aborted transaction as the log has it; `position` is the byte position of its marker.

    `stable_offset` is the last stable offset that a broker had behind the marker, unless a transaction was open then
    whose first batch the log lacks. `copied_offset` is the one that a follower may have taken for it: it learns all
    that it appends at once before it ends a transaction, so the first one of another producer behind the marker counts
    as open (ProducerStateManager.lastStableOffset). None where there is no such one.
    """

    producer_id: int
    first_offset: int
    position: int
    stable_offset: int
    copied_offset: int | None = None


class ProducerCheck:
    """Follows the producers of a partition's log.

    By the offset of the marker, `aborted` are the transactions that were aborted in the segment, `abort_markers` the
    producers of its ABORT markers.
    """

    def __init__(self, now: int, topic: str = "", max_timeout_ms: int = MAX_TIMEOUT_MS) -> None:
        """`now` is the clock, in ms; `topic` the partition's, if known: sequences do not run in every topic.

        `max_timeout_ms` is the brokers' transaction.max.timeout.ms.
        """
        self._now = now
        self._max_timeout_ms = max_timeout_ms
        self._checks_sequences = has_running_sequences(topic)
        self._table = ProducerTable()
        self._began: dict[int, tuple[str, int, int]] = {}  # path, position, size of the first batch of a transaction
        self._path = ""
        self._missing = 0  # offsets that the log lacks: a compacted log lacks sequences with them
        self._missing_before: dict[int, int] = {}  # and lacked when a producer's last batch came
        self._next_offset: int | None = None
        self.aborted: dict[int, AbortedHere] = {}
        self._not_followed: dict[int, list[int]] = {}  # by producer the markers behind which no other one has begun
        self.abort_markers: dict[int, int] = {}
        self.gaps = Gaps()

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._path = path
        self.aborted.clear()
        self._not_followed.clear()
        self.abort_markers.clear()

    def take(self, rows: BatchRows) -> Iterator[Finding]:  # noqa: C901 - once a batch: calls would count
        """Take valid batches; yield what is found."""
        if is_uniform(rows.producer_id, -1):
            self._pass(rows)
            return
        if self._next_offset is None:
            self.gaps.begin(rows.base_offset[0])
        producers, missing_before = self._table.producers, self._missing_before
        for row, each in enumerate(zip(*_columns(rows), strict=True)):
            number, epoch, sequence, base, last, attributes, timestamp, count = each
            producer = producers.get(number)
            if (
                producer is not None
                and base == self._next_offset
                and epoch == producer.epoch
                and 0 < sequence == producer.last_sequence + 1 < MAX_SEQUENCE - last + base
                and producer.txn_first_offset < 0
                and not attributes & (CONTROL | TRANSACTIONAL)
            ):  # as nearly all batches are
                producer.last_sequence = sequence + last - base
                producer.last_offset = last
                producer.offset_delta = last - base
                producer.timestamp = timestamp
                missing_before[number] = self._missing
                self._next_offset = last + 1
                continue
            if self._next_offset is not None and base > self._next_offset:
                self._missing += base - self._next_offset
                self.gaps.add(self._next_offset, base)
            elif base < 0:  # of a compressed batch of an older format only its content tells where it begins
                self.gaps.add(self._next_offset or 0, last + 1)
            self._next_offset = last + 1
            if number < 0:
                continue
            if attributes & CONTROL:
                yield from self._marker(rows, row, number, epoch, producer)
                continue
            if producer is None:
                producer = producers[number] = Producer(epoch)
            elif fault := self._fault(producer, number, epoch, sequence):
                yield self._at(*fault, rows, row)
            producer.take_batch(epoch, sequence, base, last, timestamp)
            missing_before[number] = self._missing
            if opens_transaction(count):
                yield from self._transaction(rows, row, number, producer)
            else:
                self.gaps.add(base, last + 1)

    def _transaction(self, rows: BatchRows, row: int, number: int, producer: Producer) -> Iterator[Finding]:
        """Begin the producer's transaction with a batch, or say that a batch is not part of the one that is open."""
        is_transactional = bool(rows.attributes[row] & TRANSACTIONAL)
        match producer.join_txn(rows.base_offset[row], is_transactional=is_transactional):
            case TransactionOpened(first_offset):
                self._table.begin(number, first_offset)
                self._follow(number, first_offset)
                self._began[number] = self._path, rows.position[row], rows.size[row]
            case NotInTransaction(first_offset):
                text = f"producer {number} has a transaction open from offset {first_offset} on, this"
                yield self._at("KD-TXN-MIXED", f"{text} batch is not part of it", rows, row)

    def _follow(self, number: int, first_offset: int) -> None:
        """Note that a producer's transaction begins behind what other producers have aborted."""
        for other in [other for other in self._not_followed if other != number]:
            for offset in self._not_followed.pop(other):
                self.aborted[offset] = self.aborted[offset]._replace(copied_offset=first_offset)

    def _fault(self, producer: Producer, number: int, epoch: int, sequence: int) -> tuple[str, str] | None:
        """Return what is wrong with a batch's producer epoch or sequence after the batches of the producer before."""
        may_skip = self._missing - self._missing_before.get(number, 0)
        match producer.check_batch(epoch, sequence):
            case EpochWentBack(_, known_epoch):
                return "KD-PRODUCER-EPOCH", f"producer {number} goes back from epoch {known_epoch} to epoch {epoch}"
            case SequenceGap(missing=missing) if (
                missing > may_skip and sequence >= 0 <= producer.last_sequence and self._checks_sequences
            ):
                text = f"producer {number} of epoch {epoch} goes from sequence {producer.last_sequence} to {sequence}"
                if epoch > producer.epoch:
                    text = f"producer {number} begins epoch {epoch} with sequence {sequence} instead of 0"
                return "KD-PRODUCER-SEQUENCE", text
        return None

    def _pass(self, rows: BatchRows) -> None:
        """Pass over batches without producers: count how many offsets are missing between them."""
        last, expected = rows.last_offset, self._next_offset
        if expected is None:
            self.gaps.begin(rows.base_offset[0])
            expected = max(rows.base_offset[0], 0)
        if is_uniform(rows.magic, 2):
            there = sum(last) - sum(rows.base_offset) + len(last)
            missing = max(0, last[-1] + 1 - expected - there)
            if missing:
                self.gaps.add_between(rows.base_offset, last, expected)
            if self._table.producers:
                self._missing += missing
        else:
            self.gaps.add(expected, last[-1] + 1)
        self._next_offset = last[-1] + 1

    def _at(self, code: str, message: str, rows: BatchRows, row: int) -> Finding:
        return found_in_batch(code, self._path, message, rows, row, rows.base_offset[row])

    def _marker(
        self, rows: BatchRows, row: int, number: int, epoch: int, producer: Producer | None
    ) -> Iterator[Finding]:
        marker = rows.markers.get(row)
        if marker is None or marker.fault or not marker.ends_transaction:
            return
        offset = rows.base_offset[row]
        if producer is None:
            producer = self._table.producers[number] = Producer(epoch)
        if isinstance(event := producer.check_marker(epoch, marker.coordinator_epoch), EpochWentBack):
            text = f"the marker of producer {number} has epoch {epoch}, its batches have epoch {event.known_epoch}"
            yield self._at("KD-PRODUCER-EPOCH", text, rows, row)
        ended = producer.take_marker(epoch, marker.coordinator_epoch, marker.timestamp)
        is_abort = marker.type == ABORT
        if is_abort:
            self.abort_markers[offset] = number
        if ended:
            txn = CompletedTxn(number, ended.first_offset, offset, is_abort)
            self._table.end(txn)
            if is_abort:
                stable_offset = self._table.stable_after(txn)
                self.aborted[offset] = AbortedHere(number, ended.first_offset, rows.position[row], stable_offset)
                if stable_offset > offset:
                    self._not_followed.setdefault(number, []).append(offset)

    @property
    def producers(self) -> dict[int, Producer]:
        """Every producer met so far, by its id."""
        return self._table.producers

    def settle(self, entries: Iterable[ProducerEntry], offset: int) -> None:
        """Take in a snapshot made here, before an absolute offset.

        A transaction that it has closed, or that another one of the producer's follows in it, has lost its marker
        since, to the cleaner or with the end of a segment.
        """
        lacks_end = self._next_offset is not None and self._next_offset < offset
        for entry in entries:
            producer = self.producers.get(entry.producer_id)
            if producer is None or producer.txn_first_offset < 0:
                continue
            if entry.has_open_txn and entry.current_txn_first_offset <= producer.txn_first_offset:
                continue
            if lacks_end or self.gaps.has_after(producer.txn_first_offset):
                self._table.forget_txn(producer)

    def finish(self, coordinator: Coordinator) -> Iterator[Finding]:
        """Yield the log is over: what is open now stays open until a marker comes, as `coordinator` may know."""
        for number, producer in self.producers.items():
            if producer.txn_first_offset < 0:
                continue
            from kdump.topics.hanging import hang_reasons, is_hanging

            age = self._now - producer.timestamp
            parsed = coordinator(number, producer.epoch) if age > self._max_timeout_ms else None
            is_covered = None if parsed is None else parsed.is_covered
            limit = self._max_timeout_ms
            reasons = hang_reasons(producer.timestamp, self._now, is_covered=is_covered, max_timeout_ms=limit)
            text = f"producer {number} (epoch {producer.epoch}) has a transaction open since offset"
            text += f" {producer.txn_first_offset}"
            if reasons:
                text += f", for {duration(age)}"
            if reasons and parsed and parsed.is_covered:
                text += f"; its coordinator has it as {parsed.state}, and ends it when it runs"
            path, position, size = self._began[number]
            code = "KD-TXN-HANGING" if is_hanging(reasons, is_covered=is_covered) else "KD-TXN-OPEN"
            first, last = producer.txn_first_offset, producer.last_offset
            offsets = first, (last if last >= first else None)
            details = {"producerId": number, "producerEpoch": producer.epoch, "openMs": age}
            yield found(code, path, text, position, first, length=size, offsets=offsets, details=details)
