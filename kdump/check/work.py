"""The pieces of work of a verification, as plain data: partitions, their segments, and what is around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from kdump.check.batch_rows import Piece
from kdump.check.directory import Owner
from kdump.check.state import Verified
from kdump.findings.finding import Finding
from kdump.settings.retention import RetentionSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment


class Before(NamedTuple):
    """What is known of the log before the first segment that is looked at; nothing where that is its start."""

    last_offset: int | None = None
    leader_epoch: int = -1


class LogDirectoryContext(NamedTuple):
    """The log directory around partitions: its checkpoints, whether all logs were closed cleanly, its broker.

    `directory` is None where there is none. `log` is the partition, if somebody has listed it already, `retention` what
    decides how it is loaded, if somebody knows that.
    """

    checkpoints: Checkpoints
    was_closed: bool
    owner: Owner
    directory: LogDirectory | None = None
    log: PartitionLog | None = None
    retention: RetentionSettings | None = None


class PartitionRange(NamedTuple):
    """The part of a run that one of several processes does: the partitions number `first` to `stop` - 1 of all.

    What is found around the partitions of a log directory goes with its first one. Without `stop`, the rest.
    """

    first: int = 0
    stop: int | None = None

    def has(self, number: int) -> bool:
        """Return whether a partition is in it."""
        return number >= self.first and (self.stop is None or number < self.stop)


EVERYTHING = PartitionRange()


class PartitionTask(NamedTuple):
    """A partition to check; `only` what concerns the files whose names begin so.

    It is held for as long as `hold` is open. `is_live`: a broker is running on its log directory. `known` are the first
    segments, which were verified before and are left out. `is_rolled`: others that are not checked follow the segments.
    """

    log: PartitionLog
    segments: list[Segment]
    around: LogDirectoryContext
    hold: ExitStack
    before: Before | None = None
    only: str = ""
    is_live: bool = False
    known: Sequence[Verified] = ()
    is_rolled: bool = False

    @property
    def was_closed(self) -> bool:
        """Whether the last of the segments was rolled, or closed by a clean shutdown.

        A clean shutdown tells nothing of the cluster's metadata log: Kafka 4.4 closes it without the last entry of the
        time index and leaves its indexes preallocated, and every release opens it as after a crash.
        """
        return self.is_rolled or (self.around.was_closed and not self.log.is_cluster_metadata)


class Opening(NamedTuple):
    """A segment begins."""

    segment: Segment


class Closing(NamedTuple):
    """A segment or (None) a partition is over."""

    segment: Segment | None


class DirectoryFindings(NamedTuple):
    """Findings about what is around the partitions, or beside the segments of one: at `path`."""

    path: str
    findings: Iterable[Finding]


Task = PartitionTask | Opening | Piece | Closing | DirectoryFindings
