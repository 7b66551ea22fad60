"""What `kdump startup` tells, and what has to be able to print it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kdump.formats.names import DELETE, LIVE
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import RECOVER, Failure, LoadOutcome, Loss, total_loss
from kdump.recovery.startup import Startup


@dataclass(frozen=True, slots=True)
class Loaded:
    """A partition and what loading makes of it.

    `state` is that of its directory (names.LIVE, …), `fate` what the broker does with it besides; None: it serves it.
    `high_watermark` is the last one written down, None without. `is_named`: it was asked for by itself.
    """

    path: str
    startup: Startup
    outcome: LoadOutcome
    state: str = LIVE
    fate: str | None = None
    high_watermark: int | None = None
    is_named: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing that somebody has to know about it."""
        is_whole = self.outcome.ok and not self.outcome.loss.has_data
        return is_whole and self.fate is None and self.committed_missing is None

    @property
    def committed_missing(self) -> tuple[int, int] | None:
        """The first and the last of the committed offsets that will not be there, by the high watermark; else None."""
        end, mark = self.outcome.log_end_offset, self.high_watermark
        if not self.outcome.ok or self.state == DELETE or mark is None or mark <= end:
            return None
        return end, mark - 1


class Totals:
    """Sums over the partitions and directories of a run."""

    def __init__(self) -> None:
        self.logs = self.losing = self.failing = self.directories = self.checked = self.checked_bytes = 0
        self.loss = Loss()
        self.stops_broker = False

    def directory(self, state: DirectoryState) -> None:
        """Count a log directory."""
        self.directories += 1
        self.failures(state.failures)

    def failures(self, failures: Sequence[Failure]) -> None:
        """Count what keeps the broker from starting."""
        self.stops_broker |= any(not failure.offline for failure in failures)

    def log(self, loaded: Loaded) -> None:
        """Count a partition."""
        outcome = loaded.outcome
        self.logs += 1
        self.losing += outcome.loss.has_data
        self.loss = total_loss((self.loss, outcome.loss))
        for step in outcome.steps:
            if step.action == RECOVER:
                self.checked += 1
                self.checked_bytes += step.size or 0
        if outcome.failure:
            self.failing += 1
            self.failures([outcome.failure])


class Printer(Protocol):
    """What prints the outcomes, in the order in which they come."""

    def directory(self, state: DirectoryState, clean: bool | None) -> None:
        """What concerns a log directory as a whole; its partitions follow.

        `clean` is what the command line says of the last shutdown, None: as the directory has it.
        """

    def failures(self, failures: Sequence[Failure]) -> None:
        """What keeps the broker from loading anything."""

    def log(self, loaded: Loaded) -> None:
        """One partition."""

    def end(self) -> None:
        """Nothing comes any more."""
