"""Measure how `kdump serve` starts with many partitions, and what many clients that fetch all of them take.

    python benchmarks/serving_many.py [--partitions 2000] [--connections 300]

The start counts until the line that names the address; memory is resident, as /proc tells it.
"""

from __future__ import annotations

import argparse
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.serving import cpu_of  # noqa: E402
from kdump.fixture.make import make  # noqa: E402

TOPICS = 20
MIB = 1 << 20


def build(folder: Path, partitions: int) -> str:
    """A log directory of many small partitions."""
    each = partitions // TOPICS
    steps = [{"append": {"records": 50, "batch_records": 10, "value": {"shape": "json", "size": [100, 300]}}}]
    topics = [{"name": f"topic-{number}", "partitions": each, "steps": steps} for number in range(TOPICS)]
    return str(make({"seed": 1, "topics": topics}, folder).path)


def memory(process: int, field: str) -> float:
    """MiB that a process has (VmRSS), or had at the most (VmHWM)."""
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def fetch_all(address: tuple[str, int], partitions: int) -> int:
    """Ask for the beginning of all partitions in one Fetch (version 4); the bytes of the answer."""
    each = partitions // TOPICS
    body = struct.pack(">iiiibi", -1, 500, 1, 50 * MIB, 0, TOPICS)
    for number in range(TOPICS):
        name = f"topic-{number}".encode()
        body += struct.pack(">h", len(name)) + name + struct.pack(">i", each)
        body += b"".join(struct.pack(">iqi", partition, 0, 4096) for partition in range(each))
    request = struct.pack(">hhih", 1, 4, 1, -1) + body
    with socket.create_connection(address) as sock:
        sock.sendall(struct.pack(">i", len(request)) + request)
        size = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))[0]
        got = 0
        while got < size:
            got += len(sock.recv(min(MIB, size - got)))
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kdump-serving-") as scratch:
        folder = build(Path(scratch) / "data", asked.partitions)
        program = str(Path(sys.executable).parent / "kdump")
        started = time.perf_counter()
        process = subprocess.Popen(
            [program, "serve", folder, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        wall = time.perf_counter() - started
        spent = cpu_of(process.pid)
        print(f"{line.strip()} after {wall:.2f} s, {spent:.2f} s of CPU, {memory(process.pid, 'VmRSS'):.0f} MiB")
        port = int(line.split()[2].rstrip(":").rpartition(":")[2])
        try:
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(asked.connections)]
            print(f"{asked.connections} idle connections: {memory(process.pid, 'VmRSS'):.0f} MiB")
            for each in held:
                each.close()
            with ThreadPoolExecutor(asked.connections) as pool:
                started = time.perf_counter()
                jobs = [pool.submit(fetch_all, ("127.0.0.1", port), asked.partitions) for _ in held]
                size = sum(job.result() for job in jobs)
            print(
                f"{asked.connections} clients fetched {size / MIB:.0f} MiB in {time.perf_counter() - started:.1f} s:"
                f" at most {memory(process.pid, 'VmHWM'):.0f} MiB"
            )
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
