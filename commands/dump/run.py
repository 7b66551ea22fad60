"""What `kdump dump` does: file after file, or, with --follow, whatever comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from errno import EIO
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.interchange.rows import Origin
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.damage import is_zero_tail
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import has_batch
from kdump.storage.segment import Segment
from kdump.transactions.isolation_level import Isolation

from ..shell.output import Output, note
from ..shell.rows import output_for
from ..shell.schemas import payload_decoder
from .jobs import LOGS, Job, Options, columns, jobs_of, nothing_in, row_type
from .met import LimitReached, Met, format_of

if TYPE_CHECKING:
    from kdump.change.kept import KeptPiece
    from kdump.query.follow import Follower

POLL_SECONDS = 0.2


def dump(
    places: list[Place],
    options: Options,
    lone: Sequence[LoneLog] = (),
    unreached: Sequence[tuple[str, OSError]] = (),
) -> int:
    """Dump what `places` are and some `lone` logs; the exit code. Of what is `unreached` it is said why.

    Raises click.UsageError, OutputError.
    """
    if options.kept and options.follow:
        raise click.UsageError("--kept shows what changes cut out of logs, which does not grow: leave out --follow")
    unreadable: list[tuple[str, OSError]] = []
    unreached = list(unreached)
    jobs: list[Job] = list(lone)
    for place in places:
        before = len(unreadable)
        try:
            found = jobs_of(place, options, unreadable)
        except FileNotFoundError as error:
            unreached.append((place.path, error))
            continue
        if not found and len(unreadable) == before and not (options.follow and isinstance(place, LogDirectory)):
            note(nothing_in(place, options))
        jobs += found
    types = {row_type(job, options) for job in jobs}
    if options.format == "csv" and len(types) > 1:
        raise click.UsageError(
            f"--format csv prints rows of one kind, and these files have {', '.join(sorted(types))}: dump them one"
            " kind at a time, or with --format jsonl"
        )
    payloads = None if options.raw else payload_decoder(places, options.schemas)
    with output_for(options.format) as out:
        if options.format == "csv":
            out.write(f"{','.join(columns(jobs, options, schemas=payloads is not None))}\n")
        met = Met(out, format_of(out, options, schemas=payloads is not None), options, payloads)
        run = _Run(out, met, options)
        for path, reason in unreached:
            met.tell(path, reason)
        for path, reason in unreadable:
            met.failed(path, reason)
        try:
            if options.follow:
                run.follow(jobs, places)
            else:
                run.all(jobs)
        except LimitReached:
            pass
        met.end()
    return met.code


class _Run:
    def __init__(self, out: Output, met: Met, options: Options) -> None:
        self._out = out
        self._met = met
        self._options = options
        selection = options.selection
        is_isolated = options.isolation is Isolation.READ_COMMITTED
        self._is_filtered = selection.reads_records or selection.compares_headers or is_isolated

    # --- one file after the other

    def all(self, jobs: Iterable[Job]) -> None:
        """Dump everything as it is now."""
        for job in jobs:
            if isinstance(job, PartitionLog):
                self._partition(job)
            elif isinstance(job, KafkaFile):
                self._file(job)
            elif isinstance(job, LoneLog):
                self._met.shown[job.path] = job.shown
                self._segment(job.segment(), self._options.selection)
                if job.problem:
                    self._met.failed(job.shown, OSError(EIO, job.problem))
            else:
                self._kept(job)

    def _partition(self, job: PartitionLog) -> None:
        try:
            with held(job.path) as log:
                if log is not None:
                    selection = self._tail(log, self._selection(log))
                    for segment in selection.segments(log, use_indexes=self._options.use_indexes):
                        self._segment(segment, selection)
        except OSError as error:
            self._met.failed(job.path, error)

    @property
    def _includes_damaged(self) -> bool:
        """Whether batches are shown that fail their CRC; in the table of batches for people they are marked."""
        options = self._options
        return options.include_damaged or options.kept or (options.batches_only and options.format == "text")

    def _tail(self, log: PartitionLog, selection: Selection) -> Selection:
        options = self._options
        if options.tail is None:
            return selection
        from kdump.query.tail import tail_selection

        limit = options.max_decompressed
        return tail_selection(log, selection, options.tail, batches_only=options.batches_only, limit=limit)

    def _kept(self, piece: KeptPiece) -> None:
        segment = piece.segment()
        self._met.kept_pieces[segment.log_path] = piece
        self._segment(segment, self._options.selection)

    def _file(self, file: KafkaFile) -> None:
        if file.name.kind in names.SEGMENT_KINDS and file.name.offset is None:
            self._met.report(f"{safe_path(file.path)}: skipped: its name does not begin with an offset")
        elif file.name.kind in LOGS:
            segment = Segment(file.path)
            self._segment(segment, self._selection(None if segment.is_checkpoint else _partition_around(segment)))
        else:
            self._table(file)

    def _selection(self, log: PartitionLog | None) -> Selection:
        """Return what is wanted of a partition; None stands for a snapshot of KRaft's, in which all is committed."""
        selection = self._options.selection
        if log is None or self._options.isolation is Isolation.READ_UNCOMMITTED:
            return selection
        from kdump.transactions.isolation import isolated

        states = self._met.transactions_of(log.path)
        return isolated(selection, log, self._options.isolation, states)

    def _segment(self, segment: Segment, selection: Selection) -> None:
        self._met.check_limit()
        options = self._options
        try:
            with segment.open_log() as log:
                if not self._is_filtered:
                    self._met.begin(segment, log.size)
                start = selection.start(segment, log) if options.use_indexes else 0
                sweep = Sweep(
                    segment,
                    log,
                    selection,
                    start,
                    batches_only=options.batches_only,
                    includes_damaged=self._includes_damaged,
                    limit=options.max_decompressed,
                )
                for event in sweep:
                    if isinstance(event, Selected):
                        self._met.selected(segment, event, log.size)
                    elif is_zero_tail(event, log) and self._may_end_in_zeros(segment):
                        self._out.flush()
                        note(f"{self._met.name(segment)}: byte {event.position}: {safe(event.text)}")
                    else:
                        hides = sweep.hides and has_batch(log, event, segment.base_offset)
                        self._met.damage(self._met.name(segment), event, log.size, hides=hides)
        except OSError as error:
            self._met.failed(segment.log_path, error)

    def _may_end_in_zeros(self, segment: Segment) -> bool:
        """Return whether zeros at the end are no loss: preallocated in the last segment, or all that a kept piece had.

        Raises OSError.
        """
        if segment.is_checkpoint or segment.log_path in self._met.kept_pieces or segment.log_path in self._met.shown:
            return not segment.is_checkpoint
        last = PartitionLog(os.path.dirname(segment.log_path) or ".").segments[-1:]
        return bool(last) and last[0].base_offset == segment.base_offset

    def _table(self, file: KafkaFile) -> None:
        from kdump.interchange.file_rows import TABLES, rows_of

        self._met.check_limit()
        partition = file.partition
        origin = Origin(
            safe_path(file.path),
            partition.topic if partition else None,
            partition.partition if partition else None,
            file.name.offset,
        )

        def report(position: int, text: str) -> None:
            self._met.report(f"{safe_path(file.path)}: byte {position}: {safe(text)}")

        rows = rows_of(file, report)
        try:
            self._met.table(TABLES[file.name.kind], origin, rows)
        except KdumpError as error:
            self._met.report(f"{safe_path(file.path)}: {safe(str(error))}")
        except OSError as error:
            self._met.failed(file.path, error)

    # --- whatever comes

    def follow(self, jobs: Iterable[Job], places: Iterable[Place]) -> None:
        """Dump everything as it is now, then what is appended, until nothing that is wanted can come."""
        followers = {}
        for job in jobs:
            if isinstance(job, KafkaFile) and (job.name.kind not in LOGS or job.name.offset is None):
                self._file(job)
            else:
                followers[job.path] = self._follower(job.path, single=isinstance(job, KafkaFile))
        directories = [place.path for place in places if isinstance(place, LogDirectory)]
        if not followers and not directories:
            raise click.UsageError("--follow follows logs, and there is none among the files given")
        while True:
            waiting = [follower for follower in followers.values() if not follower.is_done]
            if not waiting and not directories:
                return
            for follower in waiting:
                self._poll(follower)
            self._out.flush()
            time.sleep(POLL_SECONDS)
            for path in directories:
                for found in self._partitions_now(path):
                    if found not in followers:
                        followers[found] = self._follower(found)

    def _follower(self, path: str, *, single: bool = False) -> Follower:
        from kdump.query.follow import Follower

        selection = self._options.selection
        if self._options.tail is not None and not single:
            selection = self._tail(PartitionLog(path), selection)
        return Follower(
            path,
            selection,
            single=single,
            batches_only=self._options.batches_only,
            use_indexes=self._options.use_indexes,
            includes_damaged=self._includes_damaged,
            limit=self._options.max_decompressed,
        )

    def _poll(self, follower: Follower) -> None:
        from kdump.query.follow import Truncated

        try:
            for segment, size, event in follower.poll():
                if isinstance(event, Selected):
                    self._met.selected(segment, event, size)
                elif isinstance(event, Truncated):
                    self._met.report(
                        f"{safe_path(segment.log_path)}: it had {event.was} bytes and was cut to {event.size}; the"
                        " dump continues there"
                    )
                else:
                    self._met.damage(self._met.name(segment), event, size)
        except OSError as error:
            self._met.failed(follower.path, error)
            follower.is_done = True

    def _partitions_now(self, path: str) -> Iterator[str]:
        try:
            directory = LogDirectory(path)
        except OSError:
            return
        for name in directory.partition_names:
            yield os.path.join(path, name)


def _partition_around(segment: Segment) -> PartitionLog:
    return PartitionLog(os.path.dirname(segment.log_path) or ".")
