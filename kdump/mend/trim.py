"""Trim a partition: each .log to its last valid batch, each index to its valid entries.

Only what no reader could use is cut. A .log with valid batches after the damage is left to `kdump repair`, and so is
one that ends in a whole batch which is damaged, or whose batches are those of another segment: somebody has to decide
about its records, and its indexes can be judged only then. A time index that is cut gets the last entry that a broker
writes when it closes the segment. Room that was preallocated in the last segment of the cluster's metadata log stays:
Kafka 4.4 leaves it there after a clean shutdown, and every release makes it again at its start.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

from kdump.change.plan import Plan, make_plan
from kdump.check.entries import preallocated
from kdump.disk.reading import ReadOnlyFile
from kdump.formats import names
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetIndexEntry,
    TimeIndexEntry,
    decode_aborted_txns,
    decode_offset_entries,
    decode_time_entries,
    encode_time_entries,
    offset_entry_at,
)
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import FileName
from kdump.storage.damage import AT_THE_END, Damage, DamageKind
from kdump.storage.indexes import may_end_at
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent, Recipe, SourceBytes
from kdump.storage.scan import MAX_RELATIVE_OFFSET, scan
from kdump.storage.segment import Segment

MAX_INDEX_BYTES = 1 << 31


def plan_trim(log: PartitionLog, bases: Collection[int] | None) -> tuple[Plan, list[str]]:
    """Return the plan that trims the segments with these base offsets (None: all), and what has to be left, in words.

    Raises OSError.
    """
    wanted: dict[str, Recipe] = {
        name: SourceBytes(name, 0, os.lstat(os.path.join(log.path, name)).st_size) for name in log.files
    }
    reasons: dict[str, str] = {}
    problems = []
    for segment in log.segments:
        if bases is not None and segment.base_offset not in bases:
            continue
        name = os.path.basename(segment.log_path)
        valid_log = _valid_log(log, segment)
        if isinstance(valid_log, str):
            problems.append(f"{segment.log_path}: {valid_log}")
            continue
        valid_part = (name, SourceBytes(name, 0, valid_log.size), valid_log.why)
        for file, recipe, reason in (valid_part, *_valid_indexes(log, segment, valid_log)):
            if recipe != wanted[file]:
                wanted[file], reasons[file] = recipe, reason
    plan = make_plan(log.path, wanted, reasons)
    return plan._replace(operations=tuple(each for each in plan.operations if each.name in reasons)), problems


class _ValidLog(NamedTuple):
    """A .log up to the end of its last valid batch: bytes, the last offset (absolute) up to there, and what follows.

    `first_timestamp` is the first batch's largest one (ms), `latest` what the last entry of a complete time index is:
    None where no batch has a timestamp.
    """

    size: int
    last_offset: int
    why: str
    first_timestamp: int | None
    latest: TimeIndexEntry | None


def _valid_log(partition: PartitionLog, segment: Segment) -> _ValidLog | str:
    """Return what a .log is once it is trimmed, or why it must not be cut. Raises OSError."""
    damage: Damage | None = None
    last_offset = segment.base_offset - 1
    first_timestamp: int | None = None
    latest: TimeIndexEntry | None = None
    with segment.open_log() as log:
        size = log.size
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                damage = part
                continue
            if damage is not None:
                return _left("valid batches follow the damage", damage)
            offsets = part.block.last_offset[part.first : part.stop]
            timestamps = part.block.max_timestamp[part.first : part.stop]
            if min(offsets) < segment.base_offset:
                return f"it has offsets below {segment.base_offset}, its first: {_WAYS_OUT}"
            last_offset = max(last_offset, *offsets)
            first_timestamp = timestamps[0] if first_timestamp is None else first_timestamp
            largest = max(timestamps)
            if largest >= 0 and (latest is None or largest > latest.timestamp):
                latest = TimeIndexEntry(largest, offsets[timestamps.index(largest)])
    if damage is None:
        return _ValidLog(size, last_offset, "", first_timestamp, latest)
    if damage.kind not in _INCOMPLETE:
        return _left("a complete batch is damaged", damage)
    if _is_one_bit(partition, segment, damage):
        return _left("one flipped bit explains the damage", damage)
    return _ValidLog(damage.position, last_offset, damage.text, first_timestamp, latest)


_INCOMPLETE = (*AT_THE_END, DamageKind.SIZE)
"""What may be at the end of a log that holds no complete batch."""


_WAYS_OUT = "kdump repair shows the ways out"


def _left(what: str, damage: Damage) -> str:
    return f"{what} at byte {damage.position} ({damage.text}): {_WAYS_OUT}"


def _is_one_bit(partition: PartitionLog, segment: Segment, damage: Damage) -> bool:
    """Return whether the end of a log is a whole batch but for one bit, as of its size. Raises OSError."""
    from kdump.mend.flipped_bit import flipped_bit_in

    if damage.kind == DamageKind.ZEROS:
        return False
    return flipped_bit_in(partition, os.path.basename(segment.log_path), damage.position, damage.resumed) is not None


def _valid_indexes(log: PartitionLog, segment: Segment, held: _ValidLog) -> Iterator[tuple[str, Recipe, str]]:
    """Yield the indexes of a segment, what each is once it is trimmed, and what is wrong with what follows."""
    base_offset = segment.base_offset
    is_last = bool(log.segments) and segment.base_offset == log.segments[-1].base_offset
    kept = preallocated(segment) if log.is_cluster_metadata and is_last else frozenset()
    for kind, valid in _VALID:
        if kind in kept:
            continue
        name = names.segment_file_name(base_offset, f".{kind}")
        if log.files.get(name) == FileName(base_offset, kind, names.LIVE):
            with ReadOnlyFile(os.path.join(log.path, name)) as file:
                data = file.read(0, min(file.size, MAX_INDEX_BYTES))
            size = valid(data, base_offset, held)
            if kind == names.OFFSET_INDEX and size < len(data):
                size = _fitting(data[:size], segment)
            last = _missing_last_entry(data[:size], base_offset, held) if kind == names.TIME_INDEX else b""
            if size == len(data):
                continue
            recipe: Recipe = NewContent(data[:size] + last, size + len(last)) if last else SourceBytes(name, 0, size)
            yield name, recipe, "without what follows the last valid entry"


def _offset_entries(data: bytes, base_offset: int, held: _ValidLog) -> int:
    """Return the bytes of the entries that increase and do not leave the .log.

    No entry leads to byte 0, where every search begins (LogSegment.append and recover index a batch only after
    index.interval.bytes of others), so zeros are never one.
    """
    last_offset, last_position, count = base_offset - 1, 0, 0
    for offset, position in decode_offset_entries(data, base_offset):
        if not (last_offset < offset <= held.last_offset and last_position < position < held.size):
            break
        last_offset, last_position, count = offset, position, count + 1
    return count * OFFSET_ENTRY_SIZE


def _fitting(data: bytes, segment: Segment) -> int:
    """Return the bytes of the entries up to the last one that fits the batch it leads to.

    Where entries stop to increase the wrong one may be the one before.
    """
    count = len(data) // OFFSET_ENTRY_SIZE
    with segment.open_log() as log:
        while count and not _fits(log, offset_entry_at(data, count - 1, segment.base_offset)):
            count -= 1
    return count * OFFSET_ENTRY_SIZE


def _fits(log: LogFile, entry: OffsetIndexEntry) -> bool:
    """Return whether an entry names the batch that it leads to or, as of an append of several, one behind it."""
    for block in log.blocks(entry.position, whole=False):
        for row in range(block.length):
            base, last = block.base_offset[row], block.last_offset[row]
            if block.position[row] == entry.position and base == entry.offset:
                return True  # as entries before Kafka 2.0 do
            if last >= entry.offset:
                return may_end_at(entry.offset, base, last, block.count[row])
    return False


def _time_entries(data: bytes, base_offset: int, held: _ValidLog) -> int:
    """Return the bytes of the entries whose timestamps increase and whose offsets do not decrease, nor leave the .log.

    Zeros are an entry (timestamp 0, the base offset) only where the first batch has that timestamp. Where timestamps
    go back, those before that are later than all batches are the wrong ones, and keep retention from the segment for
    ever; at the end of an index they stay, for old brokers left such entries.
    """
    latest = LONG_MAX if held.latest is None else held.latest.timestamp
    last_timestamp, last_offset, count, early = -1, base_offset, 0, 0
    for timestamp, offset in decode_time_entries(data, base_offset):
        is_zeros = timestamp == 0 and offset == base_offset
        if timestamp <= last_timestamp and not is_zeros:
            count = early
            break
        is_unused = is_zeros and (held.first_timestamp != 0 or count)
        if is_unused or not last_offset <= offset <= held.last_offset:
            break
        last_timestamp, last_offset, count = timestamp, offset, count + 1
        early += timestamp <= latest
    return count * TIME_ENTRY_SIZE


def _missing_last_entry(data: bytes, base_offset: int, held: _ValidLog) -> bytes:
    """Return the entry that a time index has to end with (TimeIndex.maybeAppend when a segment is closed), if it lacks.

    Retention goes by it: an index that was cut to its valid entries and ends too early has segments deleted too early.
    """
    entries = list(decode_time_entries(data[-TIME_ENTRY_SIZE:], base_offset))
    if held.latest is None or (entries and entries[-1].timestamp >= held.latest.timestamp):
        return b""
    relative = held.latest.offset - base_offset
    if not 0 <= relative <= MAX_RELATIVE_OFFSET:
        return b""
    return encode_time_entries([held.latest], base_offset)


def _txns(data: bytes, base_offset: int, held: _ValidLog) -> int:
    """Return the bytes of the complete entries up to the first whose marker is not in the .log, or that are none."""
    whole = len(data) // ABORTED_TXN_SIZE * ABORTED_TXN_SIZE
    before = base_offset - 1
    for number, entry in enumerate(decode_aborted_txns(data[:whole])):
        if not (before < entry.last_offset <= held.last_offset and entry.first_offset < entry.last_offset):
            return number * ABORTED_TXN_SIZE
        before = entry.last_offset
    return whole


_VALID = ((names.OFFSET_INDEX, _offset_entries), (names.TIME_INDEX, _time_entries), (names.TXN_INDEX, _txns))
