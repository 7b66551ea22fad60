"""`kdump resurrect`: the disks of a dead cluster, any of them, become a new one."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.cluster.copies import Copy
from kdump.cluster.wanted import ControllerAt, UnknownTopics, Wanted
from kdump.formats import names
from kdump.formats.uuids import parse_uuid
from kdump.operations import cluster
from kdump.releases import KafkaRelease

from ..shell import exit_codes
from ..shell.options import apply_option, kafka_option, now_option
from ..shell.paths import matches
from ..shell.progress import ProgressBar
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics, say_if_refused
from ..shell.values import read_by


def _mapping(text: str) -> tuple[str, int]:
    key, equals, node = text.rpartition("=")
    if not equals or not key or not node.isdecimal():
        raise ValueError(f"{text!r}: expected OLD=NEW, both node ids, or PATH=NEW")
    return key, int(node)


def _cluster_id(text: str) -> str:
    parse_uuid(text)
    return text


@click.command("resurrect")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--into", type=click.Path(), metavar="DIR", help="Build the new cluster here; PATHs stay as they are.")
@click.option("--in-place", is_flag=True,
    help="Change the PATHs into the new cluster's. kdump undo restores the originals.")
@apply_option
@click.option("--nodes", type=click.IntRange(min=1), metavar="N",
    help="How many nodes the new cluster has. By default as many as the PATHs come from.")
@click.option("--map", "map", multiple=True, callback=read_by(_mapping), metavar="OLD=NEW",
    help="A new id for an old node; PATH=NEW for one log directory. May be repeated.")
@click.option("--controller", callback=read_by(ControllerAt.parse), metavar="[NODE@]HOST:PORT",
    help="Where the one controller listens. By default localhost:9093, on a node that was a controller.")
@click.option("--quorum", type=click.Choice(("static", "dynamic")),
    help="The kind of quorum: controllers can join a dynamic one later. By default as in the old metadata.")
@click.option("--metadata", metavar="PATH|none",
    help="Take the metadata of this log directory, or none. By default the newest of all copies.")
@click.option("--config", "properties", multiple=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="The server.properties of an old node. One next to a log directory, or in its ../config, is found without it."
    " May be repeated.")
@click.option("--cluster-id", callback=read_by(_cluster_id), metavar="ID", help="The cluster id. By default a new one.")
@kafka_option
@click.option("--new-empty", is_flag=True, help="Let partitions without a copy start empty.")
@click.option("--unknown-topics", type=click.Choice([each.value for each in UnknownTopics]),
    callback=read_by(UnknownTopics), help="What to do with directories whose topic is not in the metadata.")
@click.option("--offsets-partitions", type=click.IntRange(min=1), metavar="N",
    help="Without metadata: how many partitions __consumer_offsets had.")
@click.option(
    "--transaction-partitions", type=click.IntRange(min=1), metavar="N", help="The same for __transaction_state."
)
@click.option(
    "--share-state-partitions", type=click.IntRange(min=1), metavar="N", help="The same for __share_group_state."
)
@click.option("--hold-retention", "holds_retention", is_flag=True,
    help="Switch retention off for topics whose records it would delete at once.")
@click.option("--remote-storage", "has_remote_storage", is_flag=True,
    help="The remote objects of tiered topics exist, and the brokers can read them.")
@click.option("--accept-loss", type=click.IntRange(min=1), metavar="N",
    help="Accept the loss of N valid records after damage. The refusal names N.")
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    into: str | None,
    in_place: bool,
    map: tuple[tuple[str, int], ...],
    controller: ControllerAt | None,
    quorum: str | None,
    kafka: KafkaRelease | None,
    offsets_partitions: int | None,
    transaction_partitions: int | None,
    share_state_partitions: int | None,
    applies: bool,
    now: int,
    format_: OutputFormat,
    **options: Any,
) -> int:
    """Make a working cluster from the log directories of dead brokers: all of them, or some.

    PATHs are log directories (entries of log.dirs), those of dead controllers too. kdump reads every batch of every
    partition and checks its CRC. It joins the newest copy of the cluster's metadata with the partitions: topics keep
    their ids, records their offsets, groups their offsets, transactions their state; settings, ACLs, SCRAM users and
    quotas are those of the metadata. The newest valid copy of a partition leads; the others follow it.
    Without metadata topics come from the directories alone.

    The new cluster has one controller, and a new cluster id: old clients and brokers do not mix it up with the old one.
    At the end kdump prints the lines of server.properties, the order in which to start, and what to check.

    Exits with 0 when it is done, 1 when it only showed the plan, 4 when a safety check refused: each refusal says what
    to do.

    \b
    Examples:
      kdump resurrect /mnt/b1/data /mnt/b2/data /mnt/b3/data --into /srv/new
      kdump resurrect /mnt/b1/data --in-place --controller kafka1:9093 \\
        --new-empty --apply
      kdump resurrect /mnt/b?/data --into /srv/new --nodes 1 --apply
    """
    if (into is None) == (not in_place):
        raise click.UsageError("Give one of --into DIR and --in-place.")
    if into is not None and any(cluster.lies_in(into, path) for path in paths):
        raise click.UsageError(
            f"--into: {into} lies in one of the PATHs, which stay as they are: name a directory outside, or --in-place."
        )
    counts = {
        names.CONSUMER_OFFSETS_TOPIC: offsets_partitions,
        names.TRANSACTION_STATE_TOPIC: transaction_partitions,
        names.SHARE_GROUP_STATE_TOPIC: share_state_partitions,
    }
    partitions = {topic: number for topic, number in counts.items() if number is not None}
    controller = controller or ControllerAt()
    kind = None if quorum is None else quorum == "dynamic"
    wanted = Wanted(
        map=dict(map), controller=controller, is_dynamic=kind, release=kafka, partitions=partitions, **options
    )
    diagnostics = Diagnostics()
    found_paths = [each for path in paths for each in matches(path)]
    with ProgressBar(found_paths) as bar, output_for(format_) as out:

        def progress(copy: Copy) -> None:
            bar.add(os.path.join(copy.path, "log"), copy.size)

        found = cluster.plan(found_paths, wanted, now=now, in_place=in_place, progress=progress)
        bar.hide()
        for problem in found.problems:
            diagnostics(problem)
        printer = printer_of(__package__, format_, out.write, controller, paths)
        printer.plan(found, cluster.directories_of(found, into))
        if found.refusals:
            several = len(found.refusals) > 1
            printer.end(found, None, f"{len(found.refusals)} things stand in the way" if several else "see above")
            return exit_codes.REFUSED
        if not applies:
            printer.end(found, None, "")
            return exit_codes.FINDINGS
        return say_if_refused(out, lambda: printer.end(found, cluster.apply(found, into, now), ""))
