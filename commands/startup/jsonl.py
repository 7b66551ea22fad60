"""`kdump startup --format jsonl`: one JSON object a line, as docs/startup.md has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kdump.operations.startup import BrokerStart, Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import Failure, Loss, Step

from ..shell.paths import place_of
from ..shell.rows import row_line

Row = dict[str, Any]


class JsonPrinter:
    """Prints outcomes as JSON lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """Write what concerns a log directory as a whole."""
        self._row(
            {
                "type": "logDirectory",
                "path": state.path,
                "ok": not state.failures,
                "clean": state.clean if clean is None else clean,
                "failures": [_failure(failure) for failure in state.failures],
                "isController": state.is_controller,
                "warnings": list(state.warnings),
            }
        )

    def failures(self, failures: Sequence[Failure]) -> None:
        """Write what keeps the broker from loading anything."""
        for failure in failures:
            self._row({"type": "failure"} | _failure(failure))

    def log(self, loaded: Loaded) -> None:
        """Write a line for each step, and the outcome."""
        place, startup, outcome = place_of(loaded.path), loaded.startup, loaded.outcome
        for step in outcome.steps:
            self._row({"type": "step"} | place | _step(step))
        ok = outcome.ok
        self._row(
            {
                "type": "outcome",
                **place,
                "state": loaded.state or "live",
                "ok": ok,
                "failure": _failure(outcome.failure) if outcome.failure else None,
                "clean": startup.clean,
                "recoveryPoint": startup.recovery_point,
                "highWatermark": loaded.high_watermark,
                "logStartOffset": outcome.log_start_offset if ok else None,
                "logEndOffset": outcome.log_end_offset if ok else None,
                "newRecoveryPoint": outcome.recovery_point if ok else None,
                "losesData": outcome.loss.has_data,
                "lost": _loss(outcome.loss),
                "stray": loaded.stray,
                "expiring": list(loaded.expiring),
                "files": {name: recipe.size for name, recipe in outcome.files.items()} if outcome.files else None,
            }
        )

    def end(self, start: BrokerStart) -> None:
        """Write what log directories come to together: the `broker` row."""
        if not start.directories:
            return
        self._row(
            {
                "type": "broker",
                "kafka": start.circumstances.release.minor if start.circumstances.release else None,
                "starts": not start.stops,
                "offline": sorted(start.offline),
                "failures": [_failure(failure) for failure in start.stops],
                "orderDecides": start.by_order,
            }
        )

    def _row(self, row: Row) -> None:
        self._write(row_line(row))


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
    return {
        "exception": failure.exception,
        "message": failure.text,
        "file": failure.file,
        "position": failure.batch[0] if failure.batch else None,
        "brokerStarts": failure.offline,
    }
