"""`kdump rebuild-index`: rebuild the damaged indexes of segments from their logs."""

from __future__ import annotations

from typing import Any

import click

from kdump.mend.task import INDEX_KINDS
from kdump.operations.repair_planners import of_indexes
from kdump.releases import KafkaRelease

from ..shell.options import kafka_option
from ..shell.startup_options import chosen_startup
from .command import repair_options, run


@click.command("rebuild-index")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--kind", "kinds", type=click.Choice(INDEX_KINDS), multiple=True,
    help="Only offset indexes, time indexes or transaction indexes; may be repeated.",
)
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A server.properties, or a properties file with the topic's settings: index.interval.bytes and"
    " segment.index.bytes count. By default Kafka's defaults.",
)
@click.option(
    "--all", "wants_all", is_flag=True,
    help="Also rebuild indexes without a fault if Kafka's recovery of the complete log would write other entries.",
)
@kafka_option
@repair_options
def command(
    paths: tuple[str, ...],
    kinds: tuple[str, ...],
    config_file: str | None,
    wants_all: bool,
    kafka: KafkaRelease | None,
    **options: Any,
) -> int:
    """Show which indexes are damaged, and with --apply rebuild them from their logs.

    PATHs are files of segments, partition directories or log directories. kdump builds an index as Kafka's recovery of
    the complete log does, byte for byte. It leaves an index without a fault as it is: one that an older broker, a
    follower or the cleaner wrote may have other entries. It leaves the indexes of a damaged log alone: see `kdump
    repair`.

    Exits as `kdump repair` does.

    \b
    Examples:
      kdump rebuild-index /var/lib/kafka/data/orders-3
      kdump rebuild-index /var/lib/kafka/data/orders-3/00000000000000000000.log \\
        --kind timeindexes --apply
    """
    startup = chosen_startup(config_file=config_file, kafka=kafka)
    return run(paths, of_indexes(kinds or INDEX_KINDS, wants_all=wants_all), startup, **options)
