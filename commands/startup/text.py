"""`kdump startup` in plain words: what would be lost first, then what the broker does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from kdump.formats.names import DELETE as BEING_DELETED
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import (
    CREATE,
    DELETE,
    DROP,
    EMPTY,
    RECOVER,
    RENAME,
    SPLIT,
    TRIM,
    TRUNCATE,
    WARN,
    WRITE,
    Failure,
    Step,
)

from ..shell.output import Style, number_words, safe, safe_path, size_text
from ..shell.words import loss_words
from .report import Loaded, Totals

_VERBS = {
    DELETE: "deletes",
    RENAME: "renames",
    CREATE: "creates",
    RECOVER: "checks",
    TRUNCATE: "cuts",
    EMPTY: "empties",
    DROP: "removes",
    SPLIT: "splits",
    WRITE: "writes",
    TRIM: "trims",
    WARN: "note",
}
_VERB_WIDTH = max(map(len, _VERBS.values()))
_MOST_ALIKE = 3


class TextPrinter:
    """Prints outcomes for people; of partitions that come to no harm in a log directory one line, unless `verbose`."""

    def __init__(self, write: Callable[[str], None], *, verbose: bool = False, color: bool = False) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._verbose = verbose
        self._totals = Totals()
        self._was_quiet = False
        self._bold = Style(color, bold=True)
        self._bad = Style(color, "red", bold=True)
        self._careful = Style(color, "yellow")
        self._good = Style(color, "green")

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """What concerns a log directory as a whole."""
        self._totals.directory(state)
        self._gap()
        self._write(f"{self._bold(safe_path(state.path))} {_shutdown(state, clean)}\n")
        for warning in state.warnings:
            self._write(f"  {self._careful('warning')}: {safe(warning)}\n")
        self._tell_failures(state.failures)
        self._write("\n")

    def failures(self, failures: Sequence[Failure]) -> None:
        """What keeps the broker from loading anything."""
        self._totals.failures(failures)
        if failures:
            self._gap()
            self._tell_failures(failures)
            self._write("\n")

    def log(self, loaded: Loaded) -> None:
        """One partition."""
        self._totals.log(loaded)
        if loaded.is_quiet and not loaded.is_named and not self._verbose:
            self._write(f"{safe_path(loaded.path)}: {self._good('nothing is lost')}; {_in_short(loaded)}\n")
            self._was_quiet = True
            return
        self._gap()
        self._write(f"{self._bold(safe_path(loaded.path))}: {self._verdict(loaded)}\n")
        for line in _facts(loaded):
            self._write(f"  {line}\n")
        for step in loaded.outcome.steps:
            self._write(f"    {_VERBS[step.action]:<{_VERB_WIDTH}}  {_step_words(step)}\n")
        if not loaded.outcome.steps and loaded.outcome.ok:
            self._write("    changes nothing\n")
        self._write("\n")

    def end(self) -> None:
        """The last lines of several partitions, and whether the broker starts."""
        totals = self._totals
        if totals.logs < 2 and not totals.directories:
            return
        self._gap()
        losing = f"{totals.losing} would lose data"
        if totals.losing:
            losing = self._bad(losing) + f" ({loss_words(totals.loss, offsets=False)})"
        failing = f"{totals.failing} would fail to load"
        self._write(
            f"{number_words(totals.logs, 'partition')}: {losing}, {self._bad(failing) if totals.failing else failing};"
            f" {number_words(totals.checked, 'segment')} with {size_text(totals.checked_bytes)} would be checked\n"
        )
        if totals.stops_broker:
            self._write(self._bad("The broker would not start.") + "\n")

    def _gap(self) -> None:
        """An empty line behind partitions of one line each."""
        if self._was_quiet:
            self._write("\n")
            self._was_quiet = False

    def _tell_failures(self, failures: Sequence[Failure]) -> None:
        for (_, offline), group in groupby(failures, key=lambda failure: (failure.exception, failure.offline)):
            alike = list(group)
            result = _result(offline)
            for failure in alike[:_MOST_ALIKE]:
                self._write(f"  {self._bad('FAILS')}, {result}: {_failure_words(failure)}\n")
            if len(alike) > _MOST_ALIKE:
                self._write(f"  {self._bad('FAILS')}, {result}: {len(alike) - _MOST_ALIKE} more like these\n")

    def _verdict(self, loaded: Loaded) -> str:
        outcome = loaded.outcome
        if outcome.failure:
            return f"{self._bad('FAILS')}, {_result(outcome.failure.offline)}"
        if outcome.loss.has_data:
            return self._bad("LOSES DATA")
        if outcome.loss.bytes:
            return f"{self._good('nothing is lost')} but {number_words(outcome.loss.zeros, 'zero byte')}, never written"
        return self._good("nothing is lost")


def _shutdown(state: DirectoryState, clean: bool | None) -> str:
    if clean is not None:
        how = f"is taken for {'closed' if clean else 'not closed'} in order (--{'' if clean else 'un'}clean)"
    else:
        how = "was closed in order" if state.clean else "was not closed in order (no .kafka_cleanshutdown)"
    if state.clean if clean is None else clean:
        return f"{how}: only segments without an index are checked"
    return f"{how}: logs are checked from their recovery points on"


def _facts(loaded: Loaded) -> list[str]:
    """What loading comes to, line by line; the last line leads over to the steps."""
    outcome, startup = loaded.outcome, loaded.startup
    lines = []
    if loaded.fate:
        lines.append(f"{loaded.state}: {loaded.fate}")
    if outcome.failure:
        lines.append(_failure_words(outcome.failure))
    if outcome.loss.has_data:
        lines.append(f"lost: {loss_words(outcome.loss)}")
        if outcome.loss.batches and any(step.action in (TRUNCATE, EMPTY) for step in outcome.steps):
            lines.append("the good batches can be kept: kdump repair --strategy salvage, before the broker is started")
    if outcome.ok and loaded.state != BEING_DELETED:
        lines.append(
            f"log start offset {outcome.log_start_offset}, log end offset {outcome.log_end_offset}, recovery point"
            f" {outcome.recovery_point}"
        )
    if loaded.committed_missing:
        first, last = loaded.committed_missing
        lines.append(
            f"the high watermark was {last + 1}: the committed offsets {first} to {last} will not be on this replica"
        )
    shutdown = "a clean" if startup.clean else "an unclean"
    how_far = "" if outcome.ok else " gets as far as this" if outcome.steps else " fails at once"
    lines.append(
        f"after {shutdown} shutdown with recovery point {startup.recovery_point} and log start checkpoint"
        f" {startup.log_start_offset} the broker{how_far}"
    )
    return lines


def _in_short(loaded: Loaded) -> str:
    outcome = loaded.outcome
    counts = Counter(step.action for step in outcome.steps)
    done = [
        f"{_VERBS[action]} {number_words(counts[action], noun)}"
        for action, noun in ((RECOVER, "segment"), (DELETE, "file"), (RENAME, "file"), (SPLIT, "segment"))
        if counts[action]
    ]
    notes = [f"note on {step.file}" for step in outcome.steps if step.action == WARN]
    offsets = f"offsets {outcome.log_start_offset} to {outcome.log_end_offset}"
    return safe("; ".join([offsets, *([", ".join(done)] if done else []), *notes]))


def _step_words(step: Step) -> str:
    at = f" at byte {step.position}" if step.position is not None else ""
    read = f" ({size_text(step.size)})" if step.action == RECOVER and step.size else ""
    lost = f" (lost: {loss_words(step.loss)})" if step.loss and step.loss.bytes else ""
    return safe(f"{step.file}{at}{read}: {step.why}{lost}")


def _result(offline: bool) -> str:
    return "the log directory goes offline" if offline else "the broker does not start"


def _failure_words(failure: Failure) -> str:
    place = "" if failure.file in failure.text else failure.file
    if failure.batch:
        place += f"{' at' if place else ''} byte {failure.batch[0]}"
    where = f" ({place.strip()})" if place else ""
    return safe(f"{failure.exception}: {failure.text}{where}")
