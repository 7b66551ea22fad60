"""The result of log loading as plain data: what a broker does step by step, and the files that it leaves.

The files are recipes: a range of a file that is there already, or new content. Nothing is written here; whoever
wants the files makes them by the recipes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from kdump.disk.reading import FileStatus
from kdump.findings.kind import Remedy
from kdump.storage.recipe import Recipe


class StepKind(StrEnum):
    """What a step of the loading, or of a salvage, does."""

    DELETE = "delete"
    """Removes a file."""
    RENAME = "rename"
    """Completes an interrupted swap."""
    CREATE = "create"
    """Makes a file that is missing."""
    RECOVER = "recover"
    """Checks a segment's batches and rebuilds its indexes."""
    TRUNCATE = "truncate"
    """Cuts a .log."""
    EMPTY = "empty"
    """Cuts a whole segment because its offsets do not increase."""
    DROP = "drop"
    """Removes a segment with what is in it."""
    HIDE = "hide"
    """Takes the log to end before the batches of a segment, which stay in the file."""
    SPLIT = "split"
    """Replaces a segment whose offsets reach too far by several."""
    WRITE = "write"
    """Gives a file beside the .log new content."""
    TRIM = "trim"
    """Cuts an index to its entries."""
    INSERT = "insert"
    """Puts a transaction marker into a .log, when it is salvaged."""
    MOVE = "move"
    """Puts a batch of a .log where its offsets belong, when it is salvaged."""
    CHANGE = "change"
    """Gives a batch of a .log another leader epoch, when it is salvaged."""
    LEAVE_OUT = "leave-out"
    """Takes bytes out of a .log that cannot be trusted, when it is salvaged."""
    WARN = "warn"
    """Changes nothing."""


(
    DELETE,
    RENAME,
    CREATE,
    RECOVER,
    TRUNCATE,
    EMPTY,
    DROP,
    HIDE,
    SPLIT,
    WRITE,
    TRIM,
    INSERT,
    MOVE,
    CHANGE,
    LEAVE_OUT,
    WARN,
) = StepKind


class Loss(NamedTuple):
    """What goes with the bytes of a .log that a step cuts, removes or hides.

    `batches` are those whose frame and CRC hold, `records` what is in them. `zeros` counts the bytes when all of them
    are zero (never written), else it is 0. The offsets (absolute) are those of the batches; None without any.
    """

    bytes: int = 0
    zeros: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def has_data(self) -> bool:
        """Whether anything but zeros is lost."""
        return self.bytes > self.zeros


class Step(NamedTuple):
    """One thing that the broker does: to which file (its name), and why.

    `position` is where a .log is cut, in bytes; `size` what the file has afterwards, of RECOVER what is read.
    """

    action: StepKind
    file: str
    why: str
    position: int | None = None
    size: int | None = None
    loss: Loss | None = None


class Failure(NamedTuple):
    """The exception in which loading ends (Kafka's class and text), and the file at fault.

    `offline`: only the log directory is given up; otherwise the broker does not start. `batch` is where in a .log the
    batch is that cannot be taken, and its size, both in bytes, if the fault is that of one batch. `remedies` are the
    ways out, where no finding has them.
    """

    exception: str
    text: str
    file: str
    offline: bool
    batch: tuple[int, int] | None = None
    remedies: tuple[Remedy, ...] = ()


_NOTHING: Mapping[str, FileStatus] = {}


class LoadOutcome(NamedTuple):
    """What becomes of a partition directory; offsets, recovery point and files mean nothing where loading fails.

    `files` are those of the directory after loading and a clean close of the log, by name, `present` what the system
    says of those that it had. `has_open_txn`: a transaction is open at the end of the log.
    """

    steps: tuple[Step, ...]
    failure: Failure | None = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    files: dict[str, Recipe] | None = None
    has_open_txn: bool = False
    present: Mapping[str, FileStatus] = _NOTHING

    @property
    def fails_offline(self) -> bool:
        """Whether loading does what fails in a log directory that the broker has found a fault in before.

        That is LocalLog.maybeHandleIOException: around the look at an open transaction, and the removal of segments.
        """
        return self.has_open_txn or any(step.action in (DROP, SPLIT) for step in self.steps)

    @property
    def ok(self) -> bool:
        """Whether loading succeeds."""
        return self.failure is None

    @property
    def hides(self) -> bool:
        """Whether the log ends before batches that stay in its last segment: the index there leads to none."""
        return any(step.action == HIDE for step in self.steps)

    @property
    def loss(self) -> Loss:
        """Everything that is lost."""
        return total_loss(step.loss for step in self.steps if step.loss)


def total_loss(losses: Iterable[Loss]) -> Loss:
    """Return the sum of several losses."""
    found = list(losses)
    firsts = [each.first_offset for each in found if each.first_offset is not None]
    lasts = [each.last_offset for each in found if each.last_offset is not None]
    return Loss(
        sum(each.bytes for each in found),
        sum(each.zeros for each in found),
        sum(each.batches for each in found),
        sum(each.records for each in found),
        min(firsts, default=None),
        max(lasts, default=None),
    )
