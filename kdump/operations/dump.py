"""Dump logs and the files beside them: what is found in each, in its order, up to what was asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from errno import EIO
from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kdump.disk.reading import is_directory
from kdump.errors import KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import offset_range
from kdump.interchange.rows import Contents, Origin, Table, Value
from kdump.operations.dump_jobs import LOGS, DumpRequest, Job
from kdump.operations.results import Failed
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place, partition_of
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, batch_at
from kdump.storage.scan import has_batch
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState
from kdump.txns.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.change.kept import KeptPiece
    from kdump.operations.decoded_rows import Undecoded
    from kdump.query.follow import Follower
    from kdump.schema_registry.decoder import PayloadDecoder
    from kdump.txns.states import TransactionStates

POLL_SECONDS = 0.2
_NO_TRANSACTION = TxnState.NONE  # a member costs more to look up in its class

_T = TypeVar("_T")


class NothingToFollowError(KdumpError):
    """There is no log among what is to be followed."""


class DumpedLogs:
    """What is known of the logs of a dump besides their bytes.

    `kept` are the pieces that changes keep, by the path of the log, and `alone` the logs without a partition.
    """

    def __init__(self) -> None:
        self.kept: dict[str, KeptPiece] = {}
        self.alone: dict[str, LoneLog] = {}
        self._transactions: dict[str, TransactionStates] = {}  # by partition directory

    def path_of(self, segment: Segment) -> str:
        """Return by which path a log is known."""
        lone = self.alone.get(segment.log_path)
        return segment.log_path if lone is None else lone.shown

    def folder_of(self, segment: Segment) -> str:
        """Return the partition directory that a log is of."""
        piece = self.kept.get(segment.log_path)
        return piece.partition if piece else os.path.dirname(segment.log_path) or "."

    def origin_of(self, segment: Segment) -> Origin:
        """Return where a log is from."""
        note = ""
        if piece := self.kept.get(segment.log_path):
            where = f"bytes {offset_range(piece.start, piece.stop - 1)} of {safe_path(piece.file)}"
            note = f"{where}, taken out by {safe(piece.command)} ({piece.id})"
        partition = partition_of(os.path.abspath(self.folder_of(segment)))
        number = None if segment.is_checkpoint else segment.base_offset
        return _origin(self.path_of(segment), partition, number, note)

    def transaction_of(self, segment: Segment, batch: Batch) -> TxnState:
        """Return how the transaction of a batch ended. Raises OSError."""
        if not batch.attributes & TRANSACTIONAL or segment.is_checkpoint:
            return _NO_TRANSACTION
        folder = self.folder_of(segment)
        if segment.log_path in self.alone or not is_directory(folder):  # of what is kept of a partition that is gone
            return TxnState.UNKNOWN
        return self.transactions_of(folder).of(batch)

    def transactions_of(self, folder: str) -> TransactionStates:
        """Return how the transactions of a partition ended; the last one that was asked for is kept."""
        from kdump.txns.states import TransactionStates

        if folder not in self._transactions:
            self._transactions = {folder: TransactionStates(PartitionLog(folder))}
        return self._transactions[folder]

    def may_end_in_zeros(self, segment: Segment) -> bool:
        """Return whether zeros at the end are no loss: preallocated in the last segment, or all that a kept piece had.

        Raises OSError.
        """
        if segment.is_checkpoint or segment.log_path in self.kept or segment.log_path in self.alone:
            return not segment.is_checkpoint
        last = _partition_around(segment).segments[-1:]
        return bool(last) and last[0].base_offset == segment.base_offset


class LogBegun(NamedTuple):
    """The log of which the batches and records that follow are, and its size in bytes."""

    origin: Origin
    size: int


class Found(NamedTuple):
    """A batch, how its transaction ended, and records of it; a batch with many comes several times, `starts` the first.

    `selected` is None where there are no records to show. `contents` is what they hold, in their order (None: nothing
    of it was decoded).
    """

    batch: Batch
    transaction: TxnState
    starts: bool
    selected: Selected | None = None
    contents: Sequence[Contents] | None = None


class DamagedLog(NamedTuple):
    """Damage in a log of `size` bytes that is known by `path`; `hides`: there are batches in it that are not shown."""

    path: str
    damage: Damage
    size: int
    hides: bool = False


class ZeroTail(NamedTuple):
    """Zeros at the end of a log, which are no loss."""

    path: str
    damage: Damage


class FileRows(NamedTuple):
    """The rows of a file that is no log, to be read before what follows; that raises OSError, KdumpError."""

    table: Table
    origin: Origin
    rows: Iterator[Sequence[Value]]


class Waiting(NamedTuple):
    """For now nothing more has come."""


Event = LogBegun | Found | DamagedLog | ZeroTail | FileRows | Waiting | Failed


class Dump:
    """Finds what is asked for."""

    def __init__(self, request: DumpRequest, report: Report, payloads: PayloadDecoder | None = None) -> None:
        """`report` hears of what is wrong but for damage. Records are decoded as `payloads` has it, if it is given."""
        self._request = request
        self._logs = DumpedLogs()
        self._report = report
        self._includes_damaged = request.includes_damaged or request.kept
        selection, isolation = request.selection, request.isolation
        is_isolated = isolation is Isolation.READ_COMMITTED
        self._is_filtered = selection.reads_records or selection.compares_headers or is_isolated
        self._decoder = None
        if not request.raw and not request.batches_only:
            from kdump.operations.decoded_rows import RowDecoder

            self._decoder = RowDecoder(payloads)
        self._batches_only = request.batches_only
        self._left = request.limit
        self._batch: Batch | None = None
        self._transaction = TxnState.NONE
        self._undecoded: Undecoded = []
        self._begun: Segment | None = None  # the log that was begun last

    def run(self, jobs: Sequence[Job], places: Sequence[Place]) -> Iterator[Event]:
        """Yield what the jobs have now or, if so asked for, also what comes to them and to the places.

        A file that cannot be read, or not to its end, is Failed. The call raises NothingToFollowError.
        """
        check_follows(self._request, jobs, places)
        if self._request.follow:
            return self._follow(jobs, places)
        # no generator around the others, which a log of small batches would go through for each of them
        return chain.from_iterable(map(self._all_of, self._until_enough(jobs)))

    def _until_enough(self, these: Iterable[_T]) -> Iterator[_T]:
        """Yield some things until as many batches or records were found as were asked for."""
        return takewhile(lambda _: self._left != 0, these)

    def _begin(self, segment: Segment, size: int) -> Iterable[LogBegun]:
        """Return the beginning of a log, once."""
        is_known = self._begun is not None and self._begun.log_path == segment.log_path
        self._begun = segment
        if is_known:
            return ()
        origin = self._logs.origin_of(segment)
        if self._decoder is not None:
            self._decoder.begin(origin)
        return (LogBegun(origin, size),)

    def _found(self, segment: Segment, selected: Selected) -> Found:
        """Return a batch of a log, or records of it. Raises OSError."""
        batch = self._batch
        starts = selected.starts or batch is None
        if starts or batch is None:
            self._batch = batch = batch_at(selected.block, selected.row)
            self._transaction = self._logs.transaction_of(segment, batch)
        if self._left is not None:
            selected = self._counted(selected, starts=starts)
        if self._batches_only or not selected.picks:
            return Found(batch, self._transaction, starts)
        if self._decoder is None or not self._decoder.decodes:
            return Found(batch, self._transaction, starts, selected)
        contents, self._undecoded = self._decoder.decode(batch, selected)
        return Found(batch, self._transaction, starts, selected, contents)

    def _counted(self, selected: Selected, *, starts: bool) -> Selected:
        """Return what of it may still be shown."""
        assert self._left is not None
        if self._batches_only:
            self._left -= starts
            return selected
        picks = selected.picks[: self._left]
        self._left -= len(picks)
        return selected._replace(picks=picks)

    def _report_undecoded(self, segment: Segment) -> None:
        """Report what of the records that were shown last could not be decoded."""
        assert self._batch is not None
        for text, is_newer in self._undecoded:
            self._report(Problem(self._logs.path_of(segment), self._batch.position, text, is_newer=is_newer))
        self._undecoded = []

    # --- one file after the other

    def _all_of(self, job: Job) -> Iterator[Event]:
        if isinstance(job, PartitionLog):
            return self._partition(job)
        if isinstance(job, KafkaFile):
            return self._file(job)
        if isinstance(job, LoneLog):
            return self._alone(job)
        segment = job.segment()
        self._logs.kept[segment.log_path] = job
        return self._segment(segment, self._request.selection)

    def _alone(self, job: LoneLog) -> Iterator[Event]:
        self._logs.alone[job.path] = job
        yield from self._segment(job.segment(), self._request.selection)
        if job.problem and self._left != 0:
            yield Failed(job.shown, OSError(EIO, job.problem))

    def _partition(self, job: PartitionLog) -> Iterator[Event]:
        try:
            with held(job.path) as log:
                if log is not None:
                    selection = self._tail(log, self._selection(log))
                    segments = selection.segments(log, use_indexes=self._request.use_indexes)
                    for segment in self._until_enough(segments):
                        yield from self._segment(segment, selection)
        except OSError as error:
            yield Failed(job.path, error)

    def _tail(self, log: PartitionLog, selection: Selection) -> Selection:
        request = self._request
        if request.tail is None:
            return selection
        from kdump.query.tail import tail_selection

        limit = request.max_decompressed
        return tail_selection(log, selection, request.tail, batches_only=request.batches_only, limit=limit)

    def _file(self, file: KafkaFile) -> Iterator[Event]:
        if file.name.kind in names.SEGMENT_KINDS and file.name.offset is None:
            self._report(Problem(file.path, None, "skipped: its name does not begin with an offset"))
        elif file.name.kind in LOGS:
            segment = Segment(file.path)
            log = None if segment.is_checkpoint else _partition_around(segment)
            yield from self._segment(segment, self._selection(log))
        else:
            yield from self._table(file)

    def _selection(self, log: PartitionLog | None) -> Selection:
        """Return what is wanted of a partition; None stands for a snapshot of KRaft's, in which all is committed."""
        request = self._request
        if log is None or request.isolation is Isolation.READ_UNCOMMITTED:
            return request.selection
        from kdump.txns.isolation import isolated

        return isolated(request.selection, log, request.isolation, self._logs.transactions_of(log.path))

    def _segment(self, segment: Segment, selection: Selection) -> Iterator[Event]:
        request = self._request
        try:
            with segment.open_log() as log:
                if not self._is_filtered:
                    yield from self._begin(segment, log.size)
                start = selection.start(segment, log) if request.use_indexes else 0
                sweep = Sweep(
                    segment,
                    log,
                    selection,
                    start,
                    batches_only=request.batches_only,
                    includes_damaged=self._includes_damaged,
                    limit=request.max_decompressed,
                )
                for event in sweep:
                    if isinstance(event, Selected):
                        if segment is not self._begun:
                            yield from self._begin(segment, log.size)
                        yield self._found(segment, event)
                        if self._undecoded:
                            self._report_undecoded(segment)
                        if self._left == 0:
                            return
                    elif is_zero_tail(event, log) and self._logs.may_end_in_zeros(segment):
                        yield ZeroTail(self._logs.path_of(segment), event)
                    else:
                        hides = sweep.hides and has_batch(log, event, segment.base_offset)
                        yield DamagedLog(self._logs.path_of(segment), event, log.size, hides)
        except OSError as error:
            yield Failed(segment.log_path, error)

    def _table(self, file: KafkaFile) -> Iterator[Event]:
        from kdump.interchange.file_rows import TABLES, rows_of

        rows = rows_of(file, lambda position, text: self._report(Problem(file.path, position, text)))
        origin = _origin(file.path, file.partition, file.name.offset)
        yield FileRows(TABLES[file.name.kind], origin, self._counted_rows(rows))

    def _counted_rows(self, rows: Iterator[Sequence[Value]]) -> Iterator[Sequence[Value]]:
        for row in rows:
            if self._left is not None:
                if self._left == 0:
                    return
                self._left -= 1
            yield row

    # --- whatever comes

    def _follow(self, jobs: Sequence[Job], places: Sequence[Place]) -> Iterator[Event]:
        """Yield everything as it is now, then what is appended, until nothing that is wanted can come."""
        followers = {}
        for job in self._until_enough(jobs):
            if isinstance(job, KafkaFile) and not _grows(job):
                yield from self._file(job)
            else:
                followers[job.path] = self._follower(job.path, is_single=isinstance(job, KafkaFile))
        directories = list(_directories(places))
        while self._left != 0:
            waiting = [follower for follower in followers.values() if not follower.is_done]
            if not waiting and not directories:
                return
            yield from chain.from_iterable(map(self._poll, self._until_enough(waiting)))
            if self._left == 0:
                return
            yield Waiting()
            time.sleep(POLL_SECONDS)
            for path in chain.from_iterable(map(_partitions_now, directories)):
                if path not in followers:
                    followers[path] = self._follower(path)

    def _follower(self, path: str, *, is_single: bool = False) -> Follower:
        from kdump.query.follow import Follower

        selection = self._request.selection
        if self._request.tail is not None and not is_single:
            selection = self._tail(PartitionLog(path), selection)
        return Follower(
            path,
            selection,
            is_single=is_single,
            batches_only=self._request.batches_only,
            use_indexes=self._request.use_indexes,
            includes_damaged=self._includes_damaged,
            limit=self._request.max_decompressed,
        )

    def _poll(self, follower: Follower) -> Iterator[Event]:
        from kdump.query.follow import Truncated

        try:
            for segment, size, event in follower.poll():
                if isinstance(event, Selected):
                    if segment is not self._begun:
                        yield from self._begin(segment, size)
                    yield self._found(segment, event)
                    if self._undecoded:
                        self._report_undecoded(segment)
                    if self._left == 0:
                        return
                elif isinstance(event, Truncated):
                    text = f"it had {event.was} bytes and was cut to {event.size}; the dump continues there"
                    self._report(Problem(segment.log_path, None, text))
                else:
                    yield DamagedLog(segment.log_path, event, size)
        except OSError as error:
            yield Failed(follower.path, error)
            follower.is_done = True


def check_follows(request: DumpRequest, jobs: Iterable[Job], places: Iterable[Place]) -> None:
    """Raise NothingToFollowError where logs are to be followed and there are none."""
    if request.follow and not any(map(_grows, jobs)) and not any(_directories(places)):
        raise NothingToFollowError("there is no log among the files given")


def _grows(job: Job) -> bool:
    """Return whether it is one to be followed."""
    return not isinstance(job, KafkaFile) or (job.name.kind in LOGS and job.name.offset is not None)


def _directories(places: Iterable[Place]) -> Iterator[str]:
    """Yield the log directories, in which partitions may be made."""
    return (place.path for place in places if isinstance(place, LogDirectory))


def _partitions_now(path: str) -> Iterator[str]:
    with suppress(OSError):
        yield from [os.path.join(path, name) for name in LogDirectory(path).partition_names]


def _origin(path: str, partition: names.PartitionDirName | None, number: int | None, note: str = "") -> Origin:
    return Origin(path, partition and partition.topic, partition and partition.partition, number, note)


def _partition_around(segment: Segment) -> PartitionLog:
    return PartitionLog(os.path.dirname(segment.log_path) or ".")
