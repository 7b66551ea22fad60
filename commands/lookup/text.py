"""The answers of `kdump lookup`: as JSON objects (docs/lookup.md) and in words."""

from __future__ import annotations

from typing import Any

from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn
from kdump.formats.printable import safe_path
from kdump.formats.words import number_words, offset_range
from kdump.query.lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    LogLookup,
    OffsetPosition,
    TimestampOffset,
)

from ..shell.times import iso_time

Answer = dict[str, Any]

OUT_OF_RANGE = "(OFFSET_OUT_OF_RANGE)"


def offset_answer(position: OffsetPosition) -> Answer:
    """Where an offset is."""
    if position.segment is None:
        return {"segment": None, "found": False}
    answer: Answer = {
        "segment": position.segment,
        "indexOffset": position.index_offset,
        "indexPosition": position.index_position,
        "found": position.found,
    }
    if position.found:
        answer |= {
            "batchBaseOffset": position.batch_base_offset,
            "batchLastOffset": position.batch_last_offset,
            "position": position.position,
            "size": position.size,
            "isValid": position.is_valid,
        }
    return answer


def timestamp_answer(found: TimestampOffset | None) -> Answer:
    """What a search by time gives."""
    if found is None:
        return {"result": None}
    return {"result": {"offset": found.offset, "timestamp": found.timestamp, "leaderEpoch": found.leader_epoch}}


def aborted_answer(txn: AbortedTxn) -> Answer:
    """An aborted transaction."""
    return {
        "producerId": txn.producer_id,
        "firstOffset": txn.first_offset,
        "lastOffset": txn.last_offset,
        "lastStableOffset": txn.last_stable_offset,
    }


def offset_words(offset: int, position: OffsetPosition, lookup: LogLookup) -> str:
    """Where an offset is, and why it does not exist where it is not in the log."""
    log_start_offset, log_end_offset = lookup.log_start_offset, lookup.log_end_offset()
    remote_start = lookup.remote_start_offset
    if remote_start is not None and remote_start <= offset < log_start_offset:
        return (
            f"offset {offset} is in remote storage, not on this disk: log start offset {remote_start}, local log start"
            f" offset {log_start_offset}"
        )
    if offset < log_start_offset:
        log_start_offset = log_start_offset if remote_start is None else remote_start
        return f"offset {offset} does not exist: log start offset {log_start_offset} {OUT_OF_RANGE}"
    if offset > log_end_offset:
        return f"offset {offset} does not exist: log end offset {log_end_offset} {OUT_OF_RANGE}"
    if offset == log_end_offset:
        return f"offset {offset} is the log end offset: nothing is there yet"
    if not position.found:
        return f"no batch has offset {offset} or a later one, up to the log end offset {log_end_offset}"
    damage = "" if position.is_valid else "\n! The batch fails its CRC: consumers stop here. kdump explain KD-LOG-CRC"
    return _batch(position, offset) + damage


def missing_words(log_end_offset: int, high_watermark: int | None, path: str) -> str:
    """Which committed offsets are not in the log at `path`; empty if none are missing."""
    if high_watermark is None or high_watermark <= log_end_offset:
        return ""
    committed = offset_range(log_end_offset, high_watermark - 1)
    return f"\nCommitted offsets {committed} are missing: kdump doctor {safe_path(path)}"


def timestamp_words(asked: int, found: TimestampOffset | None, lookup: LogLookup) -> str:
    """What a search for the time `asked` gives."""
    remote = ""
    if asked >= 0 and lookup.remote_start_offset is not None:
        there = offset_range(lookup.remote_start_offset, lookup.log_start_offset - 1)
        remote = f"\nOn this disk only: offsets {there} are in remote storage, where a broker looks first"
    if found is None:
        return (
            "no record has that time or a later one: a broker answers offset -1, and a consumer group that is reset to"
            f" it goes to the log end offset {lookup.log_end_offset()}{remote}"
        )
    if asked == LATEST_TIERED:
        return f"offset {found.offset}: what is in tiered storage is not known here"
    epoch = "" if found.leader_epoch is None else f", leader epoch {found.leader_epoch}"
    if asked == LATEST:
        return f"offset {found.offset}, the log end offset{epoch}"
    if asked in (EARLIEST, EARLIEST_LOCAL):
        where = ", in remote storage" if found.offset < lookup.log_start_offset else ""
        return f"offset {found.offset}, the log start offset{epoch}{where}"
    deleted = ""
    if found.offset < lookup.log_start_offset:
        deleted = f"; it is below the log start offset {lookup.log_start_offset}, so consumers cannot read it"
    return f"offset {found.offset}, {iso_time(found.timestamp)}{epoch}{deleted}{remote}"


def _batch(position: OffsetPosition, offset: int) -> str:
    segment = names.segment_file_name(position.segment or 0, f".{names.LOG}")
    base = position.batch_base_offset or 0
    empty = f"no record has offset {offset}; next: " if base > offset else f"offset {offset}: "
    return (
        f"{empty}batch {offset_range(base, position.batch_last_offset)} at byte {position.position} of {segment},"
        f" {number_words(position.size or 0, 'byte')}"
    )
