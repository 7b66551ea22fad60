"""`kdump ls` for people: aligned tables, and below them what is left over or out of place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import listed, number_words, offset_range, size_text
from kdump.query.inventory import FileInfo, LogDirectoryInfo, PartitionInfo, Placement, replication_counts
from kdump.storage.broker import Duplicate
from kdump.storage.facts import SegmentInfo

from ..shell.line_budget import LineBudget, unlisted
from ..shell.output import Style
from ..shell.tables import TextPrinter, aligned, times_of_table

UNKNOWN = "-"
MAX_NOTES = 10
"""Remarks about partitions in the table of a log directory."""

NAMES_SHOWN = 3
LEFTOVERS = {
    names.DELETED: "waiting for deletion (.deleted)",
    names.CLEANED: "of an unfinished cleaning (.cleaned)",
    names.SWAP: "of a replacement of segments that was not finished (.swap)",
    names.TMP: "of an unfinished write (.tmp)",
    names.PART: "of an unfinished snapshot (.part)",
}

Cell = str | int | None

DROPPED_FIRST = (
    "TXNINDEX", "FORMAT", "RECORDS", "FIRST RECORD", "CODECS", "CLEANED TO", "RECOVERY POINT", "EPOCH", "USED",
    "HIGH WM", "TIMEINDEX", "INDEX",
)  # fmt: skip
"""Columns that a narrow terminal does not show, in this order."""


class Column(NamedTuple):
    """A column of a table: its head, and what a row's cell says. Numbers, sizes and times are set flush right."""

    head: str
    cell: Callable[..., Cell]
    flush_right: bool = False
    is_time: bool = False
    """Whether the cells are timestamps (ms)."""


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
    Column("INDEX", lambda info: info.offset_index and info.offset_index.entries, flush_right=True),
    Column("TIMEINDEX", lambda info: info.time_index and info.time_index.entries, flush_right=True),
    Column("TXNINDEX", lambda info: info.txn_index and info.txn_index.entries, flush_right=True),
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
        self._heading(safe_path(info.path), _directory_words(info, partitions))
        self._lines(_directory_lines(info))
        self._notes(_directory_notes(info), "")
        if lists_segments:
            for partition in partitions:
                self.partition(partition, lists_segments=True)
        elif partitions:
            self._line("")
            self._partitions(partitions)
            if any(info.is_damaged for info in partitions):
                self._line(f"!: damaged, see {command_line('kdump', 'doctor', info.path)}")
            remote = sum(partition.remote_start_offset is not None for partition in partitions)
            if remote:
                tiered = number_words(remote, "partition")
                self._line(f"Tiered: of {tiered} what is before LOG START is in remote storage.")
            short = _short_words(partitions)
            if short:
                self._line(short)
            noted = (each for partition in _damaged_first(partitions) for each in _listed_notes(partition))
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
        chosen = {id(info) for info in _damaged_first(partitions) if self._rows.takes()}
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
        self._lines(_partition_lines(info))
        if lists_segments and info.segments:
            self._line("")
            self._segments(info.segments)
        self._notes(_partition_notes(info), "")
        for segment in info.segments:
            self._segment_notes(segment, f"{_file_name(segment)}: ")

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
        self._notes(_log_notes(info), prefix)
        self._notes([f"there is no .{kind}" for kind in info.missing_indexes], prefix)
        self._lines(f"{prefix}{each}" for each in _preallocated(info))

    def _heading(self, text: str, more: str = "") -> None:
        self._lists_files = False
        super()._heading(text and self._name(text) + (f"   {more}" if more else ""))

    def _notes(self, notes: Sequence[str] | Iterator[str], prefix: str, indent: str = "  ") -> None:
        for text in notes:
            self._line(f"{indent}{self._note('!')} {prefix}{text}")

    def _column_table(self, columns: Sequence[Column], rows: Sequence[object]) -> None:
        """Print the rows under their heads; columns in which nothing is known of any row are left out."""
        if not rows:
            return
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
            right=[column.head for column, _ in shown if column.flush_right or column.is_time],
            drop=DROPPED_FIRST,
        )
        self._line(self._head(head.rstrip("\n")))
        for line in lines:
            self._write(line)
        if date:
            self._line(f"Times: {date} UTC.")


def _damaged_first(partitions: list[PartitionInfo]) -> list[PartitionInfo]:
    return sorted(partitions, key=lambda info: not info.is_damaged)


def _marked(info: PartitionInfo) -> str:
    """Return the name of a partition's directory, with a mark where its log is damaged."""
    name = safe_path(os.path.basename(os.path.abspath(info.path)))
    return f"{name}  !" if info.is_damaged else name


def _last(info: SegmentInfo) -> int | None:
    """Return the last offset of a segment; None where it has none."""
    return None if info.end_offset is None or info.end_offset <= info.base_offset else info.end_offset - 1


def _directory_words(info: LogDirectoryInfo, partitions: list[PartitionInfo]) -> str:
    """Return whose the directory is, how it was left, how much is in it."""
    node = [] if info.node_id is None else [f"{'controller' if info.is_controller else 'broker'} {info.node_id}"]
    has_epoch = info.broker_epoch is not None and info.broker_epoch >= 0  # -1 is written without KRaft
    epoch = f" (broker epoch {info.broker_epoch})" if has_epoch else ""
    shutdown = f"clean shutdown{epoch}" if info.clean_shutdown else "unclean shutdown"
    if info.never_started:
        shutdown = "formatted, never started"
    if info.has_broker:
        shutdown = "running"
    left = [*node, shutdown] if info.has_broker or not info.is_controller else node  # a controller leaves no marker
    shown = number_words(len(partitions), "partition")
    if len(partitions) < info.partition_count:
        shown = f"{len(partitions)} of {number_words(info.partition_count, 'partition')}"
    segments = sum(len(partition.segments) for partition in partitions)
    size = sum(partition.size for partition in partitions)
    return f"{', '.join(left)}; {shown}, {number_words(segments, 'segment')}, {size_text(size)}"


def _directory_lines(info: LogDirectoryInfo) -> Iterator[str]:
    """Yield whose the directory is, besides what its heading says."""
    whose = (("cluster", info.cluster_id), ("directory id", info.directory_id), ("Kafka", info.release))
    if text := ", ".join(f"{what} {safe(which)}" for what, which in whose if which is not None):
        yield text


def _directory_notes(info: LogDirectoryInfo) -> Iterator[str]:
    """Yield what is left over or out of place in a log directory."""
    if info.not_partitions:
        yield f"{_listed(info.not_partitions)}: not the name of a partition, so the broker does not start"
    if info.missing:
        missing = _listed([f"{topic}-{number}" for topic, number in info.missing])
        yield f"{missing}: in a checkpoint, but there is no such directory"
    yield from _leftover_notes(info.leftovers)
    yield from map(safe, info.problems)


def _partition_lines(info: PartitionInfo) -> Iterator[str]:
    """Yield the facts about a partition."""
    if info.state:
        yield f"state {info.state}"
    if info.topic_id:
        yield f"topic id {info.topic_id}"
    yield ", ".join(
        (
            f"log start offset {info.log_start_offset}",
            f"log end offset {'unknown' if info.end_offset is None else info.end_offset}",
            *((number_words(info.records, "record"),) if info.records is not None else ()),
            f"{size_text(info.size)} in {number_words(len(info.segments), 'segment')}",
        )
    )
    said = {
        "high watermark": info.checkpoints.high_watermark,
        "recovery point": info.checkpoints.recovery_point,
        "log start checkpoint": info.checkpoints.log_start,
        "cleaned to": info.checkpoints.cleaner,
    }
    checkpoints = [f"{name} {offset}" for name, offset in said.items() if offset is not None]
    if checkpoints:
        yield ", ".join(checkpoints)
    if info.remote_start_offset is not None:
        yield f"in remote storage: offsets {offset_range(info.remote_start_offset, info.log_start_offset - 1)}"
    if info.leader_epochs:
        last = info.leader_epochs[-1]
        number = number_words(len(info.leader_epochs), "leader epoch")
        yield f"{number}, the last is {last.epoch} from offset {last.start_offset}"
    if info.producer_snapshots:
        last_snapshot = max(file.offset or 0 for file in info.producer_snapshots)
        yield f"{number_words(len(info.producer_snapshots), 'producer snapshot')}, the last at offset {last_snapshot}"
    if info.placement and info.placement.replicas is not None:
        yield _placed(info.placement, info.placement.replicas)
    for file in info.kraft_snapshots:
        yield f"KRaft snapshot {safe(file.name)}, {size_text(file.size)}"


def _listed_notes(info: PartitionInfo) -> Iterator[str]:
    """Yield the remarks about a partition in a table of several, with its name."""
    folder = safe_path(os.path.basename(info.path))
    yield from (f"{folder}: {each}" for each in _partition_notes(info))
    for segment in info.segments:
        yield from (f"{folder}/{_file_name(segment)}: {each}" for each in _log_notes(segment))


def _partition_notes(info: PartitionInfo) -> Iterator[str]:
    """Yield what is left over or out of place in a partition directory."""
    if not info.segments:
        yield "no segments"
    yield from _leftover_notes(info.leftovers)
    if info.replaced:
        size = size_text(sum(file.size for file in info.replaced))
        listed = _listed([file.name for file in info.replaced])
        yield f"{number_words(len(info.replaced), 'file')} that .swap files replace, {size}: {listed}"
    if info.orphans:
        yield f"{_listed([file.name for file in info.orphans])}: an index without its .log"
    if info.unexpected:
        yield f"{_listed([file.name for file in info.unexpected])}: not a name that Kafka gives"
    if info.placement:
        yield from _placement_notes(info, info.placement)
    yield from map(safe, info.problems)


def _short_words(partitions: Sequence[PartitionInfo]) -> str:
    """Return how many partitions lack in-sync replicas; nothing where none does, or no metadata tell."""
    short, low = replication_counts(partitions)
    if not short and not low:
        return ""
    below = f", {low} below min.insync.replicas" if low else ""
    return f"In the cluster: {number_words(short, 'partition')} under-replicated{below}."


def _placed(placement: Placement, replicas: tuple[int, ...]) -> str:
    leader = "none" if placement.leader is None else placement.leader
    brokers, isr = (", ".join(map(str, numbers)) for numbers in (replicas, placement.isr or ()))
    remarks = ""
    if placement.leader is not None and len(replicas) > 1:
        remarks = f", after it {'nobody' if placement.next_leader is None else placement.next_leader}"
    remarks += "; under-replicated" if placement.is_under_replicated else ""
    if placement.is_under_min_isr:
        remarks += f"; below min.insync.replicas ({placement.min_insync})"
    return f"in the cluster: replicas {brokers}; in sync {isr or 'none'}; leader {leader}{remarks}"


def _placement_notes(info: PartitionInfo, placement: Placement) -> Iterator[str]:
    if placement.stray:
        yield f"stray, a broker will set it aside: {placement.stray}"
        if placement.topic is None and placement.topic_id:
            yield f"the topic {safe(info.topic or '')} of the cluster has the id {placement.topic_id}"
    if placement.topic not in (None, info.topic):
        cut = "named in full" if info.state else "another name than the directory's"
        yield f"its topic id is that of {safe(placement.topic or '')} in the cluster, {cut}"


def _log_notes(info: SegmentInfo) -> Iterator[str]:
    """Yield what is wrong with a .log."""
    if info.error:
        yield f"cannot be read: {info.error.strerror or info.error}"
    if info.has_zero_tail:
        yield f"zeros from byte {info.used_size} on: preallocated, or never written"
    for damage in info.damage[:NAMES_SHOWN]:
        yield f"byte {damage.position}: {safe(damage.text)}"
    if len(info.damage) > NAMES_SHOWN:
        yield f"{len(info.damage) - NAMES_SHOWN} more damaged places"


def _preallocated(info: SegmentInfo) -> Iterator[str]:
    """Yield what is normal of the segment that is written to: for listings of segments."""
    kinds = [f".{kind}" for kind in info.preallocated_indexes]
    if kinds:
        are, them = ("is", "it") if len(kinds) == 1 else ("are", "them")
        yield f"{' and '.join(kinds)} {are} still preallocated: the broker trims {them} at its next start"


def _leftover_notes(files: Sequence[FileInfo]) -> Iterator[str]:
    for state, words in LEFTOVERS.items():
        found = [file for file in files if file.state == state]
        if found:
            size = sum(file.size for file in found)
            listed = _listed([file.name for file in found])
            yield f"{number_words(len(found), 'file')} {words}, {size_text(size)}: {listed}"


def _listed(found: Sequence[str]) -> str:
    return listed([safe_path(name) for name in found], NAMES_SHOWN)


def _file_name(info: SegmentInfo) -> str:
    """Return the name of a segment's file; safe to print."""
    return safe_path(os.path.basename(info.path))
