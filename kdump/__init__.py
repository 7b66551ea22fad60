"""kdump: look into, check and mend the log directories of Apache Kafka that no broker is serving.

`open_log(directory)` and `open_segment(file)` give a PartitionLog and a Segment, whose `batches()` and `records()`
iterate within offset bounds; `Segment.open_log()` gives the columns that everything in kdump reads (kdump.blocks).
`verify(path)` gives the findings about a log directory, a partition directory or a file (kdump.findings.catalogue).
docs/library.md shows how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.storage.open import open_directory, open_log, open_segment
    from kdump.storage.records import BadBatch, Batch, Record
    from kdump.storage.scan import Damage
    from kdump.verify.run import verify

__version__ = "0.1.0"
__all__ = [
    "BadBatch",
    "Batch",
    "Damage",
    "Record",
    "__version__",
    "open_directory",
    "open_log",
    "open_segment",
    "verify",
]

_HOMES = {
    "BadBatch": "kdump.storage.records",
    "Batch": "kdump.storage.records",
    "Damage": "kdump.storage.scan",
    "Record": "kdump.storage.records",
    "open_directory": "kdump.storage.open",
    "open_log": "kdump.storage.open",
    "open_segment": "kdump.storage.open",
}


def __getattr__(name: str) -> Any:
    """Load what is public when it is first asked for, so that `import kdump` costs nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    if name == "verify":
        import kdump.verify

        return kdump.verify  # the package, which can be called
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
