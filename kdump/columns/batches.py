"""The batch table of a segment as Arrow record batches: headers and CRCs alone, nothing is decompressed."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kdump.blocks import BatchBlock
from kdump.columns import arrays
from kdump.columns.fields import Field, Numbers, flag_fields, plain, time
from kdump.columns.names import INT32, LABELS, MICROSECONDS, NO_LABELS, Labels, check_names
from kdump.query.selection import EVERYTHING, Selection
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import scan
from kdump.storage.segment import Segment

MAX_ROWS = 1 << 16


def _known(name: str, kind: pa.DataType) -> Field:
    """Return a column whose -1 in a v0/v1 wrapper says that only its content tells: null then."""

    def make(numbers: Numbers) -> pa.Array:
        is_wrapper = pc.and_(pc.less(numbers["count"], arrays.scalar(0)), pc.less(numbers["magic"], arrays.scalar(2)))
        return pc.if_else(is_wrapper, arrays.scalar(None, pa.int64()), numbers[name]).cast(kind, safe=False)

    return Field(kind, (name, "count", "magic"), make)


_FLAG_FIELDS = flag_fields("attributes", "magic")

BATCH_FIELDS: dict[str, Field] = {
    "topic": Field(pa.string()),
    "partition": Field(pa.int32()),
    "base_offset": _known("base_offset", pa.int64()),
    "last_offset": plain("last_offset"),
    "record_count": _known("count", pa.int32()),
    "position": plain("position"),
    "size": plain("size"),
    "magic": plain("magic", INT32),
    "codec": _FLAG_FIELDS["codec"],
    "attributes": plain("attributes", INT32),
    "is_transactional": _FLAG_FIELDS["is_transactional"],
    "is_control": _FLAG_FIELDS["is_control"],
    "timestamp_type": _FLAG_FIELDS["timestamp_type"],
    "base_timestamp": time("base_timestamp"),
    "base_timestamp_us": time("base_timestamp", MICROSECONDS),
    "max_timestamp": time("max_timestamp"),
    "max_timestamp_us": time("max_timestamp", MICROSECONDS),
    "producer_id": plain("producer_id"),
    "producer_epoch": plain("producer_epoch", INT32),
    "base_sequence": plain("base_sequence", INT32),
    "leader_epoch": plain("leader_epoch", INT32),
    "crc": plain("crc"),
    "path": Field(pa.string()),
}
"""The columns of batches, as in kdump.blocks; of a v0/v1 wrapper base offset and count are null."""


class BatchTables:
    """Gathers rows of the batch table into Arrow record batches of certain columns; `schema` is theirs."""

    def __init__(self, names: Sequence[str], labels: Labels = NO_LABELS, *, most_rows: int = MAX_ROWS) -> None:
        """`names` are of BATCH_FIELDS. Raises KdumpError for a column that there is not."""
        check_names(names, BATCH_FIELDS)
        self.schema = pa.schema([pa.field(name, BATCH_FIELDS[name].kind) for name in names])
        self.labels = labels
        self._names = tuple(names)
        self._needs = list(dict.fromkeys(need for name in names for need in BATCH_FIELDS[name].needs))
        self._most_rows = most_rows
        self._begin()

    def add(self, block: BatchBlock, first: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Gather the rows `first` to `stop` - 1 of a block; the record batches that fill up."""
        while first < stop:
            end = min(stop, first + self._most_rows - self._length)
            for name, column in zip(self._needs, self._columns, strict=True):
                column += getattr(block, name)[first:end]
            self._length += end - first
            if self._length == self._most_rows:
                yield self.take()
            first = end

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the last record batch, if anything is left for one."""
        if self._length:
            yield self.take()

    def take(self) -> pa.RecordBatch:
        """Return what has been gathered so far."""
        length = self._length
        numbers = {
            name: arrays.integers(column, length) for name, column in zip(self._needs, self._columns, strict=True)
        }
        columns = []
        for name in self._names:
            field = BATCH_FIELDS[name]
            if name in LABELS:
                columns.append(arrays.constant(getattr(self.labels, name), field.kind, length))
            else:
                assert field.make is not None
                columns.append(field.make(numbers))
        self._begin()
        return arrays.table(columns, self.schema, length)

    def _begin(self) -> None:
        self._length = 0
        self._columns = [array("q") for _ in self._needs]


def read_batches(
    segment: Segment,
    log: LogFile,
    tables: BatchTables,
    selection: Selection = EVERYTHING,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the batches in bytes `start` (a batch's first) to `stop` that may hold what is wanted, and the damage.

    As for read_records, `tables.rest()` gives what is left. Raises OSError.
    """
    for part in scan(log, segment.base_offset, start, stop, whole=False, gathers=True):
        if isinstance(part, Damage):
            yield part
            continue
        block, first, end = part
        for row, row_end in selection.runs(block, first, end):
            yield from tables.add(block, row, row_end)
        if selection.is_behind(block, end - 1):
            return
