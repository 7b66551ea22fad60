"""The two checksums of Kafka's batches.

| checksum | polynomial, reflected | covers |
|---|---|---|
| CRC-32C (Castagnoli) | 0x82F63B78 | v2 batches, from the attributes to the end; producer snapshots |
| CRC-32 (IEEE) | 0xEDB88320 | v0 and v1 messages, from the magic byte to the end |

Both start from and end with all bits inverted, and are stored as unsigned 32-bit numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache

from kdump.errors import KdumpError

Buffer = bytes | bytearray | memoryview


_compiled: Callable[[Buffer, int], int] | None = None
"""The CRC-32C of the compiled kernel, if that is in use."""


def crc32(data: Buffer, value: int = 0) -> int:
    """Return CRC-32 of `data`, going on from `value`, the checksum of the bytes before it."""
    return zlib.crc32(data, value)


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return CRC-32C of `data`, going on from `value`, the checksum of the bytes before it.

    Raises KdumpError where there is no compiled kernel, and neither fastcrc nor crcmod is installed.
    """
    return library_crc32c(data, value) if _compiled is None else _compiled(data, value)


def compiled_crc32c(function: Callable[[Buffer, int], int]) -> None:
    """Let `crc32c` use the compiled kernel's from now on: a second library of that kind need not be loaded."""
    global _compiled
    _compiled = function


def library_crc32c(data: Buffer, value: int = 0) -> int:
    """Return what `crc32c` returns, without the compiled kernel: for the portable ones, which are compared with it."""
    return _library()[1](data, value)


def crc32c_engine() -> str:
    """Return what computes `library_crc32c`: "fastcrc", "crcmod" or, where it is slow, "crcmod (pure Python)"."""
    return _library()[0]


@cache
def _library() -> tuple[str, Callable[[Buffer, int], int]]:
    """Return the library in use, which is picked when it is first asked for, because importing one takes time."""
    try:
        from fastcrc.crc32 import iscsi
    except ImportError:
        return _crcmod()
    return "fastcrc", iscsi


def _crcmod() -> tuple[str, Callable[[Buffer, int], int]]:
    try:
        from crcmod.crcmod import _usingExtension, mkCrcFun
    except ImportError:
        raise KdumpError(
            "CRC-32C needs the package fastcrc or crcmod, and neither is installed: pip install fastcrc"
        ) from None
    # crcmod takes the polynomial with its leading term and not reflected.
    compute: Callable[[bytes, int], int] = mkCrcFun(0x11EDC6F41, initCrc=0, rev=True, xorOut=0xFFFFFFFF)

    def update(data: Buffer, value: int) -> int:
        return compute(bytes(data), value)

    return "crcmod" if _usingExtension else "crcmod (pure Python)", update
