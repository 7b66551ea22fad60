"""The inputs that the fuzzer begins with, made of the fixtures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from struct import pack

from tests.campaigns.guided.comparing import Kind
from tests.kernels.seeds import seeds

FIXTURES = Path(__file__).parents[3] / "fixtures" / "corpus"
MOST_BYTES = 1000
STAGES = 6
ROW_STAGES = 16
INDEX_STAGES = {".index": 0, ".timeindex": 1, ".txnindex": 2}


def input_of(kind: Kind, first: bytes, second: bytes = b"", *, stage: int = 0, flags: int = 0, extra: int = 0) -> bytes:
    """An input as inputs.pxi takes it apart."""
    return pack(">6BH", kind, stage, 3, 11, flags, extra, len(second)) + first + second


def first_inputs() -> Iterator[bytes]:
    """All inputs to begin with."""
    for seed in seeds():
        for stage in range(STAGES):
            yield input_of(Kind.LOG, seed.data, seed.payload or b"", stage=stage, flags=stage << 5, extra=stage + 2)
    for text in (b"plain", 'naïve "quoted", 日本'.encode(), b"a1" * 40, b'""""\xff', b"\n\r,\x7f", b'{"a": [1, null]}'):
        for stage in range(ROW_STAGES):
            yield input_of(Kind.TEXTS, text * 3, bytes([len(text)]) * 3, stage=stage)
            yield input_of(Kind.TEXTS, text * 3, bytes([1]) * len(text), stage=stage, flags=3)
    row = pack(">i7h", 5, 0, 3, 3, 4, 7, 4, 1)
    for rows in (1, 3, 12):
        yield input_of(Kind.NEW, row * rows, b"keyvalu\x02h\x02x" * 3, extra=255, flags=61)
    yield from _files()


def _files() -> Iterator[bytes]:
    """The files beside the logs, and the small logs."""
    for path in sorted(FIXTURES.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()[:MOST_BYTES]
        if path.suffix in INDEX_STAGES:
            yield input_of(Kind.INDEX, data[:510], stage=INDEX_STAGES[path.suffix])
        elif path.suffix == ".snapshot":
            yield input_of(Kind.SNAPSHOT, data)
        elif path.name.endswith("checkpoint"):
            yield input_of(Kind.CHECKPOINT, data, stage=path.name.startswith("leader"))
        elif path.suffix == ".log" and path.stat().st_size <= MOST_BYTES:
            yield input_of(Kind.LOG, data, stage=len(data) % STAGES)


def write_corpus(folder: Path) -> int:
    """Write the inputs that are not there yet; how many files there are then."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in first_inputs():
        path = folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if not path.exists():
            path.write_bytes(data)
    return sum(1 for _ in folder.iterdir())
