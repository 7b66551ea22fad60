"""The columns of the data source: for each kind of rows their names, Spark types and order, as DDL and as plain names.

Nothing of Spark or Arrow is imported here: the driver asks for the schema alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kdump.columns.names import Decode
from kdump.formats.close_names import closest
from kdump.spark.options import OptionError, ReadOptions, RowKind

DAMAGE = "damage"
HEADERS = "headers"


class Column(NamedTuple):
    """A column: its type in DDL, which field of kdump.columns (of segments: of SegmentInfo) it is, if it is one's.

    `is_default`: it is there without being asked for.
    """

    ddl: str
    field: str = ""
    is_default: bool = True


_HEADERS_DDL = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_DAMAGE_DDL = "STRUCT<position: BIGINT, resumed: BIGINT, message: STRING>"

DECODED = {
    f"{name}{what}": Column(kind, field, False)
    for name in ("key", "value")
    for what, kind, field in (
        ("Json", "STRING", name),
        ("SchemaId", "INT", f"{name}_schema_id"),
        ("Error", "STRING", f"{name}_error"),
    )
}
"""What keys and values decode to by their schemas; the fields are those of kdump.columns.decoding."""

ADDED = {
    f"{name}{what}": f"{name}_{field}"
    for name in ("key", "value")
    for what, field in (("Raw", "raw"), ("SchemaId", "schema_id"), ("Error", "error"))
}
"""What stands beside a typed key or value, and its field of kdump.columns.decoding."""

_RECORDS = {
    "key": Column("BINARY", "key"),
    "value": Column("BINARY", "value"),
    "topic": Column("STRING", "topic"),
    "partition": Column("INT", "partition"),
    "offset": Column("BIGINT", "offset"),
    "timestamp": Column("TIMESTAMP", "timestamp_us"),
    "timestampType": Column("INT", "timestamp_type"),
    HEADERS: Column(_HEADERS_DDL, "headers", False),
    "keySize": Column("BIGINT", "key_size", False),
    "valueSize": Column("BIGINT", "value_size", False),
    "headerCount": Column("INT", "header_count", False),
    "sequence": Column("INT", "sequence", False),
    "producerId": Column("BIGINT", "producer_id", False),
    "producerEpoch": Column("INT", "producer_epoch", False),
    "leaderEpoch": Column("INT", "leader_epoch", False),
    "isTransactional": Column("BOOLEAN", "is_transactional", False),
    "isControl": Column("BOOLEAN", "is_control", False),
    "magic": Column("INT", "magic", False),
    "codec": Column("STRING", "codec", False),
    "transaction": Column("STRING", "transaction", False),
    "position": Column("BIGINT", "position", False),
    "path": Column("STRING", "path", False),
    **DECODED,
    **{name: Column("BINARY", field, False) for name, field in ADDED.items() if name.endswith("Raw")},
    DAMAGE: Column(_DAMAGE_DDL, "", False),
}

_BATCHES = {
    "topic": Column("STRING", "topic"),
    "partition": Column("INT", "partition"),
    "baseOffset": Column("BIGINT", "base_offset"),
    "lastOffset": Column("BIGINT", "last_offset"),
    "recordCount": Column("INT", "record_count"),
    "position": Column("BIGINT", "position"),
    "size": Column("BIGINT", "size"),
    "magic": Column("INT", "magic"),
    "codec": Column("STRING", "codec"),
    "isTransactional": Column("BOOLEAN", "is_transactional"),
    "isControl": Column("BOOLEAN", "is_control"),
    "timestampType": Column("INT", "timestamp_type"),
    "baseTimestamp": Column("TIMESTAMP", "base_timestamp_us"),
    "maxTimestamp": Column("TIMESTAMP", "max_timestamp_us"),
    "producerId": Column("BIGINT", "producer_id"),
    "producerEpoch": Column("INT", "producer_epoch"),
    "baseSequence": Column("INT", "base_sequence"),
    "leaderEpoch": Column("INT", "leader_epoch"),
    "attributes": Column("INT", "attributes", False),
    "crc": Column("BIGINT", "crc", False),
    "path": Column("STRING", "path"),
    DAMAGE: Column(_DAMAGE_DDL, "", False),
}

_SEGMENTS = {
    "topic": Column("STRING"),
    "partition": Column("INT"),
    "baseOffset": Column("BIGINT", "base_offset"),
    "endOffset": Column("BIGINT", "end_offset"),
    "size": Column("BIGINT", "size"),
    "usedSize": Column("BIGINT", "used_size"),
    "sizeOnDisk": Column("BIGINT", "on_disk"),
    "batches": Column("BIGINT", "batches"),
    "records": Column("BIGINT", "records"),
    "firstTimestamp": Column("TIMESTAMP", "first_timestamp"),
    "largestTimestamp": Column("TIMESTAMP", "largest_timestamp"),
    "codecs": Column("ARRAY<STRING>", "codecs"),
    "magics": Column("ARRAY<INT>", "magics"),
    "isCounted": Column("BOOLEAN", "is_counted"),
    "offsetIndexEntries": Column("BIGINT"),
    "timeIndexEntries": Column("BIGINT"),
    "txnIndexEntries": Column("BIGINT"),
    "damaged": Column("INT"),
    "path": Column("STRING"),
}

_FINDINGS = {
    "code": Column("STRING"),
    "severity": Column("STRING"),
    "path": Column("STRING"),
    "position": Column("BIGINT"),
    "offset": Column("BIGINT"),
    "message": Column("STRING"),
    "broker": Column("STRING"),
    "repair": Column("STRING"),
    "number": Column("BIGINT"),
}

COLUMNS: Mapping[str, Mapping[str, Column]] = {
    RowKind.RECORDS: _RECORDS,
    RowKind.BATCHES: _BATCHES,
    RowKind.SEGMENTS: _SEGMENTS,
    RowKind.FINDINGS: _FINDINGS,
}
"""The columns of each kind of rows. `number` puts findings in the order of `kdump verify`; sizes are bytes."""


def column_names(options: ReadOptions) -> tuple[str, ...]:
    """Return the columns of a read. Raises OptionError for one that there is not."""
    known = COLUMNS[options.kind]
    if not options.columns:
        wanted = [name for name, column in known.items() if column.is_default]
        if options.kind is RowKind.RECORDS:
            wanted += [HEADERS] if options.headers else []
            wanted += DECODED if options.decode is Decode.JSON else ()
            wanted += (name for name in ADDED if _is_typed(options, name))
        return tuple(wanted)
    names = {name.lower(): name for name in known}
    chosen = []
    for name in options.columns:
        if name.lower() not in names:
            close = closest(name.lower(), names)
            hint = f"did you mean {names[close]}?" if close else f"there are {', '.join(known)}"
            raise OptionError(f"option columns: there is no column {name!r} of {options.kind}: {hint}")
        chosen.append(names[name.lower()])
        if chosen[-1].endswith("Raw") and not _is_typed(options, chosen[-1]):
            field = chosen[-1].removesuffix("Raw")
            why = f"no {field} has a schema" if options.typed else "it needs decode=columns"
            raise OptionError(f"option columns: there is no column {chosen[-1]}: {why}; the bytes are in {field}")
    if len(set(chosen)) < len(chosen):
        raise OptionError("option columns names a column twice")
    if options.headers and options.kind is RowKind.RECORDS and HEADERS not in chosen:
        chosen.append(HEADERS)
    return tuple(chosen)


def _is_typed(options: ReadOptions, name: str) -> bool:
    """Return whether a column of ADDED stands beside a key or value of a type of its own."""
    return options.typed is not None and ADDED[name].partition("_")[0] in options.typed.types


def ddl(options: ReadOptions) -> str:
    """Return the schema of a read. Raises OptionError."""
    return ", ".join(f"`{name}` {kind}" for name, kind in types(options).items())


def types(options: ReadOptions, quote: str = "`") -> dict[str, str]:
    """Return the types of the columns of a read; names within them are quoted. Raises OptionError."""
    known = COLUMNS[options.kind]
    found = {name: known[name].ddl for name in column_names(options)}
    if options.typed is not None:
        from kdump.spark.typed import type_text

        found |= {name: type_text(kind, quote) for name, kind in options.typed.types.items() if name in found}
    return found
