"""What `kdump stats` does: partition after partition it gathers the figures, and adds them up by topic."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kdump.errors import KdumpError, Problem
from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.stats.partition import Dirtiness, Stats, StatsOptions, dirtiness, partition_stats, total
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, held_replicas

from ..shell import exit_codes
from ..shell.choice import chooses, has_partition, nothing_chosen, topics_at
from ..shell.output import complain
from ..shell.paths import check_target
from ..shell.progress import ProgressBar
from ..shell.replicas import replicas_at
from ..shell.rows import output_for
from ..shell.session import Troubles

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `details` is None where it does not say. Times are ms."""

    core: StatsOptions
    now: int
    format: str = "text"
    topics: tuple[str, ...] = ()
    details: bool | None = None
    report: str | None = None
    retention_ms: int = 604_800_000
    cluster: Cluster | None = None


class Partition(NamedTuple):
    """A partition with its figures; `dirt` where the cleaner's checkpoint has an entry for it."""

    path: str
    topic: str
    number: int
    stats: Stats
    dirt: Dirtiness | None


class Topic(NamedTuple):
    """A topic with the figures of its partitions together."""

    name: str
    partitions: list[Partition]
    stats: Stats


class Printer(Protocol):
    """What prints the figures."""

    def all(self, topics: list[Topic], *, details: bool) -> None:
        """Everything."""


def run_stats(paths: Iterable[str], options: Options) -> int:
    """Gather the figures of what is at `paths`; the exit code. Raises click.UsageError, OSError."""
    if options.report is not None:
        check_target(options.report)
    troubles = Troubles()
    wanted = chooses(options.topics)
    replicas = [each for each in replicas_at(paths, troubles) if wanted(each.topic) and has_partition(each.partition)]
    if not replicas and not troubles.code:
        complain(nothing_chosen(options.topics, topics_at(paths)))
        return exit_codes.INCOMPLETE
    with ProgressBar([each.log.path for each in replicas]) as bar:
        found = list(_gathered(replicas, options, troubles, bar))
    topics = by_topic(found)
    details = len(found) == 1 if options.details is None else options.details
    with output_for(options.format) as out:
        if options.format == "jsonl":
            from .jsonl import JsonLines

            JsonLines(out.write).all(topics, details=details)
        else:
            from .text import Text

            Text(out.write).all(topics, details=details)
    if options.report is not None:
        _write_report(options.report, topics, options)
    return troubles.code


def by_topic(partitions: Iterable[Partition]) -> list[Topic]:
    """The partitions by topic and number."""
    groups: dict[str, list[Partition]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.number, each.path)):
        groups.setdefault(each.topic, []).append(each)
    return [Topic(name, members, total([each.stats for each in members])) for name, members in groups.items()]


def _gathered(
    replicas: Sequence[Replica], options: Options, troubles: Troubles, bar: ProgressBar
) -> Iterator[Partition]:
    checkpoints: dict[str, Checkpoints] = {}
    for replica, stats in _computed(replicas, options, troubles, bar):
        log = replica.log
        if not isinstance(stats, Stats):
            bar.hide()
            if isinstance(stats, OSError):
                troubles(Problem.unreadable(log.path, stats))
            else:
                troubles(Problem(log.path, None, str(stats), is_unreadable=True))
            continue
        if stats.damage_count:
            bar.hide()
            _tell_damage(stats, troubles)
        yield Partition(log.path, replica.topic, replica.partition, stats, _dirt(log, stats, checkpoints))


def _computed(
    replicas: Sequence[Replica], options: Options, troubles: Troubles, bar: ProgressBar
) -> Iterator[tuple[Replica, Stats | KdumpError | OSError]]:
    """The figures of each, or why there are none; on the cluster, if there is one."""
    if options.cluster is not None:
        from kdump.spark.jobs import stats_of

        paths = [replica.log.path for replica in replicas]
        yield from zip(replicas, stats_of(options.cluster, paths, options.core), strict=True)
        return
    for replica in held_replicas(replicas, troubles):
        try:
            yield replica, partition_stats(replica.log, options.core, bar.add)
        except OSError as error:
            yield replica, error


def _tell_damage(stats: Stats, troubles: Troubles) -> None:
    for damage in stats.damage:
        complain(f"{safe_path(damage.path)}: byte {damage.position}: {safe(damage.text)}")
    if stats.damage_count > len(stats.damage):
        complain(f"… and {stats.damage_count - len(stats.damage)} more places like these")
    troubles.worsen(exit_codes.FINDINGS)


def _dirt(log: PartitionLog, stats: Stats, known: dict[str, Checkpoints]) -> Dirtiness | None:
    folder = os.path.dirname(os.path.abspath(log.path))
    if folder not in known:
        known[folder] = Checkpoints.read(folder, (names.CLEANER_CHECKPOINT,))
    cleaner = known[folder].of(log.name).cleaner
    return None if cleaner is None else dirtiness(stats.segments, cleaner)


def _write_report(path: str, topics: list[Topic], options: Options) -> None:
    """Write the page beside its place first, so that it is there as a whole or not at all. Raises OSError."""
    from tempfile import mkdtemp

    from .html import page

    text = page(topics, now=options.now, retention_ms=options.retention_ms)
    folder = os.path.dirname(os.path.abspath(path))
    try:
        work = mkdtemp(prefix=".kdump-report-", dir=folder)
    except OSError as error:
        error.filename = path  # what was asked for
        raise
    temporary = os.path.join(work, "page.html")
    try:
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        os.rmdir(work)
