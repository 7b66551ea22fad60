"""Trim a partition: each .log to its last good batch, each index to its valid entries. Nothing is written anew.

Only what no reader could use is cut: a .log with good batches behind the damage is left to `kdump repair`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.change.plan import Plan, make_plan
from kdump.disk.reading import ReadOnlyFile
from kdump.formats import names
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    decode_aborted_txns,
    decode_offset_entries,
    decode_time_entries,
)
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import FileName
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import Recipe, SourceBytes
from kdump.storage.scan import Damage, scan
from kdump.storage.segment import Segment

MOST_INDEX_BYTES = 1 << 31


def plan_trim(log: PartitionLog, bases: Iterable[int] | None = None) -> tuple[Plan, list[str]]:
    """The plan that trims the segments with these base offsets (None: all), and what has to be left alone, in words.

    Raises OSError.
    """
    chosen = None if bases is None else set(bases)
    wanted: dict[str, Recipe] = {
        name: SourceBytes(name, 0, os.lstat(os.path.join(log.path, name)).st_size) for name in log.files
    }
    reasons: dict[str, str] = {}
    problems = []
    for segment in log.segments:
        if chosen is not None and segment.base_offset not in chosen:
            continue
        name = os.path.basename(segment.log_path)
        valid_log = _valid_log(segment)
        if valid_log.size < 0:
            problems.append(f"{segment.log_path}: {valid_log.why}")
            valid_log = _ValidLog(wanted[name].size, LONG_MAX, "")
        indexes = _valid_indexes(log, segment.base_offset, valid_log)
        for file, valid, reason in ((name, valid_log.size, valid_log.why), *indexes):
            if valid < wanted[file].size:
                wanted[file] = SourceBytes(file, 0, valid)
                reasons[file] = reason
    plan = make_plan(log.path, wanted, reasons)
    return plan._replace(operations=tuple(each for each in plan.operations if each.name in reasons)), problems


class _ValidLog(NamedTuple):
    """A .log up to the end of its last good batch: bytes, the last offset (absolute) up to there, and what follows.

    Where good batches follow that the size is -1.
    """

    size: int
    last_offset: int
    why: str


def _valid_log(segment: Segment) -> _ValidLog:
    damage: Damage | None = None
    last_offset = segment.base_offset - 1
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                damage = part
            elif damage is None:
                last_offset = max(last_offset, *part.block.last_offset[part.first : part.stop])
            else:
                why = (
                    f"good batches follow the damage at byte {damage.position} ({damage.text}): kdump repair shows what"
                    " would be lost, and --strategy salvage keeps them"
                )
                return _ValidLog(-1, last_offset, why)
        size, why = (log.size, "") if damage is None else (damage.position, damage.text)
        return _ValidLog(size, last_offset, why)


def _valid_indexes(log: PartitionLog, base_offset: int, held: _ValidLog) -> Iterator[tuple[str, int, str]]:
    """The indexes of a segment, the size of each up to its last valid entry, and what is wrong with what follows."""
    for kind, valid in _VALID:
        name = names.segment_file_name(base_offset, f".{kind}")
        if log.files.get(name) == FileName(base_offset, kind, names.LIVE):
            with ReadOnlyFile(os.path.join(log.path, name)) as file:
                data = file.read(0, min(file.size, MOST_INDEX_BYTES))
            yield name, valid(data, base_offset, held), "what follows the last valid entry"


def _offset_entries(data: bytes, base_offset: int, held: _ValidLog) -> int:
    """The bytes of the entries that increase and do not leave the .log."""
    last_offset, last_position, count = base_offset - 1, -1, 0
    for offset, position in decode_offset_entries(data, base_offset):
        if not (last_offset < offset <= held.last_offset and last_position < position < held.size):
            break
        last_offset, last_position, count = offset, position, count + 1
    return count * OFFSET_ENTRY_SIZE


def _time_entries(data: bytes, base_offset: int, held: _ValidLog) -> int:
    """The bytes of the entries whose timestamps increase and whose offsets do not decrease, nor leave the .log."""
    last_timestamp, last_offset, count = -1, base_offset - 1, 0
    for timestamp, offset in decode_time_entries(data, base_offset):
        if timestamp <= last_timestamp or not last_offset <= offset <= held.last_offset:
            break
        last_timestamp, last_offset, count = timestamp, offset, count + 1
    return count * TIME_ENTRY_SIZE


def _txns(data: bytes, _: int, held: _ValidLog) -> int:
    """The bytes of the whole entries up to the first whose marker lies behind the end of the .log."""
    whole = len(data) // ABORTED_TXN_SIZE * ABORTED_TXN_SIZE
    markers = enumerate(entry.last_offset for entry in decode_aborted_txns(data[:whole]))
    return next((number * ABORTED_TXN_SIZE for number, marker in markers if marker > held.last_offset), whole)


_VALID = ((names.OFFSET_INDEX, _offset_entries), (names.TIME_INDEX, _time_entries), (names.TXN_INDEX, _txns))
