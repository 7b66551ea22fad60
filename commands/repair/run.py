"""What repair, rebuild-index and trim have in common: log directory by log directory, plan, show, and carry out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, Protocol

import click

from kdump.change import journal
from kdump.change.apply import apply_plan, clear_leftovers, finish
from kdump.change.copy_out import complete, copy_log_directory
from kdump.change.plan import TRUNCATE
from kdump.disk.locks import GrowthWatch, check_not_growing, check_not_locked, holding
from kdump.errors import InUseError, KdumpError, RefusedError
from kdump.formats import names
from kdump.recovery.broker_start import DirectoryState, directory_state
from kdump.recovery.startup import Startup
from kdump.repair.proposal import Task
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.output import Output, complain, os_error_text, safe, safe_path
from ..shell.paths import KafkaFile, expand
from ..shell.progress import ProgressBar
from ..shell.session import tell_refused
from ..shell.startup_options import StartupOptions

Bases = frozenset[int] | None
Examine = Callable[[PartitionLog, Startup, Bases], Task]


@dataclass(frozen=True, slots=True)
class Rails:
    """Whether to apply, and how carefully; `force` is the name of the directory that may be changed regardless."""

    applies: bool = False
    keep_old: bool = True
    backup_dir: str | None = None
    output: str | None = None
    force: str | None = None
    jobs: int = 1


class Done(NamedTuple):
    """One partition: the task, the interrupted repairs that were (or would be) finished first, and what came of it.

    `folder` is where the old is kept, or, unless `has_old`, no more than what was cut out; None where nothing is.
    """

    path: str
    task: Task | None
    interrupted: tuple[str, ...] = ()
    applied: bool = False
    folder: str | None = None
    has_old: bool = False
    error: Exception | None = None


class Printer(Protocol):
    """What prints what is planned and done."""

    def partition(self, done: Done, *, applies: bool) -> None:
        """One partition."""

    def end(self, work: int, failed: int, *, applies: bool, is_told: bool) -> None:
        """The last line: in how many partitions there was work, and how many could not be repaired."""


@dataclass(slots=True)
class Group:
    """Partitions of one log directory; those of which only segments were named, with their base offsets.

    `shown` is the path to be told of, if the directory gets another one in the end.
    """

    log_directory: str
    partitions: dict[str, Bases] = field(default_factory=dict)
    shown: str | None = None

    def as_shown(self, path: str) -> str:
        """A path in the log directory as it is told of."""
        if self.shown is None:
            return path
        return os.path.join(self.shown, os.path.relpath(path, self.log_directory))


class Run:
    """One run of a command."""

    def __init__(
        self,
        examine: Examine,
        startup: StartupOptions,
        rails: Rails,
        printer: Printer,
        out: Output,
        *,
        takes_files: bool = False,
    ) -> None:
        """`takes_files`: PATHs may name files of segments."""
        self.code = exit_codes.OK
        self._examine = examine
        self._startup = startup
        self._rails = rails
        self._printer = printer
        self._out = out
        self._takes_files = takes_files
        self._work = self._failed = 0

    def paths(self, paths: Iterable[str]) -> int:
        """Repair what is at these paths; the exit code. Raises click.UsageError."""
        groups = list(self._grouped(paths))
        if self._rails.output is not None and len(groups) > 1:
            raise click.UsageError("--output takes the partitions of one log directory")
        with ProgressBar([path for group in groups for path in group.partitions]) as bar:
            for group in groups:
                try:
                    self._group(group, bar)
                except KeyboardInterrupt:
                    self._complain("interrupted: the same command goes on from here", exit_codes.INTERRUPTED)
                    raise
                except RefusedError as error:
                    self._refused(error)
                except (OSError, KdumpError) as error:
                    self._trouble(error, group.log_directory)
        is_told = self.code > exit_codes.FINDINGS  # why this or that was not looked at
        self._printer.end(self._work, self._failed, applies=self._rails.applies, is_told=is_told)
        return self.code

    def _grouped(self, paths: Iterable[str]) -> Iterator[Group]:
        groups: dict[str, Group] = {}
        for path in paths:
            try:
                for place in expand([path]):
                    if isinstance(place, LogDirectory):
                        root = os.path.realpath(place.path)
                        found: dict[str, Bases] = {os.path.join(root, name): None for name in place.partition_names}
                    else:
                        partition, bases = self._partition(place)
                        root, found = os.path.dirname(partition), {partition: bases}
                    group = groups.setdefault(root, Group(root))
                    for partition, bases in found.items():
                        before = group.partitions.get(partition, frozenset())
                        group.partitions[partition] = None if bases is None or before is None else before | bases
            except OSError as error:
                self._trouble(error, path)
        yield from groups.values()

    def _partition(self, place: PartitionLog | KafkaFile) -> tuple[str, Bases]:
        if isinstance(place, PartitionLog):
            return os.path.realpath(place.path), None
        if not self._takes_files:
            raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory that it is in")
        if place.name.offset is None or place.name.kind not in (names.LOG, *names.INDEX_KINDS):
            raise click.UsageError(f"{safe_path(place.path)}: expected a .log, an index or a directory")
        return os.path.dirname(os.path.realpath(place.path)), frozenset({place.name.offset})

    # --- one log directory -------------------------------------------------------------------------------------------

    def _group(self, group: Group, bar: ProgressBar) -> None:
        if self._rails.output is not None:
            self._repair_copy(group, bar)
            return
        with self._guarded(group):
            self._repair(group, bar, self._rails.applies)

    @contextmanager
    def _guarded(self, group: Group) -> Iterator[None]:
        """Nobody else changes the log directory meanwhile: a plan for one that changes is worth nothing.

        Raises RefusedError, OSError.
        """
        rails = self._rails
        if not rails.applies:
            if rails.force is None:
                check_not_locked(group.log_directory)
            yield
        elif rails.force is not None:
            allowed = {os.path.basename(path) for path in (group.log_directory, *group.partitions)}
            if rails.force not in allowed:
                name = os.path.basename(group.log_directory)
                raise RefusedError(f"--force {rails.force}: the directory is called {name}")
            yield
        else:
            with holding(group.log_directory, os.stat(group.log_directory)):
                yield

    def _repair(self, group: Group, bar: ProgressBar, applies: bool) -> None:
        state = directory_state(LogDirectory(group.log_directory))
        for done in self._partitions(group, state, applies):
            folder = done.folder and group.as_shown(done.folder)
            self._tell(done._replace(path=group.as_shown(done.path), folder=folder), applies)
            bar.add(os.path.join(done.path, "-"), sum(map(os.path.getsize, _logs([done.path]))))

    def _partitions(self, group: Group, state: DirectoryState, applies: bool) -> Iterator[Done]:
        """The partitions, in order, each with what was found and done."""
        begun = {path: self._begin(path, group, applies) for path in group.partitions}
        watch = GrowthWatch(_logs(group.partitions)) if applies and self._rails.force is None else None
        stamp, turn = journal.new_stamp(), Lock()
        all_checked = False

        def unchanged(path: str) -> None:
            nonlocal all_checked
            with turn:  # nothing is changed anywhere before all logs have been looked at
                if watch is not None:
                    watch.check(_logs([path]) if all_checked else None)
                all_checked = True

        def one(path: str) -> Done:
            done = begun[path]
            try:
                return done if done.error else self._one(done, group, state, stamp, unchanged if applies else None)
            except InUseError:
                raise  # the whole log directory is left alone
            except (OSError, KdumpError) as error:
                return Done(path, None, error=error)

        if self._rails.jobs == 1 or len(group.partitions) == 1:
            yield from map(one, group.partitions)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._rails.jobs) as pool:
            try:
                yield from pool.map(one, group.partitions)
            except BaseException:
                pool.shutdown(cancel_futures=True)  # what is being changed is finished, nothing more is begun
                raise

    def _begin(self, path: str, group: Group, applies: bool) -> Done:
        """Finish what an interrupted run began in a partition, if this run applies."""
        try:
            if os.path.dirname(os.path.realpath(path)) != group.log_directory:
                raise RefusedError(f"{path}: a symbolic link that leads out of {group.log_directory}: repair it there")
            folders = tuple(journal.unfinished(path, self._rails.backup_dir))
            if applies:
                if folders and self._rails.force is None:
                    check_not_growing(_logs([path]))
                for folder in folders:
                    finish(folder, keep_old=self._rails.keep_old)
                clear_leftovers(path, self._rails.backup_dir)
        except (OSError, KdumpError) as error:
            return Done(path, None, error=error)
        return Done(path, None, folders)

    def _one(
        self, done: Done, group: Group, state: DirectoryState, stamp: str, unchanged: Callable[[str], None] | None
    ) -> Done:
        """Plan for a partition and, unless `unchanged` is None, apply once that has found nothing wrong."""
        path = done.path
        log = PartitionLog(path)
        task = self._examine(log, self._startup.startup(log, state), group.partitions[path])
        done = done._replace(task=task)
        if unchanged is None or not task.plan:
            return done
        folder = journal.new_folder(path, self._backup_dir(path), stamp)
        unchanged(path)
        apply_plan(task.plan, folder, keep_old=self._rails.keep_old, cuts=task.cuts)
        kept = folder if os.path.exists(folder) else None
        return done._replace(applied=True, folder=kept, has_old=self._rails.keep_old)

    def _backup_dir(self, path: str) -> str | None:
        """Where what is replaced is kept, if not in the partition directory. Raises RefusedError, OSError."""
        backups = self._rails.backup_dir
        if backups is not None and os.path.dirname(os.path.realpath(backups)) == os.path.dirname(path):
            text = "is in the log directory, where a broker takes every directory for a partition"
            raise RefusedError(f"{backups} {text}")
        if backups is not None and os.stat(backups).st_dev != os.stat(path).st_dev:
            raise RefusedError(
                f"{backups} is in another file system than {path}: files could not be put in place from there in one"
                " step"
            )
        return backups

    # --- a copy ------------------------------------------------------------------------------------------------------

    def _repair_copy(self, group: Group, bar: ProgressBar) -> None:
        target = self._rails.output
        assert target is not None
        check_not_locked(group.log_directory)
        if not self._rails.applies:
            self._repair(group, bar, False)
            return
        watch = GrowthWatch(_logs(group.partitions))
        state = directory_state(LogDirectory(group.log_directory))
        changing = []
        for done in self._partitions(group, state, False):
            plan = done.task.plan if done.task else None
            cut = [each.source or each.name for each in plan.operations if each.action == TRUNCATE] if plan else []
            cut += [each.name for each in plan.operations if each.action == TRUNCATE] if plan else []
            changing.append((os.path.basename(done.path), frozenset(cut)))
        part = copy_log_directory(group.log_directory, changing, target)
        try:
            watch.check()
        except InUseError:
            shutil.rmtree(part)
            raise
        copied = Group(os.path.realpath(part), shown=os.path.abspath(target))
        for path, bases in group.partitions.items():
            copied.partitions[os.path.join(copied.log_directory, os.path.basename(path))] = bases
        rails, self._rails = self._rails, Rails(True, False, force="", jobs=self._rails.jobs)  # nobody knows of it yet
        self._repair(copied, bar, True)
        self._rails = rails
        complete(part, target)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _tell(self, done: Done, applies: bool) -> None:
        if done.error is not None:
            self._failed += 1
            if isinstance(done.error, RefusedError):
                self._refused(done.error)
            else:
                self._trouble(done.error, done.path)
            return
        assert done.task is not None
        self._printer.partition(done, applies=applies)
        for problem in done.task.problems:
            self._complain(safe(problem), exit_codes.INCOMPLETE)
        if done.task.plan is None:
            self._failed += 1
            self._worsen(exit_codes.INCOMPLETE)
        elif done.task.decision is not None:
            self._worsen(exit_codes.FINDINGS)
        elif done.task.plan or done.interrupted:
            self._work += 1
            if not applies:
                self._worsen(exit_codes.FINDINGS)

    def _trouble(self, error: Exception, path: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        if isinstance(error, OSError):
            self._complain(os_error_text(error, path), exit_codes.INCOMPLETE)
        else:
            self._complain(f"{safe(str(error))}", exit_codes.INCOMPLETE)

    def _refused(self, error: RefusedError) -> None:
        self._out.flush()
        tell_refused(error)
        self._worsen(exit_codes.REFUSED)

    def _complain(self, text: str, code: int) -> None:
        self._out.flush()
        complain(text)
        self._worsen(code)

    def _worsen(self, code: int) -> None:
        self.code = max(self.code, code)


def _logs(partitions: Iterable[str]) -> Iterator[str]:
    """The .log files of partition directories. Raises OSError."""
    for path in partitions:
        yield from (segment.log_path for segment in PartitionLog(path).segments)
