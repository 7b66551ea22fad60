"""kdump: look into, check and repair the log directories of Apache Kafka that no broker is serving.

`open_log(directory)` and `open_segment(file)` give a PartitionLog and a Segment, whose `batches()` and `records()`
iterate within offset bounds; `Segment.open_log()` gives the columns that everything in kdump reads (kdump.blocks).
`verify(path)` gives the findings about a log directory, a partition directory or a file (kdump.findings.finding).
The other functions do what the commands of their names do, with the same safety (kdump.library).
docs/library.md shows how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.cluster.set_voters import VoterAt
    from kdump.cluster.wanted import ControllerAt, UnknownTopics, Wanted
    from kdump.dump_log_segments.options import DumpLogOptions
    from kdump.errors import KdumpError, OnError, Problem, ProblemError, RefusedError
    from kdump.exports.options import ExportOptions
    from kdump.findings.kind import Severity
    from kdump.interchange.lines import Reading
    from kdump.library.appending import append, append_from, roll
    from kdump.library.changing import changes, compact, prune, repair, retain, undo
    from kdump.library.clusters import quorum, replicas, resurrect, set_voters
    from kdump.library.dump_tool import dump_log
    from kdump.library.dumping import batch_fields, dump
    from kdump.library.listing import log_directories, ls, partitions
    from kdump.library.reading import (
        export,
        groups,
        lookup,
        lookups,
        lost_records,
        metadata,
        schemas,
        startup,
        stats,
        transactional_ids,
        transactions,
    )
    from kdump.library.repairing import heal, rebuild_index, trim
    from kdump.library.verifying import doctor, explain, explain_log, verify
    from kdump.mend.task import LostMarkers, Request, Strategy
    from kdump.operations.append import NewLog, Opening
    from kdump.operations.append_input import AppendOptions
    from kdump.query.selection import Selection
    from kdump.server.background import serve
    from kdump.server.server import ServeOptions
    from kdump.statistics.partition import StatsOptions
    from kdump.storage.damage import Damage, DamageKind
    from kdump.storage.decoded import BadBatch
    from kdump.storage.open import open_directory, open_log, open_segment
    from kdump.storage.records import Batch, Record
    from kdump.txns.isolation_level import Isolation
    from kdump.write.packing import Packing
    from kdump.write.record_source import Message

__version__ = "0.1.0"
__all__ = [
    "AppendOptions",
    "BadBatch",
    "Batch",
    "ControllerAt",
    "Damage",
    "DamageKind",
    "DumpLogOptions",
    "ExportOptions",
    "Isolation",
    "KdumpError",
    "LostMarkers",
    "Message",
    "NewLog",
    "OnError",
    "Opening",
    "Packing",
    "Problem",
    "ProblemError",
    "Reading",
    "Record",
    "RefusedError",
    "Request",
    "Selection",
    "ServeOptions",
    "Severity",
    "StatsOptions",
    "Strategy",
    "UnknownTopics",
    "VoterAt",
    "Wanted",
    "__version__",
    "append",
    "append_from",
    "batch_fields",
    "changes",
    "compact",
    "doctor",
    "dump",
    "dump_log",
    "explain",
    "explain_log",
    "export",
    "groups",
    "heal",
    "log_directories",
    "lookup",
    "lookups",
    "lost_records",
    "ls",
    "metadata",
    "open_directory",
    "open_log",
    "open_segment",
    "partitions",
    "prune",
    "quorum",
    "rebuild_index",
    "repair",
    "replicas",
    "resurrect",
    "retain",
    "roll",
    "schemas",
    "serve",
    "set_voters",
    "startup",
    "stats",
    "transactional_ids",
    "transactions",
    "trim",
    "undo",
    "verify",
]

_MODULES = {
    "kdump.cluster.set_voters": "VoterAt",
    "kdump.cluster.wanted": "ControllerAt UnknownTopics Wanted",
    "kdump.dump_log_segments.options": "DumpLogOptions",
    "kdump.errors": "KdumpError OnError Problem ProblemError RefusedError",
    "kdump.exports.options": "ExportOptions",
    "kdump.findings.kind": "Severity",
    "kdump.interchange.lines": "Reading",
    "kdump.library.appending": "append append_from roll",
    "kdump.library.changing": "changes compact prune repair retain undo",
    "kdump.library.clusters": "quorum replicas resurrect set_voters",
    "kdump.library.dump_tool": "dump_log",
    "kdump.library.dumping": "batch_fields dump",
    "kdump.library.listing": "log_directories ls partitions",
    "kdump.library.repairing": "heal rebuild_index trim",
    "kdump.library.reading": "export groups lookup lookups lost_records metadata schemas startup stats"
    " transactional_ids transactions",
    "kdump.library.verifying": "doctor explain explain_log verify",
    "kdump.operations.append": "NewLog Opening",
    "kdump.operations.append_input": "AppendOptions",
    "kdump.query.selection": "Selection",
    "kdump.mend.task": "LostMarkers Request Strategy",
    "kdump.server.background": "serve",
    "kdump.server.server": "ServeOptions",
    "kdump.statistics.partition": "StatsOptions",
    "kdump.storage.damage": "Damage DamageKind",
    "kdump.storage.decoded": "BadBatch",
    "kdump.storage.open": "open_directory open_log open_segment",
    "kdump.storage.records": "Batch Record",
    "kdump.txns.isolation_level": "Isolation",
    "kdump.write.packing": "Packing",
    "kdump.write.record_source": "Message",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
"""Where what is public is, by name."""


def __getattr__(name: str) -> Any:
    """Load what is public when it is first asked for, so that `import kdump` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return what is public."""
    return sorted(__all__)
