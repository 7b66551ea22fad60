"""`kdump startup --format jsonl`: one JSON object a line, as docs/startup.md has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdump.operations.startup import BrokerStart, Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import Failure, Loss

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of

Row = dict[str, Any]


class JsonLines(RowPrinter):
    """Prints outcomes as JSON lines."""

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
        self.row("logDirectory", fields)

    def failures(self, failures: Sequence[Failure]) -> None:
        """Write what keeps the broker from loading anything."""
        for failure in failures:
            self.row("failure", _failure(failure))

    def log(self, loaded: Loaded) -> None:
        """Write a line for each step, and the outcome."""
        place, startup, outcome = place_of(loaded.path), loaded.startup, loaded.outcome
        for step in outcome.steps:
            lost = {"lost": _loss(step.loss) if step.loss else None}
            self.row("step", place | fields_of(step, "action file why position size") | lost)
        is_loaded = outcome.ok
        fields = place | {
            "state": loaded.state or "live",
            "isLoaded": is_loaded,
            "failure": _failure(outcome.failure) if outcome.failure else None,
            **fields_of(startup, "isClean=clean recovery_point"),
            "highWatermark": loaded.high_watermark,
            **fields_of(outcome if is_loaded else None, "log_start_offset log_end_offset"),
            **fields_of(outcome if is_loaded else None, "newRecoveryPoint=recovery_point"),
            "hasLoss": outcome.loss.has_data,
            "lost": _loss(outcome.loss),
            **fields_of(loaded, "stray"),
            "expiring": [doubt.first for doubt in loaded.expiring],
            "files": {name: recipe.size for name, recipe in outcome.files.items()} if outcome.files else None,
        }
        self.row("outcome", fields)

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
        self.row("broker", fields)


def _loss(loss: Loss) -> Row:
    return fields_of(loss, "bytes zeros batches records first_offset last_offset")


def _failure(failure: Failure) -> Row:
    return {
        **fields_of(failure, "exception message=text file"),
        "position": failure.batch[0] if failure.batch else None,
        "isBrokerStartable": failure.offline,
    }
