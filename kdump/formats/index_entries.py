"""Entries of a segment's three index files: what the bytes mean, and the sanity checks that Kafka has for them.

All integers are big-endian; there is neither header nor checksum. A relative offset counts from the base offset in
the file's name; it is signed, so a damaged one may lead below the base offset.

    .index      8 bytes an entry
     0  int32   relative offset     last offset of a batch
     4  int32   position            byte position in the .log from which a scan finds that batch

    .timeindex  12 bytes an entry
     0  int64   timestamp           largest timestamp of the segment so far, ms
     8  int32   relative offset     last offset of the first batch that has it

    .txnindex   34 bytes an entry, one for each aborted transaction whose marker is in the segment
     0  int16   version             0
     2  int64   producer id
    10  int64   first offset        of the transaction in this partition
    18  int64   last offset         of the ABORT marker
    26  int64   last stable offset  when the marker was written

While a segment is active, .index and .timeindex are preallocated: used entries, then zeros, and nothing records how
many entries are used. A number of bytes that is not a multiple of an entry's size is cut down to one by all readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.errors import CorruptIndexError
from kdump.formats import names
from kdump.formats.batch import wrap64

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
ABORTED_TXN_SIZE = 34

ENTRY_SIZES: dict[str, int] = {
    names.OFFSET_INDEX: OFFSET_ENTRY_SIZE,
    names.TIME_INDEX: TIME_ENTRY_SIZE,
    names.TXN_INDEX: ABORTED_TXN_SIZE,
}
"""The bytes of an entry, by kind of index."""

ABORTED_TXN_VERSION = 0

_OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_ABORTED_TXN = struct.Struct(">hqqqq")

_MIN_RELATIVE, _MAX_RELATIVE = -(1 << 31), (1 << 31) - 1
_OFFSETS = 1 << 63

Buffer = bytes | bytearray | memoryview  # a mapped file goes in as a memoryview of it


class OffsetIndexEntry(NamedTuple):
    """The batch that holds `offset` (absolute) is found by scanning the .log from byte `position` on."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """Up to `offset` (absolute) the segment's largest timestamp is `timestamp`, in ms."""

    timestamp: int
    offset: int


class AbortedTxn(NamedTuple):
    """One aborted transaction of one producer; all offsets are absolute, `last_offset` is the ABORT marker's."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def version_seen(self) -> int:
        """The version that Kafka up to 4.3 sees and prints: it reads the high byte of the field only, as signed."""
        return self.version >> 8

    def __str__(self) -> str:
        return (
            f"AbortedTxn(version={self.version_seen}, producerId={self.producer_id}, firstOffset={self.first_offset}, "
            f"lastOffset={self.last_offset}, lastStableOffset={self.last_stable_offset})"
        )


class UnknownTxnVersionError(CorruptIndexError):
    """The version of an aborted transaction is not 0. Kafka has no repair for it: loading the log fails."""


def absolute_offset(relative: int, base_offset: int) -> int:
    """Return the offset that an entry means. As in Kafka it wraps around where it goes beyond the largest there is."""
    offset = base_offset + relative
    return offset if -_OFFSETS <= offset < _OFFSETS else wrap64(offset)


def decode_offset_entries(data: Buffer, base_offset: int) -> Iterator[OffsetIndexEntry]:
    """Yield all entries of an .index file, a zero tail included."""
    for relative, position in _OFFSET_ENTRY.iter_unpack(_whole(data, OFFSET_ENTRY_SIZE)):
        yield OffsetIndexEntry(absolute_offset(relative, base_offset), position)


def decode_time_entries(data: Buffer, base_offset: int) -> Iterator[TimeIndexEntry]:
    """Yield all entries of a .timeindex file, a zero tail included."""
    for timestamp, relative in TIME_ENTRY.iter_unpack(_whole(data, TIME_ENTRY_SIZE)):
        yield TimeIndexEntry(timestamp, absolute_offset(relative, base_offset))


def decode_aborted_txns(data: Buffer) -> Iterator[AbortedTxn]:
    """Return all entries of a .txnindex file, of whatever version."""
    return map(AbortedTxn._make, _ABORTED_TXN.iter_unpack(_whole(data, ABORTED_TXN_SIZE)))


def offset_entry_at(data: Buffer, n: int, base_offset: int) -> OffsetIndexEntry:
    """Return entry number `n` of an .index file; the caller keeps 0 <= n < len(data) // 8."""
    relative, position = _OFFSET_ENTRY.unpack_from(data, n * OFFSET_ENTRY_SIZE)
    return OffsetIndexEntry(absolute_offset(relative, base_offset), position)


def time_entry_at(data: Buffer, n: int, base_offset: int) -> TimeIndexEntry:
    """Return entry number `n` of a .timeindex file; the caller keeps 0 <= n < len(data) // 12."""
    timestamp, relative = TIME_ENTRY.unpack_from(data, n * TIME_ENTRY_SIZE)
    return TimeIndexEntry(timestamp, absolute_offset(relative, base_offset))


def encode_offset_entries(entries: Iterable[OffsetIndexEntry], base_offset: int) -> bytes:
    """Return the bytes of an .index file; raises CorruptIndexError where an offset is too far from `base_offset`."""
    pack = _OFFSET_ENTRY.pack
    return b"".join(pack(_relative(offset, base_offset), position) for offset, position in entries)


def encode_time_entries(entries: Iterable[TimeIndexEntry], base_offset: int) -> bytes:
    """Return the bytes of a .timeindex file; raises CorruptIndexError where an offset is too far from `base_offset`."""
    pack = TIME_ENTRY.pack
    return b"".join(pack(timestamp, _relative(offset, base_offset)) for timestamp, offset in entries)


def encode_aborted_txns(txns: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a .txnindex file."""
    return b"".join(_ABORTED_TXN.pack(*txn) for txn in txns)


def check_offset_index(size: int, base_offset: int, last_relative_offset: int, path: str) -> None:
    """Make Kafka's sanity check of an .index file of `size` bytes; a zero tail passes it.

    `last_relative_offset` is that of entry size // 8 - 1, and of no importance where there is none.
    Raises CorruptIndexError.
    """
    if size >= OFFSET_ENTRY_SIZE and last_relative_offset < 0:
        raise CorruptIndexError(
            f"Corrupt index found, index file {path} has non-zero size but the last offset is "
            f"{base_offset + last_relative_offset} which is less than the base offset {base_offset}"
        )
    if size % OFFSET_ENTRY_SIZE:
        raise CorruptIndexError(
            f"Index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
            f"{OFFSET_ENTRY_SIZE}"
        )


def check_time_index(
    size: int, base_offset: int, first_timestamp: int, last_timestamp: int, last_relative_offset: int, path: str
) -> None:
    """Make Kafka's sanity check of a .timeindex file of `size` bytes; a zero tail normally fails it.

    The last entry is entry size // 12 - 1; timestamps and offset are of no importance where there is no entry.
    Raises CorruptIndexError.
    """
    if size >= TIME_ENTRY_SIZE:
        found = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if last_timestamp < first_timestamp:
            raise CorruptIndexError(
                f"{found} timestamp is {last_timestamp} which is less than the first timestamp {first_timestamp}"
            )
        if last_relative_offset < 0:
            raise CorruptIndexError(
                f"{found} offset is {base_offset + last_relative_offset} "
                f"which is less than the first offset {base_offset}"
            )
    if size % TIME_ENTRY_SIZE:
        raise CorruptIndexError(
            f"Time index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
            f"{TIME_ENTRY_SIZE}"
        )


def check_aborted_txn_version(txn: AbortedTxn, path: str, *, is_int16: bool = True) -> None:
    """Check what Kafka checks at each entry that it reads, for whatever purpose; raises UnknownTxnVersionError.

    `is_int16`: as since 4.4, where a generated class reads the version; before it was a byte, of which a negative one
    was taken.
    """
    if is_int16 and txn.version != ABORTED_TXN_VERSION:
        raise UnknownTxnVersionError(
            f"Unexpected aborted transaction version {txn.version} in transaction index {path}, "
            f"supported version range is {ABORTED_TXN_VERSION} to {ABORTED_TXN_VERSION}"
        )
    if txn.version_seen > ABORTED_TXN_VERSION:
        raise UnknownTxnVersionError(
            f"Unexpected aborted transaction version {txn.version_seen} in transaction index {path}, "
            f"current version is {ABORTED_TXN_VERSION}"
        )


def check_txn_index(txns: Iterable[AbortedTxn], base_offset: int, path: str, *, is_int16: bool = True) -> None:
    """Make Kafka's sanity check of a .txnindex file: raises UnknownTxnVersionError or CorruptIndexError."""
    for txn in txns:
        check_aborted_txn_version(txn, path, is_int16=is_int16)
        if txn.last_offset < base_offset:
            raise CorruptIndexError(
                f"Last offset of aborted transaction {txn} in index {path} is less than start offset {base_offset}"
            )


def _whole(data: Buffer, entry_size: int) -> memoryview:
    view = memoryview(data)
    return view[: len(view) - len(view) % entry_size]


def _relative(offset: int, base_offset: int) -> int:
    relative = wrap64(offset - base_offset)
    if not _MIN_RELATIVE <= relative <= _MAX_RELATIVE:
        raise CorruptIndexError(
            f"Integer overflow for offset: {offset} (it is {relative} from the base offset {base_offset})"
        )
    return relative
