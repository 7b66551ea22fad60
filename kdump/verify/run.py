"""Verify log directories, partition directories and single files: what is looked at, in which order, in which threads.

The order of findings is that of the files: partition by partition, segment by segment, from the first byte on, however
many threads read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import parse_file_name
from kdump.storage.log_directory import LogDirectory
from kdump.storage.open import open_directory
from kdump.storage.partition_log import PartitionLog
from kdump.storage.segment import Segment
from kdump.verify.checkpoints import Checkpoints, read_checkpoints, stale_lines
from kdump.verify.directory import Place, clean_shutdown, directory_names, unreadable_links
from kdump.verify.findings import Finding
from kdump.verify.kraft import check_kraft_snapshot
from kdump.verify.options import Options
from kdump.verify.partition import Before, PartitionCheck, unreadable
from kdump.verify.resume import Mark
from kdump.verify.sheets import BadBytes, Part, Piece, Reading, Sheet, ordered, pieces_of, walk
from kdump.verify.timestamps import RETENTION_MS

Path = str | os.PathLike[str]


def verify(
    *paths: Path,
    deep: bool = False,
    jobs: int = 1,
    now: int | None = None,
    retention_ms: int = RETENTION_MS,
    since_checkpoint: bool = False,
    drops_pages: bool = False,
    limit: int = DEFAULT_LIMIT,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    severities: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """The findings of log directories, partition directories and files; the keywords are the fields of Options.

    Raises ValueError for options that make no sense, OSError and NameFormatError for a path that is not there or is
    nothing of Kafka's, when the first finding is asked for. What cannot be read below a path is a finding (KD-READ).
    """
    options = Options(
        deep=deep,
        jobs=jobs,
        now=now,
        retention_ms=retention_ms,
        since_checkpoint=since_checkpoint,
        drops_pages=drops_pages,
        limit=limit,
        select=tuple(select),
        ignore=tuple(ignore),
        severities=tuple((severities or {}).items()),
    )
    options.check()
    return Verification(options).run([os.fspath(path) for path in paths])


class _Partition(NamedTuple):
    """A partition to check; findings about the directory around it come `ahead` of it and `behind` it."""

    log: PartitionLog
    segments: list[Segment]
    checkpoints: Checkpoints
    was_closed: bool
    before: Before | None = None
    only: str = ""


class _Opening(NamedTuple):
    """A segment begins."""

    segment: Segment
    size: int


class _Closing(NamedTuple):
    """A segment or (None) a partition is over."""

    segment: Segment | None


class _Said(NamedTuple):
    """Findings about what is around the partitions."""

    findings: Iterable[Finding]


_Task = _Partition | _Opening | Piece | _Closing | _Said


class Verification:
    """One run. `mark` tells, once the deadline has ended it, where the next run is to go on."""

    def __init__(self, options: Options, mark: Mark | None = None) -> None:
        """`mark` is where an earlier run over the same paths was ended."""
        self.mark: Mark | None = None
        self.partitions = self.segments = self.bytes = 0
        self.on_partition: Callable[[str], object] | None = None
        self._options = options
        self._now = int(time.time() * 1000) if options.now is None else options.now
        self._jobs = options.jobs or os.cpu_count() or 1
        self._place = Place()
        self._resume = mark
        self._check: PartitionCheck | None = None
        self._only = ""
        self._is_open = False  # whether a segment is, and its log could be read so far
        self._serial = False  # whether the rest of the segment is not walked in pieces

    def run(self, paths: list[str]) -> Iterator[Finding]:
        """The findings. Raises OSError and NameFormatError for a path that is nothing to verify."""
        for path in paths:
            look(path)
        options = self._options
        findings = self._findings(paths)
        if not options.weighs:
            yield from findings
            return
        for finding in findings:
            weighed = options.weigh(finding)
            if weighed is not None:
                yield weighed

    def _findings(self, paths: list[str]) -> Iterator[Finding]:
        work = _walked if self._jobs > 1 else None
        for task, result in ordered(self._tasks(paths), work, self._jobs):
            if isinstance(task, _Said):
                yield from task.findings
                continue
            if isinstance(task, _Partition):
                yield from self._start(task)
                continue
            assert self._check is not None
            if isinstance(task, _Opening):
                if self._is_late():
                    last = self._check.before_next
                    self.mark = Mark(
                        self._check.log.path, task.segment.base_offset, last.last_offset, last.leader_epoch
                    )
                    return
                self._is_open, self._serial = True, False
                self.segments += 1
                yield from self._chosen(self._check.open_segment(task.segment))
            elif isinstance(task, Piece):
                yield from self._chosen(self._piece(self._check, task, result))
            elif task.segment is not None:
                yield from self._chosen(self._check.close_segment(was_read=self._is_open))
            else:
                yield from self._chosen(self._check.finish())

    def _is_late(self) -> bool:
        """Whether the time is up; one segment at least is checked in every run."""
        deadline = self._options.deadline
        return deadline is not None and self.segments > 0 and time.monotonic() > deadline

    def _start(self, task: _Partition) -> Iterator[Finding]:
        self.partitions += 1
        if self.on_partition is not None:
            self.on_partition(task.log.path)
        self._only = task.only
        self._check = PartitionCheck(
            task.log,
            task.segments,
            task.checkpoints,
            self._place,
            self._options,
            self._now,
            was_closed=task.was_closed,
            before=task.before,
        )
        yield from self._chosen(self._check.start())

    def _chosen(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Where a single file was asked for, what concerns it."""
        if not self._only:
            return findings
        return (finding for finding in findings if os.path.basename(finding.path).startswith(self._only))

    def _piece(
        self, check: PartitionCheck, piece: Piece, result: list[Part] | BaseException | None
    ) -> Iterator[Finding]:
        """What a piece of a log holds; in order from where the one before it ended."""
        if not self._is_open or self._serial:
            return
        try:
            if isinstance(result, BaseException):
                raise result
            parts: Iterator[Part]
            if result is None:
                parts = walk(piece)
            elif piece.is_whole or (piece.start == check.position and _is_sound(result, piece.stop)):
                parts = iter(result)
            else:
                parts = self._rest(check, piece)
            for part in parts:
                before = check.position
                yield from check.part(part)
                self._tell(piece.segment.log_path, check.position - before)
        except OSError as error:
            self._is_open = False
            yield from check.unread(error)

    def _rest(self, check: PartitionCheck, piece: Piece) -> Iterator[Part]:
        """Everything from where the check stands on, where pieces do not fit together or are damaged.

        It begins a batch earlier, for what is to be expected behind damage depends on what was before it.
        """
        self._serial = True
        start = check.last_good
        return walk(Piece(piece.segment, start, None, piece.reading), check.position)

    def _tell(self, path: str, size: int) -> None:
        self.bytes += size
        if self._options.progress:
            self._options.progress(path, size)

    # --- what is to be done, in order ---------------------------------------------------------------------------------

    def _tasks(self, paths: list[str]) -> Iterator[_Task]:
        resume = self._resume
        if resume is not None and not os.path.isdir(resume.partition):
            resume = None  # it is gone: start over
        for path in paths:
            if not os.path.isdir(path):
                yield from self._file_tasks(path)
                continue
            try:
                place = open_directory(path)
            except (OSError, NameFormatError) as error:
                known = error if isinstance(error, OSError) else OSError(22, str(error))
                yield _Said([unreadable(path, known)])
                continue
            if isinstance(place, PartitionLog):
                logs: Iterable[str] = [path]
                checkpoints, was_closed = _around(path)
            else:
                checkpoints, was_closed = Checkpoints(path), place.clean_shutdown
                said = self._directory(place, checkpoints)
                logs = [os.path.join(path, name) for name in place.partition_names]
                if resume is None:
                    yield _Said(said)
            for folder in logs:
                if resume is not None and folder != resume.partition:
                    continue
                yield from self._partition_tasks(folder, checkpoints, was_closed, resume)
                resume = None

    def _directory(self, directory: LogDirectory, checkpoints: Checkpoints) -> list[Finding]:
        found = [*read_checkpoints(directory, checkpoints)]
        try:
            found += unreadable_links(directory.path)
        except OSError as error:
            found.append(unreadable(directory.path, error))
        found += directory_names(directory)
        found += self._place.meta_properties(directory)
        found += clean_shutdown(directory)
        present = {
            (name.topic, name.partition)
            for name in map(names.parse_partition_dir, directory.partition_names)
            if name.state in (names.LIVE, names.FUTURE)
        }
        found += stale_lines(checkpoints, present)
        return found

    def _partition_tasks(
        self, folder: str, checkpoints: Checkpoints, was_closed: bool, resume: Mark | None
    ) -> Iterator[_Task]:
        try:
            log = PartitionLog(folder)
        except OSError as error:
            yield _Said([unreadable(folder, error)])
            return
        segments, before = log.segments, None
        if resume is not None:
            segments = [segment for segment in segments if segment.base_offset >= resume.base_offset]
            before = Before(resume.last_offset, resume.leader_epoch)
        elif self._options.since_checkpoint and log.name is not None:
            recovery = checkpoints.of(names.RECOVERY_POINT_CHECKPOINT, (log.name.topic, log.name.partition))
            segments = log.segments_from(recovery or 0) if log.segments else []
        if log.name is not None and log.name.state == names.DELETE:
            segments = []
        yield _Partition(log, segments, checkpoints, was_closed, before)
        reading = self._reading(log)
        yield from self._segment_tasks(segments, reading)
        yield from self._snapshot_tasks(log, reading)
        yield _Closing(None)

    def _segment_tasks(self, segments: list[Segment], reading: Reading) -> Iterator[_Task]:
        for segment in segments:
            size = _size(segment.log_path)
            yield _Opening(segment, size)
            if self._jobs > 1:
                yield from pieces_of(segment, reading, size)
            else:
                yield Piece(segment, 0, None, reading)
            yield _Closing(segment)

    def _snapshot_tasks(self, log: PartitionLog, reading: Reading) -> Iterator[_Task]:
        for name, says in log.files.items():
            if says.kind == names.KRAFT_SNAPSHOT and says.state == names.LIVE:
                yield _Said(check_kraft_snapshot(os.path.join(log.path, name), reading))

    def _file_tasks(self, path: str) -> Iterator[_Task]:
        """A single file: the segment that it belongs to is walked, and what concerns the file is said."""
        folder, name = os.path.split(path)
        says = parse_file_name(name)
        try:
            log = PartitionLog(folder or ".")
        except OSError as error:
            yield _Said([unreadable(path, error)])
            return
        reading = self._reading(log)
        if says.kind in (names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT):
            yield _Said(check_kraft_snapshot(path, reading._replace(topic=names.CLUSTER_METADATA_TOPIC)))
            return
        if says.kind in names.OFFSET_CHECKPOINTS or says.kind in (names.META_PROPERTIES, names.CLEAN_SHUTDOWN):
            around = self._directory(LogDirectory(folder or "."), Checkpoints(folder or "."))
            yield _Said([finding for finding in around if os.path.basename(finding.path) == name])
            return
        checkpoints, was_closed = _around(folder or ".")
        at = [n for n, segment in enumerate(log.segments) if segment.base_offset == says.offset]
        if says.state and says.kind == names.LOG:
            segments = [Segment(path)]
        else:
            segments = log.segments[at[0] : at[0] + 1] if at else []
        is_segment = says.kind in names.SEGMENT_KINDS
        only = name.partition(".")[0] if says.kind == names.LOG else name
        before = Before() if is_segment and at and at[0] else None
        is_rolled = bool(at) and at[0] + 1 < len(log.segments)
        yield _Partition(log, segments, checkpoints, was_closed or is_rolled, before, only)
        yield from self._segment_tasks(segments, reading)
        yield _Closing(None)

    def _reading(self, log: PartitionLog) -> Reading:
        options = self._options
        topic = log.name.topic if log.name is not None else ""
        return Reading(options.deep, options.limit, options.drops_pages, topic)


def look(path: str) -> None:
    """Whether a path is something to verify. Raises OSError, NameFormatError."""
    os.stat(path)
    if os.path.isdir(path):
        open_directory(path)
        return
    says = parse_file_name(os.path.basename(path))
    if says.kind in (names.OTHER, names.LOCK):
        raise NameFormatError(f"{path}: not the name of a file that Kafka writes")


def _around(folder: str) -> tuple[Checkpoints, bool]:
    """The checkpoints beside a partition directory, and whether its logs were closed in order."""
    parent = os.path.dirname(os.path.abspath(folder))
    checkpoints = Checkpoints(parent)
    try:
        directory = LogDirectory(parent)
    except OSError:
        return checkpoints, False
    for _ in read_checkpoints(directory, checkpoints):
        pass  # said where the log directory itself is verified
    return checkpoints, directory.clean_shutdown


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _walked(task: _Task) -> list[Part] | None:
    """What a thread does ahead of its turn."""
    return list(walk(task)) if isinstance(task, Piece) and task.ahead else None


def _is_sound(parts: list[Part], stop: int | None) -> bool:
    """Whether the parts of a piece are good batches that end where it does."""
    if any(isinstance(part, BadBytes) for part in parts):
        return False
    return stop is None or (bool(parts) and isinstance(parts[-1], Sheet) and parts[-1].end == stop)
