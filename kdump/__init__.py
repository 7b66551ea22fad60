"""kdump: look into, check and mend the log directories of Apache Kafka that no broker is serving.

`open_log(directory)` and `open_segment(file)` give a PartitionLog and a Segment, whose `batches()` and `records()`
iterate within offset bounds; `Segment.open_log()` gives the columns that everything in kdump reads (kdump.blocks).
`verify(path)` gives the findings about a log directory, a partition directory or a file (kdump.findings.finding).
The other functions do what the commands of their names do, with the same safety (kdump.library).
docs/library.md shows how.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.errors import OnError, Problem
    from kdump.library.changing import append, changes, compact, repair, retain, undo
    from kdump.library.listing import ls
    from kdump.library.reading import (
        export,
        groups,
        lookup,
        lookups,
        lost_records,
        metadata,
        startup,
        stats,
        transactions,
    )
    from kdump.library.verifying import verify
    from kdump.storage.damage import Damage
    from kdump.storage.decoded import BadBatch
    from kdump.storage.open import open_directory, open_log, open_segment
    from kdump.storage.records import Batch, Record

__version__ = "0.1.0"
__all__ = [
    "BadBatch",
    "Batch",
    "Damage",
    "OnError",
    "Problem",
    "Record",
    "__version__",
    "append",
    "changes",
    "compact",
    "export",
    "groups",
    "lookup",
    "lookups",
    "lost_records",
    "ls",
    "metadata",
    "open_directory",
    "open_log",
    "open_segment",
    "repair",
    "retain",
    "startup",
    "stats",
    "transactions",
    "undo",
    "verify",
]

_HOMES = {
    **dict.fromkeys(("Batch", "Record"), "kdump.storage.records"),
    "BadBatch": "kdump.storage.decoded",
    **dict.fromkeys(("open_directory", "open_log", "open_segment"), "kdump.storage.open"),
    **dict.fromkeys(("append", "changes", "compact", "repair", "retain", "undo"), "kdump.library.changing"),
    "Damage": "kdump.storage.damage",
    "ls": "kdump.library.listing",
    "OnError": "kdump.errors",
    "Problem": "kdump.errors",
    "verify": "kdump.library.verifying",
}


_PACKAGES = frozenset({"export", "repair", "stats", "transactions", "verify"})
"""Functions of whose name there is a package as well."""


def __getattr__(name: str) -> Any:
    """Load what is public when it is first asked for, so that `import kdump` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES.get(name, "kdump.library.reading")), name)
    if name in _PACKAGES:  # `import kdump.verify.run as run` asks the function for the modules of the package
        found.__dict__ = import_module(f"{__name__}.{name}").__dict__
    return found


def __dir__() -> list[str]:
    """Return what is public."""
    return sorted(__all__)


class _Face(ModuleType):
    """The module, of which packages of the same name as a function (kdump.verify) do not take the function's place.

    Importing a package makes it an attribute of the one around it; `from kdump.verify.run import ...` needs none.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
