"""Write logs in this process: appends of 1 KB records in 16 KB batches, and a directory of many small partitions.

Beside them kafka-python's builder, which makes the batches and no log of them.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kdump.settings.writing import WritingSettings
from kdump.write.log_dir import LogDirWriter
from kdump.write.log_writer import LogWriter
from kdump.write.packing import Packing
from kdump.write.record_source import Message, RecordSource

RECORDS = 64_000
VALUE = 1000
BATCH = 16384
NOW = 1_700_000_000_000
PARTITIONS, SEGMENT = 100, 100_000
FROM_COLUMNS, FROM_VALUES, BUILDER = "kdump, columns", "kdump, values", "kafka-python's builder"


def rates(folder: Path, divisor: int, repeat: int) -> dict[str, float]:
    """Bytes a second of CPU that are written out of columns, out of Python values, and by kafka-python's builder."""
    numbers = random.Random(5)
    contents = [numbers.randbytes(VALUE) for _ in range(256)]
    count = max(500, RECORDS // divisor)
    messages = [Message(contents[number % 256], b"%08d" % number, NOW + number) for number in range(count)]
    source = RecordSource.of(messages)
    writers: dict[str, Callable[[Path], int]] = {
        FROM_COLUMNS: lambda path: append(path, source),
        FROM_VALUES: lambda path: append(path, messages),
        BUILDER: lambda _path: build(messages),
    }
    turns: dict[str, list[float]] = {name: [] for name in writers}
    for _ in range(repeat):
        for name, write in writers.items():
            with tempfile.TemporaryDirectory(dir=folder) as place:
                start = time.process_time()
                size = write(Path(place))
                turns[name].append(size / (time.process_time() - start))
    return {name: median(values) for name, values in turns.items()}


def append(folder: Path, records: list[Message] | RecordSource) -> int:
    """Append the records to a new log; its size in bytes."""
    with LogWriter.create(str(folder / "orders-0"), clock=lambda: NOW, durable=False) as log:
        log.append(records, Packing(batch_bytes=BATCH))
        return log.active.size


def build(messages: list[Message]) -> int:
    """Make batches with kafka-python; the bytes that they take."""
    from kafka.record.memory_records import MemoryRecordsBuilder

    size = 0
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=BATCH)
    for value, key, timestamp, headers in messages:
        if builder.append(timestamp, key, value, headers) is None:
            builder.close()
            size += len(builder.buffer())
            builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=BATCH)
            builder.append(timestamp, key, value, headers)
    builder.close()
    return size + len(builder.buffer())


def fixture_seconds(folder: Path, divisor: int) -> float:
    """Seconds of CPU for a log directory of `PARTITIONS` partitions with three segments of `SEGMENT` bytes each."""
    data = random.Random(6).randbytes(3 * SEGMENT)
    rows = 3 * SEGMENT // VALUE
    source = RecordSource(
        data,
        array("q", range(0, rows * VALUE, VALUE)),
        array("q", [VALUE]) * rows,
        timestamp=array("q", range(NOW, NOW + rows)),
    )
    place = folder / "fixture"
    config = WritingSettings(segment_bytes=SEGMENT + 5000)
    start = time.process_time()
    with LogDirWriter(str(place), clock=lambda: NOW, durable=False) as log_dir:
        for partition in range(max(1, PARTITIONS // divisor)):
            log_dir.create_log("orders", partition, config, topic_id=bytes(15) + b"\1").append(source)
    seconds = time.process_time() - start
    shutil.rmtree(place)
    return seconds
