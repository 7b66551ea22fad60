"""Export some units: read their records, spread them over files, publish these, and note that they are done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa

from kdump.columns import Labels, RecordTables, read_records
from kdump.columns.arrays import floor_divide, scalar
from kdump.columns.names import HEADERS
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError
from kdump.exports.files import RowFile, create
from kdump.exports.journal import Journal, Lost, Outcome, Result, Written
from kdump.exports.options import DATE, PARTITION, TOPIC, ExportOptions
from kdump.exports.plan import Unit
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.txns.isolation import isolated
from kdump.txns.states import TransactionStates

MAX_OPEN = 32
MAX_HELD = 96 << 20
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive, Spark and others give to the directory of what has no value; no timestamp is no date."""

_TIME = "timestamp"
_DAY_MS = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, as days since 1970

Progress = Callable[[str, int], None]


class StoppedError(KdumpError):
    """The export was asked to stop."""


def export_units(
    units: Iterable[Unit], folder: str, options: ExportOptions, progress: Progress = lambda _, __: None
) -> list[Outcome]:
    """Export units into a directory whose journal is open: what came of each, or why there is nothing.

    Their files go to the disk together, and get their names then.
    """
    units = list(units)
    journal = Journal(folder, rights_of(path for unit in units for path in unit.paths))
    outcomes: list[Outcome] = []
    made: list[_Made] = []
    for unit in units:
        try:
            made.append(_make(unit, journal, options, progress))
        except (KdumpError, OSError) as error:
            outcomes.append((unit, error))
    try:
        journal.sync([file.temporary for each in made for file in each.files])
    except OSError as error:
        return [*outcomes, *((each.unit, error) for each in made)]
    for each in made:
        try:
            outcomes.append((each.unit, _publish(each, journal)))
        except OSError as error:
            outcomes.append((each.unit, error))
    return outcomes


@dataclass(slots=True)
class _Open:
    """A file of a unit, which is being written or complete."""

    path: str
    temporary: str
    file: RowFile
    rows: int = 0


class _Made(NamedTuple):
    """A unit whose files are complete but have no names."""

    unit: Unit
    rows: int
    files: list[_Open]
    damage: list[Lost]


def _make(unit: Unit, journal: Journal, options: ExportOptions, progress: Progress) -> _Made:
    output = _Output(unit, journal, options)
    damage: list[Lost] = []
    rows = 0
    try:
        for piece in unit.all:
            for part in _parts(piece, options, output.names, progress):
                if isinstance(part, Damage):
                    damage.append(Lost(part.position, part.resumed, part.text, os.path.abspath(piece.path)))
                    continue
                rows += part.num_rows
                output.add(part)
        return _Made(unit, rows, output.close(), damage)
    except BaseException:
        output.abandon()
        raise


def _publish(made: _Made, journal: Journal) -> Result:
    """Give the files their names, and note that the unit is done. Raises OSError."""
    written = []
    for each in made.files:
        size = os.path.getsize(each.temporary)
        journal.publish(each.temporary, each.path)
        written.append(Written(each.path, each.rows, size))
    result = Result(made.rows, tuple(sorted(written)), tuple(made.damage))
    journal.complete(made.unit, result)
    return result


def _parts(
    unit: Unit, options: ExportOptions, names: tuple[str, ...], progress: Progress
) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the wanted records of a segment as columns, and what cannot be read."""
    segment = Segment(unit.path)
    labels = Labels(unit.topic, unit.partition, unit.path)
    transactions = transactions_in(os.path.dirname(unit.path))
    decoding = (options.decoding or {}).get(unit.topic)
    needed = names if decoding is None or HEADERS in names else (*names, HEADERS)
    tables = RecordTables(needed, labels, control=options.control, transactions=transactions)
    chosen = isolated(options.selection, partition_of(segment), options.isolation, transactions)
    with segment.open_log() as log:
        start = max(unit.start, chosen.start(segment, log) if options.use_indexes else 0)
        if start >= unit.stop:
            return
        reported = 0
        for part in read_records(segment, log, tables, chosen, start, unit.stop, limit=options.limit):
            if not (isinstance(part, Damage) and _is_preallocated(part, unit)):
                yield part if isinstance(part, Damage) or decoding is None else decoding.decode(part, names)
            progress(unit.path, log.bytes_read - reported)
            reported = log.bytes_read
    for rows in tables.rest():
        yield rows if decoding is None else decoding.decode(rows, names)


def partition_of(segment: Segment) -> PartitionLog:
    """Return the partition directory that a segment is in. Raises OSError."""
    return PartitionLog(os.path.dirname(segment.log_path))


@lru_cache(64)
def transactions_in(folder: str) -> TransactionStates:
    """Return the transactions of a partition directory, shared by its segments; found when first asked for."""
    return TransactionStates(PartitionLog(folder))


def _is_preallocated(damage: Damage, unit: Unit) -> bool:
    """Return whether it is no loss but the zeros that a preallocated last segment ends with."""
    return unit.is_last and damage.kind is DamageKind.ZEROS and damage.resumed >= unit.size


class _Output:
    """The files of a unit: one, or one for each date and as often as too many were open."""

    def __init__(self, unit: Unit, journal: Journal, options: ExportOptions) -> None:
        self._unit = unit
        self._journal = journal
        self._options = options
        self._rights = rights_of(unit.paths)
        self._open: dict[str, _Open] = {}
        self._closed: list[_Open] = []
        self._numbers: dict[str, int] = {}
        self._by_date = DATE in options.by
        hidden = (_TIME,) if self._by_date and _TIME not in options.file_columns else ()
        self.names = (*options.file_columns, *hidden)
        """The columns to read: those of the files and, last, what else decides where a row goes."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Put rows into their files. Raises OSError."""
        if not self._by_date:
            self._put("", rows)
            return
        hidden = self.names[len(self._options.file_columns) :]
        kept = rows.select([name for name in rows.schema.names if name not in hidden])
        for date, picked in by_date(rows.column(self.names.index(_TIME))):
            self._put(date, kept if picked is None else kept.filter(picked))

    def _put(self, date: str, rows: pa.RecordBatch) -> None:
        target = self._open.pop(date, None)
        if target is None:
            if len(self._open) >= MAX_OPEN:
                self._close(next(iter(self._open)))
            target = self._create(date, rows.schema)
        self._open[date] = target  # the one that was used last stands last
        target.rows += rows.num_rows
        target.file.add(rows)
        if sum(each.file.held for each in self._open.values()) > MAX_HELD:
            max(self._open.values(), key=lambda each: each.file.held).file.flush()

    def _create(self, date: str, schema: pa.Schema) -> _Open:
        number = self._numbers[date] = self._numbers.get(date, -1) + 1
        name = f"{self._unit.name}.{number:04d}{self._options.suffix}"
        temporary = self._journal.temporary(f"{name}.{quote(date, safe='')}" if date else name)
        file = create(temporary, schema, self._options, self._rights)
        return _Open(os.path.join(self._folder(date), name), temporary, file)

    def _folder(self, date: str) -> str:
        values = {TOPIC: self._unit.topic, PARTITION: str(self._unit.partition), DATE: date}
        levels = (f"{level}={quote(os.fsencode(values[level]), safe='')}" for level in self._options.by)
        return os.path.join("", *levels)

    def _close(self, date: str) -> None:
        target = self._open.pop(date)
        self._closed.append(target)
        target.file.close()

    def close(self) -> list[_Open]:
        """End the files. Raises OSError."""
        for date in list(self._open):
            self._close(date)
        return self._closed

    def abandon(self) -> None:
        """Close the files; what is left of them is removed when the export goes on."""
        for each in self._open.values():
            with suppress(OSError):
                each.file.close()


def by_date(times: pa.Array) -> Iterator[tuple[str, pa.Array | None]]:
    """Yield the dates (UTC) of timestamps in ms, each with a mask of its rows, which is None where it is that of all.

    What has no timestamp (-1), or one beyond the years 1 to 9999, has no date.
    """
    import pyarrow.compute as pc

    numbers = times.cast(pa.int64())
    days = floor_divide(numbers, _DAY_MS)
    in_range = pc.and_(pc.greater_equal(days, scalar(_FIRST_DAY)), pc.less_equal(days, scalar(_LAST_DAY)))
    has_date = pc.and_(pc.not_equal(numbers, scalar(-1)), in_range)
    days = pc.if_else(has_date, days, scalar(None, pa.int64()))
    different = pc.unique(days)
    for day in different:
        name = NO_DATE if not day.is_valid else pc.strftime(day.cast(pa.int32()).cast(pa.date32()), "%Y-%m-%d").as_py()
        if len(different) == 1:
            yield name, None
        else:
            yield name, pc.equal(days, day) if day.is_valid else pc.is_null(days)
