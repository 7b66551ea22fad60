"""`kdump ls`: what is in log directories, partitions and segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from kdump.formats.names import PartitionDirName
from kdump.formats.time_units import wall_clock
from kdump.operations.inventory import SORTS, Inventory, InventoryRequest, ListedDirectory, Unread
from kdump.query.inventory import FileInfo, PartitionInfo
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import SegmentInfo
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.choice import has_partition, is_chosen, nothing_chosen, topics_at
from ..shell.options import color_option, topic_option
from ..shell.output import Output, wants_color
from ..shell.paths import expand
from ..shell.progress import PathCounter
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Failures, note_unfinished

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text
    Row: TypeAlias = ListedDirectory | PartitionInfo | SegmentInfo | FileInfo | Unread


@click.command("ls")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option
@click.option("--segments/--no-segments", default=None,
    help="List the segments too, or not. By default those of partitions that are named themselves.")
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
def command(
    paths: tuple[str, ...],
    format_: OutputFormat,
    segments: bool | None,
    topics: tuple[str, ...],
    sort: str,
    count: bool,
    metadata: bool,
    graph: bool,
    color: str,
) -> int:
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
    if graph and format_ is not OutputFormat.TEXT:
        raise click.UsageError("--graph draws text: --format jsonl has the same facts")
    with output_for(format_) as out:
        listing = _Listing(out, _printer(out, format_, color, graph=graph), topics, True if graph else segments)
        outline_at = wall_clock() if graph else None
        request = InventoryRequest(listing.wants, sort, count, metadata, outline_at)
        inventory = Inventory(paths, request, PathCounter().over)
        for path in paths:
            listing.path(path, inventory)
        listing.end(paths, inventory)
    return listing.code


def _printer(out: Output, format_: OutputFormat, color: str, *, graph: bool) -> Printer:
    if graph and format_ is not OutputFormat.JSONL:
        from .graph import Graphs

        return Graphs(out.write, is_colored=wants_color(color))
    printer: Printer = printer_of(__package__, format_, out.write, is_colored=wants_color(color))
    return printer


class _Listing(Failures):
    """Hands what is found of places to a printer, and says what cannot be read."""

    def __init__(self, out: Output, printer: Printer, topics: tuple[str, ...], segments: bool | None) -> None:
        """`segments` is None where nobody has said whether they are listed."""
        super().__init__(out.flush)
        self._printer = printer
        self._topics = topics
        self._segments = segments
        self._has_matched = not topics and has_partition(None)

    def wants(self, name: str) -> bool:
        """Return whether a partition directory is listed, by its name."""
        wanted = is_chosen(name, self._topics)
        self._has_matched |= wanted
        return wanted

    def path(self, path: str, inventory: Inventory) -> None:
        """List what is at a path or pattern."""
        try:
            for place in expand([path]):
                self._place(place, inventory)
        except OSError as error:
            self.report_error(error, path)

    def end(self, paths: Iterable[str], inventory: Inventory) -> None:
        """List what only shows when everything is known."""
        self._printer.end(inventory.duplicates())
        if not self._has_matched and self.code == exit_codes.OK:
            self.complain(nothing_chosen(self._topics, topics_at(paths)))

    def _place(self, place: Place, inventory: Inventory) -> None:
        if not isinstance(place, KafkaFile):
            note_unfinished(place)
        if isinstance(place, LogDirectory):
            self._print(inventory.directory(place))
            return
        self._has_matched = True
        if isinstance(place, PartitionLog):
            self._print(inventory.partition(place))
        else:
            self._print(inventory.file(place.path, place.name), place.partition)

    def _print(self, rows: Iterable[Row], partition: PartitionDirName | None = None) -> None:
        """Print what is found of a place; `partition` is the one that a single file is of."""
        for row in rows:
            if isinstance(row, ListedDirectory):
                self._printer.log_directory(row.info, row.partitions, lists_segments=self._segments or False)
            elif isinstance(row, PartitionInfo):
                self._printer.partition(row, lists_segments=self._segments is not False)
            elif isinstance(row, SegmentInfo):
                self._printer.segment(row, partition)
            elif isinstance(row, FileInfo):
                self._printer.file(row.name, row.kind, row.size)
            else:
                self.report_error(row.error, row.path)
