"""Verify log directories, partition directories and single files: what is looked at, in which order, in which threads.

The order of findings is that of the files: partition by partition, segment by segment, from the first byte on, however
many threads read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain

from kdump.check.batch_rows import BatchRows, Part, Piece, walk
from kdump.check.directory import KnownPartitions
from kdump.check.live import confirmed, is_doubtful, judged, need_metadata, segments_in_doubt
from kdump.check.notes import Notes
from kdump.check.options import Options
from kdump.check.partition import PartitionCheck, unread
from kdump.check.producers import Coordinated
from kdump.check.resume import Mark
from kdump.check.state import State
from kdump.check.tasks import Tasks, check_path
from kdump.check.work import (
    EVERYTHING,
    Closing,
    DirectoryFindings,
    LogDirectoryContext,
    Opening,
    PartitionRange,
    PartitionTask,
    Task,
)
from kdump.errors import ConfigError, InternalError
from kdump.findings.finding import Finding
from kdump.findings.kind import GOES_OFFLINE, REFUSES
from kdump.findings.limit import FindingLimit
from kdump.formats import names
from kdump.formats.time_units import wall_clock
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import PropertyFile
from kdump.storage.damage import Damage
from kdump.storage.directory import holds_metadata_log
from kdump.storage.live import internal_errors
from kdump.storage.parallel import ordered, processors
from kdump.topics.clusters import ClusterMetadata
from kdump.topics.topic_ids import TopicIds


class Verification:
    """One run. `mark` tells, when it was ended by its deadline or otherwise, where the next run is to go on."""

    def __init__(
        self,
        options: Options,
        mark: Mark | None = None,
        share: PartitionRange = EVERYTHING,
        around: LogDirectoryContext | None = None,
        state: State | None = None,
    ) -> None:
        """`mark` is where an earlier run over the same paths was ended; `share` what of the whole is to be done.

        With `around` paths are those of partition directories, and what is around them need not be read again. What
        `state` knows is not read again, and what is verified is put into it. `skipped` counts those segments.
        """
        self.mark: Mark | None = None
        self._first_mark: Mark | None = None  # that of the partition at hand
        self.partitions = self.segments = self.skipped = self.bytes = 0
        self.on_partition: Callable[[str], object] | None = None
        self.on_batches: Callable[[str, BatchRows], object] | None = None  # of a .log, with its path
        self._options = options
        self._files = () if options.properties is None else (PropertyFile("", None, options.properties),)
        self._now = wall_clock() if options.now is None else options.now
        self._jobs = options.jobs or processors()
        self._place = KnownPartitions(judges_ids=around is None)
        self._has_around = around is not None
        self._limit = FindingLimit(options.max_per_code)
        self._tasks = Tasks(options, self._place, mark, share, around, state)
        self._notes = Notes(state, deep=options.deep)
        self._check: PartitionCheck | None = None
        self._only = ""
        self._doubtful: list[Finding] = []  # what was found in the partition at hand, of which a broker is at work
        self._is_open = False  # whether a segment is, and its log could be read so far
        self._serial = False  # whether the rest of the segment is not walked in pieces

    def run(self, paths: list[str]) -> Iterator[Finding]:
        """Yield the findings. Raises OSError and NameFormatError for a path that is nothing to verify."""
        for path in () if self._has_around else paths:
            check_path(path)
        wanted = self._options.filter
        for finding in _with_effects(self._findings(paths)):
            passed = wanted.apply(finding)
            if passed is not None:
                yield passed

    def _findings(self, paths: list[str]) -> Iterator[Finding]:
        try:
            for found, task, is_over in self._of(self._tasks.of(paths)):
                if task is None:
                    yield from found
                elif not task.is_live:
                    yield from self._notes.seen(found)
                else:
                    self._doubtful += judged(found, task.log)
                    if is_over:
                        first, self._doubtful = self._doubtful, []
                        task.hold.close()
                        settled = confirmed(first, partial(self._check_again, task), time.monotonic())
                        yield from self._notes.seen(settled)
                if is_over and task is not None:
                    self._notes.keep(task)
        except BaseException:
            if any(map(is_doubtful, self._doubtful)):
                self.mark = self._first_mark  # for what was found there has not been said
            raise
        finally:
            self._close()

    def _check_again(self, task: PartitionTask, doubtful: list[Finding]) -> Iterator[Finding]:
        """Yield what a second look at a partition finds, which goes as far as what is in doubt does."""
        if need_metadata(doubtful):
            self._tasks.clusters = self._tasks.clusters.unread()
        second = Verification(self._options._replace(jobs=1, deadline=None, progress=None))
        second._place, second._tasks.clusters = self._place, self._tasks.clusters
        self._place.ids = TopicIds(self._tasks.clusters)
        tasks = second._tasks.again(task, segments_in_doubt(doubtful, task.log))
        try:
            for found, again, _ in second._of(tasks):
                yield from found if again is None else judged(found, again.log)
        finally:
            second._close()

    def _close(self) -> None:
        """Let go of what is open, also in the middle of a segment."""
        self._tasks.close()
        if self._check is not None:
            self._check.close()
        self._check = None  # it knows this run: as a circle all of it would wait for the garbage collector

    def _of(self, tasks: Iterable[Task]) -> Iterator[tuple[Iterator[Finding], PartitionTask | None, bool]]:
        """Yield what each task finds, with the partition that it is part of, and whether that is over.

        What is left of a partition on which kdump itself has failed is passed over: it has no check any more.
        """
        partition: PartitionTask | None = None
        for task, result in ordered(tasks, _walked, _is_ahead, self._jobs):
            if isinstance(task, DirectoryFindings):
                yield self._kept_going(self._limit.first(task.findings), task.path), partition, False
                continue
            if isinstance(task, PartitionTask):
                partition = task
                yield self._kept_going(self._start(task), task.log.path), partition, False
                continue
            check = self._check
            if isinstance(task, Closing) and task.segment is None:
                last = () if check is None else self._kept_going(self._chosen(check.finish()), check.log.path)
                yield chain(last, self._limit.rest()), partition, True
                if partition is not None:
                    partition.hold.close()
                partition = None
            elif check is not None:
                if isinstance(task, Opening):
                    self.mark = self._mark_at(task.segment.base_offset)
                    if self._is_late():
                        yield self._limit.rest(), partition, True
                        return
                    self._is_open, self._serial = True, False
                findings = self._of_segment(check, task, result)
                yield self._kept_going(self._chosen(findings), check.log.path), partition, False
        yield self._limit.rest(), None, True
        self.mark = None

    def _of_segment(
        self, check: PartitionCheck, task: Opening | Piece | Closing, result: list[Part] | BaseException | None
    ) -> Iterator[Finding]:
        """Yield what a task finds that is part of a segment."""
        if isinstance(task, Opening):
            yield from check.open_segment(task.segment)
        elif isinstance(task, Piece):
            yield from self._piece(check, task, result)
        elif task.segment is not None:
            self.segments += 1  # only now: a run that is ended before continues with it
            yield from check.close_segment(was_read=self._is_open)
            if self._is_open:
                self._notes.closed(task.segment, check.before_next)

    def _kept_going(self, findings: Iterator[Finding], path: str) -> Iterator[Finding]:
        """Yield findings; where kdump itself fails on the partition, that is the last one."""
        try:
            with internal_errors(path):
                yield from findings
        except InternalError as error:
            self._notes.failed()
            if self._check is not None:
                self._check.close()
            self._check = None
            yield unread(path, error)

    def _mark_at(self, base_offset: int) -> Mark:
        """Return where a run that is ended here is to be resumed."""
        assert self._check is not None
        before = self._check.before_next
        return Mark(self._check.log.path, base_offset, before.last_offset, before.leader_epoch)

    def _is_late(self) -> bool:
        """Return whether the time is up; one segment at least is checked in every run."""
        deadline = self._options.deadline
        return deadline is not None and self.segments > 0 and time.monotonic() > deadline

    def _start(self, task: PartitionTask) -> Iterator[Finding]:
        self.partitions += 1
        self.skipped += len(task.known)
        self._notes.begin(task)
        if self.on_partition is not None:
            self.on_partition(task.log.path)
        self._only = task.only
        placing, coordinator = self._cluster(task).placing, partial(self._coordinator, task)
        about = task, self._place, self._options, self._now
        self._check = PartitionCheck(*about, placing=placing, coordinator=coordinator, retention=self._retention(task))
        self.mark = self._first_mark = self._mark_at(task.segments[0].base_offset if task.segments else 0)
        yield from self._chosen(self._check.start())

    def _cluster(self, task: PartitionTask) -> ClusterMetadata:
        directory = task.around.directory
        return self._tasks.clusters.of(directory) if directory else ClusterMetadata()

    def _retention(self, task: PartitionTask) -> RetentionSettings:
        """Return what decides how a partition loads and which segments go; Kafka's defaults where nothing says so."""
        given, name = self._options.retention_ms, task.log.name
        if name is not None and name.topic == names.CLUSTER_METADATA_TOPIC:
            return RetentionSettings(deletes=False)  # snapshots decide there (KIP-630)
        if task.around.retention is not None:
            return task.around.retention
        was_cleaned = task.around.checkpoints.of(name).cleaner is not None
        cluster = self._cluster(task)
        try:
            settings = cluster.settings(self._files).of(name.topic if name else "", was_cleaned=was_cleaned)
            known = RetentionSettings.of(settings, cluster.kafka)
        except ConfigError:
            known = RetentionSettings()
        return known if given is None else known._replace(retention_ms=given, deletes=True)

    def _coordinator(self, task: PartitionTask, producer_id: int, producer_epoch: int) -> Coordinated | None:
        """Return what the coordinator of a producer says of its transaction in a partition, where it is at hand."""
        name, directory = task.log.name, task.around.directory
        if name is None or directory is None:
            return None
        owner = self._tasks.clusters.transactional_ids(directory).of_producer(producer_id)
        if owner is None:
            return None
        return Coordinated(owner.state, owner.covers(name.topic, name.partition, producer_epoch))

    def _chosen(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Return where a single file was asked for, what concerns it."""
        if self._check is not None:
            findings = self._check.advised(findings)
        if self._only:
            findings = (finding for finding in findings if os.path.basename(finding.path).startswith(self._only))
        return self._limit.first(findings)

    def _piece(
        self, check: PartitionCheck, piece: Piece, result: list[Part] | BaseException | None
    ) -> Iterator[Finding]:
        """Yield what a piece of a log holds; in order from where the one before it ended."""
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
                self._notes.part(part)
                if self.on_batches is not None and isinstance(part, BatchRows):
                    self.on_batches(piece.segment.log_path, part)
                self._note_progress(piece.segment.log_path, check.position - before)
        except OSError as error:
            self._is_open = False
            yield from check.unread(error)

    def _rest(self, check: PartitionCheck, piece: Piece) -> Iterator[Part]:
        """Return everything from where the check stands on, where pieces do not fit together or are damaged.

        It begins a batch earlier, for what is to be expected behind damage depends on what was before it.
        """
        self._serial = True
        start = check.last_good
        return walk(Piece(piece.segment, start, None, piece.reading), check.position)

    def _note_progress(self, path: str, size: int) -> None:
        self.bytes += size
        if self._options.progress:
            self._options.progress(path, size)


def _with_effects(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; what takes a directory offline ends the process where the metadata log is in it.

    The directory is that of a file, of a partition, or of a partition's file.
    """
    has_log = cache(_has_metadata_log)
    for finding in findings:
        if finding.broker == GOES_OFFLINE:
            folder = os.path.dirname(os.path.abspath(finding.path))
            if has_log(folder) or has_log(os.path.dirname(folder)):
                finding = finding._replace(effect=REFUSES)
        yield finding


def _has_metadata_log(folder: str) -> bool:
    try:
        return holds_metadata_log(folder)
    except OSError:
        return True  # nobody knows: of the two effects it is the worse one


def _is_ahead(task: Task) -> bool:
    """Return whether a thread may do a task ahead of its turn."""
    return isinstance(task, Piece) and task.ahead


def _walked(task: Task) -> list[Part] | None:
    """Return the parts of a piece that is small enough to be kept as a whole."""
    return list(walk(task)) if isinstance(task, Piece) and task.ahead else None


def _is_sound(parts: list[Part], stop: int | None) -> bool:
    """Return whether the parts of a piece are valid batches that end where it does."""
    if any(isinstance(part, Damage) for part in parts):
        return False
    return stop is None or (bool(parts) and isinstance(parts[-1], BatchRows) and parts[-1].end == stop)
