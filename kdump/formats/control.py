"""The values of control records, by control type.

The key of every control record is int16 version, int16 type. A marker that ends a transaction has a value of int16
version and int32 coordinator epoch. In front of KRaft's messages is nothing: their first field is the version, and all
are flexible.

    0  ABORT            EndTxnMarker
    1  COMMIT           EndTxnMarker
    2  LEADER_CHANGE    LeaderChangeMessage
    3  SNAPSHOT_HEADER  SnapshotHeaderRecord
    4  SNAPSHOT_FOOTER  SnapshotFooterRecord
    5  KRAFT_VERSION    KRaftVersionRecord
    6  KRAFT_VOTERS     VotersRecord
"""

from __future__ import annotations

import struct
from typing import Any

from kdump.errors import InvalidRecordError
from kdump.formats.batch import ABORT, COMMIT, control_type_name
from kdump.formats.faults import (
    CONTROL_KEY_SIZE,
    CONTROL_NO_KEY,
    CONTROL_VERSION,
    MARKER_NO_VALUE,
    MARKER_SIZE,
    MARKER_VERSION,
    fault_error,
)
from kdump.formats.schemas.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.schemas.framing import Decoded
from kdump.formats.schemas.schema import decode, encode

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

_KEY = struct.Struct(">hh")
_END_TXN = struct.Struct(">hi")
_VERSION = Field("version", "int16")
_VOTER = (Field("voterId", "int32"), Field("voterDirectoryId", "uuid", "1+"))

SCHEMAS = {
    LEADER_CHANGE: Schema(
        "LeaderChangeMessage",
        "0-1",
        "0+",
        _VERSION,
        Field("leaderId", "int32"),
        Field("voters", "[]Voter", fields=_VOTER),
        Field("grantingVoters", "[]Voter", fields=_VOTER),
    ),
    SNAPSHOT_HEADER: Schema("SnapshotHeaderRecord", "0", "0+", _VERSION, Field("lastContainedLogTimestamp", "int64")),
    SNAPSHOT_FOOTER: Schema("SnapshotFooterRecord", "0", "0+", _VERSION),
    KRAFT_VERSION: Schema("KRaftVersionRecord", "0", "0+", _VERSION, Field("kRaftVersion", "int16")),
    KRAFT_VOTERS: Schema(
        "VotersRecord",
        "0",
        "0+",
        _VERSION,
        Field(
            "voters",
            "[]Voter",
            fields=(
                Field("voterId", "int32"),
                Field("voterDirectoryId", "uuid"),
                Field(
                    "endpoints",
                    "[]Endpoint",
                    fields=(Field("name", "string"), Field("host", "string"), Field("port", "uint16")),
                ),
                Field(
                    "kRaftVersionFeature",
                    "KRaftVersionFeature",
                    fields=(Field("minSupportedVersion", "int16"), Field("maxSupportedVersion", "int16")),
                ),
            ),
        ),
    ),
}


def control_type_of(key: bytes | None) -> int:
    """The type that the key of a control record names, known or not. Raises InvalidRecordError."""
    if key is None:
        raise fault_error((CONTROL_NO_KEY, 0, 0))
    if len(key) < _KEY.size:
        raise fault_error((CONTROL_KEY_SIZE, len(key), 0))
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise fault_error((CONTROL_VERSION, version, 0))
    return int(number)


def decode_marker(control_type: int, value: bytes | None) -> tuple[int, int]:
    """Version and coordinator epoch of a transaction's end marker; later versions are read as Kafka does, as 0.

    Raises InvalidRecordError.
    """
    if control_type not in (ABORT, COMMIT):
        name = control_type_name(control_type)
        raise InvalidRecordError(f"Invalid control record type for end transaction marker{name}")
    if value is None:
        raise fault_error((MARKER_NO_VALUE, 0, 0))
    if len(value) < _END_TXN.size:
        raise fault_error((MARKER_SIZE, len(value), 0))
    version, coordinator_epoch = _END_TXN.unpack_from(value)
    if version < 0:
        raise fault_error((MARKER_VERSION, version, 0))
    return version, coordinator_epoch


def decode_value(control_type: int, data: bytes) -> Decoded:
    """Read the value of a KRaft control record, in the version that its first field names.

    Where its bytes are not of that version they may be just what is written for version 0, which is the one that Kafka
    reads whatever the field says. Raises SchemaError for another control type, an unknown version, malformed bytes,
    and bytes left over.
    """
    schema = _schema(control_type)
    packer = PACKERS["int16"]
    if len(data) < packer.size:
        raise SchemaError(f"{schema.name} has only {len(data)} byte(s)", 0)
    version: int = packer.unpack_from(data)[0]
    schema.check_version(version, 0)
    failures = []
    for layout in dict.fromkeys((version, 0)):
        try:
            fields, end = decode(schema, layout, data)
            if end != len(data):
                raise SchemaError(f"{len(data) - end} byte(s) left over after {schema.name}", end)
            if layout != version and encode(schema, layout, fields) != data:
                continue
        except SchemaError as error:
            failures.append(error)
        else:
            return Decoded(control_type, schema.name, layout, fields, schema)
    raise failures[0]


def encode_value(control_type: int, version: int, fields: dict[str, Any]) -> bytes:
    """The value of a KRaft control record; SchemaError as `schema.encode`."""
    return encode(_schema(control_type), version, fields | {"version": version})


def _schema(control_type: int) -> Schema:
    schema = SCHEMAS.get(control_type)
    if schema is None:
        raise SchemaError(f"Control type {control_type} is none of KRaft's")
    return schema
