"""From records to batches as a producer would send them: offsets from 0 on, for the leader to assign the real ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kdump.formats.batch import ABORT, COMMIT, CONTROL, HEADER_SIZE, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.sequences import increment_sequence

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_RECORD_OVERHEAD = 21  # the most that Kafka reckons a v2 record takes besides its contents


class Message(NamedTuple):
    """A record to be sent: contents (None: null), timestamp in ms (-1: none), headers (v2 alone has them)."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1
    headers: Sequence[tuple[bytes, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """How records are packed.

    `codec` as in formats.codecs, `level` None for its default. `batch_bytes` is the producer's batch.size: a batch
    ends before the record that would take it beyond, uncompressed. With a `producer_id` batches carry sequence
    numbers from `base_sequence` on; `transactional` ones belong to a transaction, which a marker has to end.
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    batch_bytes: int = 16384
    batch_records: int = 1 << 31
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


def pack(messages: Iterable[Message], packing: Packing) -> Iterator[bytes]:
    """The batches of `messages`; of format v0 and v1, what one append writes: a wrapper, or plain messages. Lazy."""
    sequence = packing.base_sequence
    records: list[NewRecord] = []
    size = HEADER_SIZE
    for value, key, timestamp, headers in messages:
        taken = _RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
        if headers:
            taken += sum(10 + len(name) + (len(content) if content else 0) for name, content in headers)
        if records and (size + taken > packing.batch_bytes or len(records) >= packing.batch_records):
            yield pack_batch(records, packing, sequence)
            sequence = increment_sequence(sequence, len(records)) if sequence >= 0 else sequence
            records, size = [], HEADER_SIZE
        records.append(NewRecord(len(records), timestamp, key, value, headers))
        size += taken
    if records:
        yield pack_batch(records, packing, sequence)


def pack_batch(records: Sequence[NewRecord], packing: Packing, sequence: int) -> bytes:
    """One batch of records whose offsets count from 0."""
    if packing.magic < 2:
        if packing.codec:
            return encode_wrapper(records, packing.magic, packing.codec, level=packing.level)
        return b"".join(encode_message(record, packing.magic) for record in records)
    batch = NewBatch(
        attributes=packing.codec | (TRANSACTIONAL if packing.transactional else 0),
        producer_id=packing.producer_id,
        producer_epoch=packing.producer_epoch,
        base_sequence=sequence,
    )
    return encode_batch(records, batch, level=packing.level)


def pack_marker(
    producer_id: int, producer_epoch: int, timestamp: int, *, commit: bool, coordinator_epoch: int = 0
) -> bytes:
    """The marker that ends a transaction; `timestamp` in ms."""
    key = _MARKER_KEY.pack(0, COMMIT if commit else ABORT)
    record = NewRecord(0, timestamp, key, _MARKER_VALUE.pack(0, coordinator_epoch))
    batch = NewBatch(CONTROL | TRANSACTIONAL, producer_id, producer_epoch)
    return encode_batch([record], batch)
