"""Measure `kdump compact` against reading and rewriting the same bytes, all onto the disk, in one run.

The log is one segment of keyed records, each key with about two values, in a random order.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lookups
from data import BASE_TIMESTAMP, MIB, letters
from processes import Cost, RunError, measure

from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.producer_snapshot import encode_producer_snapshot

SIZE = 512 * MIB
KEYS = 1_000_000
BATCH_RECORDS = 62
VALUE_BYTES = 240
LIMIT = 3.0
COPY, REWRITE, DRY_RUN, COMPACT = "copy", "read and rewrite", "dry run", "compact"

COPY_PROGRAM = """
import os, sys
with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as target:
    while piece := source.read(1 << 20):
        target.write(piece)
    target.flush()
    os.fsync(target.fileno())
"""
REWRITE_PROGRAM = """
import os, sys
from kdump.storage.log_reader import LogFile
with LogFile(sys.argv[1]) as log, open(sys.argv[2], "wb", buffering=0) as target:
    for block in log.blocks():
        if block.length:
            if 0 in block.valid[:block.length]:
                sys.exit("a CRC does not hold")
            last = block.length - 1
            start, end = block.position[0], block.position[last] + block.size[last]
            target.write(memoryview(block.data)[start - block.data_position : end - block.data_position])
    os.fsync(target.fileno())
"""
DRY_RUN_PROGRAM = """
import subprocess, sys
sys.exit(subprocess.run([sys.argv[1], "compact", sys.argv[2]]).returncode - 1)
"""
COMPACT_PROGRAM = """
import os, shutil, sys
shutil.rmtree(sys.argv[3], ignore_errors=True)
os.execv(sys.argv[1], [sys.argv[1], "compact", sys.argv[2], "--output", sys.argv[3]])
"""


def batches(size: int, keys: int) -> Iterator[bytes]:
    """Batches of 16 KB or so that come to `size` bytes at most, with about `keys` different keys."""
    numbers = random.Random(keys)
    values = [letters(numbers, VALUE_BYTES) for _ in range(997)]
    offset = done = 0
    while True:
        records = [
            NewRecord(at, BASE_TIMESTAMP + at, b"user-%08d" % numbers.randrange(keys), values[at % 997])
            for at in range(offset, offset + BATCH_RECORDS)
        ]
        batch = encode_batch(records, NewBatch(leader_epoch=0))
        done += len(batch)
        if done > size:
            return
        yield batch
        offset += BATCH_RECORDS


def generate(folder: Path, size: int, keys: int) -> Path:
    """The log directory with one segment of `size` bytes and an empty active one; written unless it is there."""
    log_dir = folder / f"keyed-{size}-{keys}"
    if log_dir.is_dir():
        return log_dir
    part = folder / f"{log_dir.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    partition = part / "users-0"
    partition.mkdir(parents=True)
    end = 0
    with open(partition / f"{0:020}.log", "wb") as out:
        for batch in batches(size, keys):
            out.write(batch)
            end += BATCH_RECORDS
    lookups.with_indexes(partition / f"{0:020}.log")
    for kind in ("log", "index", "timeindex"):
        (partition / f"{end:020}.{kind}").touch()
    (partition / f"{end:020}.snapshot").write_bytes(encode_producer_snapshot(()))
    watermark = format_offset_checkpoint([OffsetCheckpointEntry("users", 0, end)])
    (part / "replication-offset-checkpoint").write_bytes(watermark)
    part.rename(log_dir)
    return log_dir


def measure_all(folder: Path, divisor: int, repeat: int) -> tuple[int, dict[str, Cost]]:
    """The bytes of the segment, and what each of the four costs. Raises RunError."""
    kdump = shutil.which("kdump", path=sysconfig.get_path("scripts"))
    if kdump is None:
        raise RunError(f"kdump is not installed beside {sys.executable}: run this through ./dev bench")
    folder.mkdir(parents=True, exist_ok=True)
    partition = generate(folder, SIZE // divisor, KEYS // divisor) / "users-0"
    segment = partition / f"{0:020}.log"
    python = [sys.executable, "-I", "-S", "-c"]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        commands = {
            COPY: [*python, COPY_PROGRAM, str(segment), os.path.join(scratch, "copy")],
            REWRITE: [sys.executable, "-I", "-c", REWRITE_PROGRAM, str(segment), os.path.join(scratch, "rewritten")],
            DRY_RUN: [*python, DRY_RUN_PROGRAM, kdump, str(partition)],
            COMPACT: [*python, COMPACT_PROGRAM, kdump, str(partition), os.path.join(scratch, "cleaned")],
        }
        return segment.stat().st_size, measure(commands, repeat)


def main() -> int:
    """Measure and print; 1 where something could not be run, or the target is missed that was to be checked."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    default = Path(tempfile.gettempdir()) / "kdump-benchmarks"
    parser.add_argument("--dir", type=Path, default=default, help="where the log is and stays (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="turns (default: %(default)s)")
    parser.add_argument("--divisor", type=int, default=1, metavar="N", help="divide size and keys by N")
    parser.add_argument("--check", action="store_true", help="exit with 1 when the target is missed")
    options = parser.parse_args()
    try:
        size, costs = measure_all(options.dir, options.divisor, options.repeat)
    except (RunError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(f"{size / 1e6:.0f} MB, {KEYS // options.divisor} keys")
    plain, bare = costs[REWRITE], costs[COPY]
    for name, cost in costs.items():
        ratios = [f"{cost.wall / other.wall:.2f} (CPU {cost.cpu / other.cpu:.2f})" for other in (plain, bare)]
        print(
            f"{name:16}  {cost.wall:6.2f} s {size / 1e6 / cost.wall:6.0f} MB/s, CPU {cost.cpu:6.2f} s,"
            f" {cost.peak / 1e6:4.0f} MB; {ratios[0]} times reading and rewriting, {ratios[1]} times a copy"
        )
    return int(options.check and costs[COMPACT].wall > LIMIT * costs[REWRITE].wall)


if __name__ == "__main__":
    sys.exit(main())
