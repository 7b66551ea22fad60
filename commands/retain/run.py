"""What `kdump retain` does: log directory by log directory, it finds out what goes, and deletes it if told to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Protocol

import click

from kdump.change.journal import Change
from kdump.change.plan import Plan
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.operations.rails import Guard, Rails, guarded
from kdump.query.inventory import DirectoryCheckpoints
from kdump.retention.apply import carry_out, check_allowed
from kdump.retention.partition import Circumstances, PartitionRetention, examine
from kdump.retention.plan import partition_plan
from kdump.retention.segments import Shutdown
from kdump.retention.totals import Totals
from kdump.settings.sources import PropertyFile
from kdump.settings.views import RetentionSettings
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, was_deleted
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.config_option import settings_in
from ..shell.options import output_for
from ..shell.output import complain, note, os_error_text, safe, safe_path
from ..shell.paths import KafkaFile, expand
from ..shell.progress import PathCounter
from ..shell.session import tell_refused

ONLY_START = "nothing but --log-start-offset, so only that counts"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `segments` is None where it does not say."""

    now: int
    format: str = "text"
    files: tuple[PropertyFile, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    log_start_offset: int | None = None
    high_watermark: int | None = None
    topics: tuple[str, ...] = ()
    segments: bool | None = None
    tombstones: bool = True
    applies: bool = False
    no_backup: bool = False

    def wants(self, topic: str) -> bool:
        """Whether partitions of this topic are asked for."""
        return not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)


class Printer(Protocol):
    """What prints the findings, in the order of these methods."""

    def partition(self, found: PartitionRetention, *, segments: bool) -> None:
        """One partition."""

    def directory(self, path: str, totals: Totals) -> None:
        """A log directory, after its partitions."""

    def done(self, path: str, plans: Sequence[Plan], kept: str | None) -> None:
        """The plans for a log directory were carried out; the change with the id `kept` keeps what was removed."""


@dataclass(slots=True)
class Group:
    """Partition directories to look at that are in one log directory, all of its own or those that were named."""

    log_directory: str
    partitions: list[str]
    is_whole: bool


def retain(paths: Iterable[str], options: Options) -> int:
    """Examine what is at `paths`, and apply; the exit code. Raises click.UsageError."""
    with output_for(options.format) as out:
        run = _Run(options, _printer(out.write, options), out.flush)
        groups = list(_grouped(paths, run))
        for group in groups:
            run.group(group)
        if groups and not run.looked and run.code == exit_codes.OK:
            run.failed(f"no partition to look at{_matching(options)}")
    return run.code


def _matching(options: Options) -> str:
    return f" has a topic that matches {' or '.join(map(safe, options.topics))}" if options.topics else ""


def _printer(write: Callable[[str], None], options: Options) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(write)
    from .text import Text

    return Text(write)


def _grouped(paths: Iterable[str], run: _Run) -> Iterator[Group]:
    """The PATHs by log directory; what is not there is complained of. Raises click.UsageError for a file."""
    groups: dict[tuple[str, bool], Group] = {}
    for path in paths:
        try:
            for place in expand([path]):
                if isinstance(place, KafkaFile):
                    raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory around it")
                if isinstance(place, LogDirectory):
                    wanted = [name for name in place.partition_names if _is_served(name) and run.wants(name)]
                    group = Group(place.path, [os.path.join(place.path, name) for name in wanted], True)
                    groups[os.path.realpath(place.path), True] = group
                else:
                    parent = os.path.dirname(os.path.abspath(place.path))
                    group = groups.setdefault((os.path.realpath(parent), False), Group(parent, [], False))
                    if not any(os.path.samefile(place.path, known) for known in group.partitions):
                        group.partitions.append(place.path)
        except OSError as error:
            run.unreadable(error, path)
    yield from groups.values()


def _is_served(name: str) -> bool:
    """Whether retention runs on a partition: not on one that is on its way, and KRaft trims its log by snapshots."""
    return names.parse_partition_dir(name).state == names.LIVE and name != names.CLUSTER_METADATA_DIR


class _Run:
    def __init__(self, options: Options, printer: Printer, flush: Callable[[], None]) -> None:
        self.code = exit_codes.OK
        self.looked = 0
        self._options = options
        self._printer = printer
        self._flush = flush
        self._progress = PathCounter()

    def wants(self, name: str) -> bool:
        """Whether the partition directory of this name is asked for."""
        return self._options.wants(names.parse_partition_dir(name).topic)

    def group(self, group: Group) -> None:
        """One log directory."""
        try:
            rails = Rails(self._options.applies, "retain", not self._options.no_backup, reads_beside=True)
            with guarded(os.path.realpath(group.log_directory), group.partitions, rails) as guard:
                for path, changes in guard.interrupted.items():
                    for change in changes:
                        self._interrupted(path, change)
                for path, error in guard.errors.items():
                    self._trouble(error, path)
                found = self._examine(replace(group, partitions=list(guard.interrupted)))
                if rails.applies:
                    self._apply(group, found, guard)
        except RefusedError as error:
            self._refused(error)
        except OSError as error:
            self.unreadable(error, group.log_directory)
        except KdumpError as error:
            self.failed(safe(str(error)))

    def _examine(self, group: Group) -> list[PartitionRetention]:
        found = list(self._partitions(group, _Place(group.log_directory, self._options, self.unreadable)))
        if group.is_whole:
            self._printer.directory(group.log_directory, Totals.of(found))
        if not self._options.applies and any(each.has_work for each in found):
            self._worsen(exit_codes.FINDINGS)
        return found

    def _partitions(self, group: Group, place: _Place) -> Iterator[PartitionRetention]:
        for path in self._progress.over(group.partitions):
            try:
                with held(path) as log:
                    if log is None:
                        continue
                    check_has_kafka_files(log)
                    found = place.examine(log)
            except RefusedError as error:
                self._refused(error)
            except OSError as error:
                if not was_deleted(path, error):
                    self.unreadable(error, path)
            except KdumpError as error:
                self.failed(safe(str(error)))
            else:
                self.looked += 1
                segments = self._options.segments
                self._printer.partition(found, segments=not group.is_whole if segments is None else segments)
                yield found

    def _interrupted(self, path: str, change: Change) -> None:
        text = f"{safe_path(path)}: change {change.id} ({safe(change.command)}) was interrupted"
        if self._options.applies:
            note(f"{text}, and is finished now")
        else:
            note(f"{text}: --apply finishes it")
            self._worsen(exit_codes.FINDINGS)

    def _apply(self, group: Group, found: list[PartitionRetention], guard: Guard) -> None:
        plans = []
        for each in found:
            try:
                check_allowed(each)
                if each.has_work:
                    plans.append(partition_plan(each))
            except RefusedError as error:
                self._refused(error)
            except OSError as error:
                self.unreadable(error, each.log.path)
            except KdumpError as error:
                self.failed(safe(str(error)))
        for plan in plans:
            guard.check_still(plan.path)
        if plans:
            self._flush()
            carry_out(plans, guard.files, keep_old=guard.rails.keep_old)
        kept = guard.id if plans and guard.rails.keep_old else None
        self._printer.done(group.log_directory, plans, kept)

    def _trouble(self, error: Exception, path: str) -> None:
        if isinstance(error, RefusedError):
            self._refused(error)
        elif isinstance(error, OSError):
            self.unreadable(error, path)
        else:
            self.failed(safe(str(error)))

    def _refused(self, error: RefusedError) -> None:
        self._flush()
        tell_refused(error)
        self._worsen(exit_codes.REFUSED)

    def failed(self, text: str) -> None:
        """Say what could not be done; the text must be safe."""
        self._flush()
        complain(text)
        self._worsen(exit_codes.INCOMPLETE)

    def unreadable(self, error: OSError, path: str) -> None:
        """Say what the system does not give."""
        if isinstance(error, BrokenPipeError):
            raise error
        self.failed(os_error_text(error, path))

    def _worsen(self, code: int) -> None:
        self.code = max(self.code, code)


class _Place:
    """A log directory's checkpoints and the settings of its topics."""

    def __init__(self, path: str, options: Options, unreadable: Callable[[OSError, str], None]) -> None:
        """Read them; `unreadable` hears of a checkpoint that counts as empty in a plan. Raises OSError."""
        directory = LogDirectory(path)
        self._options = options
        self._checkpoints = DirectoryCheckpoints(directory)
        for problem in self._checkpoints.faults.problems:
            if options.applies:
                raise RefusedError(f"{problem}: mend the file, or remove it, which a broker takes for an empty one")
            note(f"{safe(problem)}: treated as empty, as a broker does")
        for error in self._checkpoints.faults.errors:
            if options.applies:
                raise error
            unreadable(error, path)
        self._clean = directory.clean_shutdown
        self._settings = settings_in(directory, options.files, options.given)

    def examine(self, log: PartitionLog) -> PartitionRetention:
        """What retention does to a partition. Raises OSError, KdumpError."""
        options = self._options
        if log.name and log.name.topic == names.CLUSTER_METADATA_TOPIC:
            raise KdumpError(f"{log.path}: KRaft trims this log by its snapshots, not by retention")
        checkpoints = self._checkpoints.of(log)
        topic = log.name.topic if log.name else ""
        settings = RetentionSettings.of(self._settings.of(topic, was_cleaned=checkpoints.cleaner is not None))
        if options.log_start_offset is not None and not settings.is_known:
            settings = replace(settings, deletes=False, sources=(ONLY_START,))
        shutdown = Shutdown(self._clean, checkpoints.recovery_point or 0)
        circumstances = Circumstances(
            shutdown, checkpoints, options.now, options.log_start_offset, options.high_watermark
        )
        return examine(log, circumstances, settings, tombstones=options.tombstones)
