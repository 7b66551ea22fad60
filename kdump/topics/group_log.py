"""The last value of every key in a partition of __consumer_offsets, as a group coordinator has it after loading.

Committed offsets of a transaction wait for its marker: COMMIT makes them count, unless a commit outside of the
transaction lies behind them in the log, and ABORT drops them. All other records count at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kdump.errors import InvalidRecordError, KdumpError, Problem, Report
from kdump.formats.batch import COMMIT, CONTROL, TRANSACTIONAL
from kdump.formats.control import parse_marker
from kdump.formats.schemas.consumer_offsets import OFFSET_COMMIT, decode_key, decode_value
from kdump.formats.schemas.framing import Decoded
from kdump.query.contents import Content, contents_in, runs, share_of_batch
from kdump.storage.replica import Replica
from kdump.storage.scan import Run
from kdump.storage.segment import Segment

# an offset commit's value in version 3, which all brokers since 2.1 write: version, offset, leader epoch, metadata size
_COMMIT_V3 = struct.Struct(">hqih")
_COMMIT_V3_REST = 8
_COMMIT_V3_VERSION = 3


@dataclass(slots=True)
class Value:
    """One value of a key: its bytes, the record's absolute offset, and the bytes of the log that it takes."""

    data: bytes
    offset: int
    size: int


class Slot:
    """A key: its record type (consumer_offsets), group and fields, its value now, and what was spent on older ones.

    `value` is None where a tombstone came last, or nothing that counts yet. `pending` are the values that open
    transactions have committed, by producer id. `dead_bytes` and `dead_records` count what no longer matters:
    superseded and aborted values, and tombstones. `last_value` and `last_tombstone` are the absolute offsets of the
    last value, whether it counts or not, and of the last tombstone; -1: there is none.
    """

    __slots__ = (
        "dead_bytes",
        "dead_records",
        "fields",
        "group",
        "last_tombstone",
        "last_value",
        "pending",
        "type",
        "value",
    )

    def __init__(self, key: Decoded) -> None:
        self.type = key.type
        self.fields = key.fields
        self.group: str = key.fields["group" if "group" in key.fields else "groupId"]
        self.value: Value | None = None
        self.pending: dict[int, Value] = {}
        self.dead_bytes = 0
        self.dead_records = 0
        self.last_value = -1
        self.last_tombstone = -1

    def decoded(self, value: Value) -> dict[str, Any]:
        """Return the fields of a value."""
        return decode_value(self.type, value.data).fields

    def bury(self, size: int) -> None:
        """Count a record that no longer matters."""
        self.dead_bytes += size
        self.dead_records += 1

    def put(self, value: Value) -> None:
        """Let a value count in place of the one before."""
        if self.value is not None:
            self.bury(self.value.size)
        self.value = value

    def remove(self, size: int) -> None:
        """Take a tombstone of `size` bytes."""
        if self.value is not None:
            self.bury(self.value.size)
            self.value = None
        self.bury(size)

    def put_pending(self, producer_id: int, value: Value) -> None:
        """Keep a value until the producer's transaction ends."""
        before = self.pending.get(producer_id)
        if before is not None:
            self.bury(before.size)
        self.pending[producer_id] = value

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """End the transaction that the producer committed to this key in."""
        value = self.pending.pop(producer_id)
        if is_commit and (self.value is None or self.value.offset < value.offset):
            self.put(value)
        else:
            self.bury(value.size)


class GroupLog:
    """The keys of one partition of __consumer_offsets. `records` counts all that were read, markers included."""

    def __init__(self, replica: Replica, report: Report) -> None:
        """Read the partition; damage and what cannot be decoded is reported, and skipped."""
        self.replica = replica
        self.keys: dict[bytes, Slot] = {}
        self.records = 0
        self._open: dict[int, dict[bytes, Slot]] = {}  # by producer id, the keys that its transaction committed to
        self._report = report
        self._load()

    def _load(self) -> None:
        for segment, run in runs(self.replica.log.segments_from(self.replica.log_start_offset), self._report):
            self._take_run(segment, run)

    def _take_run(self, segment: Segment, run: Run) -> None:  # noqa: C901 - once a record: calls would count
        block = run.block
        start = self.replica.log_start_offset
        keys = self.keys
        last_row = -1
        for content in contents_in(segment, run, self._report):
            row, offset, _, key, data = content
            self.records += 1
            if row != last_row:
                last_row = row
                flags = block.attributes[row] & (TRANSACTIONAL | CONTROL) if block.magic[row] >= 2 else 0
                producer_id = block.producer_id[row]
                size = share_of_batch(block, row)
            if offset < start:
                continue
            try:
                if flags & CONTROL:
                    if flags & TRANSACTIONAL:
                        self._end(producer_id, content)
                    continue
                if key is None:
                    raise InvalidRecordError("the record has no key")
                slot = keys.get(key)
                if slot is None:
                    slot = keys[key] = Slot(decode_key(key))
                if data is None:
                    slot.remove(size)
                    slot.last_tombstone = offset
                    continue
                if not _is_plain_commit(slot.type, data):
                    decode_value(slot.type, data)
                slot.last_value = offset
                value = Value(data, offset, size)
                if flags and slot.type <= OFFSET_COMMIT:
                    slot.put_pending(producer_id, value)
                    self._open.setdefault(producer_id, {})[key] = slot
                else:
                    slot.put(value)
            except KdumpError as error:
                self._report(Problem.of_record(segment.log_path, block.position[row], offset, error))

    def _end(self, producer_id: int, record: Content) -> None:
        is_commit = parse_marker(record.key, record.value).control_type == COMMIT
        for slot in self._open.pop(producer_id, {}).values():
            slot.end_pending(producer_id, is_commit=is_commit)


def _is_plain_commit(record_type: int, data: bytes) -> bool:
    """Return whether a value is a sound offset commit of version 3, found faster than by decoding it."""
    if record_type > OFFSET_COMMIT or len(data) < _COMMIT_V3.size:
        return False
    version: int
    size: int
    version, _, _, size = _COMMIT_V3.unpack_from(data)
    return version == _COMMIT_V3_VERSION and size >= 0 and len(data) == _COMMIT_V3.size + size + _COMMIT_V3_REST
