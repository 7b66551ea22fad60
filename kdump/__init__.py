"""kdump: look into, check and mend the log directories of Apache Kafka that no broker is serving.

`open_log(directory)` and `open_segment(file)` give a PartitionLog and a Segment, whose `batches()` and `records()`
iterate within offset bounds; `Segment.open_log()` gives the columns that everything in kdump reads (kdump.blocks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.storage.open import open_directory, open_log, open_segment

__version__ = "0.1.0"
__all__ = ["__version__", "open_directory", "open_log", "open_segment"]


def __getattr__(name: str) -> Any:
    """Load the storage room when it is first asked for, so that `import kdump` costs nothing."""
    if name in ("open_directory", "open_log", "open_segment"):
        from kdump.storage import open as opening

        return getattr(opening, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
