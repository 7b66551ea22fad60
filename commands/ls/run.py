"""What `kdump ls` does: has places listed, hands the facts to a printer, and says what cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kdump.formats.names import PartitionDirName
from kdump.operations.inventory import Inventory, InventoryRequest, ListedDirectory, Unread
from kdump.query.inventory import FileInfo, PartitionInfo
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import SegmentInfo
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.choice import has_partition, is_chosen, nothing_chosen, topics_at
from ..shell.output import Output, wants_color
from ..shell.paths import expand
from ..shell.progress import PathCounter
from ..shell.rows import output_for
from ..shell.session import Failures
from ..shell.unfinished import note_unfinished

if TYPE_CHECKING:
    from .graph import Graphs
    from .jsonl import JsonLines
    from .text import Tables

    Printer: TypeAlias = JsonLines | Graphs | Tables
    Row: TypeAlias = ListedDirectory | PartitionInfo | SegmentInfo | FileInfo | Unread


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `segments` is None where it does not say."""

    format: str = "text"
    segments: bool | None = None
    topics: tuple[str, ...] = ()
    sort: str = "name"
    count: bool = False
    metadata: bool = True
    graph: bool = False
    color: str = "auto"


def list_places(paths: Iterable[str], options: Options) -> int:
    """List what is at `paths`; the exit code. Raises click.UsageError."""
    with output_for(options.format) as out:
        paths = list(paths)
        run = _Run(out, _printer(out, options), options, paths)
        for path in paths:
            run.path(path)
        run.end()
    return run.code


def _printer(out: Output, options: Options) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(out.write)
    if options.graph:
        from .graph import Graphs

        return Graphs(out.write, color=wants_color(options.color))
    from .text import Tables

    return Tables(out.write, color=wants_color(options.color))


class _Run(Failures):
    def __init__(self, out: Output, printer: Printer, options: Options, paths: list[str]) -> None:
        super().__init__(out.flush)
        self._paths = paths
        self._printer = printer
        self._options = options
        self._matched = not options.topics and has_partition(None)
        outline_at = time.time_ns() // 1_000_000 if options.graph else None
        request = InventoryRequest(self._wants, options.sort, options.count, options.metadata, outline_at)
        self._inventory = Inventory(paths, request, PathCounter().over)

    def path(self, path: str) -> None:
        """List what is at a path or pattern."""
        try:
            for place in expand([path]):
                self._place(place)
        except OSError as error:
            self.tell(error, path)

    def end(self) -> None:
        """List what only shows when everything is known."""
        self._printer.end(self._inventory.duplicates())
        if not self._matched and self.code == exit_codes.OK:
            self.complain(nothing_chosen(self._options.topics, topics_at(self._paths)))

    def _wants(self, name: str) -> bool:
        wanted = is_chosen(name, self._options.topics)
        self._matched = self._matched or wanted
        return wanted

    def _place(self, place: Place) -> None:
        if not isinstance(place, KafkaFile):
            note_unfinished(place)
        if isinstance(place, LogDirectory):
            self._print(self._inventory.directory(place))
            return
        self._matched = True
        if isinstance(place, PartitionLog):
            self._print(self._inventory.partition(place))
        else:
            self._print(self._inventory.file(place.path, place.name), place.partition)

    def _print(self, rows: Iterable[Row], partition: PartitionDirName | None = None) -> None:
        """Print what is found of a place; `partition` is the one that a single file is of."""
        for row in rows:
            if isinstance(row, ListedDirectory):
                self._printer.log_directory(row.info, row.partitions, segments=self._options.segments or False)
            elif isinstance(row, PartitionInfo):
                self._printer.partition(row, segments=self._options.segments is not False)
            elif isinstance(row, SegmentInfo):
                self._printer.segment(
                    row, partition.topic if partition else None, partition.partition if partition else None
                )
            elif isinstance(row, FileInfo):
                self._printer.file(row.name, row.kind, row.size)
            else:
                self.tell(row.error, row.path)
