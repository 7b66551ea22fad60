"""The commands' own jobs on Spark: the same functions that the local engine calls, one call a task.

What a task raises comes back as a value, so that one bad partition does not end a job.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kdump.errors import KdumpError
from kdump.exports.journal import Failure, Outcome, Result
from kdump.exports.options import ExportOptions
from kdump.exports.plan import Unit, groups
from kdump.spark.errors import reason
from kdump.spark.session import SparkError, spark_session
from kdump.statistics.partition import Stats, StatsOptions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Value = TypeVar("Value")
Progress = Callable[[int, int], None]

POLL_SECONDS = 0.25
MAX_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to run: Spark's master URL and settings, or a `session` that there is, which stays.

    `progress` hears how many tasks are done, and of how many.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = lambda _, __: None
    session: SparkSession | None = None

    def opened(self) -> AbstractContextManager[SparkSession]:
        """Return the session, for a `with`. Raises SparkError, JavaError."""
        return spark_session(self.master, self.conf) if self.session is None else nullcontext(self.session)


class SparkExport:
    """An export's engine. The directory has to be one that all executors share."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, units: Sequence[Unit], folder: str, options: ExportOptions) -> Iterator[Outcome]:
        """Yield the results, when all are there. Raises SparkError, JavaError."""
        call = partial(_export, folder=folder, options=options)
        for outcomes in run_all(self._cluster, call, partial(groups, units)):
            yield from outcomes


def stats_of(cluster: Cluster, paths: Sequence[str], options: StatsOptions) -> list[Stats | Failure]:
    """Return the figures of partition directories, a task for each. Raises SparkError, JavaError."""
    return run_all(cluster, partial(_stats, options=options), paths)


def run_all(
    cluster: Cluster, call: Callable[[Item], Value], items: Sequence[Item] | Callable[[int], Sequence[Item]]
) -> list[Value]:
    """Return what `call` makes of each item, in their order; `items` may depend on how many tasks run at once.

    Relative paths are those of this process. Raises SparkError, JavaError.
    """
    if not items:
        return []
    with cluster.opened() as spark, _watching(spark, cluster.progress):
        try:
            context = spark.sparkContext
            wanted = items(context.defaultParallelism) if callable(items) else items
            # a task for every item while they are few: the longest then keeps the others waiting the least
            tasks = context.parallelize(wanted, min(len(wanted), MAX_TASKS))
            found: list[Value] = tasks.map(partial(_in_folder, os.getcwd(), call)).collect()
        except Exception as error:
            raise SparkError(f"Spark failed: {_ended(context) or reason(error)}") from None
        return found


def _ended(context: SparkContext) -> str | None:
    """Return what became of the JVM, if it is gone: nothing that it could have told itself."""
    process: Any = getattr(context._gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        status = None if process is None else process.wait(POLL_SECONDS)
        if status is not None:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            return f"its Java {how}; where memory is short, try --conf spark.driver.memory=512m"
    return None


@contextmanager
def _watching(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Tell of the job's progress, by Spark's status tracker, until the `with` ends."""
    done = threading.Event()
    tracker: Any = spark.sparkContext.statusTracker()

    def watch() -> None:
        with suppress(Exception):  # of a JVM that is gone the job itself will tell
            while not done.wait(POLL_SECONDS):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    progress(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _in_folder(folder: str, call: Callable[[Item], Value], item: Item) -> Value:
    with suppress(OSError):  # on a machine without it relative paths lead nowhere, and that is said of each
        os.chdir(folder)
    return call(item)


def _export(units: Sequence[Unit], folder: str, options: ExportOptions) -> list[Outcome]:
    from kdump.exports.work import export_units

    return [
        (unit, outcome if isinstance(outcome, Result) else _portable(outcome))
        for unit, outcome in export_units(units, folder, options)
    ]


def _stats(path: str, options: StatsOptions) -> Stats | Failure:
    from kdump.statistics.partition import partition_stats
    from kdump.storage.partition import PartitionLog

    try:
        return partition_stats(PartitionLog(path), options)
    except (KdumpError, OSError) as error:
        return _portable(error)


def _portable(error: Failure) -> Failure:
    """Return the error as one that can be sent to another process."""
    return error if isinstance(error, OSError) else KdumpError(str(error))
