"""The kernels in plain Python: the reference for the compiled ones, and what runs where those cannot be built."""

from __future__ import annotations

from kdump.formats.checksums import crc32, crc32c
from kdump.kernels.portable.records import check, decode
from kdump.kernels.portable.resync import find_batch
from kdump.kernels.portable.text import LogText
from kdump.kernels.portable.walk import walk

__all__ = ["LogText", "check", "crc32", "crc32c", "decode", "find_batch", "walk"]
