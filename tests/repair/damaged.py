"""A small sound partition of three segments, and many ways to damage it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import kdump
from kdump.change.apply import apply_plan
from kdump.change.guard import DroppedBatches, dropped_batches
from kdump.change.place import new_change
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.mend.as_broker import plan_recovery
from kdump.mend.task import Task
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings

STARTUP = Startup(now=2_000_000, config=LoadingSettings(index_interval_bytes=300, segment_index_bytes=2000))
BASES = (0, 20, 40)
PRODUCER = 7
MARKER_KEYS = {"abort": b"\0\0\0\0", "commit": b"\0\0\0\1"}


def name(base: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{base:020d}.{suffix}"


def data_batch(offset: int, timestamp: int, *, transactional: bool = False, codec: int = 0) -> bytes:
    """Two records; of the transactional producer with sequences that go on."""
    records = [NewRecord(offset + n, timestamp + n, b"key", b"v" * 60) for n in range(2)]
    if not transactional:
        return encode_batch(records, NewBatch(attributes=codec, leader_epoch=offset // 20))
    header = NewBatch(TRANSACTIONAL | codec, PRODUCER, 0, sequence_of(offset), offset // 20)
    return encode_batch(records, header)


def sequence_of(offset: int) -> int:
    """The sequence that the producer's batch at this offset has: every fourth offset starts one, of two records."""
    return offset // 4 * 2


def marker(offset: int, timestamp: int, kind: str) -> bytes:
    """The end of a transaction."""
    record = NewRecord(offset, timestamp, MARKER_KEYS[kind], b"\0\0\0\0\0\3")
    return encode_batch([record], NewBatch(TRANSACTIONAL | CONTROL, PRODUCER, 0, -1, offset // 20))


def segment_bytes(base: int) -> bytes:
    """Twenty offsets: plain batches and those of a transaction in turn, then its marker."""
    parts = []
    for offset in range(base, base + 18, 2):
        transactional = offset % 4 == 0
        parts.append(data_batch(offset, 1000 + offset, transactional=transactional, codec=offset % 5))
    parts.append(marker(base + 18, 1000 + base, "abort" if base == 20 else "commit"))
    return b"".join(parts)


def build(log_dir: Path) -> Path:
    """The sound partition, with every file as a broker would have it after a clean close."""
    partition = log_dir / "orders-0"
    partition.mkdir(parents=True)
    for base in BASES:
        (partition / name(base, "log")).write_bytes(segment_bytes(base))
    (partition / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 20\n2 40\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    _, plan = plan_recovery(kdump.open_log(str(partition)), STARTUP)
    assert plan is not None
    apply_plan(plan, new_change(str(partition)), keep_old=False)
    return partition


def lost_by(task: Task) -> DroppedBatches:
    """What the guard says that a plan loses."""
    assert task.plan is not None
    return dropped_batches(*task.plan).lost


def edit(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """The damage that gives a file other content."""

    def damage(partition: Path) -> None:
        path = partition / file
        path.write_bytes(change(path.read_bytes()))

    return damage


def flip(at: int) -> Callable[[bytes], bytes]:
    """Turn one bit over."""
    return lambda data: data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


def removed(*files: str) -> Callable[[Path], None]:
    """The damage that files are not there."""

    def damage(partition: Path) -> None:
        for file in files:
            (partition / file).unlink()

    return damage


def copied(source: str, *targets: str) -> Callable[[Path], None]:
    """The damage that there are copies of a file under other names."""

    def damage(partition: Path) -> None:
        for target in targets:
            shutil.copy(partition / source, partition / target)

    return damage


def moved(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    """The damage that files have other names."""

    def damage(partition: Path) -> None:
        for source, target in pairs:
            os.rename(partition / source, partition / target)

    return damage


def several(*damages: Callable[[Path], None]) -> Callable[[Path], None]:
    """One damage after the other."""

    def damage(partition: Path) -> None:
        for each in damages:
            each(partition)

    return damage


_SECOND = len(data_batch(0, 1000, transactional=True))

DAMAGES: dict[str, Callable[[Path], None]] = {
    "first segment, payload": edit(name(0, "log"), flip(70)),
    "first segment, second batch": edit(name(0, "log"), flip(_SECOND + 70)),
    "first segment, CRC field": edit(name(0, "log"), flip(_SECOND + 18)),
    "first segment, size field": edit(name(0, "log"), flip(_SECOND + 9)),
    "first segment, torn tail": edit(name(0, "log"), lambda data: data[:-30]),
    "middle segment, payload": edit(name(20, "log"), flip(70)),
    "middle segment, torn tail": edit(name(20, "log"), lambda data: data[:-1]),
    "middle segment, empty": edit(name(20, "log"), lambda data: b""),
    "last segment, payload": edit(name(40, "log"), flip(70)),
    "last segment, torn tail": edit(name(40, "log"), lambda data: data[:-50]),
    "last segment, zero tail": edit(name(40, "log"), lambda data: data + bytes(5000)),
    "last segment, garbage tail": edit(name(40, "log"), lambda data: data + b"\xff" * 300),
    "last segment, short tail": edit(name(40, "log"), lambda data: data + b"\1" * 9),
    "index missing": removed(name(0, "index")),
    "time index missing": removed(name(20, "timeindex")),
    "all indexes missing": removed(*(name(base, kind) for base in BASES for kind in ("index", "timeindex"))),
    "index damaged": edit(name(0, "index"), flip(3)),
    "index of a bad length": edit(name(20, "index"), lambda data: data + b"\0\0\0"),
    "index with a zero tail": edit(name(40, "index"), lambda data: data + bytes(800)),
    "time index damaged": edit(name(0, "timeindex"), flip(2)),
    "time index with a zero tail": edit(name(40, "timeindex"), lambda data: data + bytes(1200)),
    "txn index missing": removed(name(20, "txnindex")),
    "txn index damaged": edit(name(20, "txnindex"), flip(5)),
    "snapshot damaged": edit(name(40, "snapshot"), flip(20)),
    "snapshots missing": removed(name(20, "snapshot"), name(40, "snapshot"), name(59, "snapshot")),
    "stray snapshot": copied(name(40, "snapshot"), name(33, "snapshot"), name(90, "snapshot")),
    "epochs missing": removed("leader-epoch-checkpoint"),
    "orphaned indexes": copied(name(0, "index"), name(7, "index"), name(7, "timeindex")),
    "deleted files": copied(name(0, "log"), name(0, "log.deleted"), name(0, "index.deleted")),
    "cleaned files": copied(name(0, "log"), name(0, "log.cleaned")),
    "swap complete": several(
        *(copied(name(0, kind), name(0, f"{kind}.swap")) for kind in ("log", "index", "timeindex")),
    ),
    "swap half renamed": moved((name(0, "log"), name(0, "log.swap")), (name(0, "index"), name(0, "index.swap"))),
    "swap and cleaned": several(
        copied(name(20, "log"), name(20, "log.swap")), copied(name(0, "log"), name(0, "log.cleaned"))
    ),
    "middle segment missing": removed(name(20, "log")),
    "damage in all segments": several(*(edit(name(base, "log"), flip(300)) for base in BASES)),
    "damage and leftovers": several(
        edit(name(20, "log"), flip(400)),
        copied(name(0, "log"), name(0, "log.deleted")),
        removed(name(0, "index")),
        edit(name(40, "index"), lambda data: data + bytes(80)),
    ),
}
