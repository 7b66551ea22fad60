"""`kdump ls`: what is in log directories, partitions and segments."""

from __future__ import annotations

from typing import Any

import click

from kdump.operations.inventory import SORTS

from ..shell.options import color_option, topic_option
from ..shell.rows import format_option
from .run import Options, list_places


@click.command("ls")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option
@click.option(
    "--segments/--no-segments", default=None,
    help="List the segments too, or not. By default those of partitions that are named themselves.",
)
@topic_option
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="name", show_default=True,
    help="Order of the partitions of a log directory. All orders but name begin with the largest or latest.")
@click.option("--count", is_flag=True,
    help="Read all batches: record counts and codecs of large segments too, and damage anywhere in them.")
@click.option("--metadata/--no-metadata", default=True,
    help="Compare partitions with the cluster's metadata (__cluster_metadata-0), if it is there too, or do not.")
@click.option("--graph", is_flag=True,
    help="Draw each partition: its segments over the offsets, what is clean and dirty, and the offsets that matter.")
@color_option
def command(paths: tuple[str, ...], format_: str, **options: Any) -> int:
    """List log directories, partitions and segments: offsets, times, sizes, codecs, index entries, checkpoints.

    PATHs are log directories, partition directories and segments (.log files), in any mix; quoted patterns work. kdump
    finds the end of a log as a broker does: it reads what comes after the last index entry. It reads large segments
    completely only with --count; without it - stands for what is not known.

    The lines below the tables name what is left over or out of place: files that wait for deletion, interrupted swaps
    and cleanings, index files without a log, zeros after the last batch, partitions that are in two places. If
    __cluster_metadata-0 is in the same log directory, or in another listed one of the same broker, they name the
    partitions that a broker would set aside as stray. Partitions that you name show their replicas.

    \b
    Examples:
      kdump ls /var/lib/kafka/data
      kdump ls /var/lib/kafka/data/orders-0
      kdump ls /disk1/kafka /disk2/kafka --topic 'orders*' --sort size
      kdump ls /var/lib/kafka/data --format jsonl \\
        | jq 'select(.type == "partition") | [.topic, .size]'
    """
    if options["graph"]:
        if format_ != "text":
            raise click.UsageError("--graph draws text: --format jsonl has the same facts")
        options["segments"] = True
    return list_places(paths, Options(format=format_, **options))
