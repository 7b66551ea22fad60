"""The values of KRaft's control records, by control type.

Nothing is in front of the message; its first field is the version. All are flexible, and the key is that of every
control record (int16 version, int16 type).

    2  LEADER_CHANGE    LeaderChangeMessage
    3  SNAPSHOT_HEADER  SnapshotHeaderRecord
    4  SNAPSHOT_FOOTER  SnapshotFooterRecord
    5  KRAFT_VERSION    KRaftVersionRecord
    6  KRAFT_VOTERS     VotersRecord
"""

from __future__ import annotations

from typing import Any

from kdump.formats.internal_topics.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.internal_topics.framing import Decoded
from kdump.formats.internal_topics.schema import decode, encode

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

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


def decode_value(control_type: int, data: bytes) -> Decoded:
    """Read the value of a KRaft control record, in the version that its first field names.

    Raises SchemaError for another control type, an unknown version, malformed bytes, and bytes left over.
    """
    schema = _schema(control_type)
    packer = PACKERS["int16"]
    if len(data) < packer.size:
        raise SchemaError(f"{schema.name} has only {len(data)} byte(s)", 0)
    version: int = packer.unpack_from(data)[0]
    fields, end = decode(schema, version, data)
    if end != len(data):
        raise SchemaError(f"{len(data) - end} byte(s) left over after {schema.name}", end)
    return Decoded(control_type, schema.name, version, fields, schema)


def encode_value(control_type: int, version: int, fields: dict[str, Any]) -> bytes:
    """The value of a KRaft control record; SchemaError as `schema.encode`."""
    return encode(_schema(control_type), version, fields | {"version": version})


def _schema(control_type: int) -> Schema:
    schema = SCHEMAS.get(control_type)
    if schema is None:
        raise SchemaError(f"Control type {control_type} is none of KRaft's")
    return schema
