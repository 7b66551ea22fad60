"""Producers and transactions along the log: sequences, epochs, open transactions, and the .txnindex of each segment.

State begins where the log does: of what retention has deleted, a producer's first batch in the log is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.errors import CorruptSnapshotError
from kdump.formats import names
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.index_entries import ABORTED_TXN_SIZE, AbortedTxn
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.formats.sequences import MAX_SEQUENCE, last_sequence
from kdump.storage.segment import Segment
from kdump.verify.findings import Finding, found
from kdump.verify.log import is_uniform
from kdump.verify.sheets import Sheet

HANGING_MS = 900_000 + 300_000
"""The longest time that a transaction may take by default, and what kafka-transactions.sh adds to it."""


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


class ProducerCheck:
    """Follows the producers of a partition's log."""

    def __init__(self, now: int) -> None:
        """`now` is the clock, in ms."""
        self._now = now
        self._producers: dict[int, Producer] = {}
        self._path = ""
        self._aborted: dict[int, tuple[int, int, int]] = {}  # marker's offset: producer, first offset, position
        self._markers: dict[int, int] = {}  # the offset of each ABORT in the segment: producer

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._path = path
        self._aborted.clear()
        self._markers.clear()

    def sheet(self, sheet: Sheet) -> Iterator[Finding]:
        """Good batches."""
        if is_uniform(sheet.producer_id, -1):
            return
        columns = (
            sheet.producer_id,
            sheet.producer_epoch,
            sheet.base_sequence,
            sheet.base_offset,
            sheet.last_offset,
            sheet.attributes,
            sheet.max_timestamp,
        )
        producers = self._producers
        for row, (number, epoch, sequence, base, last, attributes, timestamp) in enumerate(zip(*columns, strict=True)):
            if number < 0 or sheet.magic[row] < 2:
                continue
            producer = producers.get(number)
            if attributes & CONTROL:
                yield from self._marker(sheet, row, number, epoch, producer)
                continue
            if producer is None:
                producer = producers[number] = Producer(epoch)
            elif epoch != producer.epoch:
                if epoch < producer.epoch:
                    yield self._at(
                        "KD-PRODUCER-EPOCH",
                        sheet,
                        row,
                        f"producer {number} goes back from epoch {producer.epoch} to epoch {epoch}",
                    )
                elif sequence != 0 and producer.last_sequence >= 0:
                    yield self._at(
                        "KD-PRODUCER-SEQUENCE",
                        sheet,
                        row,
                        f"producer {number} begins epoch {epoch} with sequence {sequence} instead of 0",
                    )
                producer.epoch = epoch
            elif producer.last_sequence >= 0 and sequence >= 0:
                wanted = producer.last_sequence + 1 if producer.last_sequence < MAX_SEQUENCE else 0
                if sequence != wanted:
                    yield self._at(
                        "KD-PRODUCER-SEQUENCE",
                        sheet,
                        row,
                        f"producer {number} of epoch {epoch} goes from sequence {producer.last_sequence} to {sequence}",
                    )
            producer.last_sequence = last_sequence(sequence, last - base)
            producer.last_offset = last
            producer.timestamp = timestamp
            if attributes & TRANSACTIONAL:
                if producer.txn_first_offset < 0:
                    producer.txn_first_offset = base
                    producer.txn_position = sheet.position[row]
                    producer.txn_path = self._path
            elif producer.txn_first_offset >= 0:
                yield self._at(
                    "KD-TXN-MIXED",
                    sheet,
                    row,
                    f"producer {number} has a transaction open from offset {producer.txn_first_offset} on, this batch is"
                    " not part of it",
                )

    def _at(self, code: str, sheet: Sheet, row: int, message: str) -> Finding:
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
            yield self._at("KD-PRODUCER-EPOCH", sheet, row, text)
        if epoch != producer.epoch:
            producer.epoch, producer.last_sequence, producer.last_offset = epoch, -1, -1
        if marker.type == ABORT:
            self._markers[offset] = number
            if producer.txn_first_offset >= 0:
                self._aborted[offset] = number, producer.txn_first_offset, sheet.position[row]
        producer.txn_first_offset = -1
        producer.timestamp = marker.timestamp

    def close_segment(self, segment: Segment) -> Iterator[Finding]:
        """Hold the segment's .txnindex against the markers. Raises OSError."""
        path = segment.path(names.TXN_INDEX)
        missing = dict(self._aborted)
        if segment.has(names.TXN_INDEX):
            yield from self._txn_index(segment, path, missing)
        for offset, (number, first, position) in missing.items():
            yield found(
                "KD-TXN-MISSING",
                path,
                f"the transaction of producer {number} from offset {first} on, aborted at offset {offset} (byte"
                f" {position} of the log), has no entry",
                offset=offset,
            )

    def _txn_index(
        self, segment: Segment, path: str, missing: dict[int, tuple[int, int, int]]
    ) -> Iterator[Finding]:
        before = -1
        with segment.txn_index() as index:
            if index.size % ABORTED_TXN_SIZE:
                left = index.size % ABORTED_TXN_SIZE
                position = index.size - left
                yield found("KD-TXN-LENGTH", path, f"{left} bytes are left behind the last entry", position)
            for number, txn in enumerate(index):
                position = number * ABORTED_TXN_SIZE
                if txn.version != 0:
                    code = "KD-TXN-VERSION" if txn.version_seen > 0 else "KD-TXN-ENTRY"
                    yield found(code, path, f"entry {number} has version {txn.version}", position, txn.last_offset)
                    continue
                if txn.last_offset <= before or txn.first_offset > txn.last_offset or txn.first_offset < 0:
                    text = f"entry {number} is out of order: {txn}"
                    yield found("KD-TXN-ENTRY", path, text, position, txn.last_offset)
                    continue
                before = txn.last_offset
                yield from self._entry(path, number, txn, missing)

    def _entry(
        self, path: str, number: int, txn: AbortedTxn, missing: dict[int, tuple[int, int, int]]
    ) -> Iterator[Finding]:
        position = number * ABORTED_TXN_SIZE
        if self._markers.get(txn.last_offset) != txn.producer_id:
            text = f"entry {number} names a marker of producer {txn.producer_id} at offset {txn.last_offset}: there is none"
            yield found("KD-TXN-ORPHAN", path, text, position, txn.last_offset)
            return
        known = missing.pop(txn.last_offset, None)
        if known and txn.first_offset > known[1]:
            text = f"entry {number} begins at offset {txn.first_offset}, its transaction at offset {known[1]}"
            yield found("KD-TXN-ENTRY", path, text, position, txn.first_offset)

    def snapshot(self, path: str, data: bytes, *, compares: bool) -> Iterator[Finding]:
        """Hold a snapshot against the log before its offset, which has just been walked if it `compares`."""
        try:
            entries = decode_producer_snapshot(data)
        except CorruptSnapshotError as error:
            yield found("KD-SNAP-CORRUPT", path, str(error))
            return
        if not compares:
            return
        for entry in entries:
            producer = self._producers.get(entry.producer_id)
            if producer and (text := _disagreement(entry, producer)):
                yield found("KD-SNAP-STATE", path, f"producer {entry.producer_id}: {text}", offset=entry.last_offset)

    def finish(self) -> Iterator[Finding]:
        """The log is over: what is open now stays open until a marker comes."""
        for number, producer in self._producers.items():
            if producer.txn_first_offset < 0:
                continue
            age = self._now - producer.timestamp
            is_hanging = producer.timestamp >= 0 and age > HANGING_MS
            text = f"a transaction of producer {number} (epoch {producer.epoch}) is open from offset"
            text += f" {producer.txn_first_offset} on"
            if is_hanging:
                text += f"; its last record is {age // 1000} s old"
            yield found(
                "KD-TXN-HANGING" if is_hanging else "KD-TXN-OPEN",
                producer.txn_path,
                text,
                producer.txn_position,
                producer.txn_first_offset,
            )


def _disagreement(entry: ProducerEntry, producer: Producer) -> str:
    """How a snapshot's entry differs from what the log says; empty where they agree or cannot be compared."""
    if producer.last_offset >= 0 and entry.last_offset >= 0 and entry.last_offset != producer.last_offset:
        return f"its last batch ends at offset {producer.last_offset}, the snapshot says {entry.last_offset}"
    if producer.last_offset >= 0 and entry.last_offset >= 0 and entry.last_sequence != producer.last_sequence:
        return f"its last sequence is {producer.last_sequence}, the snapshot says {entry.last_sequence}"
    if entry.producer_epoch != producer.epoch:
        return f"its epoch is {producer.epoch}, the snapshot says {entry.producer_epoch}"
    if producer.txn_first_offset >= 0 and entry.current_txn_first_offset != producer.txn_first_offset:
        return (
            f"a transaction is open from offset {producer.txn_first_offset} on, the snapshot says"
            f" {entry.current_txn_first_offset}"
        )
    return ""
