"""Find offsets and times in partitions as the broker that serves them would."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from kdump.errors import CheckpointError, KdumpError, Problem, ProblemError, Report, check_number
from kdump.formats import names
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.index_entries import AbortedTxn
from kdump.formats.names import PartitionDirName
from kdump.operations.results import Failed
from kdump.query.lookup import LATEST_TIERED, LogLookup, OffsetPosition, TimestampOffset
from kdump.query.open_segment import Trace
from kdump.releases import KafkaRelease
from kdump.storage.around import directory_around
from kdump.storage.checkpoints import Offsets, read_offsets
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, was_deleted
from kdump.storage.partition import PartitionLog
from kdump.storage.txn_state import TxnState
from kdump.topics.clusters import ClusterMetadata, Clusters
from kdump.txns.isolation_level import Isolation


class LookupOptions(NamedTuple):
    """What is known better than the directories say: None is what they say.

    `log_start_offset` is absolute, `release` the one whose searches these are: else the one that wrote the directory.
    """

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    log_start_offset: int | None = None
    release: KafkaRelease | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError for an offset that no log has."""
        check_number("log_start_offset", self.log_start_offset, 0, may_be_none=True)


class Located(NamedTuple):
    """Where something is in a partition, and what the partition has; offsets are absolute.

    `found` is None where no record has the time or a later one. Clients get what is before `readable_end`: for
    read_committed that is the last stable offset. `high_watermark` is the checkpoint's, None without one; it is looked
    at where an offset lies behind the log's end. `transaction` is how that of the batch ended that was found, or that
    the record found is in; None where there is none, or it fails its CRC; UNKNOWN where the log behind it cannot be
    read.
    """

    path: str
    name: PartitionDirName | None
    found: OffsetPosition | TimestampOffset | None
    log_start_offset: int
    log_end_offset: int
    readable_end: int
    remote_start_offset: int | None
    high_watermark: int | None
    transaction: TxnState | None

    @property
    def exists(self) -> bool:
        """Whether there is what was looked for, and clients can read it."""
        if isinstance(self.found, OffsetPosition):
            return self.found.found and self.found.is_valid
        return self.found is not None


class OffsetRequest(NamedTuple):
    """Asks where a fetch from an absolute offset starts."""

    offset: int

    def check(self) -> None:
        """Raise ValueError, TypeError for an offset that no log has."""
        check_number("offset", self.offset, 0)


class TimestampRequest(NamedTuple):
    """Asks for the first record at or after a time (ms), or for a special one: query.lookup's EARLIEST and others."""

    timestamp: int

    def check(self) -> None:
        """Raise ValueError, TypeError for what is neither a time nor stands for one."""
        check_number("timestamp", self.timestamp, LATEST_TIERED)


class AbortedRequest(NamedTuple):
    """Asks for what a read_committed fetch of absolute offsets [start, end) is told to leave out."""

    start: int
    end: int

    def check(self) -> None:
        """Raise ValueError, TypeError for offsets that no log has."""
        check_number("start", self.start, 0)
        check_number("end", self.end, 0)


Request = OffsetRequest | TimestampRequest | AbortedRequest


class Answer(NamedTuple):
    """What one of many requests to a partition gives: what was `found`, or `aborted`, or the `error` that was met.

    An offset is looked for in the segment that is responsible, whatever clients may read. Nothing is found where no
    record is that late.
    """

    request: Request
    found: OffsetPosition | TimestampOffset | None = None
    aborted: tuple[AbortedTxn, ...] | None = None
    error: KdumpError | OSError | None = None


_Item = TypeVar("_Item")
Tracing = Callable[[PartitionLog], Trace]


class Lookups:
    """Lookups in partitions; a checkpoint that cannot be parsed is reported, and is empty as for a broker.

    Partitions are held while they are looked at, one after the other (storage.live); `trace` gives what hears of every
    step in one.
    """

    def __init__(self, clusters: Clusters, options: LookupOptions, report_checkpoint: Report) -> None:
        """`clusters` are those of the paths that are looked at together. Raises ValueError, TypeError."""
        options.check()
        self._clusters = clusters
        self._options = options
        self._report_checkpoint = report_checkpoint
        self._checkpoints: dict[str, Offsets] = {}

    def located(
        self, logs: Iterable[PartitionLog], request: OffsetRequest | TimestampRequest, trace: Tracing
    ) -> Iterator[Located | Failed]:
        """Yield where something is in each partition that is still there."""
        return self._answers(logs, lambda lookup: (self._located(lookup, request),), trace)

    def answers(self, log: PartitionLog, requests: Iterable[Request], trace: Tracing) -> Iterator[Answer | Failed]:
        """Yield the answers of a partition to requests, each when it is asked."""
        return self._answers((log,), lambda lookup: (_answer(lookup, request) for request in requests), trace)

    def _answers(
        self, logs: Iterable[PartitionLog], ask: Callable[[LogLookup], Iterable[_Item]], trace: Tracing
    ) -> Iterator[_Item | Failed]:
        for log in logs:
            try:
                with held(log.path) as now:
                    if now is not None:
                        with self._open(now, trace(now)) as lookup:
                            yield from ask(lookup)
            except ProblemError:
                raise
            except (OSError, KdumpError) as error:
                if not was_deleted(log.path, error):
                    yield Failed(log.path, error)

    def _open(self, log: PartitionLog, trace: Trace) -> LogLookup:
        stable, start = None, self._options.log_start_offset
        if self._options.isolation is Isolation.READ_COMMITTED:
            from kdump.txns.states import TransactionStates  # which few lookups need

            stable = TransactionStates(log).last_stable_offset()
        if start is None:
            start = self._checkpoint(names.LOG_START_CHECKPOINT, log) or 0
        return LogLookup(
            log,
            start,
            clean=log.closed_cleanly,
            last_stable_offset=stable,
            trace=trace,
            release=partial(self._release, log),
            is_tiered=partial(self._is_tiered, log),
        )

    def _located(self, lookup: LogLookup, request: OffsetRequest | TimestampRequest) -> Located:
        found: OffsetPosition | TimestampOffset | None
        if isinstance(request, OffsetRequest):
            found = lookup.find_from(request.offset)
            is_beyond = request.offset > lookup.log_end_offset()
        else:
            found, is_beyond = lookup.find_timestamp(request.timestamp), False
        log = lookup.log
        return Located(
            log.path,
            log.name,
            found,
            lookup.log_start_offset,
            lookup.log_end_offset(),
            lookup.readable_end(),
            lookup.remote_start_offset,
            self._checkpoint(names.REPLICATION_CHECKPOINT, log) if is_beyond else None,
            None if found is None else _transaction_of(lookup, found),
        )

    def _release(self, log: PartitionLog) -> KafkaRelease:
        return self._options.release or self._cluster(log).kafka

    def _is_tiered(self, log: PartitionLog) -> bool:
        return log.name is not None and self._cluster(log).settings().of(log.name.topic).is_tiered

    def _cluster(self, log: PartitionLog) -> ClusterMetadata:
        return self._clusters.of(LogDirectory(os.path.dirname(os.path.abspath(log.path))))

    def _checkpoint(self, name: str, log: PartitionLog) -> int | None:
        """Return a partition's line in a checkpoint beside it; each checkpoint is read once. Raises OSError."""
        if log.name is None:
            return None
        path = os.path.join(directory_around(log.path), name)
        if path not in self._checkpoints:
            try:
                self._checkpoints[path] = read_offsets(path)
            except CheckpointError as error:
                self._report_checkpoint(Problem(path, None, str(error)))
                self._checkpoints[path] = {}
        return self._checkpoints[path].get((log.name.topic, log.name.partition))


def _answer(lookup: LogLookup, request: Request) -> Answer:
    try:
        if isinstance(request, OffsetRequest):
            return Answer(request, lookup.find_offset(request.offset))
        if isinstance(request, TimestampRequest):
            return Answer(request, lookup.find_timestamp(request.timestamp))
        return Answer(request, aborted=tuple(lookup.aborted_transactions(request.start, request.end)))
    except (OSError, KdumpError) as error:
        return Answer(request, error=error)


def _transaction_of(lookup: LogLookup, found: OffsetPosition | TimestampOffset) -> TxnState | None:
    """Return how the transaction ended of the batch found; the log behind it is read for a transactional one alone."""
    batch = lookup.batch_of(found)
    if batch is None:
        return None
    segment, block = batch
    if block.magic[0] < 2 or not block.attributes[0] & TRANSACTIONAL:
        return TxnState.NONE
    from kdump.storage.records import batch_at  # which few lookups need
    from kdump.txns.states import state_by_next_marker

    try:
        return state_by_next_marker(lookup.log, segment, batch_at(block, 0))
    except OSError:  # which is no reason to keep back where the batch is
        return TxnState.UNKNOWN
