"""Producer state snapshots (.snapshot): what a partition knows of each producer, just before the file name's offset.

All integers are big-endian.

     0  int16   version                   1
     2  uint32  CRC-32C                   of the bytes from 6 to the end of the file
     6  int32   number of entries
    10          entries of 46 bytes:
     0  int64   producer id
     8  int16   producer epoch
    10  int32   last sequence             of the producer's last batch; -1 without one
    14  int64   last offset               of that batch; -1 without one
    22  int32   offset delta              last offset minus first offset of that batch
    26  int64   timestamp                 ms, of the producer's last batch or marker
    34  int32   coordinator epoch         of the last transaction marker; -1 without one
    38  int64   current txn first offset  of the open transaction; -1 without one

Kafka writes the entries as its hash map gives them, which matters for byte identity only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from kdump.errors import BUFFER_UNDERFLOW, CorruptSnapshotError
from kdump.formats.checksums import crc32c
from kdump.formats.sequences import NO_SEQUENCE, decrement_sequence

SNAPSHOT_VERSION = 1
ENTRY_SIZE = 46

_VERSION = struct.Struct(">h")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")

_CRC_AT = _VERSION.size
_COUNT_AT = _CRC_AT + _CRC.size
_ENTRIES_AT = _COUNT_AT + _COUNT.size

MAX_SNAPSHOT_BYTES = 1 << 28
"""What is read of a snapshot, at most."""

_ENTRIES = "producer_entries"
_ENTRY_FIELDS = (
    "producer_id",
    "epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "current_txn_first_offset",
)
"""Names of the fields in the schema of Kafka up to 3.9."""

_INVALID = "Snapshot failed schema validation: "

_INITIAL_TABLE = 16
_MIN_TREEIFY_TABLE = 64
_LONG_CHAIN = 8


class ProducerEntry(NamedTuple):
    """The state of one producer; the fields are those of the file, -1 where Kafka has nothing to say."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def has_batch(self) -> bool:
        """Whether the producer's last data batch is known (it is not after transaction markers alone)."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """The first sequence number of the last batch; -1 without a batch."""
        return decrement_sequence(self.last_sequence, self.offset_delta) if self.has_batch else NO_SEQUENCE

    @property
    def has_open_txn(self) -> bool:
        """Whether a transaction of the producer is open in this partition."""
        return self.current_txn_first_offset >= 0


class TruncatedSnapshotError(CorruptSnapshotError):
    """The bytes end inside the header or an entry. Kafka's own text for it says `null` where ours says what."""

    kafka_text = _INVALID + "null"


def decode_producer_snapshot(data: bytes | memoryview, *, max_producers: int | None = None) -> list[ProducerEntry]:
    """Return the entries of a snapshot in the file's order.

    Raises CorruptSnapshotError, in the order of Kafka's reader: version, number of entries, entries, CRC. More entries
    than `max_producers` are an error as in Kafka 4.2.2, 4.4 and later.
    Bytes after the last entry are no error of their own, but the CRC covers them.
    """
    _need(data, _VERSION.size, "the version")
    (version,) = _VERSION.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"{_INVALID}Snapshot contained an unknown file version {version}")
    _need(data, _ENTRIES_AT, "the header")
    (count,) = _COUNT.unpack_from(data, _COUNT_AT)
    _check_count(count, len(data) - _ENTRIES_AT)
    if max_producers is not None and count > max_producers:
        what = f"which exceeds the maximum allowed size of {max_producers}"
        raise CorruptSnapshotError(f"{_INVALID}Tried to read a collection of size {count}, {what}.")
    end = _ENTRIES_AT + count * ENTRY_SIZE
    _need(data, end, f"{count} entries")
    _check_crc(data)
    return list(map(ProducerEntry._make, _ENTRY.iter_unpack(memoryview(data)[_ENTRIES_AT:end])))


def schema_fault(data: bytes | memoryview) -> str | None:
    """Return what the reader of Kafka up to 3.9 says of bytes that are no snapshot; None where it says no more of them.

    It reads everything by a hand-written schema (org.apache.kafka.common.protocol.types.Schema) before it looks at the
    version.
    """
    if len(data) < _ENTRIES_AT:
        starts = (("version", _VERSION.size), ("crc", _COUNT_AT), (_ENTRIES, _ENTRIES_AT))
        return _underflow(next(name for name, end in starts if len(data) < end))
    (count,) = _COUNT.unpack_from(data, _COUNT_AT)
    left = len(data) - _ENTRIES_AT
    if count < 0:
        return f"{_INVALID}Error reading field '{_ENTRIES}': Array size {count} cannot be negative"
    if count > left:
        what = f"Error reading array of size {count}, only {left} bytes available"
        return f"{_INVALID}Error reading field '{_ENTRIES}': {what}"
    if count * ENTRY_SIZE > left:
        return _underflow(_ENTRIES, _field_at(left % ENTRY_SIZE))
    (version,) = _VERSION.unpack_from(data)
    return None if version == SNAPSHOT_VERSION else f"Snapshot contained an unknown file version {version}"


def _underflow(*fields: str) -> str:
    path = "".join(f"Error reading field '{field}': " for field in fields)
    return f"{_INVALID}{path}{BUFFER_UNDERFLOW}"


def _field_at(size: int) -> str:
    """Return the field of an entry that `size` bytes have no room for."""
    ends = accumulate(struct.calcsize(f">{kind}") for kind in _ENTRY.format[1:])
    return next(name for name, end in zip(_ENTRY_FIELDS, ends, strict=True) if size < end)


def encode_producer_snapshot(entries: Iterable[ProducerEntry], *, java_order: bool = False) -> bytes:
    """Return the bytes of a snapshot of `entries` in the given order.

    With `java_order`, in the order in which Kafka would write them had it met the producers in the given order; of
    several entries for one producer the last one counts.
    """
    if java_order:
        by_id = {entry.producer_id: entry for entry in entries}
        entries = [by_id[producer_id] for producer_id in hash_map_order(by_id)]
    body = [_ENTRY.pack(*entry) for entry in entries]
    covered = _COUNT.pack(len(body)) + b"".join(body)
    return _VERSION.pack(SNAPSHOT_VERSION) + _CRC.pack(crc32c(covered)) + covered


def hash_map_order(producer_ids: Iterable[int]) -> list[int]:
    """Return the ids as a `HashMap<Long, ?>` iterates over them after they were put into it in the given order.

    Known limits: a map that once held more ids may have kept a larger table, and nine or more ids that share one
    bucket of a table of 64 or more would be kept in a tree, whose order is not reproduced.
    """
    hashes = {producer_id: _spread_hash(producer_id) for producer_id in producer_ids}
    mask = _table_size(list(hashes.values())) - 1
    return sorted(hashes, key=lambda producer_id: hashes[producer_id] & mask)


def _spread_hash(value: int) -> int:
    """Return `Long.hashCode`, with its high half folded into the low one as HashMap does."""
    unsigned = value & 0xFFFF_FFFF_FFFF_FFFF
    code = (unsigned ^ unsigned >> 32) & 0xFFFF_FFFF
    return code ^ code >> 16


def _table_size(hashes: list[int]) -> int:
    """Return the buckets for these distinct keys: doubled at a load of 3/4, and early where a chain gets long."""
    size = _INITIAL_TABLE
    for number, code in enumerate(hashes, 1):
        if size < _MIN_TREEIFY_TABLE:
            chain = sum((other ^ code) & size - 1 == 0 for other in hashes[:number])
            size *= 2 if chain > _LONG_CHAIN else 1
        if number > size * 3 // 4:
            size *= 2
    return size


def _check_count(count: int, left: int) -> None:
    if count < 0:
        raise CorruptSnapshotError(f"{_INVALID}non-nullable field producerEntries was serialized as null")
    if count > left:
        raise CorruptSnapshotError(
            f"{_INVALID}Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
        )


def _check_crc(data: bytes | memoryview) -> None:
    (stored,) = _CRC.unpack_from(data, _CRC_AT)
    computed = crc32c(memoryview(data)[_COUNT_AT:])
    if stored != computed:
        raise CorruptSnapshotError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )


def _need(data: bytes | memoryview, size: int, what: str) -> None:
    if len(data) < size:
        raise TruncatedSnapshotError(
            f"{_INVALID}{what} would end at byte {size}, but the data ends at byte {len(data)}"
        )


def stray_offsets(offsets: Iterable[int], bases: Iterable[int]) -> list[int]:
    """Return the offsets of the snapshots that a broker deletes at start: all that are no segment's but the last."""
    known = set(bases)
    stray = sorted(offset for offset in offsets if offset not in known)
    if stray and known and stray[-1] > max(known):
        stray.pop()
    return stray
