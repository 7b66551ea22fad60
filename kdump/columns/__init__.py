"""Batches and records as Arrow record batches, built from the kernels' columns without a Python object per record.

Needs pyarrow (`pip install 'kafka-kdump[columns]'`), but for `kdump.columns.scanning`, whose records are streams that
whatever takes Arrow's reads without it. `read_records` and `read_batches` read a byte range of one segment; what cannot
be trusted in it comes between the record batches as `Damage`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.columns.batches import BATCH_FIELDS, BatchTables, read_batches
    from kdump.columns.fields import RECORD_FIELDS
    from kdump.columns.gathering import read_records
    from kdump.columns.names import Labels
    from kdump.columns.records import RecordTables

__all__ = [
    "BATCH_FIELDS",
    "RECORD_FIELDS",
    "BatchTables",
    "Labels",
    "RecordTables",
    "read_batches",
    "read_records",
]

_MODULES = {
    "BATCH_FIELDS": "batches",
    "BatchTables": "batches",
    "read_batches": "batches",
    "RECORD_FIELDS": "fields",
    "Labels": "names",
    "RecordTables": "records",
    "read_records": "gathering",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and pyarrow only where that needs it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
