"""What `import kdump` offers: each of the commands' operations as a function, with the same safety.

Paths are str or os.PathLike. What is wrong with a call (a path that is not there or is not Kafka's, an option that
makes no sense) is raised by the call; reading begins when the first result is asked for. What cannot be read or parsed
on the way is a `Problem`, about which `errors` decides: "raise" it (as ProblemError; the default), "skip" it, or
"yield" it among the results. What only a newer release of Kafka knows is never raised. Nothing is changed without
`apply=True`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kdump.errors import KdumpError, NameFormatError, OnError, Problem, ProblemError, RefusedError, Report
from kdump.formats import names
from kdump.storage.directory import LogDirectory
from kdump.storage.open import directory_of_kafka, open_directory
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, farthest, held_replicas, replicas

if TYPE_CHECKING:
    from kdump.export.options import ExportOptions
    from kdump.export.run import Summary
    from kdump.operations.append import Opening
    from kdump.operations.compact import Compacted, PassedOver
    from kdump.operations.repair import Repaired
    from kdump.operations.results import Failed
    from kdump.operations.retain import Deleted
    from kdump.operations.startup import Loaded, StartupOptions
    from kdump.operations.targets import PartitionGroup, Target
    from kdump.operations.transactions import PartitionTransactions
    from kdump.operations.undo import Listing, Undone
    from kdump.recovery.broker_start import DirectoryState
    from kdump.recovery.outcome import Failure
    from kdump.repair.proposal import Request
    from kdump.retention.partition import PartitionRetention
    from kdump.settings.sources import PropertyFile
    from kdump.stats.partition import PartitionStats, StatsOptions
    from kdump.topics.groups import Group
    from kdump.topics.metadata_log import MetadataState
    from kdump.write.log_writer import LogWriter

Path = str | os.PathLike[str]
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
    """Carry out a broker's log loading in the plan alone: what it finds of log directories, and makes of partitions.

    The log directories are those of one broker. How it stopped, the recovery point and the log start offset (absolute)
    are as the directories say unless given; `now` is its clock (ms); `config` is a properties file, or properties, of
    the server or of topics, `release` the one of Kafka that starts ("4.1"): one that knows all that is there, unless
    given. What else ends the broker's process comes last. Raises OSError, NameFormatError, ConfigError, and ValueError
    for an unknown release.
    """
    from kdump.operations.startup import BrokerStart, Loaded
    from kdump.topics.clusters import Clusters

    places = _places(paths)
    said = _said(clean, recovery_point, log_start_offset, now, config, release)

    def found(report: Report) -> Iterator[DirectoryState | Loaded | Failure]:
        start = BrokerStart(said, Clusters([os.fspath(path) for path in paths]), report)
        told: list[Failure | None] = []
        for place in places:
            for each in start.directory(place) if isinstance(place, LogDirectory) else start.partition(place.path):
                told += (each.outcome.failure,) if isinstance(each, Loaded) else each.failures
                yield each
        start.end()
        yield from (failure for failure in start.stops if failure not in told)

    return _results(found, errors)


def repair(
    *paths: Path,
    request: Request | None = None,
    apply: bool = False,
    accept_loss: int | None = None,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    output: Path | None = None,
    only_copy: bool = False,
    jobs: int = 1,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan what makes partitions loadable again and, with `apply`, do it; a Repaired for each.

    `request` says by which strategy and what may change. A plan that drops valid records is refused unless
    `accept_loss` is their number; a salvage of a partition that has other replicas in sync, unless it is the
    `only_copy`. Originals are kept for `undo` unless `keep_originals` is False. With `output` a copy of the log
    directory is repaired there. `release` is the one of Kafka that starts then, as for startup.
    With `errors="yield"` a partition that was left alone is a Repaired with its `error`. Raises OSError,
    NameFormatError, ConfigError, RefusedError, and ValueError for an unknown release.
    """
    from kdump.operations.rails import Rails
    from kdump.operations.repair import Repair, planning
    from kdump.operations.repair import repair as repair_target
    from kdump.repair.proposal import Request
    from kdump.topics.clusters import Clusters

    policy = OnError(errors)
    targets = _targets(paths)
    rails = Rails(
        apply, "repair", keep_originals, _text(backup_dir), _text(output), jobs=jobs or os.cpu_count() or 1,
        accept_loss=accept_loss,
    )  # fmt: skip
    if output is not None:
        _check_not_kafkas(output)
        if len(targets) > 1:
            raise ValueError("output takes the partitions of one log directory")
    clusters = Clusters({target.log_directory for target in targets})
    checks_copies = apply and not only_copy and output is None
    unread: list[Problem] = []
    wanted = Repair(
        planning(request or Request(), clusters, checks_copies=checks_copies),
        _said(now=now, config=config, release=release),
        clusters,
        unread.append,
    )

    def found() -> Iterator[Repaired]:
        for target in targets:
            for done in repair_target(target, wanted, rails):
                while unread:
                    if policy is OnError.RAISE:
                        raise ProblemError(unread.pop(0))
                    problem = unread.pop(0)
                    if policy is OnError.YIELD:
                        yield done._replace(path=problem.path, task=None, error=ProblemError(problem))
                if done.error is not None and policy is OnError.RAISE:
                    raise done.error
                if done.error is None or policy is OnError.YIELD:
                    yield done

    return found()


def changes(path: Path, *, backup_dir: Path | None = None) -> Listing:
    """List the changes that are kept of a log directory or a partition directory. Raises OSError."""
    from kdump.operations.undo import list_changes

    return list_changes(os.fspath(path), _text(backup_dir))


def undo(path: Path, change: str, *, apply: bool = False, backup_dir: Path | None = None) -> list[Undone]:
    """Take back the change with this id in every partition below `path`, or say what that does.

    Raises KdumpError where there is no such change, RefusedError where files have changed since, OSError.
    """
    from kdump.operations.rails import Rails
    from kdump.operations.undo import list_changes, undo_change

    listing = list_changes(os.fspath(path), _text(backup_dir))
    found = [listed.change for listed in listing.changes if listed.change.id == change]
    if not found:
        raise KdumpError(f"{os.fspath(path)}: there is no change {change}")
    rails = Rails(apply, "undo", backup_dir=_text(backup_dir))
    return [undo_change(each, rails) for each in found]


def retain(
    *paths: Path,
    settings: Mapping[str, str] | None = None,
    config: Path | Mapping[str, str] | None = None,
    log_start_offset: int | None = None,
    high_watermark: int | None = None,
    tombstones: bool = True,
    apply: bool = False,
    keep_originals: bool = True,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[PartitionRetention | Deleted | Failed]:
    """Say which segments retention deletes, when the next go and what keeps the others; with `apply`, delete them.

    A PartitionRetention for each partition and, with `apply`, a Deleted for each log directory. `settings` are topic
    settings that win over all others, `config` is a properties file, or properties, of the server or of topics. Offsets
    are absolute, the checkpoints' unless given. With `errors="yield"` what was left alone is a Failed. Raises OSError,
    NameFormatError, ConfigError.
    """
    from kdump.operations import retain as operation
    from kdump.operations.rails import Rails
    from kdump.operations.results import Failed
    from kdump.retention.partition import PartitionRetention

    policy = OnError(errors)
    groups = _groups(paths)
    request = operation.RetainRequest(
        _clock(now), _files(config), _properties(settings), log_start_offset, high_watermark, tombstones
    )
    rails = Rails(apply, "retain", keep_originals)

    def found() -> Iterator[PartitionRetention | Deleted | Failed]:
        for group in groups:
            for event in operation.retain(group, request, rails):
                if isinstance(event, Failed):
                    if policy is OnError.RAISE:
                        raise event.error
                    if policy is OnError.YIELD:
                        yield event
                elif isinstance(event, PartitionRetention | operation.Deleted):
                    yield event

    return found()


def compact(
    *paths: Path,
    config: Path | Mapping[str, str] | None = None,
    min_cleanable_ratio: float | None = None,
    passes: int = 1,
    apply: bool = False,
    keep_originals: bool = True,
    output: Path | None = None,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Compacted | PassedOver | Failed]:
    """Say what the log cleaner makes of partitions or what keeps it from it; with `apply` or `output`, do it.

    A Compacted for each pass over a partition, a PassedOver for one that is not compacted. `config` is a properties
    file, or properties, of the server or of topics. With `output` a log directory with the cleaned partitions is
    written there. With `errors="yield"` what was left alone is a Failed. Raises OSError, NameFormatError, ConfigError,
    RefusedError.
    """
    from kdump.operations import compact as operation
    from kdump.operations.rails import Rails
    from kdump.operations.results import Failed

    policy = OnError(errors)
    groups = _groups(paths)
    if output is not None:
        if apply or len(groups) > 1:
            raise ValueError("output takes the partitions of one log directory, without apply")
        _check_not_kafkas(output)
    request = operation.CompactRequest(_clock(now), _files(config), min_cleanable_ratio, passes=passes)
    rails = Rails(apply, "compact", keep_originals, output=_text(output))

    def found() -> Iterator[Compacted | PassedOver | Failed]:
        for group in groups:
            for event in operation.compact(group, request, rails):
                if isinstance(event, Failed) and policy is OnError.RAISE:
                    raise event.error
                if isinstance(event, operation.Compacted | operation.PassedOver) or (
                    isinstance(event, Failed) and policy is OnError.YIELD
                ):
                    yield event

    return found()


def append(
    path: Path, *, config: Mapping[str, str] | None = None, opening: Opening | None = None
) -> AbstractContextManager[LogWriter]:
    """Open a partition directory for appending as its leader does; it is closed in order when the `with` ends.

    `config` are settings of the topic beside those that the cluster's metadata has, `opening` says what else to know.
    The log directory is locked meanwhile. The `with` raises RefusedError, NotAppendableError, OSError; the call
    NameFormatError, ConfigError.
    """
    from kdump.operations.append import Opening, opened, rules_beside
    from kdump.settings.views import WritingSettings

    rules = opening.rules if opening and opening.rules else rules_beside(os.fspath(path))
    settings = WritingSettings.of(rules.settings.under(config or {}), rules.release)
    return opened(os.fspath(path), settings, opening or Opening())


def groups(*paths: Path, errors: str = OnError.RAISE) -> Iterator[Group | Problem]:
    """Yield the groups of __consumer_offsets, with members, commits, and where their share partitions begin.

    Raises OSError, NameFormatError; KdumpError where there is no partition of __consumer_offsets.
    """
    from kdump.operations.groups import GroupsOf

    if names.CONSUMER_OFFSETS_TOPIC not in {topic for place in _places(paths) for topic in _topics(place)}:
        raise KdumpError("there is no partition of __consumer_offsets in these paths")
    return _of_replicas(paths, lambda found, report: GroupsOf(found, report), errors)


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
    from kdump.transactions.partition import MAX_TIMEOUT_MS

    limit = MAX_TIMEOUT_MS if max_timeout_ms is None else max_timeout_ms

    def found(replicas: list[Replica], report: Report) -> Iterable[PartitionTransactions]:
        return TransactionsOf.among(replicas, report, _clock(now), limit).of(replicas, keep_ended=keep_ended)

    return _of_replicas(paths, found, errors)


def metadata(path: Path, *, at: int | None = None, errors: str = OnError.RAISE) -> MetadataState:
    """Return the cluster's state by its metadata log; with `at`, after the record of that absolute offset.

    `path` is a log directory, the directory of __cluster_metadata-0, or a .checkpoint file. With `errors="skip"` what
    is damaged is left out. Raises OSError, NameFormatError, KdumpError where nothing leads to the offset.
    """
    from kdump.topics.metadata_log import state_of_directory, state_of_snapshot

    policy = OnError(errors)
    if policy is OnError.YIELD:
        raise ValueError('errors is "raise" or "skip" here: there is one result')
    report = partial(_judge, policy=policy, pending=[])
    path = os.fspath(path)
    if os.path.isfile(path):
        state = state_of_snapshot(path, report)
        if state is None:
            raise KdumpError(f"{path}: not a complete snapshot of the cluster's metadata")
        return state
    place = open_directory(path)
    if isinstance(place, LogDirectory):
        if names.CLUSTER_METADATA_DIR not in place.directories:
            raise KdumpError(f"{path}: there is no {names.CLUSTER_METADATA_DIR} in it")
        place = PartitionLog(os.path.join(path, names.CLUSTER_METADATA_DIR))
    return state_of_directory(place, report, at)


def stats(
    *paths: Path, options: StatsOptions | None = None, errors: str = OnError.RAISE
) -> Iterator[PartitionStats | Problem]:
    """Yield the figures of each partition: sizes, codecs, times and, if asked for, records and keys.

    Damage is counted in the figures. Raises OSError, NameFormatError.
    """
    from kdump.stats.partition import PartitionStats, StatsOptions, partition_stats

    def found(replicas: list[Replica], report: Report) -> Iterator[PartitionStats]:
        for replica in held_replicas(replicas, report):
            try:
                figures = partition_stats(replica.log, options or StatsOptions())
            except OSError as error:
                report(Problem.unreadable(replica.log.path, error))
                continue
            yield PartitionStats(replica.log.path, replica.topic, replica.partition, figures)

    return _of_replicas(paths, found, errors)


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

    policy = OnError(errors)
    if policy is OnError.YIELD:
        raise ValueError('errors is "raise" or "skip" here: there is one result')
    judge = partial(_judge, policy=policy, pending=[])
    _check_not_kafkas(folder)
    chosen = options or ExportOptions()

    def report(unit: Unit, outcome: object) -> None:
        if isinstance(outcome, Result):
            for lost in outcome.damage:
                judge(Problem(unit.path, lost.position, lost.text))
        elif isinstance(outcome, OSError):
            judge(Problem.unreadable(unit.path, outcome))
        else:
            judge(Problem(unit.path, None, str(outcome)))

    with ExitStack() as holds:
        logs = [holds.enter_context(held(each.log.path)) for each in farthest(_replicas(paths, judge), judge)]
        units = plan([log for log in logs if log is not None], chosen)
        return export_units(units, os.fspath(folder), chosen, LocalEngine(threads), report)


# --- what they share


def _text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _clock(now: int | None) -> int:
    return time.time_ns() // 1_000_000 if now is None else now


def _judge(problem: Problem, policy: OnError, pending: list[Problem]) -> None:
    if policy is OnError.RAISE and not problem.is_newer:
        raise ProblemError(problem)
    if policy is OnError.YIELD:
        pending.append(problem)


def _results(found: Callable[[Report], Iterable[_Item]], errors: str) -> Iterator[_Item | Problem]:
    """What is found, with the problems that are met on the way as `errors` has it. Raises ValueError at the call."""
    policy = OnError(errors)
    pending: list[Problem] = []

    def results() -> Iterator[_Item | Problem]:
        for item in found(partial(_judge, policy=policy, pending=pending)):
            yield from _drained(pending)
            yield item
        yield from _drained(pending)

    return results()


def _drained(pending: list[Problem]) -> list[Problem]:
    taken = pending[:]
    pending.clear()
    return taken


def _places(paths: Iterable[Path]) -> list[PartitionLog | LogDirectory]:
    """Raises OSError, NameFormatError."""
    found = []
    for path in [os.fspath(path) for path in paths]:
        if os.path.isfile(path):
            raise NameFormatError(f"{path} is a file: expected a partition directory or a log directory")
        found.append(open_directory(path))
    if not found:
        raise ValueError("no path is given")
    return found


def _topics(place: PartitionLog | LogDirectory) -> Iterator[str]:
    if isinstance(place, PartitionLog):
        if place.name is not None:
            yield place.name.topic
        return
    for name in place.partition_names:
        yield names.parse_partition_dir(name).topic


def _replicas(paths: Iterable[Path], report: Report) -> list[Replica]:
    return list(replicas(_places(paths), report))


def _of_replicas(
    paths: Iterable[Path], found: Callable[[list[Replica], Report], Iterable[_Item]], errors: str
) -> Iterator[_Item | Problem]:
    places = _places(paths)
    return _results(lambda report: found(list(replicas(places, report)), report), errors)


def _said(
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
) -> StartupOptions:
    """Raises OSError, ConfigError, CheckpointError, ValueError."""
    from kdump.operations.startup import StartupOptions
    from kdump.releases import KafkaRelease

    starting = None if release is None else KafkaRelease.parse(release)
    return StartupOptions(clean, recovery_point, log_start_offset, _clock(now), _properties(config), starting)


def _properties(config: Path | Mapping[str, str] | None) -> Mapping[str, str]:
    """Raises OSError, ConfigError, CheckpointError."""
    from kdump.disk.reading import read_small
    from kdump.formats.java_properties import parse_properties
    from kdump.settings.sources import TopicSettings

    if config is None:
        return {}
    found = (
        config if isinstance(config, Mapping) else parse_properties(read_small(os.fspath(config)), os.fspath(config))
    )
    TopicSettings.of(found).check()
    return found


def _files(config: Path | Mapping[str, str] | None) -> tuple[PropertyFile, ...]:
    """Raises OSError, ConfigError, CheckpointError."""
    from kdump.settings.sources import COMMAND_LINE, PropertyFile

    if config is None:
        return ()
    path = COMMAND_LINE if isinstance(config, Mapping) else os.fspath(config)
    return (PropertyFile(path, None, _properties(config)),)


def _groups(paths: Iterable[Path]) -> list[PartitionGroup]:
    """Raises OSError, NameFormatError."""
    from kdump.operations.targets import PartitionGroups

    found = PartitionGroups()
    for place in _places(paths):
        found.add(place)
    return found.all()


def _targets(paths: Iterable[Path]) -> list[Target]:
    """Raises OSError, NameFormatError."""
    from kdump.operations.targets import Targets

    found = Targets()
    for place in _places(paths):
        if isinstance(place, LogDirectory):
            found.add_directory(place)
        else:
            found.add_partition(place.path)
    return found.all()


def _check_not_kafkas(target: Path) -> None:
    inside = directory_of_kafka(os.fspath(target))
    if inside is not None:
        raise RefusedError(f"{os.fspath(target)} is in Kafka's own {inside}: give another directory")
