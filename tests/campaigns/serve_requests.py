"""Requests made up by the protocol's own tables, some of them broken, and a server that must survive all of them.

    ./dev campaign serve-requests [--requests 1000000] [--seed 1]

A connection of the real code reads them; only the network and the threads are left out. The campaign ends with exit
code 1 at a fault of the server (the line "internal error"), at a connection that is closed without a reason, and if
memory still grows after the first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kdump.formats.schemas.description import SchemaError
from kdump.formats.schemas.writer import encode
from kdump.server.channels import Channel
from kdump.server.cluster import ServedCluster
from kdump.server.connection import Connection
from kdump.server.context import Context
from kdump.server.pieces import OnDamage
from kdump.server.protocol.apis import APIS
from kdump.server.server import ServeOptions, Server
from kdump.storage.directory import LogDirectory
from tests.serve.data import build

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_NAMES = ("codec-none", "codec-zstd", "payments", "nothing", "trimmed", "", "absent", "groups", "workers", "1", "ü" * 9)
_ENDS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0")
_TURNS = 60
MAX_GROWTH = 16
"""MiB that the peak of memory may be above that of the first tenth."""


class Requests:
    """A source of requests; the same seed gives the same ones."""

    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        self._random = random.Random(seed)
        self._ids = [*topic_ids, bytes(16), b"x" * 16]

    def next(self) -> tuple[str, bytes]:
        """The name of a kind of request, and one of its kind without its size."""
        draw = self._random
        api = draw.choice(list(APIS.values()))
        version = draw.randint(api.first, api.last)
        body = self._struct(api.request.fields, version)
        try:
            encoded = encode(api.request, version, body)
        except SchemaError:  # a value that the version lacks
            encoded = encode(api.request, version, {})
        flexible = b"\0" if api.is_flexible(version) else b""
        client = draw.choice((b"\xff\xff", b"\0\0", b"\0\x04fuzz"))
        data = struct.pack(">hhi", api.key, version, draw.getrandbits(31)) + client + flexible + encoded
        return api.name, self._broken(data) if draw.random() < 0.5 else data

    def _struct(self, fields: Any, version: int) -> dict[str, Any]:
        present = (field for field in fields if field.first <= version <= field.last)
        return {field.name: self._field(field, version) for field in present}

    def _field(self, field: Any, version: int) -> Any:
        draw = self._random
        is_nullable = field.null_first <= version <= field.null_last
        if is_nullable and draw.random() < 0.2:
            return None
        if field.array:
            return [self._one(field, version) for _ in range(draw.choice((0, 1, 1, 2, 5)))]
        return self._one(field, version)

    def _one(self, field: Any, version: int) -> Any:
        draw = self._random
        if field.fields is not None:
            return self._struct(field.fields, version)
        if field.kind in _INTEGERS:
            bits = _INTEGERS[field.kind]
            low, high = (0, 2**bits - 1) if field.kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            any_one, usual = draw.randint(low, high), min(high, draw.randint(0, 90))
            return draw.choice((0, 1, 2, low, high, any_one, usual, max(low, -1)))
        if field.kind == "bool":
            return draw.random() < 0.5
        if field.kind == "uuid":
            return draw.choice(self._ids)
        if field.kind == "bytes":
            return draw.randbytes(draw.choice((0, 1, 20, 300)))
        return draw.choice(_NAMES)

    def _broken(self, data: bytes) -> bytes:
        draw = self._random
        mutant = bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(mutant)) if mutant else 0
            match draw.randrange(5):
                case 0 if mutant:
                    mutant[at] ^= 1 << draw.randrange(8)
                case 1 if mutant:
                    mutant[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
                case 2:
                    del mutant[at:]
                case 3:
                    mutant[at:at] = draw.randbytes(draw.choice((1, 4, 16)))
                case _ if mutant:
                    mutant[at : at + 4] = draw.choice(_ENDS)
        return bytes(mutant)


class _Line(Channel):
    """A connection that brings one request and takes whatever comes back."""

    def __init__(self, data: bytes) -> None:
        self._data = struct.pack(">i", len(data)) + data
        self.sent = 0

    async def read(self, size: int) -> bytes:
        if len(self._data) < size:
            raise EOFError
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    async def send(self, data: bytes) -> None:
        self.sent += len(data)

    def close(self) -> None:
        """Nothing is open."""


class _Inline(Server):
    """A server without threads and without patience."""

    async def in_thread(self, work: Callable[[Context, Any], Any], ctx: Context, request: Any) -> Any:
        return work(ctx, request)

    async def pause(self, seconds: float) -> None:
        """Time passes."""


async def survive(log_dir: Path, requests: int, seed: int) -> Counter[str]:
    """Send so many requests; how many of each kind were answered, and what was said of the others.

    Raises AssertionError where the server has a fault.
    """
    said: Counter[str] = Counter()
    told: list[str] = []
    cluster = ServedCluster([LogDirectory(str(log_dir))], OnDamage.STOP, lambda problem: None, lambda line: None)
    server = _Inline(cluster, ServeOptions(), told.append)
    source = Requests(seed, list(cluster.names))
    for _ in range(requests):
        name, data = source.next()
        line = _Line(data)
        connection = Connection(server, Context(cluster, 1, server._coordinator, "127.0.0.1", "127.0.0.1"), "fuzz")
        task = asyncio.ensure_future(connection.run(line))
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if task.done():
                break
        else:
            task.cancel()
            said["waits for others"] += 1
        await asyncio.gather(task, return_exceptions=True)
        is_silent = task.done() and not task.cancelled() and not line.sent and not told
        assert not is_silent, ("closed without a reason", name, data.hex())
        for text in told:
            assert "internal error" not in text, (text, name, data.hex())
            said["closed with a reason"] += 1
        told.clear()
        said[name] += line.sent > 0
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    peaks: list[int] = []
    with tempfile.TemporaryDirectory(prefix="kdump-fuzz-") as scratch:
        log_dir = build(Path(scratch) / "data", ["flip-payload-bit:topic=codec-none,partition=0"])
        started = time.perf_counter()
        total: Counter[str] = Counter()
        for part in range(10):
            total += asyncio.run(survive(log_dir, asked.requests // 10, asked.seed * 1000 + part))
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
            elapsed = time.perf_counter() - started
            sent = (part + 1) * asked.requests // 10
            print(f"{sent:,} requests, {elapsed:.0f} s, at most {peaks[-1]} MiB", flush=True)
    for name, count in total.most_common():
        print(f"{count:9,} {name}")
    if peaks[-1] > peaks[0] + MAX_GROWTH:
        print(f"memory grew from {peaks[0]} to {peaks[-1]} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
