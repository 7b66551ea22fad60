"""What a verification has to do, in the order of the files: partitions, their segments, and what is around them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain

from kdump.change.unfinished import unfinished_in
from kdump.check.batch_rows import Reading, pieces_of
from kdump.check.checkpoints import stale_lines, unusable
from kdump.check.directory import KnownPartitions, Owner, clean_shutdown, directory_names, owner_of, special_files
from kdump.check.live import confirmed, judged
from kdump.check.options import Options
from kdump.check.partition import unread
from kdump.check.resume import Mark
from kdump.check.state import State, Verified
from kdump.check.work import (
    EVERYTHING,
    Before,
    Closing,
    DirectoryFindings,
    LogDirectoryContext,
    Opening,
    PartitionRange,
    PartitionTask,
    Task,
)
from kdump.disk.pace import Pace
from kdump.disk.reading import is_directory, status_of
from kdump.errors import InternalError, NameFormatError
from kdump.findings.finding import Finding, found
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.printable import command_line
from kdump.storage.around import directory_around
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.live import broker_on, held, internal_errors, is_live
from kdump.storage.open import check_file, open_directory
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import MAX_OFFSET
from kdump.storage.segment import Segment
from kdump.topics.clusters import Clusters
from kdump.topics.topic_ids import TopicIds


class Tasks:
    """Lays out the work of one run."""

    def __init__(
        self,
        options: Options,
        place: KnownPartitions,
        resume: Mark | None = None,
        share: PartitionRange = EVERYTHING,
        around: LogDirectoryContext | None = None,
        state: State | None = None,
    ) -> None:
        """`resume` is where an earlier run over the same paths was ended; what it has checked is left out.

        So are the segments that `state` knows, up to the first one that has changed. With `around`, what is
        around them, paths are those of partition directories, and changes that were interrupted are not looked for.

        `clusters` is what the metadata in the log directories at hand tells of partitions.
        """
        self._options = options
        self._place = place
        self._resume = resume
        self._share = share
        self._around = around
        self.clusters = Clusters(())
        self._state = state
        self._pace = Pace(options.max_rate) if options.max_rate else None
        self._holds: list[ExitStack] = []

    def close(self) -> None:
        """Let go of what was laid out and not done."""
        for hold in self._holds:
            hold.close()

    def again(self, task: PartitionTask, bases: tuple[int, int | None] | None) -> Iterator[Task]:
        """Yield a second look at a partition, at segments from one base offset up to another (None: to the end)."""
        around = _around(task.log.path)
        first, stop = bases or (task.segments[0].base_offset if task.segments else 0, None)
        is_whole = not task.segments or first == task.segments[0].base_offset
        before = task.before if is_whole else Before()

        def task_of(log: PartitionLog, hold: ExitStack) -> PartitionTask:
            segments = [each for each in log.segments if first <= each.base_offset < (stop or MAX_OFFSET)]
            return PartitionTask(log, segments, around, hold, before, task.only, task.is_live)

        return self._held_tasks(task.log.path, task_of)

    def of(self, paths: list[str]) -> Iterator[Task]:  # noqa: C901, PLR0912 - the place in the paths is one count
        """Yield the tasks for log directories, partition directories and files."""
        resume = self._resume if self._resume and is_directory(self._resume.partition) else None  # gone: start over
        self.clusters = Clusters(paths)
        self._place.ids = TopicIds(self.clusters)
        if self._around is not None:
            for folder in paths:
                yield from self._partition_tasks(folder, self._around, None)
            return
        number = 0
        for path in paths:
            if not is_directory(path):
                yield from self._file_tasks(path)
                continue
            is_mine = self._share.has(number)
            try:
                place = open_directory(path)
            except (OSError, NameFormatError) as error:
                if is_mine:
                    known = error if isinstance(error, OSError) else OSError(22, str(error))
                    yield DirectoryFindings(path, [unread(path, known)])
                continue
            if isinstance(place, PartitionLog):
                folders, around = [path], _around(path)
                if is_mine:
                    yield DirectoryFindings(path, _changes(directory_around(path), folders))
            else:
                folders = self._partitions(place)
                around, findings = self._directory_or_failure(place)
                if is_mine and resume is None:
                    from kdump.check.cluster import check_metadata

                    about = chain(findings, check_metadata(self.clusters, place))
                    yield DirectoryFindings(place.path, self._said(place.path, about))
            for at, folder in enumerate(folders, number):
                if self._share.stop is not None and at >= self._share.stop:
                    return
                if not self._share.has(at) or (resume is not None and folder != resume.partition):
                    self._pass(folder, around.owner)
                    continue
                yield from self._partition_tasks(folder, around, resume)
                resume = None
            number += len(folders)

    def _partitions(self, directory: LogDirectory) -> list[str]:
        """Return the partition directories of a log directory, in the order in which they are looked at."""
        folders = [os.path.join(directory.path, name) for name in directory.partition_names]
        if self._options.newest_first:
            folders.sort(key=_last_written, reverse=True)
        return folders

    def _said(self, path: str, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield what was found around the partitions of a log directory; beside a broker, what a second look finds."""
        if broker_on(path) is None:
            yield from findings
            return
        from kdump.check.cluster import check_metadata

        def check_again(_: list[Finding]) -> Iterable[Finding]:
            directory = LogDirectory(path)
            return [*self._directory(directory)[1], *check_metadata(Clusters([path]), directory)]

        yield from confirmed(judged(findings), check_again, time.monotonic())

    def _directory_or_failure(self, directory: LogDirectory) -> tuple[LogDirectoryContext, list[Finding]]:
        """Return what is around the partitions; without checkpoints where kdump itself fails on it."""
        try:
            with internal_errors(directory.path):
                return self._directory(directory)
        except InternalError as error:
            around = LogDirectoryContext(Checkpoints(directory.path), was_closed=False, owner=None, directory=directory)
            return around, [unread(directory.path, error)]

    def _directory(self, directory: LogDirectory) -> tuple[LogDirectoryContext, list[Finding]]:
        from kdump.check.kraft import check_bootstrap

        checkpoints = Checkpoints.read(directory.path)
        found = [*unusable(checkpoints)]
        try:
            found += special_files(directory.path)
        except OSError as error:
            found.append(unread(directory.path, error))
        found += directory_names(directory)
        owner, faults = owner_of(directory)
        found += faults
        found += self._place.differs(directory, owner)
        found += clean_shutdown(directory)
        found += check_bootstrap(directory)
        found += stale_lines(checkpoints, directory.checkpointed())
        lines = checkpoints.lines.get(names.CLEANER_CHECKPOINT, {})
        found += self._place.cleaned(checkpoints.path(names.CLEANER_CHECKPOINT), lines, owner)
        found += _changes(directory.path, [os.path.join(directory.path, name) for name in directory.partition_names])
        return LogDirectoryContext(checkpoints, directory.clean_shutdown, owner, directory), found

    def _pass(self, folder: str, owner: Owner) -> None:
        """Pass over a partition that an earlier run has checked: others are compared with it."""
        with suppress(OSError):
            log = PartitionLog(folder)
            if log.name is not None:
                for _ in chain(self._place.partition(folder, log.name, owner), self._place.topic_id(log, owner)):
                    pass

    def _partition_tasks(self, folder: str, around: LogDirectoryContext, resume: Mark | None) -> Iterator[Task]:
        return self._held_tasks(folder, lambda log, hold: self._partition_task(log, around, hold, resume))

    def _held_tasks(self, folder: str, task_of: Callable[[PartitionLog, ExitStack], PartitionTask]) -> Iterator[Task]:
        """Yield the tasks of a partition held until they are done; none where a running broker has deleted it."""
        hold = ExitStack()
        try:
            known = self._around.log if self._around is not None else None
            log = hold.enter_context(held(folder, as_named=True, known=known))
            if log is None:
                return
            self._holds.append(hold)
            with internal_errors(folder):
                task = task_of(log, hold)
        except OSError as error:
            yield DirectoryFindings(folder, [unread(folder, error)])
            return
        yield task
        reading = self._reading(log.name.topic if log.name is not None else "")
        try:
            with internal_errors(folder):
                yield from self._segment_tasks(task, reading)
                if not task.only:
                    yield from self._snapshot_tasks(log, reading)
        except InternalError as error:
            yield DirectoryFindings(folder, [unread(folder, error)])
        yield Closing(None)

    def _partition_task(
        self, log: PartitionLog, around: LogDirectoryContext, hold: ExitStack, resume: Mark | None
    ) -> PartitionTask:
        segments, before = log.segments, None
        if resume is not None:
            segments = [segment for segment in segments if segment.base_offset >= resume.base_offset]
            before = Before(resume.last_offset, resume.leader_epoch)
        elif self._options.since_checkpoint and log.name is not None:
            segments = log.segments_from(around.checkpoints.of(log.name).recovery_point or 0) if log.segments else []
        if log.name is not None and log.name.state == names.DELETE:
            segments = []
        known = self._known(log) if segments and segments[0] is log.segments[0] else []
        if known:
            segments, before = segments[len(known) :], Before(known[-1].last_offset, known[-1].leader_epoch)
        beside_broker = self._around is None and is_live(log.path)  # who knows what is around it has seen to that
        return PartitionTask(log, segments, around, hold, before, is_live=beside_broker, known=known)

    def _known(self, log: PartitionLog) -> list[Verified]:
        try:
            return self._state.known(log, deep=self._options.deep) if self._state is not None else []
        except OSError:
            return []  # which is for the check of the segment to say

    def _segment_tasks(self, task: PartitionTask, reading: Reading) -> Iterator[Task]:
        for segment in task.segments:
            if task.is_live and segment is task.log.segments[-1]:
                reading = reading._replace(drops_pages=False)  # what the broker has just written it is about to give
            yield Opening(segment)
            yield from pieces_of(segment, reading, _size(segment.log_path))
            yield Closing(segment)

    def _snapshot_tasks(self, log: PartitionLog, reading: Reading) -> Iterator[Task]:
        if log.is_cluster_metadata:
            from kdump.check.kraft import check_start

            yield DirectoryFindings(log.path, check_start(log))
        for name, parsed in log.files.items():
            if parsed.kind == names.KRAFT_SNAPSHOT and parsed.state == names.LIVE:
                from kdump.check.kraft import check_kraft_snapshot

                path = os.path.join(log.path, name)
                yield DirectoryFindings(path, check_kraft_snapshot(path, reading))
        if log.in_state(names.SWAP):
            from kdump.check.replacements import check_replacements

            yield DirectoryFindings(log.path, check_replacements(log, reading))

    def _file_tasks(self, path: str) -> Iterator[Task]:
        """Yield a single file: the segment that it belongs to is walked, and what concerns the file is said."""
        folder, name = os.path.split(path)
        folder = folder or "."
        parsed = parse_file_name(name)
        if parsed.kind in names.METADATA_SNAPSHOT_KINDS:
            from kdump.check.kraft import check_kraft_snapshot

            yield DirectoryFindings(path, check_kraft_snapshot(path, self._reading(names.CLUSTER_METADATA_TOPIC)))
            return
        if parsed.kind in names.OFFSET_CHECKPOINTS or parsed.kind in (names.META_PROPERTIES, names.CLEAN_SHUTDOWN):
            _, findings = self._directory(LogDirectory(folder))
            of_file = [finding for finding in findings if os.path.basename(finding.path) == name]
            yield DirectoryFindings(path, self._said(folder, of_file))
            return
        yield from self._held_tasks(folder, lambda log, hold: _file_task(path, log, hold))

    def _reading(self, topic: str) -> Reading:
        options = self._options
        return Reading(options.deep, options.limit, options.drops_pages, topic, self._pace)


def _file_task(path: str, log: PartitionLog, hold: ExitStack) -> PartitionTask:
    """Return the segment that a file belongs to, of which what concerns the file is to be said."""
    folder, name = os.path.split(path)
    parsed = parse_file_name(name)
    around = _around(folder or ".")
    at = [n for n, segment in enumerate(log.segments) if segment.base_offset == parsed.offset]
    segments = log.segments[at[0] : at[0] + 1] if at else []
    if parsed.state and parsed.kind == names.LOG:
        segments = [Segment(path)]
    is_segment = parsed.kind in names.SEGMENT_KINDS
    only = name.partition(".")[0] if parsed.kind == names.LOG else name
    before = Before() if is_segment and at and at[0] else None
    is_rolled = bool(at) and at[0] + 1 < len(log.segments)
    directory = around.directory if name == names.PARTITION_METADATA else None  # else the cluster has no say
    around = around._replace(directory=directory)
    return PartitionTask(log, segments, around, hold, before, only, is_live(log.path), is_rolled=is_rolled)


def check_path(path: str) -> None:
    """Check that a path is something to verify. Raises OSError, NameFormatError."""
    if is_directory(path):
        open_directory(path)
    else:
        check_file(path)


def _changes(log_directory: str, partitions: list[str]) -> Iterator[Finding]:
    """Yield changes by kdump that were interrupted: until they are finished, some files are old and some are new."""
    try:
        for path, text in unfinished_in(log_directory, partitions):
            undo = command_line("kdump", "undo", path)
            yield found("KD-CHANGE-UNFINISHED", path, f"{text}: {undo} shows the ways out")
    except OSError as error:
        yield unread(log_directory, error)


def _around(folder: str) -> LogDirectoryContext:
    """Return what is around a partition directory; its faults are said where the log directory is verified."""
    parent = directory_around(folder)
    checkpoints = Checkpoints.read(parent)
    try:
        directory = LogDirectory(parent)
    except OSError:
        return LogDirectoryContext(checkpoints, False, None)
    return LogDirectoryContext(checkpoints, directory.clean_shutdown, owner_of(directory)[0], directory)


def _size(path: str) -> int:
    try:
        return status_of(path).size
    except OSError:
        return 0


def _last_written(path: str) -> int:
    """Return when a partition was written to last (ns); 0 where that cannot be seen."""
    try:
        log = PartitionLog(path)
        return max((status_of(segment.log_path).modified_ns for segment in log.segments[-1:]), default=0)
    except OSError:
        return 0
