"""Batches and records as Arrow record batches, built from the kernels' columns without a Python object per record.

Needs pyarrow (`pip install 'kafka-kdump[columns]'`). `read_records` and `read_batches` read a byte range of one
segment; what cannot be trusted in it comes between the record batches as `Damage`.
"""

from __future__ import annotations

from kdump.columns.batches import BATCH_FIELDS, BatchTables, read_batches
from kdump.columns.fields import RECORD_FIELDS, Labels
from kdump.columns.records import RecordTables, read_records

__all__ = [
    "BATCH_FIELDS",
    "RECORD_FIELDS",
    "BatchTables",
    "Labels",
    "RecordTables",
    "read_batches",
    "read_records",
]
