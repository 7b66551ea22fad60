"""What a writing task does: rows to record batches, in a file for each partition that the driver appends to its log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kdump.disk.durable import append_file, make_directories
from kdump.errors import KdumpError
from kdump.formats.java_text import INT_MAX
from kdump.formats.time_units import wall_clock
from kdump.spark.outgoing import hashes, record_source
from kdump.spark.write_options import WriteOptions, check_topic
from kdump.write.packing import pack

HELD_BYTES = 1 << 20
"""Bytes of a partition's rows that are put together before they become batches."""
HELD_IN_ALL = 256 << 20


class Staged(NamedTuple):
    """A file of batches for one partition, whose offsets all begin at 0; `records` are how many there are."""

    topic: str
    number: int
    path: str
    records: int


class Counts(NamedTuple):
    """How many partitions topics have: those there are, and what was asked for; `replaces`: topics are replaced."""

    existing: dict[str, int]
    asked: int | None
    replaces: bool

    def of(self, topic: str) -> int:
        """Return the number of partitions that keys are spread over."""
        existing = self.existing.get(topic)
        if existing is None or (self.replaces and self.asked is not None):
            return self.asked or 1
        return existing


class Stage:
    """The files of one task in a folder of its own."""

    def __init__(self, folder: str, options: WriteOptions, counts: Counts) -> None:
        self._folder = folder
        self._options = options
        self._counts = counts
        self._held: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._held_bytes: dict[tuple[str, int], int] = {}
        self._records: dict[tuple[str, int], int] = {}
        self._sticky = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Staged]:
        """Write all rows. Raises KdumpError, OSError."""
        make_directories(self._folder)
        for batch in batches:
            if batch.num_rows:
                self._add(_known(batch))
        for key in list(self._held):
            self._flush(key)
        return [Staged(topic, number, self._path(topic, number), n) for (topic, number), n in self._records.items()]

    def _path(self, topic: str, number: int) -> str:
        return os.path.join(self._folder, f"{topic}-{number}.batches")

    def _add(self, rows: pa.RecordBatch) -> None:
        """Hold rows back until there are enough of their partition."""
        for key, part in self._by_partition(rows):
            self._held.setdefault(key, []).append(part)
            held = self._held_bytes[key] = self._held_bytes.get(key, 0) + part.nbytes
            if held >= HELD_BYTES:
                self._flush(key)
        if sum(self._held_bytes.values()) >= HELD_IN_ALL:
            for key in list(self._held):
                self._flush(key)

    def _by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
        for topic, of_topic in self._by_topic(rows):
            numbers = self._numbers(of_topic, topic)
            distinct = pc.unique(numbers).to_pylist()
            for number in distinct:
                if not 0 <= number <= INT_MAX:
                    raise KdumpError(f"{number} cannot be the number of a partition of {topic}")
                whole = len(distinct) == 1
                yield (topic, number), of_topic if whole else of_topic.filter(pc.equal(numbers, number))

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.to.topic is not None:
            yield self._options.to.topic, rows
            return
        topics = rows.column("topic")
        for topic in pc.unique(topics).to_pylist():
            if topic is None:
                raise KdumpError("a row has no topic: there is null in the column topic, and no option topic")
            check_topic(topic)
            yield topic, rows if pc.all(pc.equal(topics, topic)).as_py() else rows.filter(pc.equal(topics, topic))

    def _numbers(self, rows: pa.RecordBatch, topic: str) -> pa.Array:
        """Return the partition of each row: what its column says, else by its key, else whichever is next."""
        numbers = pa.nulls(rows.num_rows, pa.int32())
        if "partition" in rows.schema.names:
            numbers = rows.column("partition")
            if not numbers.null_count:
                return numbers
        count = self._counts.of(topic)
        if "key" in rows.schema.names:
            hashed = hashes(rows.column("key"))
            chosen = pc.subtract(hashed, pc.multiply(pc.divide(hashed, count), count))
            numbers = pc.coalesce(numbers, chosen.cast(pa.int32()))
        if numbers.null_count:
            self._sticky = (self._sticky + 1) % count
            numbers = pc.fill_null(numbers, pa.scalar(self._sticky, pa.int32()))
        return numbers

    def _flush(self, key: tuple[str, int]) -> None:
        held = pa.Table.from_batches(self._held.pop(key)).combine_chunks()
        self._held_bytes[key] = 0
        append_file(self._path(*key), self._packed(held))
        self._records[key] = self._records.get(key, 0) + held.num_rows

    def _packed(self, held: pa.Table) -> Iterator[bytes | bytearray]:
        for rows in held.to_batches():
            names = rows.schema.names
            source = record_source(
                rows.column("value"),
                rows.column("key") if "key" in names else None,
                rows.column("headers") if "headers" in names else None,
                rows.column("timestamp") if "timestamp" in names else None,
                wall_clock(),
            )
            yield from pack(source, self._options.packing)


def _known(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that matter, under their plain names, with binary keys and values."""
    columns = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        small = name.lower()
        if small in ("key", "value"):
            columns[small] = column.cast(pa.binary())
        elif small in ("topic", "partition", "headers", "timestamp"):
            columns[small] = column
    return pa.RecordBatch.from_pydict(columns)
