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

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from kdump.formats.schemas.description import PACKERS, UNKNOWN_TAGS, Field, NewerRecordError, Schema, SchemaError
from kdump.formats.schemas.json_form import to_json
from kdump.formats.schemas.reader import decode, decode_newer, read_unsigned_varint
from kdump.formats.schemas.writer import encode, write_unsigned_varint
from kdump.releases import NEW_LAYOUTS, KafkaRelease

FRAME_VERSION = 1
KEY_VERSION = 0
_INT16 = PACKERS["int16"]
_MAX_INT16 = 0x7FFF


class Decoded(NamedTuple):
    """A record's key or value.

    `type` is the record type of a coordinator's topic or the apiKey of a metadata topic, `name` that type's name,
    `version` the one that the value was written with (a key has none and says 0), `fields` the message. Where the
    version `is_newer` than all that are known, the fields are those that are.
    """

    type: int
    name: str
    version: int
    fields: dict[str, Any]
    schema: Schema
    is_newer: bool = False

    def json(self) -> dict[str, Any]:
        """Return the fields as Kafka's JSON converters give them, and the tagged fields newer than the schema."""
        return to_json(self.schema, self.version, self.fields, keep_unknown=True)


class RecordKind(NamedTuple):
    """A record type of a coordinator's topic: its name, the schemas of its key and of its value.

    `later` is the layout that Kafka 4.1 gave the value where it left the version number as it was. The type is known
    to releases from `since` on, and no longer from `until` on (None: all).
    """

    name: str
    key: Schema
    value: Schema
    later: Schema | None = None
    since: KafkaRelease | None = None
    until: KafkaRelease | None = None

    @property
    def layouts(self) -> tuple[Schema, ...]:
        """The layouts of the value, the oldest first."""
        return (self.value,) if self.later is None else (self.value, self.later)

    def value_of(self, release: KafkaRelease) -> Schema:
        """Return the layout that a release reads the value by."""
        return self.later if self.later is not None and release.has(NEW_LAYOUTS) else self.value

    def is_known_to(self, release: KafkaRelease) -> bool:
        """Return whether a release has the type."""
        return (self.since is None or self.since <= release) and (self.until is None or release < self.until)


class CoordinatorTopic:
    """The record types of a topic by number, and the reading and writing of its keys and values."""

    __slots__ = ("kinds", "name")

    def __init__(self, name: str, kinds: dict[int, RecordKind]) -> None:
        self.name = name
        self.kinds = kinds

    def decode_key(self, data: bytes) -> Decoded:
        """Read a record's key. Raises SchemaError for a bad key or bytes after it, NewerRecordError for a new type."""
        number = leading_int16(data, "key")
        kind = self._kind(number)
        fields, end = decode(kind.key, KEY_VERSION, data, _INT16.size)
        _check_end(data, end, kind.key.name)
        return Decoded(number, kind.name, KEY_VERSION, fields, kind.key)

    def decode_value(self, record_type: int, data: bytes) -> Decoded:
        """Read the value of a record whose key has that type.

        Where releases gave one version several layouts, the one that fits the bytes from start to end counts: one
        without unknown tagged fields before one with them, an older before a newer. Raises SchemaError (the oldest
        layout's, if there is a choice) when none fits; NewerRecordError for a version above all known that cannot be
        read.
        """
        kind = self._kind(record_type)
        version = leading_int16(data, "value")
        found: list[Decoded] = []
        failures: list[SchemaError] = []
        for schema in kind.layouts:
            try:
                found.append(_message(record_type, kind.name, schema, version, data, _INT16.size))
            except SchemaError as error:
                failures.append(error)
        if not found:
            raise failures[0]
        return next((value for value in found if UNKNOWN_TAGS not in value.fields), found[0])

    def encode_key(self, record_type: int, fields: dict[str, Any]) -> bytes:
        """Return the key of a record; SchemaError as `writer.encode`."""
        return _INT16.pack(record_type) + encode(self._kind(record_type).key, KEY_VERSION, fields)

    def encode_value(self, record_type: int, version: int, fields: dict[str, Any], *, later: bool = False) -> bytes:
        """Return the value of a record; with `later` in Kafka 4.1's layout, where there are two. As `writer.encode`."""
        kind = self._kind(record_type)
        schema = kind.later if later and kind.later else kind.value
        return _INT16.pack(version) + encode(schema, version, fields)

    def _kind(self, number: int) -> RecordKind:
        kind = self.kinds.get(number)
        if kind is None:
            raise _unknown_type(number, f"Unknown record type {number} of {self.name}")
        return kind


class MetadataTopic:
    """The record types of a metadata topic by apiKey, and the reading and writing of its values.

    `since` gives the first release that has a type, for those that came after Kafka 3.9.
    """

    __slots__ = ("_since", "name", "schemas")

    def __init__(
        self, name: str, schemas: dict[int, Schema], since: Mapping[int, KafkaRelease] | None = None
    ) -> None:
        self.name = name
        self.schemas = schemas
        self._since = since or {}

    def schema_of(self, api_key: int, release: KafkaRelease) -> Schema | None:
        """Return the schema of a type in a release; None where the release does not know the type."""
        since = self._since.get(api_key)
        return None if since and release < since else self.schemas.get(api_key)

    def decode_value(self, data: bytes) -> Decoded:
        """Read a record's value. Raises SchemaError for malformed or left-over bytes, NewerRecordError.

        The latter is for a type that is not known, and a version above all known that cannot be read.
        """
        api_key, version, position = read_frame(data)
        schema = self._schema(api_key)
        return _message(api_key, schema.name, schema, version, data, position)

    def encode_value(self, api_key: int, version: int, fields: dict[str, Any]) -> bytes:
        """Return the value of a record; SchemaError as `writer.encode`."""
        message = encode(self._schema(api_key), version, fields)
        out = bytearray()
        for number in (FRAME_VERSION, api_key, version):
            write_unsigned_varint(out, number)
        return bytes(out) + message

    def _schema(self, api_key: int) -> Schema:
        schema = self.schemas.get(api_key)
        if schema is None:
            raise _unknown_type(api_key, f"Unknown metadata id {api_key} in {self.name}")
        return schema


def _message(number: int, name: str, schema: Schema, version: int, data: bytes, position: int) -> Decoded:
    """Return the message from a position to the end. A version above those of the schema is read as far as known."""
    if version <= schema.last:
        fields, end = decode(schema, version, data, position)
        _check_end(data, end, schema.name)
        return Decoded(number, name, version, fields, schema)
    try:
        fields, end = decode_newer(schema, version, data, position)
        _check_end(data, end, schema.name)
    except SchemaError:
        schema.check_version(version, position)
    return Decoded(number, name, version, fields, schema, is_newer=True)


def _unknown_type(number: int, found: str) -> SchemaError:
    """Return the error for an unknown number: they ascend, so it is a newer release's, or a fork's."""
    return SchemaError(found) if number < 0 else NewerRecordError(found)


def key_schema(name: str, *fields: Field) -> Schema:
    """Return the schema of a coordinator record's key."""
    return Schema(name, str(KEY_VERSION), "none", *fields)


def read_frame(data: bytes) -> tuple[int, int, int]:
    """Return the apiKey and the version in front of a metadata message, and the position of the message.

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
        text = (
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            f"(only frame version {FRAME_VERSION} is supported)"
        )
        kind = NewerRecordError if frame_version > FRAME_VERSION else SchemaError
        raise kind(text, 0, kafka_message=text)
    api_key, position = _frame_number(data, position, "type")
    version, position = _frame_number(data, position, "version")
    return api_key, version, position


def _frame_number(data: bytes, position: int, what: str) -> tuple[int, int]:
    """Return a varint that Kafka narrows to a signed 16-bit number, refusing only what is too large."""
    try:
        number, end = read_unsigned_varint(data, position)
    except SchemaError:
        _parse_error(f"Error while reading {what}", position)
    if number > _MAX_INT16:
        _parse_error(f"Value for {what} was too large.", position)
    return ((number & 0xFFFF) ^ 0x8000) - 0x8000, end


def _parse_error(message: str, position: int) -> NoReturn:
    raise SchemaError(message, position, kafka_message=message)


def leading_int16(data: bytes, what: str) -> int:
    """Return the number that key or value begins with: its type or version. Raises SchemaError."""
    if len(data) < _INT16.size:
        text = f"Could not read version from {what}'s buffer."
        raise SchemaError(text, 0, kafka_message=text)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _check_end(data: bytes, end: int, name: str) -> None:
    if end != len(data):
        raise SchemaError(f"{len(data) - end} byte(s) left over after {name}", end)
