"""Producers and transactions along the log: sequences, epochs, open transactions.

State begins where the log does: of what retention has deleted, a producer's first batch in the log is believed.
A batch that the cleaner has emptied but kept for its sequence opens no transaction: it may have dropped the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kdump.findings.catalogue import Finding, found
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.producer_fields import has_running_sequences
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.sequences import MAX_SEQUENCE, last_sequence
from kdump.formats.words import duration
from kdump.transactions.partition import LATE_BUFFER_MS, MAX_TIMEOUT_MS, opens_transaction
from kdump.verify.column import is_uniform
from kdump.verify.gaps import Gaps
from kdump.verify.sheets import Sheet

HANGING_MS = MAX_TIMEOUT_MS + LATE_BUFFER_MS
"""The longest time that a transaction may take by default, and what kafka-transactions.sh adds to it."""

Coordinator = Callable[[int, int], str | None]
"""The state that a producer's coordinator has of its transaction, by producer id and epoch; None where it is unknown,
or no marker will come from there."""


@dataclass(slots=True)
class Producer:
    """What the log says of a producer so far; -1 where there is nothing."""

    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    timestamp: int = -1
    txn_first_offset: int = -1
    txn_position: int = -1
    txn_path: str = ""
    missing: int = 0  # offsets that the log lacked when its last batch came


class AbortedHere(NamedTuple):
    """An aborted transaction as the log has it; `position` is the byte position of its marker.

    `stable_offset` is the last stable offset that a broker had behind the marker, unless a transaction was open then
    whose first batch the log lacks.
    """

    producer_id: int
    first_offset: int
    position: int
    stable_offset: int


class ProducerCheck:
    """Follows the producers of a partition's log."""

    def __init__(self, now: int, topic: str = "") -> None:
        """`now` is the clock, in ms; `topic` the partition's, if known: sequences do not run in every topic."""
        self._now = now
        self._checks_sequences = has_running_sequences(topic)
        self._producers: dict[int, Producer] = {}
        self._path = ""
        self._missing = 0  # offsets that the log lacks: a compacted log lacks sequences with them
        self._next_offset: int | None = None
        self._aborted: dict[int, AbortedHere] = {}
        self._markers: dict[int, int] = {}
        self._open: dict[int, int] = {}  # first offset of every open transaction by producer, the earliest one first
        self.gaps = Gaps()

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._path = path
        self._aborted.clear()
        self._markers.clear()

    def sheet(self, sheet: Sheet) -> Iterator[Finding]:
        """Good batches."""
        if is_uniform(sheet.producer_id, -1):
            self._pass(sheet)
            return
        columns = (
            sheet.producer_id,
            sheet.producer_epoch,
            sheet.base_sequence,
            sheet.base_offset,
            sheet.last_offset,
            sheet.attributes,
            sheet.max_timestamp,
            sheet.count,
        )
        if self._next_offset is None:
            self.gaps.begin(sheet.base_offset[0])
        for row, each in enumerate(zip(*columns, strict=True)):
            number, epoch, sequence, base, last, attributes, timestamp, count = each
            producer = self._producers.get(number)
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
                producer.timestamp = timestamp
                producer.missing = self._missing
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
                yield from self._marker(sheet, row, number, epoch, producer)
                continue
            if producer is None:
                producer = self._producers[number] = Producer(epoch)
            elif fault := self._fault(producer, number, epoch, sequence):
                yield self._at(*fault, sheet, row)
            producer.epoch = epoch
            producer.last_sequence = last_sequence(sequence, last - base)
            producer.last_offset = last
            producer.timestamp = timestamp
            producer.missing = self._missing
            if opens_transaction(count):
                yield from self._transaction(sheet, row, number, producer)
            else:
                self.gaps.add(base, last + 1)

    def _transaction(self, sheet: Sheet, row: int, number: int, producer: Producer) -> Iterator[Finding]:
        """Begin the producer's transaction with a batch, or say that a batch is not part of the one that is open."""
        if sheet.attributes[row] & TRANSACTIONAL:
            if producer.txn_first_offset < 0:
                producer.txn_first_offset = self._open[number] = sheet.base_offset[row]
                producer.txn_position = sheet.position[row]
                producer.txn_path = self._path
        elif producer.txn_first_offset >= 0:
            text = f"producer {number} has a transaction open from offset {producer.txn_first_offset} on, this"
            yield self._at("KD-TXN-MIXED", f"{text} batch is not part of it", sheet, row)

    def _fault(self, producer: Producer, number: int, epoch: int, sequence: int) -> tuple[str, str] | None:
        """What is wrong with a batch's producer epoch or sequence after the batches of the producer before."""
        may_skip = self._missing - producer.missing
        if epoch < producer.epoch:
            return "KD-PRODUCER-EPOCH", f"producer {number} goes back from epoch {producer.epoch} to epoch {epoch}"
        if producer.last_sequence < 0 or not self._checks_sequences:
            return None
        if epoch > producer.epoch:
            if sequence > may_skip:
                text = f"producer {number} begins epoch {epoch} with sequence {sequence} instead of 0"
                return "KD-PRODUCER-SEQUENCE", text
        elif sequence >= 0:
            wanted = producer.last_sequence + 1 if producer.last_sequence < MAX_SEQUENCE else 0
            if (sequence - wanted) % (MAX_SEQUENCE + 1) > may_skip:
                text = f"producer {number} of epoch {epoch} goes from sequence {producer.last_sequence} to {sequence}"
                return "KD-PRODUCER-SEQUENCE", text
        return None

    def _pass(self, sheet: Sheet) -> None:
        """Batches without producers: how many offsets are missing between them."""
        last, expected = sheet.last_offset, self._next_offset
        if expected is None:
            self.gaps.begin(sheet.base_offset[0])
            expected = max(sheet.base_offset[0], 0)
        if is_uniform(sheet.magic, 2):
            there = sum(last) - sum(sheet.base_offset) + len(last)
            missing = max(0, last[-1] + 1 - expected - there)
            if missing:
                self.gaps.add_between(sheet.base_offset, last, expected)
            if self._producers:
                self._missing += missing
        else:
            self.gaps.add(expected, last[-1] + 1)
        self._next_offset = last[-1] + 1

    def _at(self, code: str, message: str, sheet: Sheet, row: int) -> Finding:
        return found(code, self._path, message, sheet.position[row], sheet.base_offset[row])

    def _marker(self, sheet: Sheet, row: int, number: int, epoch: int, producer: Producer | None) -> Iterator[Finding]:
        marker = sheet.markers.get(row)
        if marker is None or marker.fault or not marker.ends_transaction:
            return
        offset = sheet.base_offset[row]
        if producer is None:
            producer = self._producers[number] = Producer(epoch)
        elif epoch < producer.epoch:
            text = f"the marker of producer {number} has epoch {epoch}, its batches have epoch {producer.epoch}"
            yield self._at("KD-PRODUCER-EPOCH", text, sheet, row)
        if epoch != producer.epoch:
            producer.epoch, producer.last_sequence, producer.last_offset = epoch, -1, -1
        first = producer.txn_first_offset
        self._open.pop(number, None)
        if marker.type == ABORT:
            self._markers[offset] = number
            if first >= 0:
                stable_offset = next(iter(self._open.values()), offset + 1)
                self._aborted[offset] = AbortedHere(number, first, sheet.position[row], stable_offset)
        producer.txn_first_offset = -1
        producer.timestamp = marker.timestamp

    @property
    def aborted(self) -> dict[int, AbortedHere]:
        """The transactions that were aborted in the segment, by the offset of their marker."""
        return self._aborted

    @property
    def abort_markers(self) -> dict[int, int]:
        """The producer of each ABORT marker in the segment, by its offset."""
        return self._markers

    @property
    def producers(self) -> dict[int, Producer]:
        """Every producer met so far, by its id."""
        return self._producers

    def settle(self, entries: Iterable[ProducerEntry]) -> None:
        """Take in a snapshot made here: a transaction that it has closed lost its marker to the cleaner since."""
        for entry in entries:
            producer = self._producers.get(entry.producer_id)
            if producer is None or producer.txn_first_offset < 0 or entry.has_open_txn:
                continue
            if self.gaps.has_after(producer.txn_first_offset):
                producer.txn_first_offset = -1
                self._open.pop(entry.producer_id, None)

    def finish(self, coordinator: Coordinator) -> Iterator[Finding]:
        """The log is over: what is open now stays open until a marker comes, as `coordinator` may know."""
        for number, producer in self._producers.items():
            if producer.txn_first_offset < 0:
                continue
            age = self._now - producer.timestamp
            is_late = producer.timestamp >= 0 and age > HANGING_MS
            state = coordinator(number, producer.epoch) if is_late else None
            is_hanging = is_late and state is None
            text = f"producer {number} (epoch {producer.epoch}) has a transaction open since offset"
            text += f" {producer.txn_first_offset}"
            if is_late:
                text += f", for {duration(age)}"
            if state:
                text += f"; its coordinator has it as {state}, and ends it when it runs"
            yield found(
                "KD-TXN-HANGING" if is_hanging else "KD-TXN-OPEN",
                producer.txn_path,
                text,
                producer.txn_position,
                producer.txn_first_offset,
            )
