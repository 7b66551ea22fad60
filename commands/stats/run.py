"""What `kdump stats` does: partition after partition it gathers the figures, and adds them up by topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdump.errors import Problem
from kdump.formats.printable import safe, safe_path
from kdump.operations.stats import PartitionStats, StatsOf, TopicStats, by_topic
from kdump.settings.defaults import RETENTION_MS
from kdump.stats.partition import Stats, StatsOptions
from kdump.storage.replica import Replica

from ..shell import exit_codes
from ..shell.choice import NO_PARTITION, chooses, has_partition, nothing_chosen, topics_at
from ..shell.output import complain, note
from ..shell.paths import check_target
from ..shell.progress import ProgressBar
from ..shell.replicas import replicas_at
from ..shell.rows import output_for
from ..shell.session import Diagnostics

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
    retention_ms: int = RETENTION_MS
    cluster: Cluster | None = None


def run_stats(paths: Iterable[str], options: Options) -> int:
    """Gather the figures of what is at `paths`; the exit code. Raises click.UsageError, OSError."""
    if options.report is not None:
        check_target(options.report)
    troubles = Diagnostics()
    wanted = chooses(options.topics)
    replicas = [each for each in replicas_at(paths, troubles) if wanted(each.topic) and has_partition(each.partition)]
    if not replicas and not troubles.code:
        why = nothing_chosen(options.topics, topics_at(paths))
        if why != NO_PARTITION:
            complain(why)
            return exit_codes.INCOMPLETE
        note(why)
    with ProgressBar([each.log.path for each in replicas]) as bar:
        found = list(_gathered(replicas, options, troubles, bar))
    topics = by_topic(found)
    with output_for(options.format) as out:
        if options.format == "jsonl":
            from .jsonl import JsonLines

            JsonLines(out.write).all(topics)
        else:
            from .text import Text

            Text(out.write, paths).all(topics, details=options.details)
    if options.report is not None:
        _write_report(options.report, topics, options)
    return troubles.code


def _gathered(
    replicas: Sequence[Replica], options: Options, troubles: Diagnostics, bar: ProgressBar
) -> Iterator[PartitionStats]:
    computed = None
    if options.cluster is not None:
        from kdump.spark.jobs import stats_of

        paths = [replica.log.path for replica in replicas]
        computed = zip(replicas, stats_of(options.cluster, paths, options.core), strict=True)

    def report(problem: Problem) -> None:
        bar.hide()
        troubles(problem)

    for found in StatsOf(options.core, report, bar.add).of(replicas, computed):
        if found.stats.damage_count:
            bar.hide()
            _tell_damage(found.stats, troubles)
        yield found


def _tell_damage(stats: Stats, troubles: Diagnostics) -> None:
    for damage in stats.damage:
        complain(f"{safe_path(damage.path)}: byte {damage.position}: {safe(damage.text)}", is_one_of_many=True)
    if stats.damage_count > len(stats.damage):
        complain(f"… and {stats.damage_count - len(stats.damage)} more places like these", is_one_of_many=True)
    troubles.worsen(exit_codes.FINDINGS)


def _write_report(path: str, topics: list[TopicStats], options: Options) -> None:
    """Write the page, which is there as a whole or not at all. Raises OSError."""
    from kdump.disk.durable import replace_alone

    from .html import page

    text = page(topics, now=options.now, retention_ms=options.retention_ms)
    replace_alone(path, text.encode("utf-8", "backslashreplace"), durable=False)
