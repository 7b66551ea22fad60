"""The answers of `kdump lookup`: as JSON objects (docs/lookup.md) and in words."""

from __future__ import annotations

from typing import Any

from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn
from kdump.query.lookup import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, OffsetPosition, TimestampOffset

from ..shell.output import iso_time

Answer = dict[str, Any]

OUT_OF_RANGE = "a broker answers OFFSET_OUT_OF_RANGE"


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


def offset_words(offset: int, position: OffsetPosition, log_start_offset: int, log_end_offset: int | None) -> str:
    """Where an offset is; `log_end_offset` is that of the log, known where no batch reaches the offset."""
    if offset < log_start_offset:
        below = f"offset {offset} is below the log start offset {log_start_offset}: {OUT_OF_RANGE}"
        return f"{below}, though it is still in {_batch(position)}" if position.found else below
    if position.found:
        gap = f": offset {offset} is in the gap before it" if position.batch_base_offset > offset else ""
        return _batch(position) + gap
    if offset == log_end_offset:
        return f"offset {offset} is the log end offset: nothing is there yet"
    if log_end_offset is not None and offset < log_end_offset:
        return f"no batch has offset {offset} or a later one, up to the log end offset {log_end_offset}"
    return f"offset {offset} is beyond the log end offset {log_end_offset}: {OUT_OF_RANGE}"


def timestamp_words(asked: int, found: TimestampOffset | None, log_end_offset: int | None) -> str:
    """What a search for the time `asked` gives; `log_end_offset` is known where it gives nothing."""
    if found is None:
        return (
            "no record has that time or a later one: a broker answers offset -1, and a consumer group that is reset to"
            f" it goes to the log end offset {log_end_offset}"
        )
    if asked == LATEST_TIERED:
        return f"offset {found.offset}: what is in tiered storage is not known here"
    epoch = "" if found.leader_epoch is None else f", leader epoch {found.leader_epoch}"
    if asked == LATEST:
        return f"offset {found.offset}, the log end offset{epoch}"
    if asked in (EARLIEST, EARLIEST_LOCAL):
        return f"offset {found.offset}, the log start offset{epoch}"
    return f"offset {found.offset}, {iso_time(found.timestamp)} ({found.timestamp} ms){epoch}"


def _batch(position: OffsetPosition) -> str:
    segment = names.segment_file_name(position.segment or 0, f".{names.LOG}")
    return (
        f"segment {segment}, batch of offsets {position.batch_base_offset} to {position.batch_last_offset} at byte"
        f" {position.position}, {position.size} bytes"
    )
