"""The answers of `kdump lookup` in words."""

from __future__ import annotations

from kdump.formats import names
from kdump.formats.printable import command_line
from kdump.formats.words import byte_words, offset_range
from kdump.operations.lookup import Located
from kdump.query.lookup import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, OffsetPosition
from kdump.storage.txn_state import TxnState

from ..shell.times import iso_time

OUT_OF_RANGE = "(OFFSET_OUT_OF_RANGE)"


def offset_words(offset: int, located: Located, label: str = "") -> str:
    """Return where an offset is, and why it does not exist where it is not in the log, as it stands after a label."""
    position = located.found
    assert isinstance(position, OffsetPosition)
    start, end, remote_start = located.log_start_offset, located.log_end_offset, located.remote_start_offset
    if located.readable_end <= offset < end:
        stable = located.readable_end
        return f"offset {offset} is not below the last stable offset {stable}: read_committed consumers wait"
    if remote_start is not None and remote_start <= offset < start:
        return (
            f"offset {offset} is in remote storage, not on this disk: log start offset {remote_start}, local log start"
            f" offset {start}"
        )
    if offset < start:
        start = start if remote_start is None else remote_start
        return f"offset {offset} does not exist: log start offset {start} {OUT_OF_RANGE}"
    if offset > end:
        missing = _missing_words(located)
        return f"offset {offset} does not exist: log end offset {end} {OUT_OF_RANGE}{missing}"
    if offset == end:
        return f"offset {offset} is the log end offset: nothing is there yet"
    if not position.found:
        return f"no batch has offset {offset} or a later one, up to the log end offset {end}"
    damage = "" if position.is_valid else "\n! The batch fails its CRC: consumers stop here. kdump explain KD-LOG-CRC"
    named = "" if label else f"offset {offset}: "
    return _batch(position, offset, named) + _transaction(located) + damage


def _missing_words(located: Located) -> str:
    """Return which committed offsets are not in the log; empty if none are missing."""
    end, committed = located.log_end_offset, located.high_watermark
    if committed is None or committed <= end:
        return ""
    offsets = offset_range(end, committed - 1)
    return f"\nCommitted offsets {offsets} are missing: {command_line('kdump', 'doctor', located.path)}"


def timestamp_words(asked: int, located: Located, *, is_committed: bool) -> str:
    """Return what a search for the time `asked` gives."""
    found, remote = located.found, ""
    assert not isinstance(found, OffsetPosition)
    if asked >= 0 and located.remote_start_offset is not None:
        there = offset_range(located.remote_start_offset, located.log_start_offset - 1)
        remote = f"\nOn this disk only: offsets {there} are in remote storage, where a broker looks first"
    if found is None:
        return (
            "no record has that time or a later one: a broker answers offset -1, and a consumer group that is reset to"
            f" it goes to the log end offset {located.log_end_offset}{remote}"
        )
    if asked == LATEST_TIERED:
        return f"offset {found.offset}: what is in tiered storage is not known here"
    epoch = "" if found.leader_epoch is None else f", leader epoch {found.leader_epoch}"
    if asked == LATEST:
        return f"offset {found.offset}, the {'last stable' if is_committed else 'log end'} offset{epoch}"
    if asked in (EARLIEST, EARLIEST_LOCAL):
        where = ", in remote storage" if found.offset < located.log_start_offset else ""
        return f"offset {found.offset}, the log start offset{epoch}{where}"
    deleted = ""
    if found.offset < located.log_start_offset:
        deleted = f"; it is below the log start offset {located.log_start_offset}, so consumers cannot read it"
    return f"offset {found.offset}, {iso_time(found.timestamp)}{epoch}{_transaction(located)}{deleted}{remote}"


def _transaction(located: Located) -> str:
    """Return how the transaction ended; empty where there is none."""
    return "" if located.transaction in (None, TxnState.NONE) else f", transaction {located.transaction}"


def _batch(position: OffsetPosition, offset: int, named: str) -> str:
    segment = names.segment_file_name(position.segment or 0, f".{names.LOG}")
    base = position.batch_base_offset or 0
    empty = f"no record has offset {offset}; next: " if base > offset else named
    return (
        f"{empty}batch {offset_range(base, position.batch_last_offset)} at byte {position.position} of {segment},"
        f" {byte_words(position.size or 0)}"
    )
