"""What `kdump dump` does: file after file, or, with --follow, whatever comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from errno import EIO
from typing import TYPE_CHECKING

import click

from kdump.change.kept import KeptPiece
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.interchange.fields import Format, Origin, Value
from kdump.query.follow import Follower, Truncated
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, tally, was_deleted
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, TxnState, batch_at
from kdump.storage.scan import has_batch
from kdump.storage.segment import Segment
from kdump.transactions.isolation import isolated
from kdump.transactions.isolation_level import Isolation
from kdump.transactions.states import TransactionStates

from ..shell import exit_codes
from ..shell.output import Output, complain, note, os_error_text, wants_color
from ..shell.paths import KafkaFile, Place, partition_of
from ..shell.rows import output_for
from ..shell.schemas import payload_decoder
from .internal import DecodingFormat
from .jobs import LOGS, Job, Options, columns, jobs_of, nothing_in, row_type
from .kept import kept_words
from .lone import LoneLog
from .tail import tail_selection

if TYPE_CHECKING:
    from kdump.schemas.decoder import PayloadDecoder

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
        raise click.UsageError("--kept shows what changes took out of logs, which does not grow: leave out --follow")
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
        run = _Run(out, _format(out, options, schemas=payloads is not None), options, payloads)
        for path, reason in unreached:
            run.tell(path, reason)
        for path, reason in unreadable:
            run.failed(path, reason)
        try:
            if options.follow:
                run.follow(jobs, places)
            else:
                run.all(jobs)
        except _LimitReached:
            pass
        run.end()
    return run.code


class _LimitReached(Exception):
    """--limit is."""


class _Run:
    def __init__(
        self, out: Output, printer: Format, options: Options, payloads: PayloadDecoder | None = None
    ) -> None:
        self.code = exit_codes.OK
        self._out = out
        self._printer = printer if options.raw else DecodingFormat(printer, self._undecodable, payloads)
        self._options = options
        self._damaged = self._hidden = 0
        self._newer: set[str] = set()  # logs with records that are newer than kdump
        self._left = options.limit
        self._batch: Batch | None = None
        self._transaction = TxnState.NONE
        self._transactions: dict[str, TransactionStates] = {}  # by partition directory
        self._begun: Segment | None = None  # whose beginning was printed last
        selection = options.selection
        self._kept_pieces: dict[str, KeptPiece] = {}  # by path
        self._shown: dict[str, str] = {}  # what logs are called that are elsewhere, or have no partition
        is_isolated = options.isolation is Isolation.READ_COMMITTED
        self._is_filtered = selection.reads_records or selection.compares_headers or is_isolated

    # --- one file after the other

    def all(self, jobs: Iterable[Job]) -> None:
        """Dump everything as it is now."""
        for job in jobs:
            if isinstance(job, PartitionLog):
                self._partition(job)
            elif isinstance(job, KeptPiece):
                self._kept(job)
            elif isinstance(job, LoneLog):
                self._shown[job.path] = job.shown
                self._segment(job.segment(), self._options.selection)
                if job.problem:
                    self.failed(job.shown, OSError(EIO, job.problem))
            else:
                self._file(job)

    def end(self) -> None:
        """Print the answer where damage was met: stdout may be all that somebody reads."""
        if not self._damaged or self._options.format != "text":
            return
        see = " See what can be read: --include-damaged" if self._hidden else ""
        self._out.write(f"\nFOUND: {number_words(self._damaged, 'damaged range')}.{see}\n")

    def _partition(self, job: PartitionLog) -> None:
        try:
            with held(job.path) as log:
                if log is not None:
                    selection = self._tail(log, self._selection(log))
                    for segment in selection.segments(log, use_indexes=self._options.use_indexes):
                        self._segment(segment, selection)
        except OSError as error:
            self.failed(job.path, error)

    @property
    def _includes_damaged(self) -> bool:
        """Whether batches are shown that fail their CRC; in the table of batches for people they are marked."""
        options = self._options
        return options.include_damaged or options.kept or (options.batches_only and options.format == "text")

    def _tail(self, log: PartitionLog, selection: Selection) -> Selection:
        options = self._options
        if options.tail is None:
            return selection
        limit = options.max_decompressed
        return tail_selection(log, selection, options.tail, batches_only=options.batches_only, limit=limit)

    def _name(self, segment: Segment) -> str:
        """Return what a log is called."""
        return safe_path(self._shown.get(segment.log_path, segment.log_path))

    def _kept(self, piece: KeptPiece) -> None:
        segment = piece.segment()
        self._kept_pieces[segment.log_path] = piece
        self._segment(segment, self._options.selection)

    def _file(self, file: KafkaFile) -> None:
        if file.name.kind in names.SEGMENT_KINDS and file.name.offset is None:
            self._report(f"{safe_path(file.path)}: skipped: its name does not begin with an offset")
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
        states = self._transactions_of(log.path)
        return isolated(selection, log, self._options.isolation, states)

    def _segment(self, segment: Segment, selection: Selection) -> None:
        self._check_limit()
        options = self._options
        try:
            with segment.open_log() as log:
                if not self._is_filtered:
                    self._begin(segment, log.size)
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
                        self._selected(segment, event, log.size)
                    elif is_zero_tail(event, log) and self._may_end_in_zeros(segment):
                        self._out.flush()
                        note(f"{self._name(segment)}: byte {event.position}: {safe(event.text)}")
                    else:
                        hides = sweep.hides and has_batch(log, event, segment.base_offset)
                        self._damage(self._name(segment), event, log.size, hides=hides)
        except OSError as error:
            self.failed(segment.log_path, error)

    def _may_end_in_zeros(self, segment: Segment) -> bool:
        """Return whether zeros at the end are no loss: preallocated in the last segment, or all that a kept piece had.

        Raises OSError.
        """
        if segment.is_checkpoint or segment.log_path in self._kept_pieces or segment.log_path in self._shown:
            return not segment.is_checkpoint
        last = PartitionLog(os.path.dirname(segment.log_path) or ".").segments[-1:]
        return bool(last) and last[0].base_offset == segment.base_offset

    def _table(self, file: KafkaFile) -> None:
        from .tables import TABLES, rows_of

        self._check_limit()
        partition = file.partition
        origin = Origin(
            safe_path(file.path),
            partition.topic if partition else None,
            partition.partition if partition else None,
            file.name.offset,
        )

        def report(position: int, text: str) -> None:
            self._report(f"{safe_path(file.path)}: byte {position}: {safe(text)}")

        rows = rows_of(file, report)
        try:
            self._printer.table(TABLES[file.name.kind], origin, self._counted(rows))
        except KdumpError as error:
            self._report(f"{safe_path(file.path)}: {safe(str(error))}")
        except OSError as error:
            self.failed(file.path, error)

    def _counted(self, rows: Iterator[Sequence[Value]]) -> Iterator[Sequence[Value]]:
        for row in rows:
            if self._left is not None:
                if self._left == 0:
                    return
                self._left -= 1
            yield row

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
        try:
            for segment, size, event in follower.poll():
                if isinstance(event, Selected):
                    self._selected(segment, event, size)
                elif isinstance(event, Truncated):
                    self._report(
                        f"{safe_path(segment.log_path)}: it had {event.was} bytes and was cut to {event.size}; the"
                        " dump continues there"
                    )
                else:
                    self._damage(self._name(segment), event, size)
        except OSError as error:
            self.failed(follower.path, error)
            follower.is_done = True

    def _partitions_now(self, path: str) -> Iterator[str]:
        try:
            directory = LogDirectory(path)
        except OSError:
            return
        for name in directory.partition_names:
            yield os.path.join(path, name)

    # --- what is met

    def _selected(self, segment: Segment, selected: Selected, size: int) -> None:
        self._check_limit()
        if segment is not self._begun:
            self._begin(segment, size)
        batches_only = self._options.batches_only
        if selected.starts or self._batch is None:
            self._batch = batch_at(selected.block, selected.row)
            self._transaction = self._state_of(segment, self._batch)
            self._printer.batch(self._batch, self._transaction)
            self._count(batches_only)
        if batches_only or not selected.picks:
            return
        if self._left is not None:
            selected = selected._replace(picks=selected.picks[: self._left])
        self._printer.records(self._batch, self._transaction, selected)
        self._count(len(selected.picks))

    def _state_of(self, segment: Segment, batch: Batch) -> TxnState:
        """Return how the transaction of a batch ended. Raises OSError."""
        if not batch.is_transactional or segment.is_checkpoint:
            return TxnState.NONE
        folder = self._folder_of(segment)
        if segment.log_path in self._shown or not os.path.isdir(folder):  # of what is kept of a partition that is gone
            return TxnState.UNKNOWN
        return self._transactions_of(folder).of(batch)

    def _transactions_of(self, folder: str) -> TransactionStates:
        if folder not in self._transactions:
            self._transactions = {folder: TransactionStates(PartitionLog(folder))}
        return self._transactions[folder]

    def _folder_of(self, segment: Segment) -> str:
        piece = self._kept_pieces.get(segment.log_path)
        return piece.partition if piece else os.path.dirname(segment.log_path) or "."

    def _count(self, printed: int) -> None:
        if self._left is not None:
            self._left -= printed
            self._check_limit()

    def _check_limit(self) -> None:
        if self._left == 0:
            raise _LimitReached

    def _begin(self, segment: Segment, size: int) -> None:
        begun, self._begun = self._begun, segment
        if begun and begun.log_path == segment.log_path:
            return
        partition = partition_of(os.path.abspath(self._folder_of(segment)))
        piece = self._kept_pieces.get(segment.log_path)
        origin = Origin(
            self._name(segment),
            partition.topic if partition else None,
            partition.partition if partition else None,
            None if segment.is_checkpoint else segment.base_offset,
            kept_words(piece) if piece else "",
        )
        self._printer.begin(origin, size)

    def _damage(self, name: str, damage: Damage, size: int, *, hides: bool = False) -> None:
        self._damaged += 1
        self._hidden += hides
        onward = f"the dump continues at byte {damage.resumed}"
        if damage.resumed >= size:
            onward = "nothing that can be trusted follows"
        see = " (--include-damaged shows what can be read)" if hides else ""
        self._report(f"{name}: byte {damage.position}: {safe(damage.text)}{see}; {onward}")

    def _undecodable(self, path: str, batch: Batch, text: str, is_newer: bool) -> None:
        place = f"{path}: byte {batch.position}: {safe(text)}"
        if not is_newer:
            self._report(place)
        elif path not in self._newer:
            self._newer.add(path)
            self._out.flush()
            note(f"{place}: newer than this kdump, printed as it is")

    def _report(self, text: str) -> None:
        """Say what is wrong with the data, after what was printed before it."""
        self._out.flush()
        complain(text)
        self.code = max(self.code, exit_codes.FINDINGS)

    def failed(self, path: str, error: OSError) -> None:
        """Say that a file cannot be read, unless a running broker has deleted it."""
        if was_deleted(path, error):
            return
        tally.cannot_read(path)
        self.tell(path, error)

    def tell(self, path: str, error: OSError) -> None:
        """Say why nothing of a file or PATH is printed."""
        self._out.flush()
        complain(os_error_text(error, path))
        self.code = exit_codes.INCOMPLETE


def _partition_around(segment: Segment) -> PartitionLog:
    return PartitionLog(os.path.dirname(segment.log_path) or ".")


def _format(out: Output, options: Options, *, schemas: bool) -> Format:
    if options.format == "jsonl":
        from kdump.interchange.jsonl import JsonLines

        return JsonLines(out.write, schemas=schemas)
    if options.format == "csv":
        from kdump.interchange.csv import CsvRows

        return CsvRows(out.write, batches=options.batches_only, schemas=schemas)
    from .text import TextLines

    return TextLines(out.write, color=wants_color(options.color), full=options.full, batches_only=options.batches_only)
