"""Dump logs and the files beside them: what there is at a place, and what of that is shown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from errno import EIO
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kdump.disk.reading import is_directory
from kdump.errors import KdumpError, Problem
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import FileName, PartitionDirName
from kdump.interchange.rows import Value
from kdump.named_tuples import NamedTuple
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.around import directory_around
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, opened
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch
from kdump.storage.scan import has_batch
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState
from kdump.transactions.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.change.kept import KeptPiece
    from kdump.query.follow import Follower
    from kdump.transactions.states import TransactionStates

LOGS = (names.LOG, names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT)
"""The kinds of files that have batches; the others are tables (interchange.file_rows)."""
POLL_SECONDS = 0.2

Job: TypeAlias = "PartitionLog | KafkaFile | KeptPiece | LoneLog"
"""A partition directory stands for its live segments; a file is a log or a table."""


class NothingToFollowError(KdumpError):
    """There is no log among what is to be followed."""


class DumpRequest(NamedTuple):
    """What is shown. `kinds` are those of formats.names that directories are dumped for.

    With `kept` it is what changes keep of the logs of directories. Of a partition only the last `tail` records (or
    batches) that are selected. `follow`: then what comes. `includes_damaged`: batches too that fail their CRC.
    """

    selection: Selection = Selection()
    kinds: frozenset[str] = frozenset((names.LOG,))
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    batches_only: bool = False
    follow: bool = False
    use_indexes: bool = True
    includes_damaged: bool = False
    kept: bool = False
    tail: int | None = None
    max_decompressed: int = DEFAULT_LIMIT


def jobs_of(place: Place, request: DumpRequest, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what is to be dumped of a place; partitions that cannot be listed go into `unreadable`.

    Raises FileNotFoundError where what is kept is asked for and nothing is, KdumpError where it is asked of a file.
    """
    return _kept(place, unreadable) if request.kept else list(_jobs(place, request, unreadable))


def _kept(place: Place, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what changes keep of a partition's logs, or of all partitions that are or were in a log directory."""
    if isinstance(place, KafkaFile):
        raise KdumpError(f"{place.path} is a file: changes keep something of directories")
    from kdump.change.change import Change
    from kdump.change.journal import Changes, changes_of
    from kdump.change.kept import kept_pieces

    changes: list[Change] = []
    found: Changes | None = None
    try:
        if isinstance(place, PartitionLog):
            changes = changes_of(place.path)
        else:
            found = Changes(place.path)
            changes = found.all()
    except OSError as error:
        unreadable.append((place.path, error))
    folder = directory_around(place.path) if isinstance(place, PartitionLog) else place.path
    jobs: list[Job] = [_as_given(piece, folder) for change in changes for piece in kept_pieces(change)]
    unreadable += [(place.path, OSError(0, str(error))) for error in (found.unreadable if found else ())]
    if not jobs and not unreadable:
        raise FileNotFoundError(2, "no change keeps anything of its logs", place.path)
    return jobs


def _as_given(piece: KeptPiece, folder: str) -> KeptPiece:
    """Return a piece with its path as that of its log directory is given."""
    root = os.path.abspath(folder) + os.sep
    return piece._replace(path=os.path.join(folder, piece.path[len(root) :])) if piece.path.startswith(root) else piece


def _jobs(place: Place, request: DumpRequest, unreadable: list[tuple[str, OSError]]) -> Iterator[Job]:
    if isinstance(place, KafkaFile):
        yield place
        return
    if isinstance(place, PartitionLog):
        if names.LOG in request.kinds and (place.segments or request.follow):
            yield place
        yield from _files(place.path, place.files, place.name, request)
        return
    yield from _files(place.path, {name: names.parse_file_name(name) for name in place.files}, None, request)
    for name in place.partition_names:
        path = os.path.join(place.path, name)
        try:
            partition = opened(path)
        except OSError as error:
            unreadable.append((path, error))
            continue
        if partition is not None:
            yield from _jobs(partition, request, unreadable)


def _files(
    folder: str, files: dict[str, FileName], partition: PartitionDirName | None, request: DumpRequest
) -> Iterator[KafkaFile]:
    """Yield the files of a directory that are not part of its log; a .log without a base offset is one."""
    for name, parsed in files.items():
        is_asked = parsed.kind in request.kinds and parsed.state == names.LIVE
        if is_asked and (parsed.kind != names.LOG or parsed.offset is None):
            yield KafkaFile(os.path.join(folder, name), parsed, partition)


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

    def transaction_of(self, segment: Segment, batch: Batch) -> TxnState:
        """Return how the transaction of a batch ended. Raises OSError."""
        if not batch.is_transactional or segment.is_checkpoint:
            return TxnState.NONE
        folder = self.folder_of(segment)
        if segment.log_path in self.alone or not is_directory(folder):  # of what is kept of a partition that is gone
            return TxnState.UNKNOWN
        return self.transactions_of(folder).of(batch)

    def transactions_of(self, folder: str) -> TransactionStates:
        """Return how the transactions of a partition ended; the last one that was asked for is kept."""
        from kdump.transactions.states import TransactionStates

        if folder not in self._transactions:
            self._transactions = {folder: TransactionStates(PartitionLog(folder))}
        return self._transactions[folder]

    def may_end_in_zeros(self, segment: Segment) -> bool:
        """Return whether zeros at the end are no loss: preallocated in the last segment, or all that a kept piece had.

        Raises OSError.
        """
        if segment.is_checkpoint or segment.log_path in self.kept or segment.log_path in self.alone:
            return not segment.is_checkpoint
        last = PartitionLog(os.path.dirname(segment.log_path) or ".").segments[-1:]
        return bool(last) and last[0].base_offset == segment.base_offset


class Shown(Protocol):
    """Is handed what is found, in its order; what it raises ends the dump, but OSErrors, which end a file."""

    def check_limit(self) -> None:
        """Hear that a file is about to be opened."""

    def begin(self, segment: Segment, size: int) -> None:
        """Take a log of `size` bytes of which all is wanted."""

    def selected(self, segment: Segment, selected: Selected, size: int) -> None:
        """Take a batch of a log of `size` bytes, or records of it."""

    def zeros(self, segment: Segment, damage: Damage) -> None:
        """Take zeros at the end of a log that are no loss."""

    def damage(self, segment: Segment, damage: Damage, size: int, *, hides: bool = False) -> None:
        """Take what is damaged in a log of `size` bytes; `hides`: there are batches in it that are not shown."""

    def table(self, file: KafkaFile, rows: Iterator[Sequence[Value]]) -> None:
        """Take the rows of a file that is no log, which raise OSError, KdumpError."""

    def problem(self, problem: Problem) -> None:
        """Take what is wrong with a file."""

    def failed(self, path: str, error: OSError) -> None:
        """Take why a file cannot be read."""

    def flush(self) -> None:
        """Hear that nothing has come for now."""


class Dump:
    """Shows what is asked for."""

    def __init__(self, request: DumpRequest, logs: DumpedLogs, shown: Shown) -> None:
        self._request = request
        self._logs = logs
        self._shown = shown
        self._includes_damaged = request.includes_damaged or request.kept
        selection, isolation = request.selection, request.isolation
        is_isolated = isolation is Isolation.READ_COMMITTED
        self._is_filtered = selection.reads_records or selection.compares_headers or is_isolated

    def run(self, jobs: Iterable[Job], places: Iterable[Place]) -> None:
        """Show the jobs as they are now or, if so asked for, also what comes to them and to the places.

        Raises NothingToFollowError.
        """
        if self._request.follow:
            self._follow(jobs, places)
        else:
            self._all(jobs)

    # --- one file after the other

    def _all(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if isinstance(job, PartitionLog):
                self._partition(job)
            elif isinstance(job, KafkaFile):
                self._file(job)
            elif isinstance(job, LoneLog):
                self._logs.alone[job.path] = job
                self._segment(job.segment(), self._request.selection)
                if job.problem:
                    self._shown.failed(job.shown, OSError(EIO, job.problem))
            else:
                segment = job.segment()
                self._logs.kept[segment.log_path] = job
                self._segment(segment, self._request.selection)

    def _partition(self, job: PartitionLog) -> None:
        try:
            with held(job.path) as log:
                if log is not None:
                    selection = self._tail(log, self._selection(log))
                    for segment in selection.segments(log, use_indexes=self._request.use_indexes):
                        self._segment(segment, selection)
        except OSError as error:
            self._shown.failed(job.path, error)

    def _tail(self, log: PartitionLog, selection: Selection) -> Selection:
        request = self._request
        if request.tail is None:
            return selection
        from kdump.query.tail import tail_selection

        limit = request.max_decompressed
        return tail_selection(log, selection, request.tail, batches_only=request.batches_only, limit=limit)

    def _file(self, file: KafkaFile) -> None:
        if file.name.kind in names.SEGMENT_KINDS and file.name.offset is None:
            self._shown.problem(Problem(file.path, None, "skipped: its name does not begin with an offset"))
        elif file.name.kind in LOGS:
            segment = Segment(file.path)
            self._segment(segment, self._selection(None if segment.is_checkpoint else _partition_around(segment)))
        else:
            self._table(file)

    def _selection(self, log: PartitionLog | None) -> Selection:
        """Return what is wanted of a partition; None stands for a snapshot of KRaft's, in which all is committed."""
        request = self._request
        if log is None or request.isolation is Isolation.READ_UNCOMMITTED:
            return request.selection
        from kdump.transactions.isolation import isolated

        return isolated(request.selection, log, request.isolation, self._logs.transactions_of(log.path))

    def _segment(self, segment: Segment, selection: Selection) -> None:
        shown, request = self._shown, self._request
        shown.check_limit()
        try:
            with segment.open_log() as log:
                if not self._is_filtered:
                    shown.begin(segment, log.size)
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
                        shown.selected(segment, event, log.size)
                    elif is_zero_tail(event, log) and self._logs.may_end_in_zeros(segment):
                        shown.zeros(segment, event)
                    else:
                        hides = sweep.hides and has_batch(log, event, segment.base_offset)
                        shown.damage(segment, event, log.size, hides=hides)
        except OSError as error:
            shown.failed(segment.log_path, error)

    def _table(self, file: KafkaFile) -> None:
        from kdump.interchange.file_rows import rows_of

        self._shown.check_limit()
        rows = rows_of(file, lambda position, text: self._shown.problem(Problem(file.path, position, text)))
        try:
            self._shown.table(file, rows)
        except KdumpError as error:
            self._shown.problem(Problem(file.path, None, str(error)))
        except OSError as error:
            self._shown.failed(file.path, error)

    # --- whatever comes

    def _follow(self, jobs: Iterable[Job], places: Iterable[Place]) -> None:
        """Show everything as it is now, then what is appended, until nothing that is wanted can come."""
        followers = {}
        for job in jobs:
            if isinstance(job, KafkaFile) and (job.name.kind not in LOGS or job.name.offset is None):
                self._file(job)
            else:
                followers[job.path] = self._follower(job.path, single=isinstance(job, KafkaFile))
        directories = [place.path for place in places if isinstance(place, LogDirectory)]
        if not followers and not directories:
            raise NothingToFollowError("there is no log among the files given")
        while True:
            waiting = [follower for follower in followers.values() if not follower.is_done]
            if not waiting and not directories:
                return
            for follower in waiting:
                self._poll(follower)
            self._shown.flush()
            time.sleep(POLL_SECONDS)
            for path in directories:
                for found in _partitions_now(path):
                    if found not in followers:
                        followers[found] = self._follower(found)

    def _follower(self, path: str, *, single: bool = False) -> Follower:
        from kdump.query.follow import Follower

        selection = self._request.selection
        if self._request.tail is not None and not single:
            selection = self._tail(PartitionLog(path), selection)
        return Follower(
            path,
            selection,
            single=single,
            batches_only=self._request.batches_only,
            use_indexes=self._request.use_indexes,
            includes_damaged=self._includes_damaged,
            limit=self._request.max_decompressed,
        )

    def _poll(self, follower: Follower) -> None:
        from kdump.query.follow import Truncated

        try:
            for segment, size, event in follower.poll():
                if isinstance(event, Selected):
                    self._shown.selected(segment, event, size)
                elif isinstance(event, Truncated):
                    text = f"it had {event.was} bytes and was cut to {event.size}; the dump continues there"
                    self._shown.problem(Problem(segment.log_path, None, text))
                else:
                    self._shown.damage(segment, event, size)
        except OSError as error:
            self._shown.failed(follower.path, error)
            follower.is_done = True


def _partitions_now(path: str) -> Iterator[str]:
    try:
        directory = LogDirectory(path)
    except OSError:
        return
    for name in directory.partition_names:
        yield os.path.join(path, name)


def _partition_around(segment: Segment) -> PartitionLog:
    return PartitionLog(os.path.dirname(segment.log_path) or ".")
