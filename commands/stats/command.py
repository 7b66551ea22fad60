"""`kdump stats`: what partitions are made of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kdump.errors import Problem
from kdump.formats.printable import safe, safe_path
from kdump.operations.stats import PartitionStats, StatsOf, by_topic
from kdump.settings.defaults import RETENTION_MS
from kdump.statistics.partition import SAMPLE_BATCHES, Stats, StatsOptions
from kdump.storage.replica import Replica
from kdump.txns.isolation_level import Isolation

from ..shell import exit_codes
from ..shell import values as filters
from ..shell.choice import NO_PARTITION, nothing_chosen, topics_at
from ..shell.engine import cluster_of, engine_options
from ..shell.options import now_option, topic_option
from ..shell.output import complain, note
from ..shell.paths import check_target
from ..shell.progress import ProgressBar
from ..shell.reading_options import isolation_option, max_decompressed_size_option
from ..shell.replicas import chosen_replicas, replicas_at
from ..shell.rows import OutputFormat, ReportFile, format_option, output_for, printer_of
from ..shell.session import Diagnostics
from ..shell.usage import not_one_of

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster


def _report_file(text: str) -> str:
    """Return the file of a report, which may be named with its format as reports of other commands are."""
    format_, colon, file = text.partition(":")
    if colon and format_ == OutputFormat.HTML:
        return file
    if colon and format_.isalpha() and len(format_) > 1 and not os.path.exists(text):
        raise ValueError(not_one_of(format_, (OutputFormat.HTML,)))
    return text


@click.command("stats")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topic_option
@click.option("--records", is_flag=True,
    help="Decode every record, twice: sizes of keys and values, tombstones, different keys, and what compaction would"
    " keep.")
@click.option("--sample", type=click.IntRange(0, 10_000), default=SAMPLE_BATCHES, show_default=True, metavar="N",
    help="Batches of each partition that are compressed with every codec to see what it would save; 0: none.")
@click.option("--key-memory", metavar="SIZE", default="64M", show_default=True, callback=filters.read_by(filters.size),
    help="Bytes (or K, M, G) for the different keys of a partition: 24 a key.")
@max_decompressed_size_option
@click.option("--details/--no-details", default=None,
    help="Print all figures of each partition and topic in words, or only the table. By default those of the damaged"
    " and the largest topics, as long as there is room.")
@click.option("--report", metavar="[html:]FILE", type=click.Path(dir_okay=False),
    callback=filters.read_by(_report_file),
    help="Write one page with plots for the browser. An old FILE is replaced.")
@click.option("--retention-ms", type=click.IntRange(min=0), default=RETENTION_MS, show_default=True, metavar="MS",
    help="With --report: the retention whose outlook is drawn.")
@isolation_option
@engine_options
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    sample: int,
    records: bool,
    key_memory: int,
    isolation: Isolation,
    max_decompressed_size: int,
    topics: tuple[str, ...],
    details: bool | None,
    report: str | None,
    retention_ms: int,
    now: int,
    format_: OutputFormat,
    **engine: Any,
) -> int:
    """Say what partitions are made of: bytes, batches, codecs, producers, times, empty offsets.

    PATHs are partition directories or log directories, in any mix; quoted patterns work. The figures are those of the
    files, by partition and by topic. kdump skips damaged bytes and reports them.

    Without --records kdump reads only the headers of batches, and a few batches to compare codecs. With it kdump counts
    the different keys of each partition, exactly as long as --key-memory has room for them.

    \b
    Examples:
      kdump stats /var/lib/kafka/data
      kdump stats /var/lib/kafka/data/orders-3 --records
      kdump stats /var/lib/kafka/data --topic 'orders*' --report orders.html
      kdump stats /var/lib/kafka/data --format jsonl \\
        | jq 'select(.type == "topic") | [.topic, .bytes]'

    \b
    Exit codes:
      0    everything was read
      1    damage was met, and reported
      2    the command line is wrong
      3    something could not be found or read
    """
    options = StatsOptions(sample, records, key_memory, max_decompressed_size, isolation)
    cluster = cluster_of(**engine)
    if report is not None:
        check_target(report)
    diagnostics = Diagnostics()
    replicas = chosen_replicas(replicas_at(paths, diagnostics), topics)
    if not replicas and not diagnostics.code:
        why = nothing_chosen(topics, topics_at(paths))
        if why != NO_PARTITION:
            complain(why)
            return exit_codes.INCOMPLETE
        note(why)
    with ProgressBar([each.log.path for each in replicas]) as bar:
        found = by_topic(_gathered(replicas, options, cluster, diagnostics, bar))
    with output_for(format_) as out:
        printer_of(__package__, format_, out.write, paths, details=details).all(found)
    if report is not None:
        from .html import page

        file = ReportFile(OutputFormat.HTML, report, [each.log.path for each in replicas])
        file.write(page(found, now=now, retention_ms=retention_ms))
        file.end(diagnostics.code)
    return diagnostics.code


def _gathered(
    replicas: Sequence[Replica],
    options: StatsOptions,
    cluster: Cluster | None,
    diagnostics: Diagnostics,
    bar: ProgressBar,
) -> Iterator[PartitionStats]:
    computed = None
    if cluster is not None:
        from kdump.spark.jobs import stats_of

        paths = [replica.log.path for replica in replicas]
        computed = zip(replicas, stats_of(cluster, paths, options), strict=True)

    def report(problem: Problem) -> None:
        bar.hide()
        diagnostics(problem)

    for found in StatsOf(options, report, bar.add).of(replicas, computed):
        if found.stats.damage_count:
            bar.hide()
            _say_damage(found.stats, diagnostics)
        yield found


def _say_damage(stats: Stats, diagnostics: Diagnostics) -> None:
    for damage in stats.damage:
        complain(f"{safe_path(damage.path)}: byte {damage.position}: {safe(damage.text)}", is_one_of_many=True)
    if stats.damage_count > len(stats.damage):
        complain(f"… and {stats.damage_count - len(stats.damage)} more places like these", is_one_of_many=True)
    diagnostics.worsen(exit_codes.FINDINGS)
