"""Log directories to read, and the rows that have to come out of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kdump.formats.codecs import ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.settings.writing import WritingSettings
from kdump.spark.bounds import interval_of
from kdump.spark.options import ReadOptions, read_options
from kdump.spark.places import find_partitions
from kdump.spark.splits import Range, pack, ranges_of, task_size
from kdump.write.log_writer import LogWriter
from kdump.write.record_source import Message
from tests.columns.reading import Row

NOW = 1_700_000_000_000
CONFIG = WritingSettings(segment_bytes=4000, index_interval_bytes=300)


def messages(count: int, first: int = 0) -> list[Message]:
    """Records with keys, headers and nulls, a second between them."""
    return [
        Message(
            None if at % 7 == 3 else b"value %d" % at,
            None if at % 5 == 0 else b"key %d" % (at % 10),
            NOW + 1000 * at,
            ((b"h", b"%d" % at), (b"none", None)) if at % 3 == 0 else (),
        )
        for at in range(first, first + count)
    ]


def append(log: LogWriter, count: int) -> None:
    """Append records, four to a batch; their numbers go on from the end offset."""
    end = log.end_offset + count
    while log.end_offset < end:
        log.append(messages(min(4, end - log.end_offset), log.end_offset))


def new_log(path: Path, count: int = 0, *, start_offset: int = 0, config: WritingSettings = CONFIG) -> LogWriter:
    """A log of several small segments, open."""
    clock = iter(range(NOW, 1 << 62))
    log = LogWriter.create(
        str(path),
        config,
        start_offset=start_offset,
        topic_id=b"0123456789abcdef",
        clock=lambda: next(clock),
        durable=False,
    )
    append(log, count)
    return log


def log_directory(path: Path, **counts: int) -> Path:
    """A log directory with a partition `topic_number` of so many records each."""
    for name, count in counts.items():
        topic, _, number = name.rpartition("_")
        new_log(path / f"{topic}-{number}", count).close()
    return path


def one_segment(path: Path, batches: Iterable[bytes], base_offset: int = 0) -> Path:
    """A partition directory of a segment without indexes."""
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
    return path


def packed_batch(offset: int, count: int) -> bytes:
    """A compressed batch of records."""
    records = [NewRecord(at, NOW, None, b"v%d" % at) for at in range(offset, offset + count)]
    return encode_batch(records, NewBatch(ZSTD))


def options_of(*paths: Path | str, **options: Any) -> ReadOptions:
    """The options of a read of some paths; values as Python has them."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    return read_options({"paths": json.dumps([os.fspath(path) for path in paths]), **texts})


def ranges(options: ReadOptions) -> list[Range]:
    """What a read would read."""
    return [each for one in find_partitions(options) for each in ranges_of(one, interval_of(one, options))]


def tasks(options: ReadOptions) -> list[list[Range]]:
    """The tasks of a read on a machine of two cores."""
    found = ranges(options)
    return list(pack(found, task_size(sum(each.size for each in found), 2, options.min_partitions)))


def rows_of(options: ReadOptions) -> Iterator[dict[str, Any]]:
    """The rows of a read, its tasks one after the other."""
    import pyarrow as pa

    from kdump.spark.tables import read_ranges

    for task in tasks(options):
        for part in read_ranges(task, options):
            for at, field in enumerate(part.schema):
                if pa.types.is_timestamp(field.type):
                    part = part.set_column(at, field.name, part.column(at).cast(pa.int64()))
            yield from part.to_pylist()


def row_of(found: dict[str, Any]) -> Row:
    """A row as the core gives it, its timestamp in microseconds (0: null)."""
    headers = found["headers"]
    pairs = None if headers is None else tuple((header["key"], header["value"]) for header in headers)
    return Row(found["offset"], found["timestamp"] or 0, found["key"], found["value"], pairs)
