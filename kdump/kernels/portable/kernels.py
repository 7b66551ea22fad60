"""All kernels in plain Python, by the names of the compiled ones."""

from __future__ import annotations

from kdump.formats.checksums import crc32
from kdump.formats.checksums import library_crc32c as crc32c
from kdump.kernels.portable.column_stats import column_stats, differences
from kdump.kernels.portable.columns import RecordColumns, murmur2
from kdump.kernels.portable.compaction import OffsetMap, encode_kept, rewrite
from kdump.kernels.portable.encode import encode
from kdump.kernels.portable.records import check, decode
from kdump.kernels.portable.resync import find_batch, find_frame
from kdump.kernels.portable.rows import RowText
from kdump.kernels.portable.text import LogText
from kdump.kernels.portable.walk import skip_entries, walk

__all__ = [
    "LogText",
    "OffsetMap",
    "RecordColumns",
    "RowText",
    "check",
    "column_stats",
    "crc32",
    "crc32c",
    "decode",
    "differences",
    "encode",
    "encode_kept",
    "find_batch",
    "find_frame",
    "murmur2",
    "rewrite",
    "skip_entries",
    "walk",
]
