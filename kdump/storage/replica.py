"""The partitions in the paths at hand, with what the checkpoints beside them say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from kdump.errors import Problem, Report
from kdump.formats import names
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, opened
from kdump.storage.partition import PartitionLog

Result = TypeVar("Result")


class Replica(NamedTuple):
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
        """Return the log end offset. Raises OSError.

        Beside a running broker it is the one that the log has now; where it was deleted, its start.
        """
        from kdump.storage.facts import log_end_offset

        with held(self.log.path) as log:
            return self.log_start_offset if log is None else log_end_offset(log, self.log_start_offset)


def read_replicas(
    replicas: Iterable[Replica], report: Report, read: Callable[[Replica], Iterable[Result]]
) -> Iterator[Result]:
    """Yield what `read` gives of the replicas, one after the other, each readable as it is now meanwhile (live.held).

    Those that a running broker has deleted are left out; one that cannot be read is reported.
    """
    for replica in replicas:
        try:
            with held(replica.log.path) as log:
                if log is not None:
                    yield from read(replica._replace(log=log))
        except OSError as error:
            report(Problem.unreadable(replica.log.path, error))


def farthest(
    found: Iterable[Replica], report: Report, unused: Callable[[Replica, Replica], object] = lambda _, __: None
) -> list[Replica]:
    """Return one replica of each partition, by partition: where there are several, the one whose log reaches farthest.

    `unused` hears of each other one, with the one that is taken.
    """
    chosen: dict[tuple[str, int], tuple[int, Replica]] = {}
    for replica in found:
        key = (replica.topic, replica.partition)
        try:
            end = replica.end_offset()
        except OSError as error:
            report(Problem.unreadable(replica.log.path, error))
            continue
        here = (end, replica)
        if key in chosen:
            other, here = sorted((chosen[key], here), key=lambda item: item[0])
            unused(other[1], here[1])
        chosen[key] = here
    return [chosen[key][1] for key in sorted(chosen)]


def served_logs(place: PartitionLog | LogDirectory, report: Report) -> Iterator[PartitionLog]:
    """Yield the logs that a broker serves of a log directory; a partition directory itself, whatever its state.

    None waits for its deletion, is being moved or is astray; what cannot be listed is reported.
    """
    if isinstance(place, PartitionLog):
        yield place
        return
    for name in place.partition_names:
        path = os.path.join(place.path, name)
        try:
            log = opened(path)
        except OSError as error:
            report(Problem.unreadable(path, error))
            continue
        if log and log.name and not log.name.state:
            yield log


def replicas(places: Iterable[PartitionLog | LogDirectory], report: Report) -> Iterator[Replica]:
    """Yield the replicas in partition directories and log directories.

    Of a log directory those that a broker serves: none that waits for its deletion, is being moved or is astray.
    """
    parents: dict[str, Checkpoints] = {}
    for place in places:
        if isinstance(place, LogDirectory):
            checkpoints = _reported(Checkpoints.read(place.path, _WANTED), report)
            for log in served_logs(place, report):
                yield _replica(log, checkpoints)
        else:
            folder = os.path.dirname(os.path.abspath(place.path))
            if folder not in parents:
                parents[folder] = _reported(Checkpoints.read(folder, _WANTED), report)
            yield _replica(place, parents[folder])


_WANTED = (names.LOG_START_CHECKPOINT, names.REPLICATION_CHECKPOINT)


def _reported(checkpoints: Checkpoints, report: Report) -> Checkpoints:
    for problem in checkpoints.problems:
        report(problem)
    return checkpoints


def _replica(log: PartitionLog, checkpoints: Checkpoints) -> Replica:
    return Replica(log, checkpoints.log_start_offset(log), checkpoints.of(log.name).high_watermark)
