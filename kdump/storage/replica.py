"""The partitions in the paths at hand, with what the checkpoints beside them say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kdump.errors import CheckpointError, Problem, Report
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import log_end_offset
from kdump.storage.live import held, opened
from kdump.storage.partition import PartitionLog


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition.

    `log_start_offset` is the checkpoint's or the first segment's base, whichever is larger; `high_watermark` that of
    the checkpoint, None without one. Both are absolute.
    """

    log: PartitionLog
    log_start_offset: int
    high_watermark: int | None

    @property
    def name(self) -> str:
        """The name of the directory."""
        return os.path.basename(os.path.abspath(self.log.path))

    @property
    def topic(self) -> str:
        """The topic; of a directory that is not named as a partition's, its name."""
        return self.log.name.topic if self.log.name else self.name

    @property
    def partition(self) -> int:
        """The partition's number; -1 where the directory's name has none."""
        return self.log.name.partition if self.log.name else -1

    def end_offset(self) -> int:
        """The log end offset. Raises OSError.

        Beside a running broker it is the one that the log has now; where it was deleted, its start.
        """
        with held(self.log.path) as log:
            return self.log_start_offset if log is None else log_end_offset(log, self.log_start_offset)


def held_replicas(found: Iterable[Replica], report: Report) -> Iterator[Replica]:
    """The replicas, one after the other, each readable as it is now until the next one is asked for (live.held).

    Those that a running broker has deleted are left out; what cannot be listed is reported.
    """
    for replica in found:
        try:
            with held(replica.log.path) as log:
                if log is not None:
                    yield replace(replica, log=log)
        except OSError as error:
            report(Problem.unreadable(replica.log.path, error))


def replicas(places: Iterable[PartitionLog | LogDirectory], report: Report) -> Iterator[Replica]:
    """The replicas in partition directories and log directories.

    Of a log directory those that a broker serves: none that waits for its deletion, is being moved or is astray.
    """
    parents: dict[str, _Checkpoints] = {}
    for place in places:
        if isinstance(place, LogDirectory):
            checkpoints = _Checkpoints(place, report)
            for name in place.partition_names:
                path = os.path.join(place.path, name)
                try:
                    log = opened(path)
                except OSError as error:
                    report(Problem.unreadable(path, error))
                    continue
                if log and log.name and not log.name.state:
                    yield checkpoints.replica(log)
        else:
            folder = os.path.dirname(os.path.abspath(place.path))
            if folder not in parents:
                parents[folder] = _checkpoints_in(folder, report)
            yield parents[folder].replica(place)


class _Checkpoints:
    def __init__(self, directory: LogDirectory | None, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._starts = self._read(names.LOG_START_CHECKPOINT)
        self._watermarks = self._read(names.REPLICATION_CHECKPOINT)

    def replica(self, log: PartitionLog) -> Replica:
        key = self._key(log.name)
        start = self._starts.get(key, 0)
        if log.segments:
            start = max(start, log.segments[0].base_offset)
        return Replica(log, start, self._watermarks.get(key))

    def _key(self, name: PartitionDirName | None) -> tuple[str, int]:
        return (name.topic, name.partition) if name else ("", -1)

    def _read(self, name: str) -> dict[tuple[str, int], int]:
        if self._directory is None:
            return {}
        try:
            return self._directory.checkpoint(name)
        except CheckpointError as error:
            self._report(Problem(os.path.join(self._directory.path, name), None, str(error)))
        except OSError as error:
            self._report(Problem.unreadable(os.path.join(self._directory.path, name), error))
        return {}


def _checkpoints_in(folder: str, report: Report) -> _Checkpoints:
    try:
        return _Checkpoints(LogDirectory(folder), report)
    except OSError:  # the partition can be read, what is around it need not be
        return _Checkpoints(None, report)
