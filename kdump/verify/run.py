"""Verify log directories, partition directories and single files: what is looked at, in which order, in which threads.

The order of findings is that of the files: partition by partition, segment by segment, from the first byte on, however
many threads read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import parse_file_name
from kdump.storage.log_directory import LogDirectory
from kdump.storage.open import open_directory
from kdump.storage.partition_log import PartitionLog
from kdump.storage.segment import Segment
from kdump.verify.alike import MOST_ALIKE, Alike
from kdump.verify.checkpoints import Checkpoints, read_checkpoints, stale_lines
from kdump.verify.directory import Owner, Place, clean_shutdown, directory_names, owner_of, unreadable_links
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
    most_alike: int = MOST_ALIKE,
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
        most_alike=most_alike,
    )
    options.check()
    return Verification(options).run([os.fspath(path) for path in paths])


class Around(NamedTuple):
    """The log directory around partitions: its checkpoints, whether all logs were closed in order, its broker."""

    checkpoints: Checkpoints
    was_closed: bool
    owner: Owner


class Share(NamedTuple):
    """The part of a run that one of several processes does: the partitions number `first` to `stop` - 1 of all.

    What is found around the partitions of a log directory goes with its first one. Without `stop`, the rest.
    """

    first: int = 0
    stop: int | None = None

    def has(self, number: int) -> bool:
        """Whether a partition is in it."""
        return number >= self.first and (self.stop is None or number < self.stop)


EVERYTHING = Share()


class _Partition(NamedTuple):
    """A partition to check; `only` what concerns the files whose names begin so."""

    log: PartitionLog
    segments: list[Segment]
    around: Around
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

    def __init__(self, options: Options, mark: Mark | None = None, share: Share = EVERYTHING) -> None:
        """`mark` is where an earlier run over the same paths was ended; `share` what of the whole is to be done."""
        self.mark: Mark | None = None
        self.partitions = self.segments = self.bytes = 0
        self.on_partition: Callable[[str], object] | None = None
        self._options = options
        self._now = int(time.time() * 1000) if options.now is None else options.now
        self._jobs = options.jobs or os.cpu_count() or 1
        self._place = Place()
        self._alike = Alike(options.most_alike)
        self._resume = mark
        self._share = share
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
        for task, result in ordered(self._tasks(paths), _walked, _is_ahead, self._jobs):
            if isinstance(task, _Said):
                yield from self._alike.first(task.findings)
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
                    break
                self._is_open, self._serial = True, False
                self.segments += 1
                yield from self._chosen(self._check.open_segment(task.segment))
            elif isinstance(task, Piece):
                yield from self._chosen(self._piece(self._check, task, result))
            elif task.segment is not None:
                yield from self._chosen(self._check.close_segment(was_read=self._is_open))
            else:
                yield from self._chosen(self._check.finish())
                yield from self._alike.rest()
        yield from self._alike.rest()

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
            task.around.checkpoints,
            self._place,
            task.around.owner,
            self._options,
            self._now,
            was_closed=task.around.was_closed,
            before=task.before,
        )
        yield from self._chosen(self._check.start())

    def _chosen(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Where a single file was asked for, what concerns it."""
        if self._only:
            findings = (finding for finding in findings if os.path.basename(finding.path).startswith(self._only))
        return self._alike.first(findings)

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
        share, number = self._share, 0
        for path in paths:
            if not os.path.isdir(path):
                yield from self._file_tasks(path)
                continue
            try:
                place = open_directory(path)
            except (OSError, NameFormatError) as error:
                if share.has(number):
                    known = error if isinstance(error, OSError) else OSError(22, str(error))
                    yield _Said([unreadable(path, known)])
                continue
            if isinstance(place, PartitionLog):
                logs = [path]
                around = _around(path)
            else:
                logs = [os.path.join(path, name) for name in place.partition_names]
                around, findings = self._directory(place)
                if resume is None and share.has(number):
                    yield _Said(findings)
            for at, folder in enumerate(logs, number):
                if share.stop is not None and at >= share.stop:
                    return
                if not share.has(at) or (resume is not None and folder != resume.partition):
                    self._pass(folder, around.owner)
                    continue
                yield from self._partition_tasks(folder, around, resume)
                resume = None
            number += len(logs)

    def _directory(self, directory: LogDirectory) -> tuple[Around, list[Finding]]:
        checkpoints = Checkpoints(directory.path)
        found = [*read_checkpoints(directory, checkpoints)]
        try:
            found += unreadable_links(directory.path)
        except OSError as error:
            found.append(unreadable(directory.path, error))
        found += directory_names(directory)
        owner, faults = owner_of(directory)
        found += faults
        found += self._place.differs(directory, owner)
        found += clean_shutdown(directory)
        present = {
            (name.topic, name.partition)
            for name in map(names.parse_partition_dir, directory.partition_names)
            if name.state in (names.LIVE, names.FUTURE)
        }
        found += stale_lines(checkpoints, present)
        return Around(checkpoints, directory.clean_shutdown, owner), found

    def _pass(self, folder: str, owner: Owner) -> None:
        """A partition that an earlier run has checked: others are compared with it."""
        with suppress(OSError):
            log = PartitionLog(folder)
            if log.name is not None:
                for _ in chain(self._place.partition(folder, log.name, owner), self._place.topic_id(log, owner)):
                    pass

    def _partition_tasks(self, folder: str, around: Around, resume: Mark | None) -> Iterator[_Task]:
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
            recovery = around.checkpoints.of(names.RECOVERY_POINT_CHECKPOINT, (log.name.topic, log.name.partition))
            segments = log.segments_from(recovery or 0) if log.segments else []
        if log.name is not None and log.name.state == names.DELETE:
            segments = []
        yield _Partition(log, segments, around, before)
        reading = self._reading(log)
        yield from self._segment_tasks(segments, reading)
        yield from self._snapshot_tasks(log, reading)
        yield _Closing(None)

    def _segment_tasks(self, segments: list[Segment], reading: Reading) -> Iterator[_Task]:
        for segment in segments:
            size = _size(segment.log_path)
            yield _Opening(segment, size)
            yield from pieces_of(segment, reading, size)
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
            _, findings = self._directory(LogDirectory(folder or "."))
            yield _Said([finding for finding in findings if os.path.basename(finding.path) == name])
            return
        around = _around(folder or ".")
        at = [n for n, segment in enumerate(log.segments) if segment.base_offset == says.offset]
        if says.state and says.kind == names.LOG:
            segments = [Segment(path)]
        else:
            segments = log.segments[at[0] : at[0] + 1] if at else []
        is_segment = says.kind in names.SEGMENT_KINDS
        only = name.partition(".")[0] if says.kind == names.LOG else name
        before = Before() if is_segment and at and at[0] else None
        is_rolled = bool(at) and at[0] + 1 < len(log.segments)
        around = around._replace(was_closed=around.was_closed or is_rolled)
        yield _Partition(log, segments, around, before, only)
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


def _around(folder: str) -> Around:
    """What is around a partition directory; what is wrong with it is said where the log directory is verified."""
    parent = os.path.dirname(os.path.abspath(folder))
    checkpoints = Checkpoints(parent)
    try:
        directory = LogDirectory(parent)
    except OSError:
        return Around(checkpoints, False, None)
    for _ in read_checkpoints(directory, checkpoints):
        pass
    return Around(checkpoints, directory.clean_shutdown, owner_of(directory)[0])


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _is_ahead(task: _Task) -> bool:
    """Whether a thread may do a task ahead of its turn."""
    return isinstance(task, Piece) and task.ahead


def _walked(task: _Task) -> list[Part] | None:
    """The parts of a piece that is small enough to be kept as a whole."""
    return list(walk(task)) if isinstance(task, Piece) and task.ahead else None


def _is_sound(parts: list[Part], stop: int | None) -> bool:
    """Whether the parts of a piece are good batches that end where it does."""
    if any(isinstance(part, BadBytes) for part in parts):
        return False
    return stop is None or (bool(parts) and isinstance(parts[-1], Sheet) and parts[-1].end == stop)
