"""`kdump compact` for people: how dirty a partition is, what bounds the cleaner, and what comes out of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kdump.change.change import Change
from kdump.clean.cleaning import Cleaning
from kdump.clean.state import ACTIVE, HIGH_WATERMARK, LAG, TRANSACTION, Limit, PartitionState
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import byte_words, count_text, duration, listed, number_words, size_text
from kdump.operations.compact import Compacted

from ..shell.line_budget import LineBudget, more_similar
from ..shell.output import again
from ..shell.tables import TextPrinter
from ..shell.times import iso_time
from ..shell.words import ORIGINALS_KEPT, check_and_undo, places, places_by_change, undoable

GROUPS_SHOWN = 8
_BASES_SHOWN = 6
_HEAD = ("", "NOW", "AFTER")


MAX_SKIPPED = 10
"""So many partitions that are skipped for one reason are listed."""


class Text(TextPrinter):
    """Prints findings for people."""

    def __init__(self, write: Callable[[str], None], now: int, *, is_all: bool = True) -> None:
        """Take `write`, which takes complete lines, and `now`, the time in ms.

        Unless `is_all`, a partition that is due is a line, as far as a screen goes, and the others are counted.
        """
        super().__init__(write)
        self._is_all = is_all
        self._budget = LineBudget(is_all=is_all)
        self._routine = self._more = 0
        self._now = now
        self._skipped: dict[str, list[str]] = {}
        self._partitions = self._due = self._cleaned = self._saved = 0
        self._done: list[str] = []
        self._changes: list[tuple[str, str]] = []

    def partition(self, found: Compacted) -> None:
        """Print one pass over a partition."""
        state, cleaning = found.state, found.cleaning
        is_new = found.number == 1
        self._partitions += is_new
        if cleaning is not None:
            self._due += is_new
            self._cleaned += is_new and bool(found.is_done or found.output)
            self._saved += state.size - cleaning.size_after
            if found.is_done or found.output:
                self._done.append(found.output or state.log.path)
        if found.kept:
            self._changes.append((state.log.path, found.kept))
        if self._is_all:
            self._block(found)
        elif cleaning is None:
            self._routine += is_new
        elif is_new and self._budget.takes():
            self._write(f"{safe_path(state.log.path)}   {_summary(cleaning)}{': done' if found.is_done else ''}\n")
            self._is_first = False
        else:
            self._more += is_new

    def _block(self, found: Compacted) -> None:
        state, cleaning = found.state, found.cleaning
        again = f", pass {found.number}" if found.number > 1 else ""
        self._heading(f"{safe_path(state.log.path)}{again}")
        self._lines(_facts(found))
        self._lines(_limits(state, self._now))
        if cleaning is not None:
            self._table(_HEAD, _comparison(cleaning), right=_HEAD[1:], indent="  ")
            self._lines(_results(cleaning, found.capacity, self._now))
        self._lines(_done(found))

    def skipped(self, path: str, why: str) -> None:
        """Print a partition that is none for the cleaner."""
        self._skipped.setdefault(why, []).append(path)

    def end(self, *, is_complete: bool, finished: Sequence[tuple[str, Change]]) -> None:
        """Print those that were skipped, and the answer.

        `is_complete`: all could be read, nothing was refused. `finished` are interrupted changes that were finished,
        with the paths of their partitions.
        """
        for why, paths in self._skipped.items():
            self._heading(f"skipped: {safe(why)}")
            self._lines(map(safe_path, paths[:MAX_SKIPPED]))
            if len(paths) > MAX_SKIPPED:
                self._lines([f"and {count_text(len(paths) - MAX_SKIPPED)} more: --format jsonl lists them"])
        if self._more:
            self._write(f"{more_similar(self._more)}\n")
        if self._routine:
            verb = "is" if self._routine == 1 else "are"
            self._heading(f"{number_words(self._routine, 'partition')} {verb} not due (-v)")
        changes = [*undoable(finished), *self._changes]
        due = number_words(self._due, "partition")
        smaller = f"{byte_words(max(0, self._saved))} smaller"
        if self._due > self._cleaned:
            self._heading(f"Dry run: nothing was changed. {due} would be {smaller}.\nNext: {again('--apply')}")
        elif self._due or finished:
            done = [f"{due} cleaned", smaller] if self._due else []
            if finished:
                changed = {change.id for _, change in finished}
                done.append(f"{number_words(len(changed), 'interrupted change')} finished")
            self._heading(f"Done. {', '.join(done)}{f'; {ORIGINALS_KEPT}' if changes else ''}.")
            checked = f"verify {places([*self._done, *(path for path, _ in finished)])}"
            self._write("".join(f"{line}\n" for line in check_and_undo(checked, places_by_change(changes))))
        elif self._partitions:
            self._heading("Nothing to do." if is_complete else "Nothing was changed.")


def _summary(cleaning: Cleaning) -> str:
    counts = cleaning.counts
    dropped = counts.records_before - counts.records_after
    smaller = size_text(max(0, counts.size_before - counts.size_after))
    return f"{number_words(dropped, 'record')} dropped, {smaller} smaller"


def _done(found: Compacted) -> Iterator[str]:
    if found.output:
        yield f"written to {safe_path(found.output)}"
    elif found.is_done:
        yield "done"


def _facts(found: Compacted) -> Iterator[str]:
    state, config = found.state, found.config
    total = size_text(state.clean_size + state.cleanable_size)
    ratio = f"dirty ratio {state.dirty_ratio:.3f} ({size_text(state.cleanable_size)} of {total})"
    if state.overdue_since is not None and state.cleanable_size:
        yield f"{ratio}; due since {iso_time(state.overdue_since)} for max.compaction.lag.ms"
    elif state.is_due(config):
        yield f"{ratio}, above {config.min_cleanable_ratio:g}: the cleaner is due"
    else:
        yield f"{ratio}, not above {config.min_cleanable_ratio:g}: the cleaner leaves it alone"
    yield f"log from offset {state.log_start_offset} to {state.log_end_offset}, {size_text(state.size)}"
    if state.first_dirty_offset == state.log_start_offset:
        yield f"never cleaned{f': {safe(state.reset)}' if state.reset else ''}"
    else:
        yield f"clean up to offset {state.first_dirty_offset}"
    if state.first_uncleanable_offset > state.first_dirty_offset:
        yield f"can be cleaned up to offset {state.first_uncleanable_offset}"
    else:
        yield "nothing more can be cleaned now"


def _limits(state: PartitionState, now: int) -> Iterator[str]:
    for number, limit in enumerate(state.limits):
        yield f"{'bounded by' if not number else '       and'} {_limit_words(limit, now)}"
    first = state.limits[0].offset
    if state.first_uncleanable_offset < first and first > state.first_dirty_offset:
        yield f"       The cleaner takes complete segments only: offset {first} is inside one"


def _limit_words(limit: Limit, now: int) -> str:
    if limit.kind == ACTIVE:
        return f"offset {limit.offset}, where the active segment begins"
    if limit.kind == HIGH_WATERMARK:
        return f"offset {limit.offset}, the high watermark: what follows may not be replicated yet"
    if limit.kind == TRANSACTION:
        return f"offset {limit.offset}, where an open transaction of producer {limit.producer_id} begins"
    left = duration(max(0, limit.until - now))
    return f"offset {limit.offset}, whose segment is too young for {LAG} until {iso_time(limit.until)} (in {left})"


def _comparison(cleaning: Cleaning) -> list[tuple[str, str, str]]:
    counts = cleaning.counts
    before = sum(len(group.segments) for group in cleaning.groups)
    rows = (
        ("segments", before, len(cleaning.groups)),
        ("batches", counts.batches_before, counts.batches_after),
        ("records", counts.records_before, counts.records_after),
        ("bytes", counts.size_before, counts.size_after),
        ("bytes of the log", cleaning.state.size, cleaning.size_after),
    )
    return [(name, count_text(now), count_text(after)) for name, now, after in rows]


def _results(cleaning: Cleaning, capacity: int | None, now: int) -> Iterator[str]:
    counts = cleaning.counts
    room = "" if capacity is None or cleaning.is_full else f", of {count_text(capacity)} that fit into the offset map"
    yield f"{number_words(cleaning.keys, 'different key')} in the dirty part{room}"
    yield f"clean up to offset {cleaning.end_offset} afterwards"
    dropped = (
        (counts.superseded, "superseded"),
        (counts.expired, "of tombstones that are due"),
        (counts.aborted, "of aborted transactions"),
        (counts.markers, "transaction markers"),
        (counts.keyless, "without a key"),
    )
    words = [f"{count_text(count)} {what}" for count, what in dropped if count]
    if words:
        yield f"drops records: {', '.join(words)}"
    if counts.tombstones:
        when = "" if counts.first_horizon is None else f", the first until {_horizon(counts.first_horizon, now)}"
        yield f"keeps {number_words(counts.tombstones, 'tombstone')}{when}"
    if counts.emptied:
        batches = number_words(counts.emptied, "batch", "batches")
        yield f"keeps {batches} without records, for producer state or last offset"
    if counts.converted:
        yield f"rewrites {number_words(counts.converted, 'batch', 'batches')} of format v0 or v1 in v2"
    yield from _groups(cleaning)
    if cleaning.is_full:
        room = f"the offset map is full ({count_text(cleaning.keys)} keys; see log.cleaner.dedupe.buffer.size)"
        yield f"{room}: another pass continues at offset {cleaning.end_offset}"


def _horizon(horizon: int, now: int) -> str:
    return f"{iso_time(horizon)} (in {duration(horizon - now)})" if horizon > now else iso_time(horizon)


def _groups(cleaning: Cleaning) -> Iterator[str]:
    for group in cleaning.groups[:GROUPS_SHOWN]:
        bases = [str(facts.base_offset) for facts in group.segments]
        what = f"segment {bases[0]}" if len(bases) == 1 else f"segments {listed(bases, _BASES_SHOWN)}"
        yield f"{what}: {size_text(group.size_before)} become {size_text(group.size_after)}"
    if len(cleaning.groups) > GROUPS_SHOWN:
        yield f"and {len(cleaning.groups) - GROUPS_SHOWN} groups of segments more"
