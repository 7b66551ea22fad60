"""`kdump replicas`: where the copies of partitions differ, who may lead, and what each choice loses."""

from __future__ import annotations

from collections.abc import Mapping

import click

from kdump.errors import KdumpError, Problem
from kdump.formats.printable import safe, safe_path
from kdump.operations.choice import chooses
from kdump.operations.compared import Verdict
from kdump.operations.replicas import Replicas, is_empty
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.choice import has_partition
from ..shell.options import now_option, topic_option, verbose_option
from ..shell.output import note
from ..shell.paths import directories
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics


@click.command("replicas")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topic_option
@verbose_option
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    verbose: bool,
    now: int,
    format_: OutputFormat,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Compare the copies of partitions on several brokers, and say what each choice of leader would lose.

    PATHs are log directories of several brokers, or partition directories. kdump joins copies by cluster id, topic id
    and partition. It predicts each copy as its broker would load it at the next start, and compares it with the others
    batch by batch. A copy may be behind, have other records since a change of leader, or have other bytes of the same
    leader epoch, which Kafka never notices. Nothing is changed.

    For each replica kdump says why it may become leader (in sync, eligible, or only by an unclean election), what the
    others then truncate by leader epoch, and which records are lost. The newest cluster metadata in the PATHs counts.
    After a crash of all brokers any in-sync replica may become leader, even one that is behind.

    Exits with 1 when copies differ and are not only behind, with 3 when something could not be read, else with 0.

    \b
    Examples:
      kdump replicas /b1/kafka /b2/kafka /b3/kafka
      kdump replicas /b1/kafka/orders-17 /b2/kafka/orders-17
      kdump replicas /b?/kafka --topic orders --format jsonl \\
        | jq 'select(.type == "choice")'
    """
    diagnostics = Diagnostics()
    places, empty = _places(paths, diagnostics)
    is_single = all(isinstance(place, PartitionLog) for place in places)
    with output_for(format_) as out:
        printer = printer_of(__package__, format_, out.write, is_all=verbose or is_single)
        count = 0
        replicas = Replicas(places, now, diagnostics, empty=empty, properties=properties)
        if len(replicas.clusters) > 1:
            names = ", ".join(map(safe, replicas.clusters))
            note(f"these PATHs are of {len(replicas.clusters)} clusters ({names}); copies are compared within each")
        for found in replicas.partitions(chooses(topics), has_partition):
            count += 1
            if found.verdict is Verdict.DIFFERS:
                diagnostics.worsen(exit_codes.FINDINGS)
            printer.partition(found)
        if not count:
            wanted = f" of a topic {', '.join(map(safe, topics))}" if topics else ""
            raise KdumpError(f"there is no partition{wanted} in these PATHs")
        printer.end(diagnostics.code)
    return diagnostics.code


def _places(paths: tuple[str, ...], diagnostics: Diagnostics) -> tuple[list[LogDirectory | PartitionLog], int]:
    """Return the directories that PATHs name, and how many more are empty: disks of brokers that have lost all."""
    places: list[LogDirectory | PartitionLog] = []
    empty = 0
    for path in paths:
        try:
            if is_empty(path):
                note(f"{safe_path(path)} is empty: a broker that starts with it has no records at all")
                empty += 1
                continue
            places += directories([path])
        except OSError as error:
            diagnostics(Problem.unreadable(path, error))
    return places, empty
