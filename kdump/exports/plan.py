"""The units of an export: every segment that may hold what is wanted, or its parts where it is large."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote

from kdump.disk.reading import status_of
from kdump.exports.options import ExportOptionError, ExportOptions
from kdump.formats import names
from kdump.query import split_points
from kdump.storage.partition import PartitionLog

PART_BYTES = 64 << 20
"""About how many bytes of a segment a unit has: one segment then keeps many threads busy, and no file is tiny.

Nothing else decides where a segment is cut, so that a run may continue with what another machine began.
"""

UNIT_COST = 1 << 18
"""Bytes whose export takes about as long as what a unit costs beside its bytes."""
GROUP_BYTES = 64 << 20
"""Bytes of units that are exported together, after which a run that is killed has lost nothing."""
GROUPS_EACH = 4


class Unit(NamedTuple):
    """Bytes `start` to `stop` of a segment to export: its .log, whose it is, and the file's size and time when planned.

    Sizes are in bytes, the time in ns. `name` is unique within an export and begins the names of the files that come of
    it; it does not begin with what readers take for hidden, as the names of Kafka's own topics do. `is_last` of the end
    of the partition's last segment, which a broker may have been writing to.
    """

    name: str
    path: str
    topic: str
    partition: int
    is_last: bool
    start: int
    stop: int
    size: int
    modified: int
    more: tuple[Unit, ...] = ()

    @property
    def all(self) -> tuple[Unit, ...]:
        """Itself, and what goes into the same files."""
        return (self._replace(more=()), *self.more)

    @property
    def bytes(self) -> int:
        """How many bytes it has, with `more`."""
        return sum(each.stop - each.start for each in self.all)

    @property
    def paths(self) -> tuple[str, ...]:
        """The logs that its records are of."""
        return tuple(each.path for each in self.all)

    @property
    def source(self) -> dict[str, object]:
        """What tells whether it is still what was exported."""
        source: dict[str, object] = {
            "path": os.path.abspath(self.path),
            "size": self.size,
            "modified": self.modified,
            "start": self.start,
            "stop": self.stop,
        }
        return {**source, "more": [each.source for each in self.more]} if self.more else source


def units_of(log: PartitionLog, options: ExportOptions) -> Iterator[Unit]:
    """Return the units of a partition, in order. Raises OSError."""
    pieces = _pieces(log, options)
    return pieces if options.target_bytes is None else _joined(pieces, options.target_bytes)


def _joined(pieces: Iterable[Unit], target: int) -> Iterator[Unit]:
    """Put neighbours together as long as they have no more bytes than `target`.

    From the log's beginning on, so that a log that grows changes only the last one.
    """
    held: list[Unit] = []
    size = 0
    for piece in pieces:
        if held and size + piece.bytes > target:
            yield held[0]._replace(more=tuple(held[1:]))
            held, size = [], 0
        held.append(piece)
        size += piece.bytes
    if held:
        yield held[0]._replace(more=tuple(held[1:]))


def _pieces(log: PartitionLog, options: ExportOptions) -> Iterator[Unit]:
    topic, partition = (log.name.topic, log.name.partition) if log.name else (_folder(log), -1)
    for segment in options.selection.segments(log, use_indexes=options.use_indexes):
        path = segment.log_path
        info = status_of(path)
        name = f"part-{_stem(log)}-{names.segment_file_name(segment.base_offset, '')}"
        parts = list(split_points.parts(path, info.size, options.target_bytes or PART_BYTES))
        for number, (start, stop) in enumerate(parts):
            part_name = f"{name}-{number:04d}" if len(parts) > 1 else name
            is_last = segment is log.segments[-1] and stop == info.size
            yield Unit(part_name, path, topic, partition, is_last, start, stop, info.size, info.modified_ns)


def segment_name(name: str) -> str:
    """Return the name that the unit of a segment has, or those of its parts begin with, of any of these."""
    return re.sub(r"(?<=-\d{20})-\d{4}$", "", name)


def _folder(log: PartitionLog) -> str:
    return os.path.basename(os.path.abspath(log.path))


def _stem(log: PartitionLog) -> str:
    return quote(os.fsencode(f"{log.name.topic}-{log.name.partition}" if log.name else _folder(log)), safe="")


def plan(logs: Iterable[PartitionLog], options: ExportOptions) -> list[Unit]:
    """Return the units of partitions. Raises OSError, and ExportOptionError where a partition is there twice."""
    units: list[Unit] = []
    places: dict[str, str] = {}
    for log in logs:
        stem = _stem(log)
        if stem in places:
            raise ExportOptionError(
                f"{places[stem]} and {log.path} are the same partition: export them to directories of their own"
            )
        places[stem] = log.path
        units += units_of(log, options)
    return units


def groups(units: Iterable[Unit], workers: int) -> list[list[Unit]]:
    """Return the units, the largest first, small ones together as long as each worker still gets several groups."""
    ordered = sorted(units, key=lambda unit: -unit.bytes)
    total = sum(unit.bytes + UNIT_COST for unit in ordered)
    most = min(GROUP_BYTES, total // (GROUPS_EACH * workers))
    found: list[list[Unit]] = []
    room = 0
    for unit in ordered:
        if room <= 0:
            found.append([])
            room = most
        found[-1].append(unit)
        room -= unit.bytes + UNIT_COST
    return found
