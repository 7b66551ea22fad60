"""For every finding code a log directory in which it is found."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kdump.change import journal
from kdump.change.change import Change
from kdump.change.place import new_change
from kdump.change.states import state_of
from kdump.formats import names
from kdump.formats.batch import LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.checksums import crc32
from kdump.formats.codecs import GZIP, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from tests.topics.building import OTHER_ID, cluster_directory, metadata_pairs
from tests.verify.building import (
    NOW,
    TIME,
    Log,
    batch,
    build,
    file,
    flip,
    marker,
    mended,
    produced,
    put,
    records,
)

Prepare = Callable[[Path], Sequence[Path]]

UNIQUE = "0123456789abcdef0123456789abcdef"
DAY = 86_400_000
SIZE = len(batch(0))
"""Bytes of a batch of the kind that most logs here have."""
LONG: Mapping[int, Sequence[bytes]] = {base: [batch(base + n) for n in range(0, 16, 2)] for base in (0, 16)}
"""Two segments with several index entries each."""
STALE_ENTRY = encode_offset_entries([OffsetIndexEntry(500, 5000)], 6)
STALE_TIME = encode_time_entries([TimeIndexEntry(TIME + 500, 500)], 6)
"""An entry of an .index and of a .timeindex that a truncation left behind."""
CUT_KEY = encode_batch([NewRecord(0, TIME, b"\0\1\0\x7f", b"v")], NewBatch(leader_epoch=0))
"""An offset commit whose key ends inside the group's name."""
ABORTED = (produced(0, 7, 0), marker(2, 7))


class Case(NamedTuple):
    """What to prepare in an empty folder, and the name of the file or directory that a finding of `code` names.

    `changes` are attributes of modules to set meanwhile, `options` those of verify.
    """

    code: str
    names: str
    prepare: Prepare
    options: Mapping[str, Any] = {}
    changes: Mapping[str, object] = {}


def log(*changes: Callable[[Log], object], **building: Any) -> Prepare:
    """Build a log directory (see `build`), then do the changes to it."""

    def prepare(folder: Path) -> list[Path]:
        built = build(folder / "data", **building)
        for change in changes:
            change(built)
        return [built.directory]

    return prepare


def edited(name: str, *changes: Callable[[bytes], bytes]) -> Callable[[Log], object]:
    """Change the content of a file of the partition, or of one beside it."""

    def edit(built: Log) -> None:
        for change in changes:
            built.edit(name, change)

    return edit


def cut(size: int) -> Callable[[bytes], bytes]:
    """Take bytes away at the end."""
    return lambda data: data[:-size]


def added(content: bytes) -> Callable[[bytes], bytes]:
    """Add bytes at the end."""
    return lambda data: data + content


def then_zeros(entry: bytes) -> Callable[[bytes], bytes]:
    """One entry more, and zeros up to 240 bytes as `padded` has them."""
    return lambda data: (data + entry).ljust(240, b"\0")


def padded(size: int) -> Callable[[bytes], bytes]:
    """Fill up with zeros."""
    return lambda data: data.ljust(size, b"\0")


def swapped(size: int) -> Callable[[bytes], bytes]:
    """Let the first two entries of an index change places."""
    return lambda data: data[size : 2 * size] + data[:size] + data[2 * size :]


def removed(name: str) -> Callable[[Log], object]:
    """Remove a file of the partition."""
    return lambda built: (built.partition / name).unlink()


def written(name: str, content: str | bytes) -> Callable[[Log], object]:
    """Write a file of the log directory."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda built: (built.directory / name).write_bytes(data)


def made(name: str) -> Callable[[Log], object]:
    """Make a directory in the log directory."""
    return lambda built: (built.directory / name).mkdir()


def interrupted(built: Log) -> None:
    """Begin a change of the partition, of which nothing is done yet."""
    path = str(built.partition)
    journal.write(Change(new_change(path), path, "repair", 0, (), state_of(path)))


def beside(name: str, content: bytes = b"") -> Prepare:
    """A sound log with another file in the partition's directory."""
    return log(beside={name: content})


def line(name: str, offset: int) -> Callable[[Log], object]:
    """Let a checkpoint say another offset."""
    return written(name, f"0\n1\norders 0 {offset}\n")


def one(*batches: bytes, **building: Any) -> Prepare:
    """A log of one segment with these batches."""
    return log(**{"segments": {0: batches}, **building})


def txn_index(*txns: AbortedTxn, more: bytes = b"", base: int = 0, **building: Any) -> Prepare:
    """A log with an aborted transaction, and a .txnindex with these entries."""
    segments = building.pop("segments", {0: ABORTED, 3: [batch(3)]})
    content = encode_aborted_txns(txns) + more
    return log(segments=segments, beside={file(base, "txnindex"): content}, **building)


def two_directories(first: Callable[[Log], object], second: Callable[[Log], object]) -> Prepare:
    """Two log directories with the same partition, changed by one function each."""

    def prepare(folder: Path) -> list[Path]:
        built = [build(folder / name) for name in ("a", "b")]
        for directory, change in zip(built, (first, second), strict=True):
            change(directory)
        return [directory.directory for directory in built]

    return prepare


def unchanged(_: Log) -> None:
    """Nothing."""


def two_topic_ids(built: Log) -> None:
    """Another partition of the topic, whose partition.metadata has another id."""
    other = build(built.directory, name="orders-1")
    (other.partition / names.PARTITION_METADATA).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")


def cluster(*records: tuple[str, dict[str, Any]]) -> Prepare:
    """A log directory with the metadata of its cluster, which ends with more records."""

    def prepare(folder: Path) -> list[Path]:
        directory = cluster_directory(folder / "data")
        if records:
            with open(directory / names.CLUSTER_METADATA_DIR / LOG, "ab") as file:
                new = [NewRecord(8 + n, TIME, *pair) for n, pair in enumerate(metadata_pairs(*records))]
                file.write(encode_batch(new, NewBatch(leader_epoch=0)))
        return [directory]

    return prepare


def broken_wrapper() -> bytes:
    """A v1 wrapper with a message inside whose CRC is wrong."""
    inner = encode_message(NewRecord(0, TIME, b"k", b"v"), 1)
    payload = compress(GZIP, flip(-1)(inner), magic=1)
    return encode_message(NewRecord(0, TIME, None, payload), 1, GZIP)


def odd_null_key() -> bytes:
    """A v1 message with a key of length -5."""
    message = put(26, b"\xff\xff\xff\xfb")(encode_message(NewRecord(0, TIME, None, b"v"), 1))
    return put(12, crc32(message[16:]).to_bytes(4, "big"))(message)


def same_offsets() -> bytes:
    """A batch with two records of one offset."""
    first, second = records(0, 2)
    return encode_batch([first, second._replace(offset=0)], NewBatch(leader_epoch=0, last_offset=1))


LOG, ACTIVE = file(0, "log"), file(6, "log")
INDEX, TIME_INDEX, TXN_INDEX = file(0, "index"), file(0, "timeindex"), file(0, "txnindex")
SNAPSHOT = file(6, "snapshot")
# one producer more than Kafka 4.4 reads; the CRC of so many bytes takes the portable kernels long
LARGE_SNAPSHOT = struct.pack(">hIi", 1, 0x93DF_ABBB, 1_000_001) + bytes(46 * 1_000_001)
FAR = (1 << 40).to_bytes(8, "big")
MINUS = b"\xff\xff\xff\xff"
STATE = ProducerEntry(7, 0, 1, 1, 1, TIME, -1, -1)
V1 = {"epochs": ""}

CASES = (
    # the log
    Case("KD-LOG-CRC", LOG, log(edited(LOG, flip(70)))),
    Case("KD-LOG-SIZE", LOG, log(edited(LOG, put(8, b"\0\0\0\5")))),
    Case("KD-LOG-TORN", ACTIVE, log(edited(ACTIVE, cut(5)))),
    Case("KD-LOG-GARBAGE", ACTIVE, log(edited(ACTIVE, added(b"no batch " * 5)))),
    Case("KD-LOG-ZEROS", LOG, log(edited(LOG, padded(4000)))),
    Case("KD-LOG-PREALLOCATED", ACTIVE, log(edited(ACTIVE, padded(4000)), closed=False)),
    Case("KD-LOG-BEYOND", LOG, log(edited(LOG, flip(70)))),
    Case("KD-LOG-MAGIC", LOG, log(edited(LOG, put(16, b"\3")))),
    Case("KD-LOG-ORDER", LOG, one(batch(0), batch(4), batch(2))),
    Case("KD-LOG-BASE", file(10, "log"), log(edited(file(10, "log"), put(7, b"\3")), segments={10: [batch(10)]})),
    Case("KD-LOG-OVERLAP", LOG, log(segments={0: [batch(0), batch(8)], 6: [batch(6)]})),
    Case("KD-LOG-OFFSET", LOG, log(edited(LOG, put(SIZE, FAR)))),
    Case("KD-LOG-OVERFLOW", LOG, log(edited(LOG, put(-SIZE, FAR)))),
    Case("KD-LOG-EMPTY", file(2, "log"), log(segments={0: [batch(0)], 2: [], 4: [batch(4)]})),
    Case("KD-LOG-LARGE", LOG, log(), changes={"kdump.check.log.MAX_LOG_SIZE": SIZE}),
    Case("KD-LOG-NAME", "copy.log", beside("copy.log")),
    Case("KD-LOG-NAME", "copy.index", beside("copy.index")),
    Case("KD-LOG-NAME", "old.snapshot", beside("old.snapshot")),
    Case("KD-LOG-NAME", "copy.log.swap", beside("copy.log.swap")),
    Case("KD-LOG-NAME", "partition.metadata.cleaned", beside("partition.metadata.cleaned")),
    # batches
    Case("KD-BATCH-DELTA", LOG, one(mended(put(23, MINUS)(batch(0))))),
    Case("KD-BATCH-COUNT", LOG, one(mended(put(57, MINUS)(batch(0))))),
    Case("KD-BATCH-ATTRIBUTES", LOG, one(batch(0, attributes=TRANSACTIONAL))),
    Case("KD-BATCH-BITS", LOG, one(batch(0, attributes=0x80))),
    Case("KD-BATCH-CODEC", LOG, one(mended(put(22, b"\1")(batch(0))))),
    Case("KD-BATCH-PRODUCER", LOG, one(batch(0, producer_id=7))),
    Case("KD-BATCH-RECORDS", LOG, one(mended(put(-1, b"\x7f")(batch(0))))),
    Case("KD-BATCH-OFFSETS", LOG, one(same_offsets())),
    Case("KD-BATCH-MAX-TIMESTAMP", LOG, one(batch(0, max_timestamp=TIME))),
    Case("KD-BATCH-MAX-TIMESTAMP-HIGH", LOG, one(batch(0, max_timestamp=TIME + 500))),
    Case("KD-BATCH-MESSAGE-CRC", LOG, one(broken_wrapper(), **V1)),
    Case("KD-BATCH-MESSAGE-LENGTH", LOG, one(odd_null_key(), **V1)),
    Case("KD-BATCH-CONTROL", LOG, one(marker(0, 7, key=b"\0\0\0\x09"))),
    Case("KD-BATCH-CONTROL-VERSION", LOG, one(marker(0, 7, key=b"\0\1\0\0"))),
    Case("KD-VALUE-UNDECODABLE", LOG, one(CUT_KEY, name="__consumer_offsets-0")),
    # leader epochs
    Case("KD-EPOCH-ORDER", LOG, one(batch(0, leader_epoch=1), batch(2), epochs="1 0\n")),
    Case("KD-EPOCH-CHECKPOINT", LOG, log(epochs="0 0\n1 2\n")),
    Case("KD-EPOCH-LOG-START", names.LEADER_EPOCH_CHECKPOINT, log(epochs="0 6\n")),
    Case("KD-EPOCH-BEYOND", names.LEADER_EPOCH_CHECKPOINT, log(epochs="0 0\n1 50\n")),
    Case("KD-EPOCH-FORMAT", names.LEADER_EPOCH_CHECKPOINT, log(epochs="0 0\n0 2\n")),
    # producers and transactions
    Case("KD-PRODUCER-SEQUENCE", LOG, one(produced(0, 7, 0, attributes=0), produced(2, 7, 5, attributes=0))),
    Case("KD-PRODUCER-EPOCH", LOG, one(produced(0, 7, 0, producer_epoch=1), produced(2, 7, 2), marker(4, 7))),
    Case("KD-TXN-MIXED", LOG, one(produced(0, 7, 0), produced(2, 7, 2, attributes=0))),
    Case("KD-TXN-HANGING", LOG, one(produced(0, 7, 0)), {"now": NOW + DAY}),
    Case("KD-TXN-OPEN", LOG, one(produced(0, 7, 0))),
    Case("KD-TXN-MISSING", TXN_INDEX, one(*ABORTED)),
    Case("KD-TXN-ORPHAN", TXN_INDEX, txn_index(AbortedTxn(0, 7, 0, 2, 3), AbortedTxn(0, 7, 3, 4, 5))),
    Case("KD-TXN-ENTRY", TXN_INDEX, txn_index(AbortedTxn(0, 7, 1, 2, 3))),
    Case("KD-TXN-BASE", file(3, "txnindex"), txn_index(AbortedTxn(0, 7, 0, 2, 3), base=3)),
    Case("KD-TXN-VERSION", TXN_INDEX, txn_index(AbortedTxn(0x100, 7, 0, 2, 3))),
    Case("KD-TXN-LENGTH", TXN_INDEX, txn_index(AbortedTxn(0, 7, 0, 2, 3), more=b"abc")),
    # timestamps
    Case("KD-TIME-FUTURE", LOG, one(batch(0, timestamp=NOW + DAY))),
    Case("KD-TIME-UNIT", LOG, one(batch(0, timestamp=TIME * 1000))),
    Case("KD-TIME-NEGATIVE", LOG, one(batch(0, 1, timestamp=-5))),
    Case("KD-TIME-ABSENT", LOG, one(batch(0, 1, timestamp=-1))),
    Case("KD-TIME-ORDER", LOG, one(batch(0, timestamp=TIME + 50), batch(2, timestamp=TIME))),
    Case("KD-TIME-TYPE", LOG, one(batch(0), batch(2, attributes=LOG_APPEND_TIME), batch(4), batch(6))),
    Case("KD-TIME-HELD", LOG, log()),
    # offset indexes
    Case("KD-IDX-LENGTH", INDEX, log(edited(INDEX, added(b"abc")))),
    Case("KD-IDX-ORDER", INDEX, log(edited(INDEX, swapped(8)), segments=LONG)),
    Case("KD-IDX-POSITION", INDEX, log(edited(INDEX, flip(7)))),
    Case("KD-IDX-OFFSET", INDEX, log(edited(INDEX, flip(3, 4)), segments=LONG)),
    Case("KD-IDX-ZEROS", INDEX, log(edited(INDEX, padded(240)))),
    Case(
        "KD-IDX-PREALLOCATED",
        file(6, "index"),
        log(edited(file(6, "index"), padded(240)), edited(file(6, "timeindex"), padded(240)), closed=False),
    ),
    Case(
        "KD-IDX-LEFTOVER",
        file(6, "index"),
        log(
            edited(file(6, "index"), then_zeros(STALE_ENTRY)),
            edited(file(6, "timeindex"), padded(240)),
            closed=False,
        ),
    ),
    Case("KD-IDX-EMPTY", INDEX, log(edited(INDEX, lambda _: b""), segments=LONG)),
    Case("KD-IDX-MISSING", INDEX, log(removed(INDEX))),
    Case("KD-IDX-ORPHAN", file(99, "index"), beside(file(99, "index"))),
    Case("KD-IDX-SPARSE", INDEX, one(*(batch(n, 1, value=bytes(100_000)) for n in range(13)), interval=1 << 30)),
    # time indexes
    Case("KD-TIDX-LENGTH", TIME_INDEX, log(edited(TIME_INDEX, added(b"abc")))),
    Case("KD-TIDX-ORDER", TIME_INDEX, log(edited(TIME_INDEX, swapped(12)), segments=LONG)),
    Case("KD-TIDX-OFFSET", TIME_INDEX, log(edited(TIME_INDEX, put(-1, b"\x63")))),
    Case("KD-TIDX-TIMESTAMP", TIME_INDEX, log(edited(TIME_INDEX, flip(-5)))),
    Case("KD-TIDX-LAST", TIME_INDEX, log(edited(TIME_INDEX, lambda _: b""))),
    Case("KD-TIDX-ZEROS", TIME_INDEX, log(edited(TIME_INDEX, padded(240)))),
    Case(
        "KD-TIDX-PREALLOCATED",
        file(6, "timeindex"),
        log(edited(file(6, "index"), padded(240)), edited(file(6, "timeindex"), padded(240)), closed=False),
    ),
    Case(
        "KD-TIDX-LEFTOVER",
        file(6, "timeindex"),
        log(
            edited(file(6, "index"), padded(240)),
            edited(file(6, "timeindex"), then_zeros(STALE_TIME)),
            closed=False,
        ),
    ),
    Case("KD-TIDX-MISSING", TIME_INDEX, log(removed(TIME_INDEX))),
    # producer snapshots
    Case("KD-SNAP-CORRUPT", SNAPSHOT, beside(SNAPSHOT, flip(20)(encode_producer_snapshot([STATE])))),
    Case(
        "KD-SNAP-STATE",
        SNAPSHOT,
        log(
            segments={0: [produced(0, 7, 5, attributes=0)], 6: [batch(6)]},
            beside={SNAPSHOT: encode_producer_snapshot([STATE])},
        ),
    ),
    Case("KD-SNAP-LARGE", SNAPSHOT, beside(SNAPSHOT, LARGE_SNAPSHOT)),
    Case("KD-SNAP-STRAY", file(3, "snapshot"), beside(file(3, "snapshot"), encode_producer_snapshot([]))),
    # checkpoints
    Case("KD-CKPT-FORMAT", names.CLEANER_CHECKPOINT, log(written(names.CLEANER_CHECKPOINT, "junk\n1\nx\n"))),
    Case("KD-CKPT-RECOVERY", names.RECOVERY_POINT_CHECKPOINT, log(line(names.RECOVERY_POINT_CHECKPOINT, 99))),
    Case("KD-CKPT-BEHIND", names.RECOVERY_POINT_CHECKPOINT, log(line(names.RECOVERY_POINT_CHECKPOINT, 4))),
    Case("KD-CKPT-HIGH-WATERMARK", names.REPLICATION_CHECKPOINT, log(line(names.REPLICATION_CHECKPOINT, 99))),
    Case("KD-CKPT-LOG-START", names.LOG_START_CHECKPOINT, log(line(names.LOG_START_CHECKPOINT, 99))),
    Case(
        "KD-CKPT-ORDER",
        names.LOG_START_CHECKPOINT,
        log(line(names.LOG_START_CHECKPOINT, 8), line(names.REPLICATION_CHECKPOINT, 7)),
    ),
    Case("KD-CKPT-CLEANER", names.CLEANER_CHECKPOINT, log(line(names.CLEANER_CHECKPOINT, 99))),
    Case("KD-CKPT-STALE", names.CLEANER_CHECKPOINT, log(written(names.CLEANER_CHECKPOINT, "0\n1\ngone 0 5\n"))),
    Case(
        "KD-CKPT-CLEANER-TWICE",
        names.CLEANER_CHECKPOINT,
        two_directories(line(names.CLEANER_CHECKPOINT, 3), line(names.CLEANER_CHECKPOINT, 4)),
    ),
    # directories and the files of other kinds
    Case("KD-DIR-NAME", "lost+found", log(made("lost+found"))),
    Case("KD-DIR-DUPLICATE", "orders-0", two_directories(unchanged, unchanged)),
    Case("KD-DIR-DELETE", f"old-0.{UNIQUE}-delete", log(made(f"old-0.{UNIQUE}-delete"))),
    Case("KD-DIR-FUTURE", f"old-0.{UNIQUE}-future", log(made(f"old-0.{UNIQUE}-future"))),
    Case("KD-DIR-UNASSIGNED", "orders-1", cluster()),
    Case("KD-DIR-STRAY", f"old-0.{UNIQUE}-stray", log(made(f"old-0.{UNIQUE}-stray"))),
    Case("KD-CHANGE-UNFINISHED", "orders-0", log(interrupted)),
    Case("KD-FILE-DELETED", f"{LOG}.deleted", beside(f"{LOG}.deleted")),
    Case("KD-FILE-CLEANED", f"{LOG}.cleaned", beside(f"{LOG}.cleaned")),
    Case("KD-FILE-SWAP", f"{LOG}.swap", beside(f"{LOG}.swap")),
    Case("KD-FILE-SWAP-DAMAGED", f"{LOG}.swap", beside(f"{LOG}.swap", flip(80)(batch(0)))),
    Case("KD-FILE-TMP", "partition.metadata.tmp", beside("partition.metadata.tmp")),
    Case("KD-META-PARTITION", names.PARTITION_METADATA, beside(names.PARTITION_METADATA, b"no metadata")),
    Case("KD-META-PARTITION-MISSING", names.PARTITION_METADATA, log(removed(names.PARTITION_METADATA))),
    Case("KD-META-TOPIC-ID", names.PARTITION_METADATA, log(two_topic_ids)),
    Case("KD-META-TOPIC-CLUSTER", names.PARTITION_METADATA, cluster()),
    Case("KD-META-CLUSTER", LOG, cluster(("Partition", {"topicId": OTHER_ID, "partitionId": 0}))),
    Case(
        "KD-META-NODES",
        names.META_PROPERTIES,
        two_directories(unchanged, written(names.META_PROPERTIES, "version=1\nnode.id=4\ncluster.id=abc\n")),
    ),
    Case("KD-META-PROPERTIES", names.META_PROPERTIES, log(written(names.META_PROPERTIES, "version=1\nnode.id=x\n"))),
    Case("KD-META-SHUTDOWN", names.CLEAN_SHUTDOWN, log(written(names.CLEAN_SHUTDOWN, "{"))),
    Case("KD-KRAFT-STATE", names.QUORUM_STATE, log(name="__cluster_metadata-0", beside={names.QUORUM_STATE: b"{}"})),
    Case(
        "KD-KRAFT-SNAPSHOT",
        "00000000000000000002-0000000001.checkpoint",
        log(name="__cluster_metadata-0", beside={"00000000000000000002-0000000001.checkpoint": batch(0)}),
    ),
    # what could not be looked at
    Case("KD-READ", "dangling", log(lambda built: (built.partition / "dangling").symlink_to("nowhere"))),
    Case("KD-READ", file(50, "log"), log(lambda built: (built.partition / file(50, "log")).mkdir())),
)
