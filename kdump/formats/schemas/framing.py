"""How the records of internal topics wrap their messages.

    coordinator topics  key    int16 record type, then the key's message (never flexible)
                        value  int16 version, then the value's message; null is a tombstone
    metadata topics     key    null
                        value  unsigned varints frame version (1), record type (apiKey) and record version, then the
                               message and nothing after it

Coordinator topics are __consumer_offsets, __transaction_state and __share_group_state; metadata topics are
__cluster_metadata, with its checkpoint files, and __remote_log_metadata.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from kdump.formats.schemas.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.schemas.schema import decode, encode, read_unsigned_varint, to_json, write_unsigned_varint

FRAME_VERSION = 1
KEY_VERSION = 0
_INT16 = PACKERS["int16"]
_MAX_INT16 = 0x7FFF


class Decoded(NamedTuple):
    """A record's key or value.

    `type` is the record type of a coordinator's topic or the apiKey of a metadata topic, `name` that type's name,
    `version` the one that the value was written with (a key has none and says 0), `fields` the message.
    """

    type: int
    name: str
    version: int
    fields: dict[str, Any]
    schema: Schema

    def json(self) -> dict[str, Any]:
        """The fields as Kafka's JSON converters give them."""
        return to_json(self.schema, self.version, self.fields)


class RecordKind:
    """A record type of a coordinator's topic: name, schema of the key, and the layouts that values have had.

    The first layout is that of Kafka 4.0; `since` names the first release of a type that 4.0 does not know.
    """

    __slots__ = ("key", "name", "since", "values")

    def __init__(self, name: str, key: Schema, *values: Schema, since: str = "") -> None:
        self.name = name
        self.key = key
        self.values = values
        self.since = since


class CoordinatorTopic:
    """The record types of a topic by number, and the reading and writing of its keys and values."""

    __slots__ = ("kinds", "name")

    def __init__(self, name: str, kinds: dict[int, RecordKind]) -> None:
        self.name = name
        self.kinds = kinds

    def decode_key(self, data: bytes) -> Decoded:
        """Read a record's key. Raises SchemaError for an unknown type, a malformed key, and bytes after it."""
        number = _leading_int16(data, "key")
        kind = self._kind(number)
        fields, end = decode(kind.key, KEY_VERSION, data, _INT16.size)
        _check_end(data, end, kind.key.name)
        return Decoded(number, kind.name, KEY_VERSION, fields, kind.key)

    def decode_value(self, record_type: int, data: bytes) -> Decoded:
        """Read the value of a record whose key has that type.

        Where releases gave one version several layouts, the first that fits the bytes from start to end counts,
        beginning with Kafka 4.0's. Raises SchemaError (4.0's, if there is a choice) when none fits.
        """
        kind = self._kind(record_type)
        version = _leading_int16(data, "value")
        failures = []
        for schema in kind.values:
            try:
                fields, end = decode(schema, version, data, _INT16.size)
                _check_end(data, end, schema.name)
            except SchemaError as error:
                failures.append(error)
            else:
                return Decoded(record_type, kind.name, version, fields, schema)
        raise failures[0]

    def encode_key(self, record_type: int, fields: dict[str, Any]) -> bytes:
        """The key of a record; SchemaError as `schema.encode`."""
        return _INT16.pack(record_type) + encode(self._kind(record_type).key, KEY_VERSION, fields)

    def encode_value(self, record_type: int, version: int, fields: dict[str, Any], layout: int = 0) -> bytes:
        """The value of a record; `layout` counts from Kafka 4.0's. SchemaError as `schema.encode`."""
        message = encode(self._kind(record_type).values[layout], version, fields)
        return _INT16.pack(version) + message

    def _kind(self, number: int) -> RecordKind:
        kind = self.kinds.get(number)
        if kind is None:
            raise SchemaError(f"Unknown record type {number} of {self.name}")
        return kind


class MetadataTopic:
    """The record types of a metadata topic by apiKey, and the reading and writing of its values."""

    __slots__ = ("name", "schemas")

    def __init__(self, name: str, schemas: dict[int, Schema]) -> None:
        self.name = name
        self.schemas = schemas

    def decode_value(self, data: bytes) -> Decoded:
        """Read a record's value. Raises SchemaError for an unknown frame, type or version, malformed or left-over
        bytes.
        """
        api_key, version, position = read_frame(data)
        schema = self._schema(api_key)
        fields, end = decode(schema, version, data, position)
        _check_end(data, end, schema.name)
        return Decoded(api_key, schema.name, version, fields, schema)

    def encode_value(self, api_key: int, version: int, fields: dict[str, Any]) -> bytes:
        """The value of a record; SchemaError as `schema.encode`."""
        message = encode(self._schema(api_key), version, fields)
        out = bytearray()
        for number in (FRAME_VERSION, api_key, version):
            write_unsigned_varint(out, number)
        return bytes(out) + message

    def _schema(self, api_key: int) -> Schema:
        schema = self.schemas.get(api_key)
        if schema is None:
            raise SchemaError(f"Unknown metadata id {api_key} in {self.name}")
        return schema


def key_schema(name: str, *fields: Field) -> Schema:
    """The schema of a coordinator record's key."""
    return Schema(name, str(KEY_VERSION), "none", *fields)


def read_frame(data: bytes) -> tuple[int, int, int]:
    """The apiKey and the version in front of a metadata message, and the position of the message.

    Raises SchemaError with the texts of Kafka's MetadataParseException.
    """
    frame_version, position = _frame_number(data, 0, "frame version")
    if frame_version == 0:
        _parse_error(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release"
            " of KRaft in 2.8 to newer versions are not supported.",
            0,
        )
    if frame_version != FRAME_VERSION:
        _parse_error(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            f"(only frame version {FRAME_VERSION} is supported)",
            0,
        )
    api_key, position = _frame_number(data, position, "type")
    version, position = _frame_number(data, position, "version")
    return api_key, version, position


def _frame_number(data: bytes, position: int, what: str) -> tuple[int, int]:
    """A varint that Kafka narrows to a signed 16-bit number, refusing only what is too large."""
    try:
        number, end = read_unsigned_varint(data, position)
    except SchemaError:
        _parse_error(f"Error while reading {what}", position)
    if number > _MAX_INT16:
        _parse_error(f"Value for {what} was too large.", position)
    return ((number & 0xFFFF) ^ 0x8000) - 0x8000, end


def _parse_error(message: str, position: int) -> NoReturn:
    raise SchemaError(message, position, kafka_message=message)


def _leading_int16(data: bytes, what: str) -> int:
    if len(data) < _INT16.size:
        text = f"Could not read version from {what}'s buffer."
        raise SchemaError(text, 0, kafka_message=text)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _check_end(data: bytes, end: int, name: str) -> None:
    if end != len(data):
        raise SchemaError(f"{len(data) - end} byte(s) left over after {name}", end)
