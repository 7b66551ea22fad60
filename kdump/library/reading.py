"""The operations that only read: what is in log directories, and what a broker would make of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kdump.errors import (
    KdumpError,
    OnError,
    Problem,
    Report,
    check_callable,
    check_number,
    check_several,
    check_truths,
    check_type,
    check_word,
)
from kdump.formats import names
from kdump.library.arguments import (
    clock,
    judge,
    of_replicas,
    optional,
    payload_decoder,
    places_of,
    release_of,
    replicas_of,
    results_of,
    startup_options,
)
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Path, check_not_kafkas, open_directory, path_text
from kdump.storage.replica import Replica, farthest, served_logs

if TYPE_CHECKING:
    from kdump.exports.options import ExportOptions
    from kdump.exports.run import Engine, Summary
    from kdump.operations.lookup import Answer, Located, LookupOptions, Lookups, Request, Tracing
    from kdump.operations.lost_records import LostRecords
    from kdump.operations.results import Failed
    from kdump.operations.schemas import TopicUse
    from kdump.operations.startup import Loaded
    from kdump.operations.stats import PartitionStats
    from kdump.operations.transactions import PartitionTransactions
    from kdump.recovery.broker_start import DirectoryState
    from kdump.recovery.outcome import Failure
    from kdump.schema_registry.registry import Registry
    from kdump.statistics.partition import StatsOptions
    from kdump.topics.groups import Group
    from kdump.topics.metadata_log import MetadataState
    from kdump.topics.transaction_ids import TransactionalId

_Item = TypeVar("_Item")


def startup(
    *paths: Path,
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[DirectoryState | Loaded | Failure | Problem]:
    """Do a broker's log loading in the plan alone: what it finds of log directories, and makes of partitions.

    The log directories are those of one broker. How it stopped, the recovery point and the log start offset (absolute)
    are as the directories say unless given; `now` is its clock (ms); `config` is a properties file, or properties, of
    the server or of topics, `release` the one of Kafka that starts ("4.1"), that which wrote the directory unless
    given. What else ends the broker's process comes last. Raises OSError, NameFormatError, ConfigError, and ValueError
    for an unknown release.
    """
    from kdump.operations.started_clusters import StartedClusters
    from kdump.operations.startup import BrokerStart, Loaded

    places = places_of(paths)
    said = startup_options(clean, recovery_point, log_start_offset, now, config, release)

    def found(report: Report) -> Iterator[DirectoryState | Loaded | Failure]:
        clusters = StartedClusters([path_text(path) for path in paths], said.properties, said.now)
        start = BrokerStart(said, clusters, report)
        known: list[Failure | None] = []
        for place in places:
            for each in start.directory(place) if isinstance(place, LogDirectory) else start.partition(place.path):
                known += (each.outcome.failure,) if isinstance(each, Loaded) else each.failures
                yield each
        start.end()
        yield from (failure for failure in start.stops if failure not in known)

    return results_of(found, errors)


def groups(*paths: Path, errors: str = OnError.RAISE) -> Iterator[Group | Problem]:
    """Yield the groups of __consumer_offsets, with members, commits, and where their share partitions begin.

    Raises OSError, NameFormatError; KdumpError where there is no partition of __consumer_offsets.
    """
    from kdump.operations.groups import GroupsOf

    return of_replicas(paths, lambda found, report: GroupsOf(found, report), errors, names.CONSUMER_OFFSETS_TOPIC)


def transactions(
    *paths: Path,
    now: int | None = None,
    max_timeout_ms: int | None = None,
    keep_ended: bool = False,
    errors: str = OnError.RAISE,
) -> Iterator[PartitionTransactions | Problem]:
    """Yield for each partition its open transactions, which of them hang and why, and its last stable offset.

    `now` is the clock (ms), `max_timeout_ms` the brokers' transaction.max.timeout.ms. Transactional ids are known of
    where partitions of __transaction_state are among the paths. Raises OSError, NameFormatError.
    """
    from kdump.operations.transactions import TransactionsOf
    from kdump.settings.defaults import MAX_TIMEOUT_MS
    from kdump.topics.transaction_ids import TransactionalIds

    check_number("max_timeout_ms", max_timeout_ms, 0, may_be_none=True)
    check_truths(keep_ended=keep_ended)
    time = clock(now)
    limit = MAX_TIMEOUT_MS if max_timeout_ms is None else max_timeout_ms

    def found(replicas: list[Replica], report: Report) -> Iterable[PartitionTransactions]:
        ids = TransactionalIds.among(replicas, report)
        return TransactionsOf(ids, report, time, limit).of(replicas, keep_ended=keep_ended)

    return of_replicas(paths, found, errors)


def transactional_ids(*paths: Path, errors: str = OnError.RAISE) -> Iterator[TransactionalId | Problem]:
    """Yield the transactional ids of __transaction_state: the producer and state of each, and what its transaction has.

    `is_stuck` of one says whether its markers should have been written long ago. Raises OSError, NameFormatError;
    KdumpError where there is no partition of __transaction_state.
    """
    from kdump.topics.transaction_ids import TransactionalIds

    def found(replicas: list[Replica], report: Report) -> Iterable[TransactionalId]:
        return (found for _, found in sorted(TransactionalIds.among(replicas, report).by_id.items()))

    return of_replicas(paths, found, errors, names.TRANSACTION_STATE_TOPIC)


def lookup(
    *paths: Path,
    offset: int | None = None,
    timestamp: int | None = None,
    isolation: str = "read_uncommitted",
    log_start_offset: int | None = None,
    release: str | None = None,
    trace: Callable[[str, str], object] | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Located | Problem]:
    """Yield for each partition where an absolute `offset` is, or the first record at or after a `timestamp` (ms).

    The search is the broker's; -1, -2 and -3 as `timestamp` are latest, earliest and max, -4 and -5 those of
    local and tiered storage. `isolation` is an
    isolation.level of Kafka's, `log_start_offset` counts instead of the checkpoint's, `release` names the one of Kafka
    whose searches these are. `trace` is given the partition's path and a line of words for every step. Raises OSError,
    NameFormatError, ValueError.
    """
    from kdump.operations.lookup import OffsetRequest, TimestampRequest

    if offset is not None and timestamp is None:
        request: OffsetRequest | TimestampRequest = OffsetRequest(offset)
    elif timestamp is not None and offset is None:
        request = TimestampRequest(timestamp)
    else:
        raise ValueError("give one of offset and timestamp")
    request.check()
    check_callable("trace", trace, may_be_none=True)
    places = places_of(paths)
    options = _lookup_options(isolation, log_start_offset, release)

    def found(report: Report) -> Iterator[Located]:
        logs = (log for place in places for log in served_logs(place, report))
        return _without_failures(_lookups(paths, options, report).located(logs, request, _tracing(trace)), report)

    return results_of(found, errors)


def lookups(
    path: Path,
    requests: Iterable[Request],
    *,
    isolation: str = "read_uncommitted",
    log_start_offset: int | None = None,
    release: str | None = None,
    trace: Callable[[str, str], object] | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Answer | Problem]:
    """Yield the answer of one partition to each of many requests (kdump.operations.lookup), when that is asked for.

    The other arguments are `lookup`'s; an answer that meets damage has its `error`. Raises OSError, NameFormatError,
    ValueError, TypeError; of `requests` that are an iterator when the wrong one comes.
    """
    check_several("requests", requests)
    asked = _checked(requests)
    if isinstance(requests, Collection):
        asked = iter(list(asked))
    check_callable("trace", trace, may_be_none=True)
    (place,) = places_of((path_text(path),))
    if isinstance(place, LogDirectory):
        raise ValueError("many requests are for one partition directory")
    options = _lookup_options(isolation, log_start_offset, release)

    def found(report: Report) -> Iterator[Answer]:
        return _without_failures(_lookups((path,), options, report).answers(place, asked, _tracing(trace)), report)

    return results_of(found, errors)


def _checked(requests: Iterable[Request]) -> Iterator[Request]:
    """Yield the requests, each of which makes sense. Raises ValueError, TypeError."""
    from kdump.operations.lookup import Request

    for request in requests:
        check_type("requests", request, Request)
        try:
            request.check()
        except (ValueError, TypeError) as error:
            raise type(error)(f"requests: {error}") from None
        yield request


def _lookup_options(isolation: str, log_start_offset: int | None, release: str | None) -> LookupOptions:
    from kdump.operations.lookup import LookupOptions
    from kdump.txns.isolation_level import Isolation

    check_word("isolation", isolation, Isolation)
    options = LookupOptions(Isolation(isolation), log_start_offset, release_of(release))
    options.check()
    return options


def _lookups(paths: Iterable[Path], options: LookupOptions, report: Report) -> Lookups:
    from kdump.operations.lookup import Lookups
    from kdump.topics.clusters import Clusters

    return Lookups(Clusters([path_text(path) for path in paths]), options, report)


def _tracing(trace: Callable[[str, str], object] | None) -> Tracing:
    from kdump.query.open_segment import no_trace

    return lambda log: no_trace if trace is None else partial(trace, log.path)


def _without_failures(results: Iterable[_Item | Failed], report: Report) -> Iterator[_Item]:
    """Yield the results, and report what stands in the place of others."""
    from kdump.operations.results import Failed

    for each in results:
        if isinstance(each, Failed):
            report(Problem.failed(each.path, each.error))
        else:
            yield each


def metadata(
    path: Path, *, at: int | None = None, secrets: bool = False, errors: str = OnError.RAISE
) -> MetadataState:
    """Return the cluster's state by its metadata log; with `at`, after the record of that absolute offset.

    `path` is a log directory, the directory of __cluster_metadata-0, or a .checkpoint file. Passwords and keys in it
    are hidden unless `secrets` is True. With `errors="skip"` what is damaged is left out. Raises OSError,
    NameFormatError, KdumpError where nothing leads to the offset.
    """
    from kdump.topics.metadata_log import state_in, state_of_snapshot
    from kdump.topics.secrets import without_secrets

    policy = OnError.beside_one_result(errors)
    check_number("at", at, 0, may_be_none=True)
    check_truths(secrets=secrets)
    report = partial(judge, policy=policy, pending=[])
    path = path_text(path)
    state = state_of_snapshot(path, report) if os.path.isfile(path) else state_in(open_directory(path), report, at)
    if state is None:
        raise KdumpError(f"{path}: not a complete snapshot of the cluster's metadata")
    return state if secrets else replace(state, image=without_secrets(state.image))


def stats(
    *paths: Path, options: StatsOptions | None = None, errors: str = OnError.RAISE
) -> Iterator[PartitionStats | Problem]:
    """Yield the figures of each partition: sizes, codecs, times and, if asked for, records and keys.

    Damage is counted in the figures. Raises OSError, NameFormatError.
    """
    from kdump.operations.stats import StatsOf
    from kdump.statistics.partition import StatsOptions

    check_type("options", options, StatsOptions, may_be_none=True)
    chosen = options or StatsOptions()
    return of_replicas(paths, lambda found, report: StatsOf(chosen, report).of(found), errors)


def export(
    *paths: Path,
    folder: Path,
    options: ExportOptions | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    schemas: Path | None = None,
    decode: str | None = None,
    schema_id: int | None = None,
    staging: Path | None = None,
    errors: str = OnError.RAISE,
) -> Summary:
    """Write the records of partitions into `folder`, as Parquet files unless `options` say otherwise.

    An interrupted export is resumed. Of several replicas of a partition the farthest counts. With `errors="skip"`
    what cannot be read is left out and the summary says that the export is not whole. With `schemas` (as of --schemas)
    keys and values are decoded into "columns" or "json", as `decode` says. `folder` may be the URL of a place in an
    object store, to which the files of `staging` are sent. `threads` of this process do it, or an `engine` such as
    kdump.spark.jobs.SparkExport. Needs the extra `columns`. Raises OSError, NameFormatError, RefusedError, KdumpError.
    """
    from kdump.columns.names import Decode
    from kdump.exports.object_store import is_object_store
    from kdump.exports.options import ExportOptions
    from kdump.exports.run import LocalEngine, Summary
    from kdump.operations import export as operation
    from kdump.operations.results import Failed

    policy = OnError.beside_one_result(errors)
    take = partial(judge, policy=policy, pending=[])
    target, at, parts = path_text(folder, "folder"), optional(schemas, "schemas"), optional(staging, "staging")
    if not is_object_store(target):
        check_not_kafkas(target)
    check_type("options", options, ExportOptions, may_be_none=True)
    check_word("decode", decode, Decode, may_be_none=True)
    check_number("schema_id", schema_id, 0, may_be_none=True)
    check_callable("engine", engine, may_be_none=True)
    if schemas is None and (decode is not None or schema_id is not None):
        raise ValueError("give the schemas to decode by")
    if staging is not None and not is_object_store(target):
        raise ValueError("a staging directory is for an object store")
    decoding = None
    if at is not None:
        decoding = operation.Decoding(partial(payload_decoder, at, take), decode, schema_id)
    request = operation.ExportRequest(target, options or ExportOptions(), decoding, parts)
    local = LocalEngine(threads)
    unread: list[Problem] = []

    def leave_out(problem: Problem) -> None:
        take(problem)
        unread.append(problem)

    found = farthest(replicas_of(paths, leave_out), leave_out)
    written: list[Summary] = []
    for each in operation.export(found, request, take, engine or local, is_all=not unread):
        if isinstance(each, Failed):
            raise each.error
        if isinstance(each, Summary):
            written.append(each)
    return written[0]


def lost_records(
    *paths: Path, leader: int, folder: Path, now: int | None = None, errors: str = OnError.RAISE
) -> Iterator[LostRecords | Problem]:
    """Write the records that are lost once broker `leader` leads, of copies on several brokers, into a new `folder`.

    Yields what was written of each partition. `now` is the clock (ms). Raises OSError, NameFormatError, RefusedError;
    KdumpError where no partition is in the directories.
    """
    from kdump.operations.lost_records import lost_records as written

    check_number("leader", leader, 0)
    places, target, time = places_of(paths), path_text(folder, "folder"), clock(now)
    return results_of(lambda report: written(places, leader, target, time, report), errors)


class SchemasUsed(NamedTuple):
    """The schemas at `source`, and what each topic uses of them.

    `problems` say by schema id why nothing decodes with it, the registry's own `problems` which records it cannot take.
    """

    source: str
    registry: Registry
    problems: Mapping[int, str]
    uses: tuple[TopicUse, ...]


def schemas(
    *paths: Path, source: Path | None = None, deep: bool = False, errors: str = OnError.RAISE
) -> SchemasUsed:
    """Return the schemas of a schema registry, and which of them the records of topics use.

    The schemas are those in _schemas-0 among the paths, or those at `source`: a partition directory of the registry's
    topic, an export of it, or a folder of schema files. Of large partitions a sample is read, unless `deep`. Of several
    replicas of a partition the farthest counts. With `errors="skip"` damage is skipped. Needs the extra `schemas`.
    Raises OSError, NameFormatError, KdumpError where there are no schemas.
    """
    from kdump.operations.schemas import Schemas, may_have_schemas, registry_at

    policy = OnError.beside_one_result(errors)
    check_truths(deep=deep)
    met: list[Problem] = []
    given = optional(source, "source")
    found = replicas_of(paths, met.append)
    at, registry = registry_at(given, found, met.append)
    known = Schemas(at, registry)
    logs = farthest(filter(may_have_schemas, found), met.append)
    uses = tuple(known.uses(logs, met.append, deep=deep))
    for problem in met:
        judge(problem, policy, [])
    return SchemasUsed(at, registry, known.problems, uses)
