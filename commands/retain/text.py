"""`kdump retain` for people: what goes, what comes next, what blocks, and what can be done about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap

from kdump.change.change import Change
from kdump.change.plan import Plan
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import byte_words, duration, listed, number_words, offset_range, size_text
from kdump.operations.retain import ONLY_START
from kdump.retention.advice import Advice, advice_on
from kdump.retention.blocking_batch import BlockingBatch
from kdump.retention.partition import HIGH_WATERMARK, Block, PartitionRetention
from kdump.retention.plan import why_not_allowed
from kdump.retention.policy import LOG_START, SIZE, TIME, Policy, due, is_empty_last
from kdump.retention.segments import SegmentState
from kdump.retention.tombstones import Waiting
from kdump.retention.totals import Totals
from kdump.storage.live import tally
from kdump.storage.timestamps import TimestampSource

from ..shell.line_budget import LineBudget
from ..shell.output import again
from ..shell.tables import TextPrinter
from ..shell.times import iso_time
from ..shell.words import ORIGINALS_KEPT, check_and_undo, places, places_by_change, undoable

WIDTH = 110
NAMES_SHOWN = 3

_POLICY_WORDS = {LOG_START: "log start offset", SIZE: "size", TIME: "time"}
_SOURCE_WORDS = {
    TimestampSource.TIME_INDEX: "time index",
    TimestampSource.BATCHES: "batches",
    TimestampSource.MTIME: "file time",
}
_HEAD = ("BASE OFFSET", "LAST", "SIZE", "MAX TIMESTAMP", "SOURCE", "DELETED IN")
_RIGHT = (*_HEAD[:3], _HEAD[-1])
_DROP = ("SOURCE", "MAX TIMESTAMP")


class Text(TextPrinter):
    """Prints findings for people."""

    def __init__(self, write: Callable[[str], None], *, is_all: bool = False, applies: bool = False) -> None:
        """`write` takes complete lines; routine partitions of a log directory are shown if `is_all`."""
        super().__init__(write)
        self._is_all = is_all
        self._applies = applies
        self._budget = LineBudget(is_all=is_all)
        self._routine = self._changed = self._more = self._blocked = self._working = self._allowed = 0
        self._first_steps: list[str] = []
        self._done: list[tuple[str, str | None]] = []

    def partition(self, found: PartitionRetention, *, lists_segments: bool) -> None:
        """Print a heading with the settings, the table of the segments, what goes and what comes next, what blocks.

        Of a log directory, partitions of which nothing goes and nothing is blocked are counted; of the others those
        that are more than a screen takes.
        """
        lines = list(_partition_lines(found))
        self._blocked += found.block is not None
        self._working += found.has_work
        if found.has_work:
            self._allowed += why_not_allowed(found) is None
            self._first_steps += _first_steps(found)
        if not self._is_all and not lists_segments:
            if not found.has_work and found.block is None:
                self._routine += 1
                self._changed += bool(found.problems)
                return
            if not self._budget.takes(len(lines) + 2):
                self._more += 1
                return
        self._heading(f"{safe_path(found.log.path)}   {_settings_words(found)}")
        if lists_segments and found.segments:
            rows = [_row(found, number) for number in range(len(found.segments))]
            self._table(_HEAD, rows, right=_RIGHT, indent="  ", drop=_DROP)
        self._lines(lines)

    def directory(self, path: str, totals: Totals) -> None:
        """Print what each policy frees, and together."""
        shown = safe_path(path)
        if self._more:
            self._heading(f"{number_words(self._more, 'more partition')} with work or blocked (-v)")
        space = f"{number_words(totals.segments, 'segment')}, {size_text(totals.space - totals.preallocated)}"
        self._heading(f"{shown}   {number_words(totals.partitions, 'partition')}, {space}")
        if self._routine:
            verb = "deletes" if self._routine == 1 else "delete"
            self._line(f"  {number_words(self._routine, 'partition')} {verb} nothing now (-v)")
        if self._changed:
            verb = "loses" if self._changed == 1 else "lose"
            self._line(
                f"  {number_words(self._changed, 'partition')} of these {verb} data at the next start:"
                f" {command_line('kdump', 'doctor', path)}"
            )
        self._routine = self._changed = self._more = 0
        if totals.freed.segments:
            rows = [(_POLICY_WORDS[policy], *_shown(totals, policy)) for policy in Policy]
            rows.append(("together", str(totals.freed.segments), size_text(totals.freed.space), ""))
            heading = ("POLICY", "SEGMENTS", "FREES", "BY THIS RULE ONLY")
            self._table(heading, rows, right=heading[1:], indent="  ")
        if totals.blocked:
            blocked = f"{number_words(totals.blocked, 'partition')} blocked"
            self._line(f"  {blocked}: {size_text(totals.held_space)} stay that are old enough")

    def done(self, path: str, plans: Sequence[Plan], kept: str | None) -> None:
        """Keep what was done, and the id of the change that keeps the old, for the end."""
        self._done += ((os.path.join(path, os.path.basename(plan.path)), kept) for plan in plans)

    def end(self, *, is_complete: bool, finished: Sequence[tuple[str, Change]]) -> None:
        """Print the answer; `is_complete`: everything could be read, and nothing was refused.

        `finished` are interrupted changes that were finished, with the paths of their partitions.
        """
        changed = [*(path for path, _ in finished), *(path for path, _ in self._done)]
        paths = {os.path.abspath(path): path for path in changed}.values()
        if paths:
            self._line("")
            undo = places_by_change([*undoable(finished), *((path, kept) for path, kept in self._done if kept)])
            kept = ORIGINALS_KEPT if undo else "nothing was kept"
            self._line(f"Done. {number_words(len(paths), 'partition')} changed; {kept}.")
            for line in check_and_undo(f"verify {places(paths)}", undo):
                self._line(line)
        elif self._applies and self._working:
            self._line("Nothing was changed.")
        elif self._working:
            self._line(f"Dry run: nothing was changed. {number_words(self._working, 'partition')} would be.")
            if self._first_steps or self._allowed:
                self._line(f"Next: {self._first_steps[0] if self._first_steps else again('--apply')}")
        elif self._blocked:
            self._line("Nothing is deleted now.")
        elif is_complete and not tally.unreadable:
            self._line("Nothing to do.")


def _first_steps(found: PartitionRetention) -> Iterator[str]:
    """Yield the commands that come before a deletion in a partition."""
    if found.problems:
        yield command_line("kdump", "doctor", found.log.path)
    else:
        yield from (safe(doubt.command_line) for doubt in found.doubts if doubt.command)


def _settings_words(found: PartitionRetention) -> str:
    if found.config.sources == (ONLY_START,):
        return "nothing is deleted by time or by size: only --log-start-offset is given"
    config = found.config
    limits = (
        f"; {config.time_name} {_limit(config.time_limit_ms, duration)}"
        f", {config.size_name} {_limit(config.size_limit, size_text)}"
    )
    rules = limits if config.deletes else ": nothing is deleted by time or by size"
    return f"{config.policy}{rules} (from {' and '.join(map(safe, found.config.sources))})"


def _partition_lines(found: PartitionRetention) -> Iterator[str]:
    yield from _facts(found)
    yield from _outcome(found)
    yield from (f"! {text}" for text in _notes(found))
    if found.block:
        yield from _blocked(found, found.block)
        yield from _advice(advice_on(found))


def _facts(found: PartitionRetention) -> Iterator[str]:
    unknown = "" if found.is_watermark_known else " (not known: the log end offset is used)"
    preallocated = sum(state.preallocated for state in found.segments)
    space = byte_words(sum(state.space for state in found.segments) - preallocated)
    more = f"; {byte_words(preallocated)} more are preallocated, until the next start" if preallocated else ""
    yield f"Uses {space}{more}."
    offsets = f"Log start offset {found.log_start_offset}, high watermark {found.high_watermark}{unknown}"
    yield f"{offsets}, log end offset {found.end_offset}."


def _limit(value: int, words: Callable[[int], str]) -> str:
    return words(value) if value >= 0 else "no limit"


def _row(found: PartitionRetention, number: int) -> tuple[str, ...]:
    state = found.segments[number]
    return (
        str(state.base_offset),
        str(state.end_offset - 1) if state.end_offset > state.base_offset else "-",
        size_text(state.size),
        iso_time(state.largest_timestamp),
        _SOURCE_WORDS[state.source],
        _goes(found, number),
    )


def _goes(found: PartitionRetention, number: int) -> str:
    state = found.segments[number]
    if number < len(found.reasons):
        return f"now, by {_POLICY_WORDS[found.reasons[number]]}"
    if found.block and state in found.block.held:
        return "blocked"
    if is_empty_last(state):
        return "stays, empty"
    old_at = due(state, found.config)
    if old_at is None:
        return ""
    return duration(old_at - found.now) if old_at > found.now else "blocked"


def _outcome(found: PartitionRetention) -> Iterator[str]:
    if found.reasons:
        shares = [
            f"{share.segments} by {_POLICY_WORDS[policy]}" for policy, share in found.shares().items() if share.segments
        ]
        goes = f"deletes {number_words(len(found.reasons), 'segment')} ({', '.join(shares)}), {size_text(found.space)}"
        yield f"{goes}; the log then starts at {found.new_log_start_offset}"
        if found.rolls:
            yield f"deletes all segments: a new one begins at offset {found.end_offset} first"
    elif found.moves_start:
        yield f"deletes no segment; the log then starts at {found.new_log_start_offset}"
    elif found.block:
        yield "deletes nothing now"
    for file, old, new in found.checkpoint_changes():
        yield f"{file}: {'no entry' if old is None else old} becomes {'no entry' if new is None else new}"
    yield from _next(found)
    if found.tombstones:
        yield _waiting("tombstones", found.tombstones.records, found)
        if found.tombstones.markers.total:
            yield _waiting("transaction markers", found.tombstones.markers, found)
        if found.tombstones.unreadable:
            yield f"{found.tombstones.unreadable} damaged places were skipped in that"


def _next(found: PartitionRetention) -> Iterator[str]:
    following = found.next
    if following is None:
        return
    ways = []
    if following.due is not None and following.due > found.now:
        ways.append(f"at {iso_time(following.due)}, in {duration(following.due - found.now)}")
    if following.more_bytes:
        ways.append(f"once {number_words(following.more_bytes, 'byte')} more have been appended")
    if following.log_start_offset is not None:
        ways.append(f"once the log starts at {following.log_start_offset} or later")
    if ways:
        yield f"Next deletion: segment {following.base_offset}, {', or '.join(ways)}."


def _waiting(what: str, waiting: Waiting, found: PartitionRetention) -> str:
    if not waiting.total:
        return f"no {what}"
    parts = []
    if waiting.due:
        parts.append(f"{waiting.due} may go when the log is cleaned next")
    if waiting.next_horizon is not None:
        parts.append(f"{waiting.waiting} wait for their delete horizon (the first {iso_time(waiting.next_horizon)})")
    if waiting.unset:
        ms = found.config.delete_retention_ms
        horizon = f"that time + delete.retention.ms {ms}"
        parts.append(f"{waiting.unset} get a delete horizon when they are first cleaned: {horizon}")
    return f"{waiting.total} {what}: {'; '.join(parts)}"


def _notes(found: PartitionRetention) -> Iterator[str]:
    if found.dated_by_file:
        yield (
            f"{_listed(found.dated_by_file)}: no timestamp is known, so the time of the .log file counts, which copying"
            " may have changed"
        )
    for doubt in found.doubts:
        offsets = offset_range(doubt.first, doubt.stop - 1)
        yield safe(f"NOT PROVEN: {offsets} go because of this: {doubt.sentences(found.log.path)}")
    if found.other_future:
        yield f"{_listed(found.other_future)}: timestamps of the future, which block what follows them until then"
    if found.config.has_remote_storage:
        yield (
            "the topic is tiered: a broker deletes here only what is in remote storage already, which is not looked at;"
            " the local.retention.* settings count"
        )
    yield from map(safe, found.problems)


def _blocked(found: PartitionRetention, block: Block) -> Iterator[str]:
    held = f"{number_words(len(block.held), 'segment')}, {size_text(block.space)}"
    if block.reason == HIGH_WATERMARK:
        yield f"BLOCKED: nothing goes at or above the high watermark {found.high_watermark}; blocked: {held}"
        return
    name = _name(block.blocker)
    if block.held:
        yield f"BLOCKED: retention stops at {name}, which is not older than {found.config.time_name}; blocked: {held}"
    else:
        yield f"BLOCKED: {name} will not be older than {found.config.time_name} in time, and blocks what follows it"
    state = block.blocker
    largest, source = state.largest_timestamp, _SOURCE_WORDS[state.source]
    yield f"  its largest timestamp is {iso_time(largest)}, {_off(largest, found.now)}, by the {source}"
    if block.batch:
        yield from (f"  {line}" for line in _blocking_batch(found, block.batch))


def _blocking_batch(found: PartitionRetention, blocking: BlockingBatch) -> Iterator[str]:
    record = "" if blocking.record_offset is None else f"record {blocking.record_offset} in "
    who = f" of producer {blocking.producer_id} (epoch {blocking.producer_epoch})" if blocking.producer_id >= 0 else ""
    batch = f"batch {offset_range(blocking.base_offset, blocking.last_offset)} at byte {blocking.position}{who}"
    yield f"{record}{batch} has timestamp {iso_time(blocking.timestamp)}"
    if blocking.unit:
        off = _off(blocking.timestamp, found.now)
        yield f"{blocking.timestamp} is a time in {blocking.unit}; Kafka treats it as ms: {off}"
    if blocking.is_append_time:
        yield "the time was set by the broker (LogAppendTime)"
    others = f"; the others go up to {iso_time(blocking.largest_of_others)}" if blocking.largest_of_others >= 0 else ""
    batches = number_words(blocking.batches, "batch", "batches")
    are = "is" if blocking.young == 1 else "are"
    yield f"{blocking.young} of {batches} in the segment {are} too young to go{others}"


def _advice(items: Iterator[Advice]) -> Iterator[str]:
    yield "what you can do:"
    for item in items:
        first, *more = wrap(safe(item.text), WIDTH - 6) or [""]
        yield f"  - {first}"
        yield from (f"    {line}" for line in more)
        yield from (f"      {safe(command)}" for command in item.commands)


def _off(timestamp: int, now: int) -> str:
    if timestamp > now:
        return f"{duration(timestamp - now)} ahead of the clock"
    return f"{duration(now - timestamp)} ago"


def _shown(totals: Totals, policy: Policy) -> tuple[str, str, str]:
    share, alone = totals.shares[policy], totals.alone[policy]
    only = f"{number_words(alone.segments, 'segment')}, {size_text(alone.space)}" if alone.segments else "-"
    return str(share.segments), size_text(share.space), only


def _name(state: SegmentState) -> str:
    return os.path.basename(state.segment.log_path)


def _listed(states: Sequence[SegmentState]) -> str:
    return listed(list(map(_name, states)), NAMES_SHOWN)
