"""What `kdump startup` tells, and what has to be able to print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kdump.operations.startup import BrokerStart, Loaded
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import RECOVER, Failure, Loss, total_loss


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


class Printer(Protocol):
    """What prints the outcomes, in the order in which they come."""

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """Take what concerns a log directory as a whole; its partitions follow.

        `clean` is what the command line says of the last shutdown, None: as the directory has it.
        """

    def failures(self, failures: Sequence[Failure]) -> None:
        """Take what keeps the broker from loading anything."""

    def log(self, loaded: Loaded) -> None:
        """Take one partition."""

    def end(self, start: BrokerStart) -> None:
        """Take what it comes to for the broker; nothing comes any more."""
