"""`kdump ls` for people: aligned tables, and below them what is left over or out of place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kdump.formats.names import PartitionDirName
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, size_text
from kdump.query.inventory import LogDirectoryInfo, PartitionInfo
from kdump.storage.broker import Duplicate
from kdump.storage.facts import IndexInfo, SegmentInfo

from ..shell.line_budget import LineBudget, unlisted
from ..shell.output import Style
from ..shell.tables import TextPrinter, aligned, times_of_table
from .notes import (
    by_need,
    directory_lines,
    directory_notes,
    directory_words,
    file_name,
    listed_notes,
    log_notes,
    partition_lines,
    partition_notes,
    preallocated,
    short_words,
)

UNKNOWN = "-"
MAX_NOTES = 10
"""Remarks about partitions in the table of a log directory."""

Cell = str | int | None


DROPPED_FIRST = (
    "TXNINDEX", "FORMAT", "RECORDS", "FIRST RECORD", "CODECS", "CLEANED TO", "RECOVERY POINT", "EPOCH", "USED",
    "HIGH WM", "TIMEINDEX", "INDEX",
)  # fmt: skip
"""Columns that a narrow terminal does not show, in this order."""


class Column:
    """A column of a table: its head, and what a row's cell says. Numbers, sizes and times are set flush right."""

    __slots__ = ("cell", "flush_right", "head", "is_time")

    def __init__(
        self, head: str, cell: Callable[..., Cell], *, flush_right: bool = False, is_time: bool = False
    ) -> None:
        """`is_time`: the cells are timestamps (ms)."""
        self.head = head
        self.cell = cell
        self.flush_right = flush_right or is_time
        self.is_time = is_time


PARTITION_COLUMNS = (
    Column("PARTITION", lambda info: _marked(info)),
    Column("SEGMENTS", lambda info: len(info.segments), flush_right=True),
    Column("SIZE", lambda info: size_text(info.size), flush_right=True),
    Column("LOG START", lambda info: info.log_start_offset, flush_right=True),
    Column("LOG END", lambda info: info.end_offset, flush_right=True),
    Column("RECORDS", lambda info: info.records, flush_right=True),
    Column("FIRST RECORD", lambda info: info.first_timestamp, is_time=True),
    Column("LAST RECORD", lambda info: info.largest_timestamp, is_time=True),
    Column("CODECS", lambda info: ",".join(info.codecs)),
    Column("HIGH WM", lambda info: info.checkpoints.high_watermark, flush_right=True),
    Column("RECOVERY POINT", lambda info: info.checkpoints.recovery_point, flush_right=True),
    Column("CLEANED TO", lambda info: info.checkpoints.cleaner, flush_right=True),
    Column("EPOCH", lambda info: info.leader_epochs[-1].epoch if info.leader_epochs else None, flush_right=True),
    Column("STATE", lambda info: info.state),
)

SEGMENT_COLUMNS = (
    Column("BASE OFFSET", lambda info: info.base_offset, flush_right=True),
    Column("LAST", lambda info: _last(info), flush_right=True),
    Column("RECORDS", lambda info: info.records, flush_right=True),
    Column("BATCHES", lambda info: info.batches, flush_right=True),
    Column("SIZE", lambda info: size_text(info.size), flush_right=True),
    Column("USED", lambda info: size_text(info.used_size) if info.has_zero_tail else "", flush_right=True),
    Column("FIRST RECORD", lambda info: info.first_timestamp, is_time=True),
    Column("LAST RECORD", lambda info: info.largest_timestamp, is_time=True),
    Column("CODECS", lambda info: ",".join(info.codecs)),
    Column("FORMAT", lambda info: ",".join(f"v{magic}" for magic in info.magics)),
    Column("INDEX", lambda info: _entries(info.offset_index), flush_right=True),
    Column("TIMEINDEX", lambda info: _entries(info.time_index), flush_right=True),
    Column("TXNINDEX", lambda info: _entries(info.txn_index), flush_right=True),
)


class Text(TextPrinter):
    """Prints facts as tables."""

    def __init__(self, write: Callable[[str], None], *, is_colored: bool = False) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._name = Style(is_colored, bold=True)
        self._head = Style(is_colored, dim=True)
        self._note = Style(is_colored, "yellow")
        self._rows = LineBudget()
        self._remarks = LineBudget(MAX_NOTES)
        self._lists_files = False

    def log_directory(self, info: LogDirectoryInfo, partitions: list[PartitionInfo], *, lists_segments: bool) -> None:
        """Print a heading that says whose directory it is, the table of its partitions or their segments, notes."""
        self._heading(safe_path(info.path), directory_words(info, partitions))
        self._lines(directory_lines(info))
        self._notes(directory_notes(info), "")
        if lists_segments:
            for partition in partitions:
                self.partition(partition, lists_segments=True)
        elif partitions:
            self._line("")
            self._partitions(partitions)
            if any(info.is_damaged for info in partitions):
                self._line(f"!: damaged, see kdump doctor {safe_path(info.path)}.")
            remote = sum(partition.remote_start_offset is not None for partition in partitions)
            if remote:
                tiered = number_words(remote, "partition")
                self._line(f"Tiered: of {tiered} what is before LOG START is in remote storage.")
            short = short_words(partitions)
            if short:
                self._line(short)
            noted = (each for partition in by_need(partitions) for each in listed_notes(partition))
            unsaid = sum(not self._noted(each) for each in noted)
            if unsaid:
                self._line(f"  {self._note('!')} {number_words(unsaid, 'more remark')} (-v)")

    def _partitions(self, partitions: list[PartitionInfo]) -> None:
        """Print the table of a log directory's partitions: damaged ones, and others while the screen has room."""
        shown = self._chosen(partitions)
        self._column_table(PARTITION_COLUMNS, shown)
        more = len(partitions) - len(shown)
        if more:
            self._line(unlisted(more))

    def _chosen(self, partitions: list[PartitionInfo]) -> list[PartitionInfo]:
        chosen = {id(info) for info in by_need(partitions) if self._rows.takes()}
        return [info for info in partitions if id(info) in chosen]

    def _noted(self, text: str) -> bool:
        """Print a remark about a partition of several, if there is room for it."""
        has_room = self._remarks.takes()
        if has_room:
            self._notes([text], "")
        return has_room

    def partition(self, info: PartitionInfo, *, lists_segments: bool) -> None:
        """Print a heading with the facts about the partition, the table of its segments, notes."""
        self._heading(safe_path(info.path))
        self._lines(partition_lines(info))
        if lists_segments and info.segments:
            self._line("")
            self._segments(info.segments)
        self._notes(partition_notes(info), "")
        for segment in info.segments:
            self._segment_notes(segment, f"{file_name(segment)}: ")

    def segment(self, info: SegmentInfo, _whose: PartitionDirName | None) -> None:
        """Print the table of one segment; whose it is its path says."""
        self._heading(safe_path(info.path))
        self._segments([info])
        self._segment_notes(info, "")

    def file(self, path: str, _kind: str, size: int) -> None:
        """Print the file and its size."""
        if not self._lists_files:
            self._heading("")
            self._lists_files = True
        self._line(f"{size_text(size):>10}  {safe_path(path)}")

    def end(self, found: list[Duplicate]) -> None:
        """Print a note for each partition that is in several places."""
        if found:
            self._line("")
        for each in found:
            places = ", ".join(map(safe_path, each.paths))
            self._notes([f"{safe(each.topic)}-{each.partition} is in {len(each.paths)} places: {places}"], "", "")

    def _segments(self, segments: Sequence[SegmentInfo]) -> None:
        columns = [
            column for column in SEGMENT_COLUMNS if column.head != "FORMAT" or any(s.magics != (2,) for s in segments)
        ]
        self._column_table(columns, segments)

    def _segment_notes(self, info: SegmentInfo, prefix: str) -> None:
        self._notes(log_notes(info), prefix)
        self._notes([f"there is no .{kind}" for kind in info.missing_indexes], prefix)
        self._lines(f"{prefix}{each}" for each in preallocated(info))

    def _heading(self, text: str, more: str = "") -> None:
        self._lists_files = False
        super()._heading(text and self._name(text) + (f"   {more}" if more else ""))

    def _notes(self, notes: Sequence[str] | Iterator[str], prefix: str, indent: str = "  ") -> None:
        for text in notes:
            self._line(f"{indent}{self._note('!')} {prefix}{text}")

    def _column_table(self, columns: Sequence[Column], rows: Sequence[object]) -> None:
        """Print the rows under their heads; columns in which nothing is known of any row are left out."""
        cells = [(column, [column.cell(row) for row in rows]) for column in columns]
        times = [cell for column, found in cells if column.is_time for cell in found if isinstance(cell, int)]
        date, show = times_of_table(times)
        cells = [
            (column, [show(cell) if column.is_time and isinstance(cell, int) else cell for cell in found])
            for column, found in cells
        ]
        shown = [(column, found) for column, found in cells if any(cell is not None and cell != "" for cell in found)]
        texts = zip(*([UNKNOWN if cell is None else str(cell) for cell in found] for _, found in shown), strict=True)
        head, *lines = aligned(
            [column.head for column, _ in shown],
            list(texts),
            right=[column.head for column, _ in shown if column.flush_right],
            drop=DROPPED_FIRST,
        )
        self._line(self._head(head.rstrip("\n")))
        for line in lines:
            self._write(line)
        if date:
            self._line(f"Times: {date} UTC.")


def _marked(info: PartitionInfo) -> str:
    """Return the name of a partition's directory, with a mark where its log is damaged."""
    name = safe_path(os.path.basename(os.path.abspath(info.path)))
    return f"{name}  !" if info.is_damaged else name


def _last(info: SegmentInfo) -> int | None:
    """Return the last offset of a segment; None where it has none."""
    is_empty = info.end_offset is None or info.end_offset <= (info.base_offset or 0)
    return None if is_empty or info.end_offset is None else info.end_offset - 1


def _entries(index: IndexInfo | None) -> int | None:
    return None if index is None else index.entries
