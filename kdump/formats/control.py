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

from typing import Any, NamedTuple

from kdump.errors import InvalidRecordError
from kdump.formats.batch import (
    ABORT,
    COMMIT,
    CONTROL_KEY,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    MARKER_VALUE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    control_type_name,
)
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
from kdump.formats.schemas.reader import decode
from kdump.formats.schemas.writer import encode

MARKER_TYPE = -1
_NO_MARKER = "Invalid control record type for end transaction marker"
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


class ControlError(InvalidRecordError):
    """A control record breaks its format; `code` is one of formats.faults, MARKER_TYPE for one that ends nothing."""

    def __init__(self, code: int, found: int = 0) -> None:
        self.code = code
        self.fault = (code, found, 0)
        text = fault_error(self.fault) if code != MARKER_TYPE else f"{_NO_MARKER}{control_type_name(found)}"
        super().__init__(str(text))


class EndTxnMarker(NamedTuple):
    """A marker that ends a transaction: `control_type` is formats.batch.ABORT or COMMIT; the version of its value."""

    control_type: int
    coordinator_epoch: int
    version: int = 0


def control_type_of(key: bytes | None) -> int:
    """Return the type that the key of a control record names, known or not (Kafka: ControlRecordType.parse).

    Raises ControlError.
    """
    version, number = key_parts(key)
    if version < 0:
        raise ControlError(CONTROL_VERSION, version)
    return number


def key_parts(key: bytes | None) -> tuple[int, int]:
    """Return version and type of a control record's key, whatever they are. Raises ControlError where it has none."""
    if key is None:
        raise ControlError(CONTROL_NO_KEY)
    if len(key) < CONTROL_KEY.size:
        raise ControlError(CONTROL_KEY_SIZE, len(key))
    version, number = CONTROL_KEY.unpack_from(key)
    return version, number


def parse_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    """Return the marker that key and value of a control record are (Kafka: EndTransactionMarker.deserialize).

    Raises ControlError.
    """
    return decode_marker(control_type_of(key), value)


def decode_marker(control_type: int, value: bytes | None) -> EndTxnMarker:
    """Return the marker of this type; later versions are read as Kafka does, as 0. Raises ControlError."""
    if control_type not in (ABORT, COMMIT):
        raise ControlError(MARKER_TYPE, control_type)
    version, coordinator_epoch = value_parts(value)
    if version < 0:
        raise ControlError(MARKER_VERSION, version)
    return EndTxnMarker(control_type, coordinator_epoch, version)


def value_parts(value: bytes | None) -> tuple[int, int]:
    """Return version and coordinator epoch of a marker's value, whatever they are. ControlError without."""
    if value is None:
        raise ControlError(MARKER_NO_VALUE)
    if len(value) < MARKER_VALUE.size:
        raise ControlError(MARKER_SIZE, len(value))
    version, coordinator_epoch = MARKER_VALUE.unpack_from(value)
    return version, coordinator_epoch


def version_of_short_marker(value: bytes) -> ControlError | None:
    """Return the fault that Kafka 4.1 and later find first in too short a marker: a bad version; None: its end."""
    version = int.from_bytes(value[:2], "big", signed=True)
    return ControlError(MARKER_VERSION, version) if len(value) >= 2 and version < 0 else None


def encode_marker(control_type: int, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return key and value of the marker that ends a transaction."""
    return CONTROL_KEY.pack(0, control_type), MARKER_VALUE.pack(0, coordinator_epoch)


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
    """Return the value of a KRaft control record; SchemaError as `writer.encode`."""
    return encode(_schema(control_type), version, fields | {"version": version})


def _schema(control_type: int) -> Schema:
    schema = SCHEMAS.get(control_type)
    if schema is None:
        raise SchemaError(f"Control type {control_type} is none of KRaft's")
    return schema
