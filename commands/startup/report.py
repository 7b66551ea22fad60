"""What partitions and log directories come to together."""

from __future__ import annotations

from kdump.operations.startup import Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import RECOVER, Loss, total_loss


class Totals:
    """Sums over the partitions and directories of a run."""

    def __init__(self) -> None:
        self.logs = self.losing = self.failing = self.stray = self.expiring = 0
        self.checked = self.checked_bytes = 0
        self.directories: list[str] = []
        self.loss = Loss()

    def directory(self, state: DirectoryState) -> None:
        """Count a log directory."""
        self.directories.append(state.path)

    def log(self, loaded: Loaded) -> None:
        """Count a partition."""
        outcome = loaded.outcome
        self.logs += 1
        self.losing += outcome.loss.has_data
        self.loss = total_loss((self.loss, outcome.loss))
        # one without an index is checked when it is opened, and again where it lies behind the recovery point
        checked = {step.file: step.size or 0 for step in reversed(outcome.steps) if step.action == RECOVER}
        self.checked += len(checked)
        self.checked_bytes += sum(checked.values())
        self.failing += not outcome.ok
        self.stray += loaded.stray is not None
        self.expiring += bool(loaded.expiring)
