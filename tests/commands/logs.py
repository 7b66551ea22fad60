"""Partition directories for tests, with the index files that a broker would have written beside the logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)

EPOCH = 1_700_000_000_000
STEP = 10
INDEX_INTERVAL = 4096


def record(offset: int, *, value_size: int = 0) -> NewRecord:
    """The record that every log of this module has at an offset; its time is EPOCH + STEP * offset."""
    value = b'{"n":%d}' % offset
    headers = ((b"parity", b"odd" if offset % 2 else b"even"),) if offset % 3 == 0 else ()
    return NewRecord(offset, EPOCH + STEP * offset, b"key-%d" % (offset % 7), value.ljust(value_size), headers)


def batch(first: int, count: int, *, value_size: int = 0, attributes: int = 0, producer_id: int = -1) -> bytes:
    """A batch of the records from offset `first` on."""
    records = [record(offset, value_size=value_size) for offset in range(first, first + count)]
    sequence = -1 if producer_id < 0 else first
    return encode_batch(
        records,
        NewBatch(attributes, producer_id, 0 if producer_id >= 0 else -1, sequence, leader_epoch=5),
    )


def write_segment(folder: Path, base_offset: int, batches: Sequence[bytes], *, indexes: bool = True) -> Path:
    """Write a .log and, from what the batches' headers say, its .index and .timeindex; the path of the .log."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    if not indexes:
        return path
    offsets: list[OffsetIndexEntry] = []
    times: list[TimeIndexEntry] = []
    position = since_entry = 0
    largest = TimeIndexEntry(-1, base_offset)
    for data in batches:
        last_offset = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big")
        timestamp = int.from_bytes(data[35:43], "big", signed=True)
        if timestamp > largest.timestamp:
            largest = TimeIndexEntry(timestamp, last_offset)
        if since_entry > INDEX_INTERVAL:
            offsets.append(OffsetIndexEntry(last_offset, position))
            _append(times, largest)
            since_entry = 0
        position += len(data)
        since_entry += len(data)
    _append(times, largest)
    path.with_suffix(".index").write_bytes(encode_offset_entries(offsets, base_offset))
    path.with_suffix(".timeindex").write_bytes(encode_time_entries(times, base_offset))
    return path


def _append(times: list[TimeIndexEntry], entry: TimeIndexEntry) -> None:
    if entry.timestamp >= 0 and (not times or times[-1].timestamp < entry.timestamp):
        times.append(entry)


def write_partition(
    folder: Path,
    *,
    segments: int = 3,
    batches: int = 4,
    records: int = 5,
    value_size: int = 0,
    codecs: Iterable[int] = (0,),
) -> Path:
    """Segments of `batches` batches of `records` records each, with offsets from 0 on; the codecs take turns."""
    codecs = tuple(codecs)
    first = 0
    for _ in range(segments):
        base_offset, data = first, []
        for number in range(batches):
            data.append(batch(first, records, value_size=value_size, attributes=codecs[number % len(codecs)]))
            first += records
        write_segment(folder, base_offset, data)
    return folder
