"""The commands' own jobs on Spark: the same functions that the local engine calls, one call a task.

What a task raises comes back as a value, so that one bad partition does not end a job.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kdump.errors import KdumpError
from kdump.export.journal import Result
from kdump.export.options import ExportOptions
from kdump.export.plan import Unit
from kdump.export.run import Failure, Outcome
from kdump.spark.errors import reason
from kdump.spark.session import SparkError, spark_session
from kdump.stats.partition import Stats, StatsOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Value = TypeVar("Value")
Progress = Callable[[int, int], None]

POLL_SECONDS = 0.25
MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to run: Spark's master URL and settings. `progress` hears how many tasks are done, and of how many."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = lambda _, __: None


class SparkExport:
    """An export's engine: a task for each segment. The directory has to be one that all executors share."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, units: Sequence[Unit], folder: str, options: ExportOptions) -> Iterator[Outcome]:
        """The results, when all are there. Raises SparkError, JavaError."""
        call = partial(_export, folder=folder, options=options)
        yield from zip(units, run_all(self._cluster, call, units), strict=True)


def stats_of(cluster: Cluster, paths: Sequence[str], options: StatsOptions) -> list[Stats | Failure]:
    """The figures of partition directories, a task for each. Raises SparkError, JavaError."""
    return run_all(cluster, partial(_stats, options=options), paths)


def run_all(
    cluster: Cluster, call: Callable[[Item], Value], items: Sequence[Item] | Callable[[int], Sequence[Item]]
) -> list[Value]:
    """What `call` makes of each item, in their order; `items` may depend on how many tasks run at once.

    Relative paths are those of this process. Raises SparkError, JavaError.
    """
    if not items:
        return []
    with spark_session(cluster.master, cluster.conf) as spark, _watching(spark, cluster.progress):
        try:
            context = spark.sparkContext
            wanted = items(context.defaultParallelism) if callable(items) else items
            # a task for every item while they are few: the longest then keeps the others waiting the least
            tasks = context.parallelize(wanted, min(len(wanted), MOST_TASKS))
            found: list[Value] = tasks.map(partial(_in_folder, os.getcwd(), call)).collect()
        except Exception as error:
            raise SparkError(f"Spark failed: {reason(error)}") from None
        return found


@contextmanager
def _watching(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Tell of the job's progress, by Spark's status tracker, until the `with` ends."""
    done = threading.Event()
    tracker: Any = spark.sparkContext.statusTracker()

    def watch() -> None:
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


def _export(unit: Unit, folder: str, options: ExportOptions) -> Result | Failure:
    from kdump.export.work import export_unit

    try:
        return export_unit(unit, folder, options)
    except (KdumpError, OSError) as error:
        return _portable(error)


def _stats(path: str, options: StatsOptions) -> Stats | Failure:
    from kdump.stats.partition import partition_stats
    from kdump.storage.partition_log import PartitionLog

    try:
        return partition_stats(PartitionLog(path), options)
    except (KdumpError, OSError) as error:
        return _portable(error)


def _portable(error: Failure) -> Failure:
    """The error as one that can be sent to another process."""
    return error if isinstance(error, OSError) else KdumpError(str(error))
