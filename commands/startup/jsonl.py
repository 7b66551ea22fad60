"""`kdump startup --format jsonl`: one JSON object a line, as docs/startup.md has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kdump.operations.startup import BrokerStart, Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import Failure, Loss, Step

from ..shell.paths import place_of
from ..shell.rows import json_line, with_old_names

Row = dict[str, Any]

_OLD_DIRECTORY = {"isOnline": "ok", "isClean": "clean"}
_OLD_OUTCOME = {"isLoaded": "ok", "isClean": "clean", "hasLoss": "losesData"}
_OLD_BROKER = {"isStartable": "starts"}
_OLD_FAILURE = {"isBrokerStartable": "brokerStarts"}


class JsonPrinter:
    """Prints outcomes as JSON lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """Write what concerns a log directory as a whole."""
        fields = {
            "path": state.path,
            "isOnline": not state.failures,
            "isClean": state.clean if clean is None else clean,
            "failures": [_failure(failure) for failure in state.failures],
            "isController": state.is_controller,
            "warnings": list(state.warnings),
        }
        self._write(json_line("logDirectory", fields, _OLD_DIRECTORY))

    def failures(self, failures: Sequence[Failure]) -> None:
        """Write what keeps the broker from loading anything."""
        for failure in failures:
            self._write(json_line("failure", _failure(failure)))

    def log(self, loaded: Loaded) -> None:
        """Write a line for each step, and the outcome."""
        place, startup, outcome = place_of(loaded.path), loaded.startup, loaded.outcome
        for step in outcome.steps:
            self._write(json_line("step", place | _step(step)))
        is_loaded = outcome.ok
        fields = place | {
            "state": loaded.state or "live",
            "isLoaded": is_loaded,
            "failure": _failure(outcome.failure) if outcome.failure else None,
            "isClean": startup.clean,
            "recoveryPoint": startup.recovery_point,
            "highWatermark": loaded.high_watermark,
            "logStartOffset": outcome.log_start_offset if is_loaded else None,
            "logEndOffset": outcome.log_end_offset if is_loaded else None,
            "newRecoveryPoint": outcome.recovery_point if is_loaded else None,
            "hasLoss": outcome.loss.has_data,
            "lost": _loss(outcome.loss),
            "stray": loaded.stray,
            "expiring": list(loaded.expiring),
            "files": {name: recipe.size for name, recipe in outcome.files.items()} if outcome.files else None,
        }
        self._write(json_line("outcome", fields, _OLD_OUTCOME))

    def end(self, start: BrokerStart) -> None:
        """Write what log directories come to together: the `broker` row."""
        if not start.directories:
            return
        fields = {
            "kafka": start.circumstances.release.minor if start.circumstances.release else None,
            "isStartable": not start.stops,
            "offline": sorted(start.offline),
            "failures": [_failure(failure) for failure in start.stops],
            "orderDecides": start.by_order,
        }
        self._write(json_line("broker", fields, _OLD_BROKER))


def _step(step: Step) -> Row:
    return {
        "action": step.action,
        "file": step.file,
        "why": step.why,
        "position": step.position,
        "size": step.size,
        "lost": _loss(step.loss) if step.loss else None,
    }


def _loss(loss: Loss) -> Row:
    return {
        "bytes": loss.bytes,
        "zeros": loss.zeros,
        "batches": loss.batches,
        "records": loss.records,
        "firstOffset": loss.first_offset,
        "lastOffset": loss.last_offset,
    }


def _failure(failure: Failure) -> Row:
    row = {
        "exception": failure.exception,
        "message": failure.text,
        "file": failure.file,
        "position": failure.batch[0] if failure.batch else None,
        "isBrokerStartable": failure.offline,
    }
    return with_old_names(row, _OLD_FAILURE)
