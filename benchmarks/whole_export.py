"""Measure a whole `kdump export` to Parquet against those who write the same columns from memory.

The export reads the log, checks CRCs, decodes, writes and syncs; pyarrow, polars, arro3 and duckdb have the rows in
memory as Arrow, write one file and sync it. Seconds and CPU seconds of the export are those of its process, start
included; of the others, those of writing alone. No value is there twice: what repeats would be a dictionary in Parquet,
and almost no work. All take turns in one run; what a turn wrote is removed before the next one.
Needs all four. The log has its indexes, as a broker's has: without them the places where it is cut are found by walking
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from data import KILOBYTES, asked_log, log_parser
from lookups import with_indexes
from processes import run

CODECS = ("none", "snappy", "lz4", "zstd")
WRITERS = ("pyarrow", "polars", "arro3", "duckdb")
"""Those that have the rows in memory; arro3 is parquet-rs."""

FROM_MEMORY = """
import os, resource, sys, time
import arro3.io, duckdb, polars, pyarrow.dataset, pyarrow.parquet
source, target, codec, writer = sys.argv[1:]
table = pyarrow.dataset.dataset(source).to_table()
frame = polars.from_arrow(table)
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
started, before = time.perf_counter(), cpu()
name = "uncompressed" if codec == "none" else codec
if writer == "polars":
    frame.write_parquet(target, compression=name)
elif writer == "arro3":
    arro3.io.write_parquet(table, target, compression="zstd(1)" if name == "zstd" else name)
elif writer == "duckdb":
    duckdb.from_arrow(table).write_parquet(target, compression=name)
else:
    pyarrow.parquet.write_table(table, target, compression=codec)
descriptor = os.open(target, os.O_RDONLY)
os.fsync(descriptor)
print(time.perf_counter() - started, cpu() - before)
"""


class Turn(NamedTuple):
    """Seconds, and seconds of CPU."""

    wall: float
    cpu: float


def export(partition: str, target: str, codec: str) -> Turn:
    """A whole export."""
    shutil.rmtree(target, ignore_errors=True)
    os.sync()
    cost = run([sys.executable, "-P", "-m", "kdump", "export", partition, "--to", target, "--codec", codec])
    return Turn(cost.wall, cost.cpu)


def from_memory(source: str, target: str, codec: str, writer: str) -> Turn:
    """What writing takes that has the rows already."""
    Path(target).unlink(missing_ok=True)
    os.sync()
    command = [sys.executable, "-c", FROM_MEMORY, source, target, codec, writer]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    wall, cpu = told[-1].split()  # duckdb may draw its progress before
    return Turn(float(wall), float(cpu))


def main() -> int:
    """Measure and print."""
    parser = log_parser(__doc__, repeat=3, log=KILOBYTES)
    options = parser.parse_args()
    segment = asked_log(options)
    with_indexes(segment)
    size = segment.stat().st_size / 1e6
    print(f"{options.log}, {size:.0f} MB; MB of log a second, and a CPU second")
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        out, again = os.path.join(scratch, "out"), os.path.join(scratch, "again")
        for codec in CODECS:
            turns: dict[str, list[Turn]] = {}
            for _ in range(options.repeat):
                turns.setdefault("kdump export", []).append(export(str(segment.parent), out, codec))
                for writer in WRITERS:
                    turns.setdefault(writer, []).append(from_memory(out, again, codec, writer))
            for name, found in turns.items():
                wall, cpu = median(turn.wall for turn in found), median(turn.cpu for turn in found)
                print(f"{codec:7} {name:13} {size / wall:6.0f} {size / cpu:6.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
