"""`kdump groups` for people: each group with its members and commits, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kdump.formats.printable import safe
from kdump.formats.words import byte_words, count_text, number_words
from kdump.topics.groups import Commit, Group, GroupType, Member
from kdump.topics.lag import BEFORE_START, BEYOND_CODE, BEYOND_END, Range, Ranges
from kdump.topics.share_state import ShareStart

from ..shell.line_budget import LineBudget
from ..shell.screen import Screen
from ..shell.tables import Row, aligned, times_of_table
from ..shell.times import iso_time
from ..shell.words import verdict

MAX_ROWS, MAX_MEMBERS = 36, 8
"""Partitions and members of a group that are listed by default; partitions with remarks come first then."""


class Text:
    """Prints groups as far as a screen goes, those first that need somebody, and the verdict; -v: all, as they come."""

    def __init__(self, write: Callable[[str], object], retention_ms: int, now: int) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._retention_ms = retention_ms
        self._now = now
        self._held: list[tuple[bool, list[str]]] = []
        self._groups = self._dead = self._dead_bytes = 0
        self._commits = self._beyond = 0

    def group(self, group: Group, ranges: Ranges, *, is_beyond: bool) -> None:
        """Take a group; `is_beyond`: it needs somebody, for a commit is above the log end offset."""
        self._groups += 1
        for commit in (*group.commits, *group.pending):
            known = ranges.of(commit.topic, commit.partition)
            self._commits += 1
            self._beyond += known is not None and known.place(commit) == BEYOND_END
        if group.is_dead:
            self._dead += 1
            self._dead_bytes += group.superseded_bytes
            return
        lines = _lines(group, ranges, self._retention_ms, self._now)
        if Screen.current.verbosity:
            self._write("".join(lines))
        else:
            self._held.append((is_beyond, list(lines)))

    def end(self, code: int) -> None:
        """Print what was held, the deleted groups, and the verdict."""
        if self._groups:
            self._write("".join((*self._rest(), *self._verdict(code))))

    def _rest(self) -> Iterator[str]:
        budget = LineBudget()
        self._held.sort(key=lambda held: not held[0])
        more = 0
        for _, lines in self._held:
            if not more and budget.takes(len(lines)):
                yield from lines
            else:
                more += 1
        if more:
            yield f"{number_words(more, 'more group')}: -v lists all, --group some.\n\n"

    def _verdict(self, code: int) -> Iterator[str]:
        if self._dead:
            verb = "takes" if self._dead == 1 else "take"
            dead = number_words(self._dead, "deleted group")
            yield f"{dead} still {verb} {byte_words(self._dead_bytes)}, until compaction removes it\n"
        found = []
        if self._beyond:
            verb = "is" if self._beyond == 1 else "are"
            commits = f"{count_text(self._beyond)} of {number_words(self._commits, 'commit')}"
            found.append(f"{commits} {verb} above the log end offset")
        yield f"{verdict(code, found, number_words(self._groups - self._dead, 'group'))}\n"
        if self._beyond:
            yield f"auto.offset.reset decides where the consumer continues.\nNext: kdump explain {BEYOND_CODE}\n"


def _lines(group: Group, ranges: Ranges, retention_ms: int, now: int) -> Iterator[str]:
    commits = len(group.commits) + len(group.pending)
    said = [*_headline(group), *([number_words(commits, "commit")] if commits else []), byte_words(group.live_bytes)]
    yield f"{safe(group.name) or '(no name)'}: {', '.join(said)}\n"
    if Screen.current.verbosity:
        yield (
            f"  in __consumer_offsets-{group.partition}: {_amount(group.live_bytes, group.live_records)} live,"
            f" {_amount(group.superseded_bytes, group.superseded_records)} superseded\n"
        )
    members = [_member_cells(member) for member in group.members]
    heading: tuple[str, ...] = ("MEMBER", "CLIENT", "HOST", "EPOCH", "STATE", "ASSIGNED")
    yield from _table(heading, members, MAX_MEMBERS, "member", drop=("EPOCH", "HOST", "STATE"))
    every = (*group.commits, *group.pending)
    date, shown = times_of_table([commit.commit_timestamp for commit in every if commit.commit_timestamp != -1])
    rows = [_commit_cells(group, commit, ranges, retention_ms, now, shown) for commit in every]
    if len(rows) > MAX_ROWS and not Screen.current.verbosity:
        rows.sort(key=lambda row: not row[-1])
    heading = ("PARTITION", "COMMITTED", "LOG END", "LAG", "LEADER EPOCH", "COMMITTED AT", "REMARKS")
    yield from _table(
        heading, rows, MAX_ROWS, "partition", right=heading[1:5], drop=("LEADER EPOCH", "COMMITTED AT")
    )
    if date:
        yield f"  Times: {date} UTC.\n"
    starts = [_start_cells(topic, start, ranges) for topic, start in group.share_starts]
    heading = ("PARTITION", "START OFFSET", "LOG END", "LAG", "STATE EPOCH")
    yield from _table(heading, starts, MAX_ROWS, "partition", right=heading[1:])
    yield "\n"


def _table(heading: Row, rows: list[tuple[str, ...]], most: int, what: str, **how: Any) -> Iterator[str]:
    """Yield a table of so many rows at most, and the line about the others; with -v all."""
    shown = rows if Screen.current.verbosity else rows[:most]
    yield from aligned(heading, shown, indent="  ", **how)
    if more := len(rows) - len(shown):
        yield f"  {number_words(more, f'more {what}')}: -v lists all.\n"


def _headline(group: Group) -> Iterator[str]:
    yield f"{group.kind} group"
    yield group.state
    if group.kind is GroupType.CLASSIC:
        if group.state_timestamp >= 0:
            yield f"since {iso_time(group.state_timestamp)}"
        if group.epoch is not None:
            yield f"generation {group.epoch}"
        if group.protocol_type:
            yield f"protocol {safe(group.protocol_type)}{f' ({safe(group.protocol)})' if group.protocol else ''}"
        if group.leader:
            yield f"leader {safe(group.leader)}"
        return
    if group.epoch is not None:
        yield f"epoch {group.epoch}"
    if group.assignment_epoch is not None:
        yield f"assignment epoch {group.assignment_epoch}"


def _amount(size: int, records: int) -> str:
    return f"{byte_words(size)} in {number_words(records, 'record')}"


def _member_cells(member: Member) -> tuple[str, ...]:
    name = safe(member.member_id)
    if member.instance_id:
        name += f" ({safe(member.instance_id)})"
    epoch = "-" if member.epoch is None else str(member.epoch)
    assigned = " ".join(f"{safe(topic)}:{_ranges(numbers)}" for topic, numbers in member.assignment) or "-"
    return name, safe(member.client_id), safe(member.client_host), epoch, member.state or "-", assigned


def _ranges(numbers: list[int]) -> str:
    """Return sorted numbers in short: 0-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] + 1 == number:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _commit_cells(
    group: Group, commit: Commit, ranges: Ranges, retention_ms: int, now: int, shown: Callable[[int], str]
) -> tuple[str, ...]:
    known = ranges.of(commit.topic, commit.partition)
    is_beyond = known is not None and known.place(commit) == BEYOND_END
    return (
        f"{safe(commit.topic)}-{commit.partition}",
        str(commit.offset),
        "-" if known is None else str(known.end),
        "-" if known is None or is_beyond else str(known.lag(commit)),
        "-" if commit.leader_epoch < 0 else str(commit.leader_epoch),
        "-" if commit.commit_timestamp == -1 else shown(commit.commit_timestamp),
        ", ".join(_remarks(group, commit, known, retention_ms, now)),
    )


def _remarks(group: Group, commit: Commit, known: Range | None, retention_ms: int, now: int) -> Iterator[str]:
    if commit.producer_id >= 0:
        yield f"pending: transaction of producer {commit.producer_id} is open"
    elif group.is_expired(commit, retention_ms, now):
        yield "expired"
    if known is not None:
        place = known.place(commit)
        if place == BEFORE_START:
            yield f"below the log start offset {known.start}"
        elif place == BEYOND_END:
            yield "above the log end offset"
    if commit.expire_timestamp >= 0:
        yield f"expires {iso_time(commit.expire_timestamp)}"
    if commit.metadata:
        yield f'metadata "{safe(commit.metadata)}"'


def _start_cells(topic: str, start: ShareStart, ranges: Ranges) -> tuple[str, ...]:
    known = ranges.of(topic, start.partition)
    lag = known.lag_of_start(start) if known else None
    return (
        f"{safe(topic)}-{start.partition}",
        "-" if start.start_offset < 0 else str(start.start_offset),
        "-" if known is None else str(known.end),
        "-" if lag is None else str(lag),
        str(start.state_epoch),
    )
