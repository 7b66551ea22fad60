"""`kdump startup` in plain words: whether the broker starts, what is lost, and one line for all that is routine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kdump.formats import names
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import number_words, offset_range, size_text
from kdump.operations.startup import BrokerStart, Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import Failure, Loss, Step, StepKind, total_loss
from kdump.retention.doubts import Doubt

from ..shell.line_budget import LineBudget, more_similar
from ..shell.output import Style
from ..shell.words import loss_words, start_words

_VERBS = {
    StepKind.DELETE: "delete",
    StepKind.RENAME: "rename",
    StepKind.CREATE: "create",
    StepKind.RECOVER: "check",
    StepKind.TRUNCATE: "cut",
    StepKind.EMPTY: "empty",
    StepKind.DROP: "remove",
    StepKind.HIDE: "hide",
    StepKind.SPLIT: "split",
    StepKind.WRITE: "write",
    StepKind.TRIM: "trim",
    StepKind.WARN: "note",
}
_WIDTH = max(map(len, _VERBS.values())) + 1
_TAKING = (StepKind.DELETE, StepKind.TRUNCATE, StepKind.EMPTY, StepKind.DROP, StepKind.HIDE)
_MAX_SIMILAR = 3


class Totals:
    """Sums over the partitions and directories of a run."""

    def __init__(self) -> None:
        self.logs = self.losing = self.failing = self.stray = self.expiring = 0
        self.checked = self.checked_bytes = 0
        self.directories: list[str] = []
        self.loss = Loss()

    def log(self, loaded: Loaded) -> None:
        """Count a partition."""
        outcome = loaded.outcome
        self.logs += 1
        self.losing += outcome.loss.has_data
        self.loss = total_loss((self.loss, outcome.loss))
        # one without an index is checked when it is opened, and again where it lies behind the recovery point
        checked = {step.file: step.size or 0 for step in reversed(outcome.steps) if step.action == StepKind.RECOVER}
        self.checked += len(checked)
        self.checked_bytes += sum(checked.values())
        self.failing += not outcome.ok
        self.stray += loaded.stray is not None
        self.expiring += bool(loaded.expiring)


class Text:
    """Prints outcomes for people; partitions that come to no harm are a count at the end, unless `verbose`.

    The answer comes first where the broker does not start as it should, so nothing is written before `end`.
    """

    def __init__(self, write: Callable[[str], None], *, verbose: bool = False, is_colored: bool = False) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._verbose = verbose
        self._totals = Totals()
        self._named: list[str] = []
        self._blocks: list[str] = []
        self._ranks: dict[int, int] = {}
        self._heads: list[tuple[int, DirectoryState, bool | None, int, int]] = []
        self._bold = Style(is_colored, bold=True)
        self._bad = Style(is_colored, "red", bold=True)
        self._careful = Style(is_colored, "yellow")

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """Print what concerns a log directory as a whole."""
        self._totals.directories.append(state.path)
        self._heads.append((len(self._blocks), state, clean, self._totals.checked, self._totals.checked_bytes))
        self._blocks.append("")  # written when its partitions are known

    def failures(self, failures: Sequence[Failure]) -> None:
        """Print what keeps the broker from loading anything, which stands at the top."""

    def log(self, loaded: Loaded) -> None:
        """Print one partition."""
        self._totals.log(loaded)
        if loaded.is_named:
            self._named.append(loaded.path)
        if self._verbose or loaded.is_named or not loaded.is_quiet:
            if not (self._verbose or loaded.is_named):
                self._ranks[len(self._blocks)] = _rank(loaded)
            self._blocks.append("".join(f"{line}\n" for line in self._partition(loaded)))

    def end(self, start: BrokerStart) -> None:
        """Print everything, the answer first."""
        for number, (at, state, clean, checked, checked_bytes) in enumerate(self._heads):
            after = self._heads[number + 1][3:] if number + 1 < len(self._heads) else None
            upto, upto_bytes = after or (self._totals.checked, self._totals.checked_bytes)
            self._blocks[at] = self._head(state, clean, upto - checked, upto_bytes - checked_bytes)
        top = "".join(f"{line}\n" for line in self._top(start))
        more = self._leave_out()
        self._write("\n".join(block for block in (top, *self._blocks, more, self._summary(start)) if block))

    def _leave_out(self) -> str:
        """Drop the partitions that are more than a screen takes, those with the least harm first; how many they are."""
        budget = LineBudget(is_all=self._verbose)
        more = 0
        for at in sorted(self._ranks, key=lambda at: (self._ranks[at], at)):
            if not budget.takes(self._blocks[at].count("\n") + 1):
                self._blocks[at] = ""
                more += 1
        return f"{more_similar(more)}\n" if more else ""

    def _top(self, start: BrokerStart) -> Iterator[str]:
        if start.stops or start.offline:
            said = start_words(f"The {start.who}", start.stops, start.offline, self._totals.directories)
            yield self._bad(f"{said}:")
            yield from _failure_lines(start.stops or list(start.offline.values()))
        for path in start.by_order:
            yield f"  {safe_path(path)}: {_ORDER}"

    def _head(self, state: DirectoryState, clean: bool | None, checked: int, checked_bytes: int) -> str:
        read = f"{number_words(checked, 'segment')}, {size_text(checked_bytes)}"
        if state.is_controller:
            lines = [f"{self._bold(safe_path(state.path))}: it belongs to a controller, not to a broker."]
            lines.append(f"It checks {names.CLUSTER_METADATA_DIR}: {read}." if checked else "It checks nothing here.")
        else:
            is_clean = state.clean if clean is None else clean
            shutdown = "formatted, never started." if state.never_started else _shutdown(is_clean, clean is not None)
            lines = [f"{self._bold(safe_path(state.path))}: {shutdown}"]
            lines.append(f"{_HOW[is_clean]}: {read}." if checked else "The broker re-checks no segment.")
        lines += [f"  {self._careful('warning')}  {safe(warning)}" for warning in state.warnings]
        return "".join(f"{line}\n" for line in lines)

    def _partition(self, loaded: Loaded) -> Iterator[str]:
        outcome = loaded.outcome
        yield f"{self._bold(safe_path(loaded.path))}   {self._verdict(loaded)}"
        if outcome.failure:
            yield _line("fails", _failure_words(outcome.failure))
        shows_all = self._verbose or loaded.is_named
        for step in outcome.steps:
            if shows_all or (step.action in _TAKING and step.loss and step.loss.has_data):
                yield _line(_VERBS[step.action], _step_words(step))
        if outcome.ok and loaded.state != names.DELETE:
            yield _line("then", _offsets(loaded))
        if loaded.stray:
            is_known = names.PARTITION_METADATA in (outcome.files or ())
            instead = "" if is_known else "an empty partition takes its place, "
            yield _line("stray", f"{loaded.stray}; {instead}its records are not served")
        if loaded.expiring:
            yield _line("expires", _expiring_words(loaded))
        for doubt in loaded.expiring:
            yield _line("do", _advice_words(doubt))
        if outcome.hides and not loaded.expiring:
            yield _line("do", f"{command_line('kdump', 'rebuild-index', loaded.path, '--apply')}   (loses nothing)")

    def _verdict(self, loaded: Loaded) -> str:
        outcome = loaded.outcome
        if outcome.failure:
            ends = "the log directory goes offline" if outcome.failure.offline else "the process of the broker ends"
            return self._bad(f"does not load: {ends}")
        if loaded.stray:
            return self._bad("goes out of service: the broker renames it to -stray")
        if outcome.loss.has_data:
            return self._bad(f"loses {_lost(loaded)}")
        if loaded.expiring:
            return self._bad("loses segments: retention deletes them soon after the start")
        if loaded.committed_missing:
            first, last = loaded.committed_missing
            return self._bad(f"lacks committed offsets {offset_range(first, last)}")
        if loaded.pending:
            return f"{loaded.state}: {loaded.pending}"
        if outcome.loss.bytes:
            return f"loses {number_words(outcome.loss.zeros, 'zero byte')}, never written"
        return "loses nothing"

    def _summary(self, start: BrokerStart) -> str:
        totals = self._totals
        if totals.logs < 2 and not totals.directories:
            return self._next() if totals.failing or totals.losing or totals.stray or totals.expiring else ""
        starts = f"{start_words(f'The {start.who}', start.stops, start.offline)}."
        if start.stops or start.offline:
            starts = self._bad(starts)
        parts = [
            f"{count} of {number_words(totals.logs, 'partition')} {one if count == 1 else several}"
            for count, one, several in (
                (totals.failing, "would not load", "would not load"),
                (totals.losing, "loses data", "lose data"),
                (totals.stray, "goes out of service", "go out of service"),
                (totals.expiring, "loses segments to retention", "lose segments to retention"),
            )
            if count
        ]
        rest = totals.logs - totals.failing - totals.losing - totals.stray - totals.expiring
        if rest:
            unharmed = str(rest) if parts else number_words(rest, "partition")
            parts.append(f"{unharmed} {'loses' if rest == 1 else 'lose'} nothing")
        needs_somebody = rest < totals.logs or start.stops or bool(start.offline)
        said = f"{starts} {'; '.join(parts)}." if parts else starts
        return f"{said}\n" + (self._next() if needs_somebody else "")

    def _next(self) -> str:
        command = command_line("kdump", "doctor", *(self._totals.directories or self._named))
        return f"Next: {'before you start it: ' if self._totals.losing else ''}{command}\n"


def _rank(loaded: Loaded) -> int:
    """Return how soon a partition has to be seen: what does not load, then what loses data."""
    if loaded.outcome.failure:
        return 0
    return 1 if loaded.outcome.loss.has_data or loaded.committed_missing else 2


_HOW = {
    True: "The broker checks only segments without an index",
    False: "The broker re-checks each log from its recovery point",
}


def _shutdown(is_clean: bool, is_given: bool) -> str:
    if is_given:
        how = "clean" if is_clean else "unclean"
        return f"treated as after {'a' if is_clean else 'an'} {how} shutdown (--{how})."
    return "clean shutdown." if is_clean else "unclean shutdown (.kafka_cleanshutdown is missing)."


def _line(word: str, text: str) -> str:
    return f"  {word:<{_WIDTH}} {text}"


def _lost(loaded: Loaded) -> str:
    """Return the offsets that are lost, as far as anything names them, else the bytes."""
    loss, end, mark = loaded.outcome.loss, loaded.outcome.log_end_offset, loaded.high_watermark
    last = max(-1 if loss.last_offset is None else loss.last_offset, -1 if mark is None else mark - 1)
    if last < end:
        return loss_words(loss)
    valid = f": {number_words(loss.batches, 'valid batch', 'valid batches')} among them" if loss.batches else ""
    return f"offsets {offset_range(end, last)}{valid}"


def _offsets(loaded: Loaded) -> str:
    outcome, mark = loaded.outcome, loaded.high_watermark
    text = f"log start offset {outcome.log_start_offset}, log end offset {outcome.log_end_offset}"
    if loaded.committed_missing:
        return f"{text} (high watermark was {mark})"
    return f"{text}, recovery point {outcome.recovery_point}"


def _expiring_words(loaded: Loaded) -> str:
    offsets = offset_range(*loaded.expiring_offsets) if loaded.expiring_offsets else ""
    first = loaded.expiring[0]
    more = f" (and {len(loaded.expiring) - 1} more)" if len(loaded.expiring) > 1 else ""
    return f"the broker deletes {offsets} at its first check of retention: {safe(first.text)}{more}"


def _advice_words(doubt: Doubt) -> str:
    return f"{doubt.command_line}   ({doubt.advice})" if doubt.command else doubt.advice


_ORDER = (
    "whether the process ends or the directory goes offline depends on the order in which the file system lists its"
    " partitions: for a copy it may be the other"
)


def _failure_lines(failures: Sequence[Failure]) -> Iterator[str]:
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(failure.exception, []).append(failure)
    for similar in kinds.values():
        for failure in similar[:_MAX_SIMILAR]:
            yield f"  {_failure_words(failure)}"
        if len(similar) > _MAX_SIMILAR:
            yield f"  and {len(similar) - _MAX_SIMILAR} more like these"


def _step_words(step: Step) -> str:
    at = f" at byte {step.position}" if step.position is not None else ""
    if step.action == StepKind.TRUNCATE and step.position is not None and step.loss:
        at += f" of {step.position + step.loss.bytes}"
    read = f" ({size_text(step.size)})" if step.action == StepKind.RECOVER and step.size else ""
    return safe(f"{step.file}{at}{read}: {step.why}{_dropped(step)}")


def _dropped(step: Step) -> str:
    """Return which valid batches a step drops, and how much of what is not one where no size is given."""
    loss = step.loss
    if not loss or not loss.bytes:
        return ""
    if loss.batches:
        batches = number_words(loss.batches, "valid batch", "valid batches")
        offsets = offset_range(loss.first_offset, loss.last_offset)
        return f"; drops {batches} ({offsets}, {number_words(loss.records, 'record')})"
    return "" if step.action == StepKind.TRUNCATE else f" ({loss_words(loss)})"


def _failure_words(failure: Failure) -> str:
    place = "" if failure.file in failure.text else failure.file
    if failure.batch:
        place += f"{' at' if place else ''} byte {failure.batch[0]}"
    where = f" ({place.strip()})" if place else ""
    return safe(f"{failure.exception}: {failure.text}{where}")
