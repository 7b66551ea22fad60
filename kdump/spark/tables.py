"""What a task gives to Spark: Arrow record batches of the read's columns, large enough to be worth handing over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from kdump.columns import BATCH_FIELDS, RECORD_FIELDS, BatchTables, Labels, RecordTables, read_batches, read_records
from kdump.columns.decoding import json_columns
from kdump.columns.names import KEY, VALUE, utf8
from kdump.errors import KdumpError
from kdump.query.selection import Selection
from kdump.spark.arrow_types import arrow_type
from kdump.spark.decoding import payload_decoder
from kdump.spark.options import ReadOptions, RowKind
from kdump.spark.schema import ADDED, COLUMNS, DAMAGE, DECODED, column_names
from kdump.spark.splits import Range
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.txns.isolation import isolated
from kdump.txns.isolation_level import Isolation

ENOUGH_BYTES = 4 << 20
ENOUGH_ROWS = 1 << 16

DAMAGE_TYPE = pa.struct(
    [pa.field("position", pa.int64()), pa.field("resumed", pa.int64()), pa.field("message", pa.string())]
)
Lost = dict[str, int | str]
"""A value of DAMAGE_TYPE."""


class DataLossError(KdumpError):
    """Records that were asked for cannot be read."""


def read_ranges(ranges: Iterable[Range], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some ranges, records or batches.

    Raises DataLossError where something cannot be read, unless the options say to go on.
    """
    names = column_names(options)
    tables = _Tables(names, options)
    for each in ranges:
        yield from tables.read(each)
    yield from tables.merge(last=True)


class _Tables:
    """Puts the columns in the order of the read, and small record batches together."""

    def __init__(self, names: tuple[str, ...], options: ReadOptions) -> None:
        self._names = names
        self._options = options
        self._known = COLUMNS[options.kind]
        self._small: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def read(self, each: Range) -> Iterator[pa.RecordBatch]:
        segment = Segment(each.path)
        labels = Labels(each.topic, each.number, each.path)
        try:
            with segment.open_log() as log:
                for part in self._parts(segment, log, each, labels):
                    if isinstance(part, pa.RecordBatch):
                        yield from self._add(self._ordered(part))
                    elif not (each.is_last and is_zero_tail(part, log)):
                        found = {"position": part.position, "resumed": part.resumed, "message": part.text}
                        yield from self._damage(found, labels)
        except OSError as error:
            stop = each.start if each.stop is None else each.stop
            text = error.strerror or str(error)
            yield from self._damage({"position": each.start, "resumed": stop, "message": text}, labels)

    def _parts(
        self, segment: Segment, log: LogFile, each: Range, labels: Labels
    ) -> Iterator[pa.RecordBatch | Damage]:
        selection = Selection(start_offset=each.interval.start, stop_offset=each.interval.stop)
        if self._options.isolation is not Isolation.READ_UNCOMMITTED:
            selection = isolated(selection, PartitionLog(os.path.dirname(each.path)), self._options.isolation)
        fields = [self._known[name].field for name in self._names if name != DAMAGE]
        if self._options.kind is RowKind.RECORDS:
            decoded = [name for name in self._names if self._is_decoded(name)]
            needed = self._needed(decoded) if decoded else fields
            records = RecordTables(needed, labels, control=self._options.control)
            for part in read_records(
                segment, log, records, selection, each.start, each.stop, limit=self._options.limit
            ):
                yield self._decoded(part, labels) if decoded and isinstance(part, pa.RecordBatch) else part
            for part in records.rest():
                yield self._decoded(part, labels) if decoded else part
        else:
            batches = BatchTables(fields, labels)
            yield from read_batches(segment, log, batches, selection, each.start, each.stop)
            yield from batches.rest()

    def _is_decoded(self, name: str) -> bool:
        """Return whether a column is made of keys or values by their schemas."""
        typed = self._options.typed
        return name in DECODED or name in ADDED or (typed is not None and name in typed.types)

    def _needed(self, decoded: list[str]) -> list[str]:
        """Return the columns to read, where some are decoded from others."""
        plain = [self._known[name].field for name in self._names if not self._is_decoded(name) and name != DAMAGE]
        sources = {KEY if name.startswith(KEY) else VALUE for name in decoded}
        return list(dict.fromkeys((*plain, *sorted(sources), "headers")))

    def _decoded(self, part: pa.RecordBatch, labels: Labels) -> pa.RecordBatch:
        """Return the columns of the read, with keys and values as they decode by their schemas."""
        names = [name for name in self._names if name != DAMAGE]
        typed = self._options.typed
        found: dict[str, pa.Array] = {}
        if typed is not None:
            made = typed.of_topic(labels.topic).decoded(part, part.schema.names)
            found = {name: made[field] for name, field in ADDED.items() if field in made}
            found |= {name: made[name] for name in typed.types if name in made}
        if any(name in DECODED and name not in found for name in names):
            made = json_columns(payload_decoder(self._options), labels.topic or "").decoded(part, part.schema.names)
            found = {name: made[each.field] for name, each in DECODED.items() if each.field in made} | found
        columns = [found[name] if name in found else part.column(self._known[name].field) for name in names]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _ordered(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """Return a record batch under Spark's names, with a column for damage where one is asked for."""
        columns = list(part.columns)
        if DAMAGE in self._names:
            columns.insert(self._names.index(DAMAGE), pa.nulls(part.num_rows, DAMAGE_TYPE))
        return pa.RecordBatch.from_arrays(columns, names=list(self._names))

    def _damage(self, damage: Lost, labels: Labels) -> Iterator[pa.RecordBatch]:
        if self._options.fails:
            raise DataLossError(
                f"{labels.path} at byte {damage['position']}: {damage['message']}"
                " (failOnDataLoss=false continues after it; kdump verify shows more)"
            )
        if DAMAGE in self._names:
            yield from self._add(_damage_row(damage, labels, self._names, schema_of(self._names, self._options)))

    def _add(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Hand over what is large; keep what is small until it is enough, in order."""
        if part.num_rows >= ENOUGH_ROWS or part.nbytes >= ENOUGH_BYTES:
            yield from self.merge(last=True)
            yield part
            return
        self._small.append(part)
        self._rows += part.num_rows
        self._bytes += part.nbytes
        yield from self.merge()

    def merge(self, *, last: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield what was kept, as one record batch, if it is enough or the last."""
        if self._small and (last or self._rows >= ENOUGH_ROWS or self._bytes >= ENOUGH_BYTES):
            if len(self._small) == 1:
                yield self._small[0]
            else:
                yield from pa.Table.from_batches(self._small).combine_chunks().to_batches()
            self._small = []
            self._rows = self._bytes = 0


def schema_of(names: tuple[str, ...], options: ReadOptions) -> pa.Schema:
    """Return the Arrow schema of records or batches with these columns."""
    fields = RECORD_FIELDS if options.kind is RowKind.RECORDS else BATCH_FIELDS
    known = COLUMNS[options.kind]

    def kind(name: str) -> pa.DataType:
        if name == DAMAGE:
            return DAMAGE_TYPE
        if options.typed is not None and name in options.typed.types:
            return options.typed.types[name]
        if name in ADDED or name in DECODED:
            return arrow_type(known[name].ddl)
        return fields[known[name].field].kind

    return pa.schema([pa.field(name, kind(name)) for name in names])


def _damage_row(damage: Lost, labels: Labels, names: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    row: dict[str, object] = dict.fromkeys(names)
    row[DAMAGE] = damage
    for name, value in zip(("topic", "partition", "path"), labels, strict=True):
        if name in row:
            row[name] = utf8(value) if isinstance(value, str) else value
    return pa.RecordBatch.from_pylist([row], schema=schema)
