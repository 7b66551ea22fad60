"""Small segments for the tests of the storage room, and kernels to read them with."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from kdump import kernels
from kdump.formats.batch import LOG_OVERHEAD, MAGIC_AT
from kdump.formats.checksums import crc32c
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import scan

KERNELS = ("native", "portable")
FUNCTIONS = ("RecordColumns", "check", "crc32", "crc32c", "decode", "find_batch", "find_frame", "walk")


def use_kernels(name: str, patch: pytest.MonkeyPatch) -> None:
    """Make `kdump.kernels` those of this name; the test is skipped where they are not built."""
    if name == "native" and kernels.active != "native":
        pytest.skip("the native kernels are not built, or not chosen")
    module: Any = importlib.import_module(f"kdump.kernels.{'_native' if name == 'native' else 'portable.kernels'}")
    for function in FUNCTIONS:
        patch.setattr(kernels, function, getattr(module, function))


def batch(offset: int, count: int = 2, *, value: bytes = b"value", codec: int = 0, timestamp: int = 1000) -> bytes:
    """A v2 batch of `count` records from absolute `offset` on, a millisecond between their timestamps."""
    records = [NewRecord(offset + n, timestamp + n, b"key %d" % n, value) for n in range(count)]
    return encode_batch(records, NewBatch(attributes=codec))


def batches(count: int, first: int = 0, **options: Any) -> list[bytes]:
    """`count` batches of two records each, one after the other."""
    return [batch(first + 2 * n, **options) for n in range(count)]


def flipped(data: bytes, at: int, mask: int = 1) -> bytes:
    """`data` with the bits of `mask` turned over in byte `at` (from the end where negative)."""
    at %= len(data)
    return data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]


def with_size(data: bytes, size: int) -> bytes:
    """An entry whose size field says `size`."""
    return data[: LOG_OVERHEAD - 4] + size.to_bytes(4, "big", signed=True) + data[LOG_OVERHEAD:]


def with_valid_crc(data: bytes) -> bytes:
    """A v2 batch with the CRC that its content has now."""
    return data[: MAGIC_AT + 1] + crc32c(data[MAGIC_AT + 5 :]).to_bytes(4, "big") + data[MAGIC_AT + 5 :]


def segment_file(folder: Path, data: bytes, base_offset: int = 0) -> str:
    """Write a .log and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(data)
    return str(path)


def scanned(path: str, base_offset: int = 0, *, start: int = 0, stop: int | None = None) -> list[int | Damage]:
    """What a scan finds, in order: the last offset of every good batch, and the damage."""
    found: list[int | Damage] = []
    with LogFile(path) as log:
        for part in scan(log, base_offset, start, stop):
            if isinstance(part, Damage):
                found.append(part)
            else:
                found.extend(part.block.last_offset[part.first : part.stop])
    return found


def place(damage: int | Damage) -> tuple[int, int]:
    """Where damage begins, and where it ends."""
    assert isinstance(damage, Damage)
    return damage.position, damage.resumed
