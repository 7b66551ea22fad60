"""What compaction does with every record: note its key's offset, look that up again, encode what stays.

The sources of records are as for `decode`: `payloads[row - first]`, or the block's data where that is None.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import md5
from struct import Struct

from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    wrap32,
    wrap64,
)
from kdump.formats.encode import MAX_BYTES, NewBatch, NewRecord, encode_record, frame_batch
from kdump.kernels.batch_verdicts import COPIED, GONE, OTHER, REBUILT
from kdump.kernels.portable.records import Payloads, headers, source_of
from kdump.kernels.verdicts import EXPIRED, KEYLESS, RETAINED, RETAINED_TOMBSTONE, SUPERSEDED

ENTRY_SIZE = 24
FIRST_SLOTS = 1 << 12
_HASH_SIZE = 16
_OFFSET = Struct(">q")
_LAST_WORD = _HASH_SIZE - 4
_EMPTY = bytes(ENTRY_SIZE)


class KeyOffsets:
    """The latest offset (absolute) of each key. A subclass says how they are kept."""

    size = 0
    """The number of different keys."""

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` has `offset`; False where there is no room for more keys, be it that this one is known."""
        raise NotImplementedError

    def get(self, key: bytes) -> int:
        """Return the offset noted for `key`; -1 where there is none."""
        raise NotImplementedError

    def take(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        wanted: bytes | bytearray,
        start_offset: int,
    ) -> int:
        """Note the keys of decoded records from `start_offset` (absolute) on, of the rows with `wanted[row - first]`.

        The number of the first record that there is no room for, or `records.length`.
        """
        for at in range(records.length):
            row = records.row[at]
            if not wanted[row - first] or records.key_length[at] < 0 or records.offset[at] < start_offset:
                continue
            if not self.put(_key(block, records, at, payloads[row - first]), records.offset[at]):
                return at
        return records.length

    def classify(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        latest_offset: int,
        now: int,
        keeps_legacy_tombstones: bool,
        taken_row: int,  # noqa: ARG002 - the compiled kernel goes by these
        taken_stop: int,  # noqa: ARG002
    ) -> bytearray:
        """Return what becomes of each decoded record: a number of kdump.kernels.verdicts.

        Records beyond `latest_offset` (absolute) stay whatever they are. A tombstone goes when `now` (ms) has reached
        its batch's delete horizon; those of format v0 and v1 do unless `keeps_legacy_tombstones`. The rows from
        `taken_row` to `taken_stop` - 1 were taken whole by `take`: kernels may remember what they found out then.
        """
        verdicts = bytearray(records.length)
        for at in range(records.length):
            row = records.row[at]
            is_tombstone = records.value_length[at] < 0
            verdict = RETAINED_TOMBSTONE if is_tombstone else RETAINED
            if records.offset[at] <= latest_offset:
                if records.key_length[at] < 0:
                    verdict = KEYLESS
                elif records.offset[at] < self.get(_key(block, records, at, payloads[row - first])):
                    verdict = SUPERSEDED
                elif is_tombstone and not _is_retained(block, row, now, keeps_legacy_tombstones):
                    verdict = EXPIRED
            verdicts[at] = verdict
        return verdicts


class OffsetMap(KeyOffsets):
    """Kafka's SkimpyOffsetMap: keys are known by their MD5 sums alone, and two of the same sum are one.

    A table of entries of 24 bytes, the sum and the offset, probed first by the words of the sum. `slots` of them are
    all that the memory has room for; the table begins smaller and is doubled when half of it is taken,
    which nothing but time depends on.
    """

    def __init__(self, memory: int, limit: int) -> None:
        """Make a map of `memory` bytes that takes at most `limit` different keys."""
        self.slots = memory // ENTRY_SIZE
        if not 0 <= limit <= self.slots or not self.slots:
            raise ValueError(f"{memory} bytes have no room for {limit} keys")
        self.limit = limit
        self.size = 0
        self._slots = min(self.slots, FIRST_SLOTS)
        self._table = bytearray(self._slots * ENTRY_SIZE)

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` has `offset`; False when the map has reached its limit, be it that the key is known."""
        if self.size >= self.limit:
            return False
        if 2 * self.size >= self._slots < self.slots:
            self._grow()
        self._note(md5(key, usedforsecurity=False).digest(), offset)
        return True

    def _note(self, digest: bytes, offset: int) -> None:
        """Note a key in an empty entry, or in its own: there must be one."""
        table, attempt = self._table, 0
        while True:
            at = self._slot(digest, attempt)
            if table[at : at + ENTRY_SIZE] == _EMPTY:
                table[at : at + _HASH_SIZE] = digest
                self.size += 1
                break
            if table[at : at + _HASH_SIZE] == digest:
                break
            attempt += 1
        _OFFSET.pack_into(table, at + _HASH_SIZE, offset)

    def _grow(self) -> None:
        """Make a larger table, up to all of the memory."""
        old = self._table
        self._slots = min(2 * self._slots, self.slots)
        self._table = bytearray(self._slots * ENTRY_SIZE)
        self.size = 0
        for at in range(0, len(old), ENTRY_SIZE):
            if old[at : at + ENTRY_SIZE] != _EMPTY:
                self._note(bytes(old[at : at + _HASH_SIZE]), _OFFSET.unpack_from(old, at + _HASH_SIZE)[0])

    def get(self, key: bytes) -> int:
        """Return the offset noted for `key`; -1 where there is none."""
        digest = md5(key, usedforsecurity=False).digest()
        table = self._table
        for attempt in range(self._slots + _LAST_WORD):
            at = self._slot(digest, attempt)
            if table[at : at + ENTRY_SIZE] == _EMPTY:
                return -1
            if table[at : at + _HASH_SIZE] == digest:
                offset: int = _OFFSET.unpack_from(table, at + _HASH_SIZE)[0]
                return offset
        return -1

    def _slot(self, digest: bytes, attempt: int) -> int:
        """Return where in the table to look at this attempt: words of the sum a byte apart, then slot by slot."""
        word = min(attempt, _LAST_WORD)
        probe = wrap32(int.from_bytes(digest[word : word + 4], signed=True) + max(0, attempt - _LAST_WORD))
        return (0 if probe == -1 << 31 else abs(probe)) % self._slots * ENTRY_SIZE


def _is_retained(block: BatchBlock, row: int, now: int, keeps_legacy_tombstones: bool) -> bool:
    """Return whether the tombstones of a batch stay."""
    if block.magic[row] < 2:
        return keeps_legacy_tombstones
    return not block.attributes[row] & DELETE_HORIZON or now < block.base_timestamp[row]


def _key(block: BatchBlock, records: RecordBlock, at: int, payload: bytes | None) -> bytes:
    source = source_of(block, records.row[at], payload)
    position = records.key_position[at]
    return bytes(source[position : position + records.key_length[at]])


def encode_kept(
    block: BatchBlock,
    records: RecordBlock,
    start: int,
    stop: int,
    verdicts: Sequence[int],
    payload: bytes | None,
    base_offset: int,
    base_timestamp: int | None,
) -> tuple[bytearray, int, int]:
    """Return the records that stay of `start` to `stop` - 1, all of one batch, behind room for a v2 batch's header.

    Offsets are written relative to `base_offset`, timestamps to `base_timestamp` (None: the first one's). Besides the
    bytes their base timestamp and largest timestamp. One record must stay.
    """
    kept = [at for at in range(start, stop) if verdicts[at] & 1]
    if not kept:
        raise ValueError("no record stays")
    if base_timestamp is None:
        base_timestamp = records.timestamp[kept[0]]
    source = source_of(block, records.row[start], payload)
    data = bytearray(HEADER_SIZE)
    for at in kept:
        record = NewRecord(
            base_offset + wrap64(records.offset[at] - base_offset),
            records.timestamp[at],
            content_at(source, records.key_position[at], records.key_length[at]),
            content_at(source, records.value_position[at], records.value_length[at]),
            tuple(headers(source, records.headers_position[at], records.headers_count[at])),
        )
        data += encode_record(record, base_offset, base_timestamp)
    return data, base_timestamp, max(records.timestamp[at] for at in kept)


Rewritten = tuple[bytearray, bytearray, "array[int]", "array[int]", "array[int]", int | None]
"""What `rewrite` gives: data, kinds, ends, max_offset, max_timestamp, first_horizon."""


def rewrite(
    block: BatchBlock, records: RecordBlock, first: int, stop: int, verdicts: bytes | bytearray, horizon: int
) -> Rewritten:
    """Return what stays of rows `first` to `stop` - 1, `records` being theirs and `verdicts` what becomes of these.

    All batches but those of format v0 and v1, control batches, and compressed ones of which only a part stays: they are
    OTHER, and left to the caller. A batch of which all stays is copied, unless it has tombstones and no delete horizon;
    otherwise it is encoded again, with its own horizon or, where it has tombstones, with `horizon` (ms).

    `data` are the bytes of all copied and rebuilt batches, `kinds` says for each row what became of it (a number of
    kdump.kernels.batch_verdicts), `ends` up to where in `data` it and those before it reach. `max_offset` is its last
    offset (absolute; of a rebuilt batch the last that stays) and `max_timestamp` its largest timestamp (ms), both -1
    where nothing of it is in `data`. `first_horizon` is the earliest of those that have tombstones, None where none
    has. Raises ValueError where the records are not those of the rows.
    """
    data, kinds = bytearray(), bytearray()
    ends, offsets, times = array("q"), array("q"), array("q")
    horizons = []
    at = 0
    for row in range(first, stop):
        start = at
        while at < records.length and records.row[at] == row:
            at += 1
        own = block.base_timestamp[row] if block.attributes[row] & DELETE_HORIZON else None
        tombstones = verdicts.count(RETAINED_TOMBSTONE, start, at)
        kind = _kind(block, row, at - start, verdicts.count(RETAINED, start, at) + tombstones, tombstones)
        offset = timestamp = -1
        if own is None and tombstones:
            own = horizon
        if kind == REBUILT:
            batch, offset, timestamp = _rebuilt(block, records, row, start, at, verdicts, own)
            kind = REBUILT if batch else OTHER
            data += batch
        elif kind == COPIED:
            begin = block.position[row] - block.data_position
            data += block.data[begin : begin + block.size[row]]
            offset, timestamp = block.last_offset[row], block.max_timestamp[row]
        if tombstones and own is not None and kind in (COPIED, REBUILT):
            horizons.append(own)
        kinds.append(kind)
        ends.append(len(data))
        offsets.append(offset)
        times.append(timestamp)
    if at < records.length:
        raise ValueError("records are not inside their batches, or not in order")
    return data, kinds, ends, offsets, times, min(horizons, default=None)


def _kind(block: BatchBlock, row: int, count: int, kept: int, tombstones: int) -> int:
    """Return what becomes of a row with `count` records, of which so many are kept, among them so many tombstones."""
    attributes = block.attributes[row]
    if block.magic[row] < 2 or attributes & CONTROL or block.size[row] < HEADER_SIZE:
        return OTHER
    if not kept:
        return GONE
    if kept == count and (not tombstones or attributes & DELETE_HORIZON):
        return COPIED
    return OTHER if attributes & CODEC_MASK else REBUILT


def _rebuilt(
    block: BatchBlock,
    records: RecordBlock,
    row: int,
    start: int,
    stop: int,
    verdicts: bytes | bytearray,
    horizon: int | None,
) -> tuple[bytearray, int, int]:
    """Return an uncompressed batch made again, the last offset left, its largest timestamp; nothing if too large."""
    data, base, largest = encode_kept(block, records, start, stop, verdicts, None, block.base_offset[row], horizon)
    if len(data) > MAX_BYTES:
        return bytearray(), -1, -1
    attributes = block.attributes[row] & (LOG_APPEND_TIME | TRANSACTIONAL) | (0 if horizon is None else DELETE_HORIZON)
    if attributes & LOG_APPEND_TIME:
        largest = block.max_timestamp[row]
    kept = [at for at in range(start, stop) if verdicts[at] & 1]
    header = NewBatch(
        attributes,
        block.producer_id[row],
        block.producer_epoch[row],
        block.base_sequence[row],
        block.leader_epoch[row],
        block.base_offset[row],
        block.base_offset[row] + wrap64(block.last_offset[row] - block.base_offset[row]),
        base,
        largest,
    )
    return frame_batch(data, header, len(kept)), records.offset[kept[-1]], largest
