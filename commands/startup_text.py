"""`kdump startup` in plain words: what would be lost first, then what the broker does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kdump.recovery.config import Startup
from kdump.recovery.log_manager import DirectoryState
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
    LoadOutcome,
    Loss,
    Step,
)

from .output import safe, safe_path

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


class TextPrinter:
    """Prints outcomes for people."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._logs = self._losing = self._failing = 0

    def directory(self, state: DirectoryState) -> None:
        """What concerns a log directory as a whole."""
        how = "was closed in order" if state.clean else "was not closed in order (no .kafka_cleanshutdown)"
        self._write(f"{safe_path(state.path)}: {how}\n")
        for warning in state.warnings:
            self._write(f"  warning: {safe(warning)}\n")
        self.failures(state.failures)
        self._write("\n")

    def failures(self, failures: Sequence[Failure]) -> None:
        """What keeps the broker from loading anything."""
        for failure in failures:
            self._write(f"  {_failure_words(failure)}\n")

    def log(self, path: str, startup: Startup, outcome: LoadOutcome) -> None:
        """One partition."""
        self._logs += 1
        self._losing += outcome.loss.has_data
        self._failing += not outcome.ok
        shutdown = "clean" if startup.clean else "unclean"
        self._write(f"{safe_path(path)}\n")
        if outcome.failure:
            self._write(f"  {_failure_words(outcome.failure)}\n")
        if outcome.ok or outcome.loss.bytes:
            self._write(f"  {_verdict(outcome)}\n")
        if outcome.ok:
            self._write(f"  log start offset {outcome.log_start_offset}, log end offset {outcome.log_end_offset}\n")
        self._write(
            f"  after {'a' if startup.clean else 'an'} {shutdown} shutdown with recovery point"
            f" {startup.recovery_point} and log start checkpoint {startup.log_start_offset} the broker\n"
        )
        for step in outcome.steps:
            self._write(f"    {_VERBS[step.action]:<{_VERB_WIDTH}}  {_step_words(step)}\n")
        if not outcome.steps:
            self._write("    changes nothing\n")
        self._write("\n")

    def end(self) -> None:
        """The last line of several partitions."""
        if self._logs > 1:
            self._write(
                f"{self._logs} partitions: {self._losing} would lose data, {self._failing} would fail to load\n"
            )


def _verdict(outcome: LoadOutcome) -> str:
    loss = outcome.loss
    if loss.has_data:
        return f"LOST: {_loss_words(loss)}"
    if loss.bytes:
        return f"nothing is lost but {_number(loss.zeros, 'zero byte')}"
    return "nothing is lost"


def _step_words(step: Step) -> str:
    at = f" at byte {step.position}" if step.position is not None else ""
    lost = f" (lost: {_loss_words(step.loss)})" if step.loss and step.loss.bytes else ""
    return safe(f"{step.file}{at}: {step.why}{lost}")


def _loss_words(loss: Loss) -> str:
    if loss.zeros and not loss.has_data:
        return _number(loss.zeros, "zero byte")
    text = f"{_number(loss.bytes, 'byte')} with {_number(loss.batches, 'good batch', 'good batches')}"
    if loss.first_offset is None:
        return text
    return f"{text}, {_number(loss.records, 'record')}, offsets {loss.first_offset} to {loss.last_offset}"


def _failure_words(failure: Failure) -> str:
    result = "the log directory goes offline" if failure.offline else "the broker does not start"
    return safe(f"FAILS, {result}: {failure.exception}: {failure.text} ({failure.file})")


def _number(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
