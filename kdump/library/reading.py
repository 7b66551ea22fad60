"""The operations that only read: what is in log directories, and what a broker would make of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, OnError, Problem, ProblemError, Report, check_number, check_type, check_word
from kdump.formats import names
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Path, check_not_kafkas, open_directory, path_text
from kdump.storage.replica import Replica, farthest, served_logs

if TYPE_CHECKING:
    from kdump.export.options import ExportOptions
    from kdump.export.run import Summary
    from kdump.operations.lookup import Located
    from kdump.operations.startup import Loaded
    from kdump.operations.stats import PartitionStats
    from kdump.operations.transactions import PartitionTransactions
    from kdump.recovery.broker_start import DirectoryState
    from kdump.recovery.outcome import Failure
    from kdump.stats.partition import StatsOptions
    from kdump.topics.groups import Group
    from kdump.topics.metadata_log import MetadataState

from kdump.library.arguments import (
    clock,
    judge,
    of_replicas,
    places_of,
    replicas_of,
    results_of,
    startup_options,
    topics_of,
)


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
    """Carry out a broker's log loading in the plan alone: what it finds of log directories, and makes of partitions.

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
        told: list[Failure | None] = []
        for place in places:
            for each in start.directory(place) if isinstance(place, LogDirectory) else start.partition(place.path):
                told += (each.outcome.failure,) if isinstance(each, Loaded) else each.failures
                yield each
        start.end()
        yield from (failure for failure in start.stops if failure not in told)

    return results_of(found, errors)


def groups(*paths: Path, errors: str = OnError.RAISE) -> Iterator[Group | Problem]:
    """Yield the groups of __consumer_offsets, with members, commits, and where their share partitions begin.

    Raises OSError, NameFormatError; KdumpError where there is no partition of __consumer_offsets.
    """
    from kdump.operations.groups import GroupsOf

    OnError(errors)  # what is wrong with it is the call's
    if names.CONSUMER_OFFSETS_TOPIC not in {topic for place in places_of(paths) for topic in topics_of(place)}:
        raise KdumpError("there is no partition of __consumer_offsets in these paths")
    return of_replicas(paths, lambda found, report: GroupsOf(found, report), errors)


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

    check_number("max_timeout_ms", max_timeout_ms, 0)
    limit = MAX_TIMEOUT_MS if max_timeout_ms is None else max_timeout_ms

    def found(replicas: list[Replica], report: Report) -> Iterable[PartitionTransactions]:
        ids = TransactionalIds.among(replicas, report)
        return TransactionsOf(ids, report, clock(now), limit).of(replicas, keep_ended=keep_ended)

    return of_replicas(paths, found, errors)


def lookup(
    *paths: Path,
    offset: int | None = None,
    timestamp: int | None = None,
    isolation: str = "read_uncommitted",
    log_start_offset: int | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Located | Problem]:
    """Yield for each partition where an absolute `offset` is, or the first record at or after a `timestamp` (ms).

    The search is the broker's; -1, -2 and -3 as `timestamp` are latest, earliest and max, -4 and -5 those of
    local and tiered storage. `isolation` is an
    isolation.level of Kafka's, `log_start_offset` counts instead of the checkpoint's, `release` names the one of Kafka
    whose searches these are. Raises OSError, NameFormatError, ValueError.
    """
    from kdump.operations.lookup import LookupOptions, Lookups
    from kdump.query.lookup import LATEST_TIERED
    from kdump.releases import KafkaRelease
    from kdump.storage.live import held
    from kdump.topics.clusters import Clusters
    from kdump.transactions.isolation_level import Isolation

    if (offset is None) == (timestamp is None):
        raise ValueError("give one of offset and timestamp")
    check_number("offset", offset, 0)
    check_number("timestamp", timestamp, LATEST_TIERED)
    places = places_of(paths)
    known = None if release is None else KafkaRelease.parse(release)
    check_word("isolation", isolation, Isolation)
    options = LookupOptions(Isolation(isolation), log_start_offset, known)
    options.check()

    def found(report: Report) -> Iterator[Located]:
        lookups = Lookups(Clusters([path_text(path) for path in paths]), options, report)
        for log in (log for place in places for log in served_logs(place, report)):
            try:
                with held(log.path) as now:
                    if now is not None:
                        with lookups.open(now) as opened:
                            yield (
                                lookups.by_timestamp(opened, timestamp or 0)
                                if offset is None
                                else lookups.by_offset(opened, offset)
                            )
            except OSError as error:
                report(Problem.unreadable(log.path, error))
            except ProblemError:
                raise
            except KdumpError as error:
                report(Problem(log.path, None, str(error)))

    return results_of(found, errors)


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
    check_number("at", at, 0)
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
    from kdump.stats.partition import StatsOptions

    chosen = StatsOptions() if options is None else options
    check_type("options", chosen, StatsOptions)
    return of_replicas(paths, lambda found, report: StatsOf(chosen, report).of(found), errors)


def export(
    *paths: Path,
    folder: Path,
    options: ExportOptions | None = None,
    threads: int | None = None,
    errors: str = OnError.RAISE,
) -> Summary:
    """Write the records of partitions into `folder`, as Parquet files unless `options` say otherwise.

    An interrupted export is gone on with. Of several replicas of a partition the farthest counts. With `errors="skip"`
    what cannot be read is left out and the summary says that the export is not whole. Needs the extra `columns`.
    Raises OSError, NameFormatError, RefusedError, KdumpError.
    """
    from kdump.export.journal import Result
    from kdump.export.options import ExportOptions
    from kdump.export.plan import Unit, plan
    from kdump.export.run import LocalEngine
    from kdump.export.run import export as export_units
    from kdump.storage.live import held

    policy = OnError.beside_one_result(errors)
    take = partial(judge, policy=policy, pending=[])
    check_not_kafkas(path_text(folder))
    chosen = ExportOptions() if options is None else options
    check_type("options", chosen, ExportOptions)
    engine = LocalEngine(threads)
    unread: list[Problem] = []

    def leave_out(problem: Problem) -> None:
        take(problem)
        unread.append(problem)

    def report(unit: Unit, outcome: object) -> None:
        if isinstance(outcome, Result):
            for lost in outcome.damage:
                take(Problem(unit.path, lost.position, lost.text))
        elif isinstance(outcome, OSError):
            take(Problem.unreadable(unit.path, outcome))
        else:
            take(Problem(unit.path, None, str(outcome)))

    with ExitStack() as holds:
        logs = [holds.enter_context(held(each.log.path)) for each in farthest(replicas_of(paths, leave_out), leave_out)]
        units = plan([log for log in logs if log is not None], chosen)
        return export_units(units, path_text(folder), chosen, engine, report, is_all=not unread)
