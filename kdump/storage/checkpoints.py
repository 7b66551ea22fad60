"""The four offset checkpoints of a log directory: what was written down of its partitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from kdump.disk.reading import FileStatus, status_of
from kdump.errors import CheckpointError, Problem
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, parse_offset_checkpoint
from kdump.formats.names import PartitionDirName
from kdump.storage.checkpoint_files import read_checkpoint
from kdump.storage.partition import PartitionLog

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]
"""Absolute offsets by topic and number of the partition."""


def read_entries(path: str) -> list[OffsetCheckpointEntry]:
    """Read the lines of an offset checkpoint in order; none without the file. Raises OSError, CheckpointError."""
    try:
        data = read_checkpoint(path)
    except (FileNotFoundError, IsADirectoryError):
        return []
    return parse_offset_checkpoint(data, path)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; of several lines for one partition the last counts. Empty without the file.

    Raises OSError, CheckpointError.
    """
    return {(topic, partition): offset for topic, partition, offset in read_entries(path)}


class PartitionCheckpoints(NamedTuple):
    """What the checkpoints say of a partition: absolute offsets, None where they do not."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner: int | None = None

    def log_start_offset(self, first: int) -> int:
        """Return where a log starts: at its `first` base offset, or at the offset written down where that is higher."""
        return max(self.log_start or 0, first)


def remote_start_offset(checkpoint: int | None, local_start: int, is_tiered: Callable[[], bool]) -> int | None:
    """Return where (absolute) a log starts in remote storage; None where all of it is local.

    Of a tiered topic the log start offset of the checkpoint counts though no segment reaches down to it, 0 without one
    (LogLoader.load).
    """
    start = checkpoint or 0
    return start if start < local_start and is_tiered() else None


_FIELDS = (
    names.LOG_START_CHECKPOINT,
    names.RECOVERY_POINT_CHECKPOINT,
    names.REPLICATION_CHECKPOINT,
    names.CLEANER_CHECKPOINT,
)


def checkpoint_versions(folder: str) -> tuple[FileStatus | str, ...]:
    """Return what tells one version of a directory's checkpoints from the next; a file that is not there is one too."""
    found: list[FileStatus | str] = [folder]
    for name in names.OFFSET_CHECKPOINTS:
        try:
            found.append(status_of(os.path.join(folder, name)))
        except OSError as error:
            found.append(str(error))
    return tuple(found)


class Checkpoints(NamedTuple):
    """What the checkpoints of the log directory `folder` say: lines by file name.

    `errors` say by file name what cannot be parsed (CheckpointError) or read (OSError); such a file has no lines. What
    a broker makes of it is told by recovery.broker_start.
    """

    folder: str
    lines: Mapping[str, Offsets] = {}
    errors: Mapping[str, CheckpointError | OSError] = {}

    @classmethod
    def read(cls, folder: str, files: Iterable[str] = names.OFFSET_CHECKPOINTS) -> Self:
        """Read the checkpoints of a log directory, or some of them. Never raises."""
        found = cls(folder, lines := {}, errors := {})
        for name in files:
            try:
                lines[name] = read_offsets(found.path(name))
            except (CheckpointError, OSError) as error:
                errors[name] = error
        return found

    def path(self, file: str) -> str:
        """Return the path of a checkpoint."""
        return os.path.join(self.folder, file)

    def of(self, name: PartitionDirName | None) -> PartitionCheckpoints:
        """Return what they say of a partition. One that is on its way here shares its lines with the live one."""
        if name is None:
            return PartitionCheckpoints()
        key = name.topic, name.partition
        return PartitionCheckpoints(*(self.lines.get(file, {}).get(key) for file in _FIELDS))

    def log_start_offset(self, log: PartitionLog) -> int:
        """Return where a log starts: at its first segment, or at the offset written down where that is higher."""
        return self.of(log.name).log_start_offset(log.segments[0].base_offset if log.segments else 0)

    @property
    def problems(self) -> Iterator[Problem]:
        """What cannot be parsed or read."""
        for file, error in self.errors.items():
            yield Problem.failed(self.path(file), error)

    def readable(self) -> Self:
        """Return them, where all can be read. Raises OSError."""
        for error in self.errors.values():
            if isinstance(error, OSError):
                raise error
        return self

    def strict(self) -> Self:
        """Return them, where there is nothing wrong with any. Raises OSError, CheckpointError."""
        for error in self.errors.values():
            raise error
        return self
