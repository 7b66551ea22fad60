"""Small log directories as a broker leaves them after a clean shutdown, and ways to damage them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kdump.check import Finding
from kdump.formats import names
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.checksums import crc32c
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.formats.names import INDEX_KINDS, parse_file_name, segment_file_name
from kdump.library.verifying import verify
from kdump.mend.survey import survey
from kdump.recovery.startup import Startup
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog

TIME = 1_700_000_000_000
NOW = TIME + 100_000
INTERVAL = 100
"""Bytes of a log between index entries: small, so that small logs have some."""
METADATA = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
PROPERTIES = "version=1\nnode.id=3\ncluster.id=abcdefghijklmnopqrstuv\n"
TOPIC_DIR = "orders-0"

Change = Callable[[bytes], bytes]
Damage = Callable[[Path], object]


def records(offset: int, count: int, *, timestamp: int | None = None, value: bytes = b"value") -> list[NewRecord]:
    """`count` records from `offset` on; a record's timestamp is TIME plus its offset unless given."""
    return [
        NewRecord(offset + n, TIME + offset + n if timestamp is None else timestamp + n, b"k%d" % n, value)
        for n in range(count)
    ]


def batch(
    offset: int, count: int = 2, *, timestamp: int | None = None, value: bytes = b"value", **fields: Any
) -> bytes:
    """A v2 batch of leader epoch 0, or as the fields of NewBatch say."""
    new = NewBatch(**{"leader_epoch": 0, **fields})
    return encode_batch(records(offset, count, timestamp=timestamp, value=value), new)


def produced(offset: int, producer: int, sequence: int, count: int = 2, **fields: Any) -> bytes:
    """A transactional batch."""
    producing = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "attributes": TRANSACTIONAL}
    return batch(offset, count, **{**producing, **fields})


def marker(
    offset: int,
    producer: int,
    *,
    commit: bool = False,
    key: bytes | None = None,
    value: bytes | None = b"\0\0\0\0\0\3",
    **fields: Any,
) -> bytes:
    """The control batch that ends a transaction; `key` for one that is none of Kafka's."""
    record = NewRecord(offset, TIME + offset, bytes((0, 0, 0, commit)) if key is None else key, value)
    producing = {"producer_id": producer, "producer_epoch": 0, "attributes": CONTROL | TRANSACTIONAL}
    return encode_batch([record], NewBatch(**{"leader_epoch": 0, **producing, **fields}))


def entry(magic: int, codec: int, offset: int, count: int = 2) -> bytes:
    """An entry of any format: a batch, a wrapper, or (v0 and v1 without codec) one message after the other."""
    new = records(offset, count)
    if magic >= 2:
        return encode_batch(new, NewBatch(attributes=codec, leader_epoch=0))
    if codec:
        return encode_wrapper(new, magic, codec)
    return b"".join(encode_message(record, magic) for record in new)


def mended(data: bytes) -> bytes:
    """A v2 batch with the CRC that its content has now."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


class Log(NamedTuple):
    """A log directory with one partition."""

    directory: Path
    partition: Path

    def path(self, base_offset: int, kind: str) -> Path:
        """A segment's file, by its suffix without dot."""
        return self.partition / file(base_offset, kind)

    def edit(self, name: str, change: Change) -> None:
        """Give a file of the partition, or one beside it, other content."""
        path = self.partition / name
        if not path.exists():
            path = self.directory / name
        path.write_bytes(change(path.read_bytes()))

    def findings(self, **options: Any) -> list[Finding]:
        """What verify says of the log directory."""
        return found(self.directory, **options)


def found(*paths: Path, **options: Any) -> list[Finding]:
    """What verify says, the clock being NOW; in depth unless told otherwise."""
    return list(verify(*paths, **{"deep": True, "now": NOW, **options}))


def codes(findings: Sequence[Finding], *severities: str) -> set[str]:
    """The codes found, of these severities or (none given) of error and warning."""
    return {finding.code for finding in findings if finding.severity in (severities or ("error", "warning"))}


def file(base_offset: int, kind: str) -> str:
    """The name of a segment's file: file(5, "log")."""
    return segment_file_name(base_offset, f".{kind}")


def write_segment(partition: Path, base_offset: int, data: bytes, *, interval: int = INTERVAL) -> None:
    """A .log with the indexes of a log that was appended batch by batch."""
    path = partition / file(base_offset, names.LOG)
    path.write_bytes(data)
    offsets: list[OffsetIndexEntry] = []
    times: list[TimeIndexEntry] = []
    largest, indexed = TimeIndexEntry(-1, base_offset), 0
    with LogFile(str(path)) as log:
        for block in log.blocks():
            for row in range(block.length):
                last = block.last_offset[row]
                if block.max_timestamp[row] > largest.timestamp:
                    largest = TimeIndexEntry(block.max_timestamp[row], last)
                if block.position[row] - indexed > interval:
                    indexed = block.position[row]
                    offsets.append(OffsetIndexEntry(last, indexed))
                    _append(times, largest)
    _append(times, largest)
    path.with_suffix(".index").write_bytes(encode_offset_entries(offsets, base_offset))
    path.with_suffix(".timeindex").write_bytes(encode_time_entries(times, base_offset))


def _append(times: list[TimeIndexEntry], entry: TimeIndexEntry) -> None:
    if entry.timestamp > (times[-1].timestamp if times else -1):
        times.append(entry)


def end_offset(data: bytes, base_offset: int, folder: Path) -> int:
    """The offset behind the last batch."""
    path = folder / "end"
    path.write_bytes(data)
    last = base_offset - 1
    with LogFile(str(path)) as log:
        for block in log.blocks():
            if block.length:
                last = block.last_offset[block.length - 1]
    path.unlink()
    return last + 1


def build(
    folder: Path,
    segments: Mapping[int, Sequence[bytes]] | None = None,
    *,
    name: str = TOPIC_DIR,
    closed: bool = True,
    epochs: str = "0 0\n",
    beside: Mapping[str, bytes] | None = None,
    interval: int = INTERVAL,
) -> Log:
    """A log directory `folder` with one partition, closed in order or left as it was before the first checkpoint.

    `segments` are the batches by base offset, `epochs` the lines of leader-epoch-checkpoint, `beside` more files of
    the partition.
    """
    if segments is None:
        segments = {0: [batch(0), batch(2), batch(4)], 6: [batch(6), batch(8), batch(10)]}
    partition = folder / name
    partition.mkdir(parents=True, exist_ok=True)
    for base, batches in segments.items():
        write_segment(partition, base, b"".join(batches), interval=interval)
    last = max(segments, default=0)
    end = end_offset(b"".join(segments.get(last, ())), last, folder)
    topic, _, number = name.rpartition("-")
    line = f"0\n1\n{topic} {number} {end if closed else 0}\n"
    (partition / names.PARTITION_METADATA).write_text(METADATA)
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n{epochs.count(chr(10))}\n{epochs}")
    for each, data in (beside or {}).items():
        (partition / each).write_bytes(data)
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text(line)
    (folder / names.REPLICATION_CHECKPOINT).write_text(line)
    (folder / names.META_PROPERTIES).write_text(PROPERTIES)
    if closed:
        (folder / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    return Log(folder, partition)


def flip(at: int, mask: int = 1) -> Change:
    """Turn bits over in one byte, counted from the end where negative."""

    def change(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes((data[place] ^ mask,)) + data[place + 1 :]

    return change


def put(at: int, content: bytes) -> Change:
    """Overwrite bytes, counted from the end where negative."""

    def change(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + content + data[place + len(content) :]

    return change


def touch(path: Path, ms: int) -> None:
    """Give a file this time of modification."""
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def unsound_indexes(log: PartitionLog) -> frozenset[str]:
    """The names of the index files, present or missing, that a repair would replace."""
    unsound = survey(log, Startup(now=NOW), deep=False).unsound
    return frozenset(name for name in unsound if parse_file_name(name).kind in INDEX_KINDS)
