"""Repair partitions, log directory by log directory: plan, and apply under the safety checks that every change has."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.guard import dropped_batches
from kdump.disk.locks import GrowthWatch, check_not_locked
from kdump.disk.reading import is_named
from kdump.errors import InUseError, KdumpError, Problem, RefusedError, Report
from kdump.formats import names
from kdump.mend.task import Task
from kdump.operations.results import Failed
from kdump.operations.safety import Guard, SafetyOptions, check_backup_dir, check_loss, guarded
from kdump.operations.startup import StartupOptions
from kdump.operations.targets import Bases, Target, Targets
from kdump.recovery.broker_start import directory_state
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.directory import LogDirectory
from kdump.storage.live import internal_errors
from kdump.storage.open import check_has_kafka_files, check_not_kafkas
from kdump.storage.parallel import ordered, processors
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

LARGE_LOG = 4 << 20
"""Bytes of a .log from which on partitions are looked at in several threads."""

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.change.saved_plan import SavedPlans

Examine = Callable[[PartitionLog, Startup, Bases, Clusters], Task]


class Planner(NamedTuple):
    """What plans for partitions, and what the changes are listed as.

    `missing` names the partitions that a log directory lacks and that are to be made, as may any that a path names;
    None: none is made. `takes_files`: files of segments stand for their segments.
    """

    command: str
    examine: Examine
    takes_files: bool = False
    missing: Callable[[LogDirectory, Clusters], Iterable[str]] | None = None


class Repair(NamedTuple):
    """What a repair is made of.

    `circumstances` tell how a broker starts on a partition, with the topics' settings that `clusters` know. `report`
    hears of files of the log directory that cannot be read. `plans` are those of a plan file, with which the plans made
    now are compared.
    """

    planner: Planner
    circumstances: StartupOptions
    clusters: Clusters
    report: Report
    plans: SavedPlans | None = None

    def targets(self) -> Targets:
        """Return what collects the partitions to be repaired."""
        missing, clusters = self.planner.missing, self.clusters
        absent = None if missing is None else lambda directory: missing(directory, clusters)
        return Targets(absent, takes_files=self.planner.takes_files)


class PlanFiles(NamedTuple):
    """Files of plans: `out` is written with those that are made, and those made now must be as `apply` has them."""

    out: str | None
    apply: str | None


class Repaired(NamedTuple):
    """One partition: the task, the interrupted changes that were (or would be) finished first, and what came of it.

    `change` is the change that was applied, None where none was. `error` says why the partition was left alone, but
    for what had been interrupted.
    """

    path: str
    task: Task | None
    interrupted: tuple[Change, ...] = ()
    change: Change | None = None
    error: Exception | None = None
    kept: bool = False

    @property
    def has_work(self) -> bool:
        """Whether something is to be changed, or was: by the plan, or to finish what was interrupted."""
        return self.task is not None and bool(self.task.plan or self.interrupted)

    @property
    def kept_cuts(self) -> list[str]:
        """The files in which what was cut out of logs is kept, in the log directory as it is called in the end."""
        if self.change is None:
            return []
        files = [self.change.file(kept.file) for kept in self.change.cuts]
        inside = os.path.join(os.path.dirname(self.change.path), "")
        if not all(file.startswith(inside) for file in files):
            return files  # in another directory, that of backups
        return [os.path.join(os.path.dirname(self.path), file.removeprefix(inside)) for file in files]


def repair_all(
    targets: Sequence[Target], wanted: Repair, safety: SafetyOptions, files: PlanFiles
) -> Generator[tuple[Target, Repaired | Failed], None, None]:
    """Repair the partitions of several log directories, as `repair`; one that is left alone is Failed.

    The call raises ValueError, TypeError, OSError, RefusedError, and KdumpError for a file that has no plans.
    """
    safety.check()
    if safety.output is not None:
        check_not_kafkas(safety.output)
        if len(targets) > 1:
            raise ValueError("output takes the partitions of one log directory")
    if files.out is not None:
        if safety.applies:
            raise ValueError("plan_out saves a plan for later: leave out apply")
        from kdump.change.checks import check_target

        check_target(files.out)
    if files.apply is not None:
        from kdump.change.saved_plan import load

        wanted = wanted._replace(plans=load(files.apply))
    return _repair_all(targets, wanted, safety, files.out)


def _repair_all(
    targets: Iterable[Target], wanted: Repair, safety: SafetyOptions, plan_out: str | None
) -> Generator[tuple[Target, Repaired | Failed], None, None]:
    rows: list[dict[str, object]] = []
    for target in targets:
        try:
            with closing(repair(target, wanted, safety)) as repaired:  # the lock goes when this ends
                for done in repaired:
                    if plan_out is not None and done.task is not None and done.task.plan is not None:
                        from kdump.change.saved_plan import plan_row

                        rows.append(plan_row(done.task.plan))
                    yield target, done
        except (OSError, KdumpError) as error:
            yield target, Failed(target.log_directory, error)
    if plan_out is not None:
        from kdump.change.saved_plan import save

        save(plan_out, safety.command, rows)


def repair(target: Target, wanted: Repair, safety: SafetyOptions) -> Generator[Repaired, None, None]:
    """Repair the partitions of a log directory; each as it is done, in order.

    Nothing is changed unless `safety` says so; with an output directory it is a copy that is repaired. Raises
    RefusedError and OSError where all partitions of the log directory are left alone.
    """
    if safety.output is not None:
        check_not_locked(target.log_directory)
        if safety.applies:
            yield from _repair_copy(target, wanted, safety, safety.output)
            return
    is_for_copy = safety.output is not None
    if safety.applies:
        target.check_way()
    with guarded(target.log_directory, target.partitions, safety._replace(output=None)) as guard:
        yield from _repair(target, wanted, guard, is_for_copy=is_for_copy)


def _repair(target: Target, wanted: Repair, guard: Guard, *, is_for_copy: bool = False) -> Iterator[Repaired]:
    """Repair the partitions under guard; a plan that `is_for_copy` is one for a directory without a marker."""
    directory = LogDirectory(target.log_directory)
    state = directory_state(directory)
    if is_for_copy:
        state = state._replace(clean=False)
    for problem in state.problems:
        wanted.report(problem._replace(path=target.spoken(problem.path)))
    cluster = wanted.clusters.of(directory)
    settings = wanted.circumstances.settings(cluster.configs, cluster.broker_id)

    @cache
    def loading(topic: str) -> LoadingSettings:
        return wanted.circumstances.loading(topic, settings, cluster.kafka)

    def startup(log: PartitionLog) -> Startup:
        return wanted.circumstances.with_settings(log, state, loading(log.name.topic if log.name else ""))

    def one(path: str) -> Repaired:
        try:
            with internal_errors(path):
                return _one(path, target, wanted, startup, guard)
        except InUseError:
            raise  # the whole log directory is left alone
        except (OSError, KdumpError) as error:
            return Repaired(path, None, guard.interrupted.get(path, ()), error=error)

    jobs = guard.safety.jobs or (processors() if _has_large_log(target.partitions) else 1)
    for _, found in ordered(target.partitions, one, lambda _: True, jobs, caller_works=False):
        if isinstance(found, BaseException):
            raise found
        assert found is not None
        yield _named(found, target)


def _has_large_log(partitions: Iterable[str]) -> bool:
    """Return whether a log is so large that threads gain more than they cost: most of it is read without Python."""
    for path in partitions:
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(f".{names.LOG}") and entry.stat(follow_symlinks=False).st_size >= LARGE_LOG:
                    return True
    return False


def _named(done: Repaired, target: Target) -> Repaired:
    """Return what was done, with paths as they were given."""
    task = done.task
    if task is not None and task.problems:
        task = task._replace(problems=tuple(map(target.spoken, task.problems)))
    path = target.name(done.path)
    return done if path == done.path and task is done.task else done._replace(path=path, task=task)


def _one(
    path: str, target: Target, wanted: Repair, startup: Callable[[PartitionLog], Startup], guard: Guard
) -> Repaired:
    """Plan for a partition and, if that was asked for, apply once nothing speaks against it."""
    safety = guard.safety
    if path in guard.errors:
        raise guard.errors[path]
    log = PartitionLog(path, may_be_absent=wanted.planner.missing is not None, as_named=True)
    task = wanted.planner.examine(log, startup(log), target.partitions[path], wanted.clusters)
    done = Repaired(path, task, guard.interrupted[path])
    if wanted.plans is not None and task.plan is not None:
        from kdump.change.saved_plan import check_same

        check_same(wanted.plans, task.plan)
    if not task.plan:
        return done
    dropped = dropped_batches(path, task.plan.operations, task.plan.recipes)
    done = done._replace(task=task._replace(dropped=dropped))
    if not safety.applies:
        return done
    check_loss(path, dropped, safety)
    check_backup_dir(safety, path)
    guard.check_still(path)
    from kdump.change.apply import apply_plan

    change = apply_plan(
        task.plan,
        guard.files(path),
        command=safety.command,
        keep_old=safety.keep_old,
        cuts=task.cuts,
        allowance=safety.allowance,
    )
    return done._replace(change=change, kept=safety.keep_old or bool(change.cuts))


def _repair_copy(target: Target, wanted: Repair, safety: SafetyOptions, output: str) -> Iterator[Repaired]:
    """Copy the log directory and repair the copy, of which nobody else knows before it is complete."""
    from kdump.change.copy_out import complete, copy_log_directory
    from kdump.disk.durable import remove_tree

    planning = Guard(target.log_directory, safety._replace(applies=False, output=None))
    planning.interrupted = dict.fromkeys(target.partitions, ())
    errors: dict[str, Exception] = {}
    readable = {path: bases for path, bases in target.partitions.items() if _can_be_copied(path, errors)}
    if errors and not readable:
        yield from (Repaired(target.name(path), None, error=error) for path, error in errors.items())
        return
    present = [path for path in readable if is_named(path)]
    watch = GrowthWatch(segment.log_path for path in present for segment in PartitionLog(path).segments)
    for done in _repair(Target(target.log_directory, readable, shown=target.shown), wanted, planning, is_for_copy=True):
        if done.task is not None:
            check_loss(done.path, done.task.dropped, safety)

    def unreadable(path: str, error: OSError | RefusedError) -> None:
        if path in readable:
            errors[path] = error
        else:
            wanted.report(Problem.unreadable(target.spoken(path), error))

    part = copy_log_directory(target.log_directory, map(os.path.basename, present), output, unreadable)
    try:
        watch.check()
    except InUseError:
        remove_tree(part)
        raise
    copied = Target(os.path.realpath(part), shown=output)
    for path, error in errors.items():
        yield Repaired(target.name(path), None, error=error)
    for path, bases in readable.items():
        if path not in errors:
            copied.add(os.path.join(copied.log_directory, os.path.basename(path)), path, bases)
    name = os.path.basename(copied.log_directory)
    on_copy = safety._replace(output=None, keep_old=False, backup_dir=None, ignore_lock=name)
    with guarded(copied.log_directory, copied.partitions, on_copy) as guard:
        yield from _repair(copied, wanted._replace(plans=None), guard)
    complete(part, output)


def _can_be_copied(path: str, errors: dict[str, Exception]) -> bool:
    """Return whether a partition directory, if it is there, can be listed and is Kafka's; if not, `errors` says why."""
    try:
        log = PartitionLog(path, may_be_absent=True)
        if is_named(path):
            check_has_kafka_files(log)
    except (OSError, RefusedError) as error:
        errors[path] = error
    return path not in errors
