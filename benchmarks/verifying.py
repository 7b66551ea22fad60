"""Verify logs in this process: a large segment, a compressed one in depth, a directory of many small partitions.

Beside them what cannot be done without: reading the bytes with their CRC-32C, and decompressing the batches.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import data
import lookups
from processes import RunError

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.codecs import decompress
from kdump.library.verifying import verify
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import packed_payload

READ, SHALLOW, THREADS = "large-batches: read, CRC-32C", "large-batches: verify", "large-batches: verify, 2 threads"
UNPACK, DEEP, SMALL = "zstd: decompress", "zstd: verify --deep", "a small partition: verify"
PARTITIONS, SMALL_BATCHES = 10_000, 20
BUFFER = 1 << 20
TURNS = 3  # of the many small partitions, which take long


class Seconds(NamedTuple):
    """Medians of elapsed seconds and of CPU."""

    wall: float
    cpu: float


def measure(folder: Path, divisor: int, repeat: int) -> dict[str, Seconds]:
    """What each job takes; that of many partitions for one of them. Raises RunError for findings that must not be."""
    large = lookups.with_indexes(data.generate(data.LARGE, folder, divisor))
    packed = lookups.with_indexes(data.generate(data.ZSTD_JSON, folder, divisor))
    payloads = packed_payloads(log_of(packed))
    turns = {
        READ: lambda: read(log_of(large)),
        SHALLOW: lambda: check(large),
        THREADS: lambda: check(large, jobs=2),
        UNPACK: lambda: unpack(payloads),
        DEEP: lambda: check(packed, deep=True),
    }
    seconds = timed(turns, repeat)
    count = max(10, PARTITIONS // divisor)
    small = small_partitions(folder / f"small-{count}", count)
    many = timed({"": lambda: check(small)}, min(repeat, TURNS))[""]
    return {**seconds, SMALL: Seconds(many.wall / count, many.cpu / count)}


def timed(jobs: dict[str, Callable[[], None]], repeat: int) -> dict[str, Seconds]:
    """Do the jobs in turns; the first turn only fills the caches."""
    turns: dict[str, list[Seconds]] = {name: [] for name in jobs}
    for turn in range(repeat + 1):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            job()
            if turn:
                turns[name].append(Seconds(time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: Seconds(median(each.wall for each in taken), median(each.cpu for each in taken))
        for name, taken in turns.items()
    }


def log_of(partition: Path) -> Path:
    """The partition's only log."""
    return partition / names.segment_file_name(0, ".log")


def read(path: Path) -> None:
    """Read a file, and compute the CRC-32C of its bytes."""
    buffer = memoryview(bytearray(BUFFER))
    value = 0
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            value = kernels.crc32c(buffer[:size], value)


def packed_payloads(path: Path) -> list[tuple[int, bytes]]:
    """Codec and payload of every batch."""
    found = []
    with LogFile(str(path)) as log:
        for block in log.blocks():
            found += [_payload(block, row) for row in range(block.length)]
    return found


def _payload(block: BatchBlock, row: int) -> tuple[int, bytes]:
    codec, payload = packed_payload(block, row)
    return codec, bytes(payload)


def unpack(payloads: list[tuple[int, bytes]]) -> None:
    """Decompress all of them."""
    for codec, payload in payloads:
        decompress(codec, payload)


def check(path: Path, *, deep: bool = False, jobs: int = 1) -> None:
    """Verify a directory that has nothing wrong with it."""
    for finding in verify(path, deep=deep, jobs=jobs, now=data.BASE_TIMESTAMP + 1_000_000):
        if finding.severity == "error":
            raise RunError(f"{finding.code} {finding.path}: {finding.message}")


def small_partitions(folder: Path, count: int) -> Path:
    """A log directory of `count` partitions with a few records each."""
    if (folder / names.META_PROPERTIES).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    first = _small_partition(folder / "orders-0")
    for number in range(1, count):
        partition = folder / f"orders-{number}"
        partition.mkdir()
        for path in first.iterdir():
            shutil.copyfile(path, partition / path.name)
    ends = [OffsetCheckpointEntry("orders", number, SMALL_BATCHES) for number in range(count)]
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        (folder / name).write_bytes(format_offset_checkpoint(ends))
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=abcdefghijklmnopqrstuv\n")
    return folder


def _small_partition(partition: Path) -> Path:
    partition.mkdir(parents=True)
    path = log_of(partition)
    path.write_bytes(b"".join(replace(data.TINY, distinct=SMALL_BATCHES).batches()))
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    (partition / names.PARTITION_METADATA).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return lookups.with_indexes(path)
