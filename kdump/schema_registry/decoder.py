"""Keys and values of records by the schemas that they name: PayloadDecoder.

Whether a field has a frame is decided by looking: a header says so; without one, byte 0 and the id of a schema by which
the rest decodes to its last byte. Plain keys and values are left as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from kdump.interchange.rows import Payload
from kdump.schema_registry.avro import PRIMITIVES, AvroSchema
from kdump.schema_registry.avro_values import not_finite
from kdump.schema_registry.errors import SchemaError, UnknownSchemaError
from kdump.schema_registry.framing import KEY_HEADER, VALUE_HEADER, Frame, guid_prefix_of, header_frame, prefix_of
from kdump.schema_registry.nesting import MAX_NESTING, check_nesting
from kdump.schema_registry.protobuf import ProtobufSchema
from kdump.schema_registry.registry import Registry, Schema, SchemaType

_LONG = 8
"""Bytes of a plain long, which looks like a frame when it is small."""

_MAY_BE_HUGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}|\0").search
"""Finds numbers beyond those of 64 bits, and text of more bytes a letter, in which they are not looked for."""

Headers = Iterable[tuple[bytes, bytes | None]]


class Codec:
    """Decodes what was written with one schema. Raises SchemaError for a schema that cannot be used."""

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self.schema = schema
        self.avro: AvroSchema | None = None
        self.protobuf: ProtobufSchema | None = None
        references = registry.referenced(schema)
        if schema.type == SchemaType.AVRO:
            self.avro = AvroSchema(schema.text, [each.text for _, each in references])
        elif schema.type == SchemaType.PROTOBUF:
            imports = [(name, each.text) for name, each in references]
            self.protobuf = ProtobufSchema(schema.text, imports, registry.files)
        elif schema.type != SchemaType.JSON:
            raise SchemaError(f"schema {schema.id} is of the type {schema.type!r:.40}, which kdump does not know")

    @property
    def is_primitive(self) -> bool:
        """Whether values are plain numbers or texts, of which few bytes can be anything."""
        if self.avro is None:
            return False
        kind = self.avro.json["type"] if isinstance(self.avro.json, dict) else self.avro.json
        return kind in PRIMITIVES

    def shown(self, data: bytes, frame: Frame) -> tuple[Any, str | None]:
        """Return the value that JSON takes, and the full name of its message if Protobuf's. Raises SchemaError."""
        if self.protobuf is not None:
            message, name = self.protobuf.decode(data, frame.start, frame.indexes)
            return self.protobuf.shown(message), name
        payload = data[frame.start :]
        return (self.avro.decode(payload) if self.avro else decode_json(payload)), None


class PayloadDecoder:
    """Decodes keys and values of any topic by the schemas of one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._codecs: dict[int, Codec | SchemaError] = {}
        self._topics: dict[str, TopicDecoder] = {}

    def of_topic(self, topic: str | None) -> TopicDecoder:
        """Return the decoder of a topic's records; None stands for a log whose topic is not known."""
        name = topic or ""
        if name not in self._topics:
            self._topics[name] = TopicDecoder(self, name)
        return self._topics[name]

    def codec(self, schema: Schema) -> Codec:
        """Return what decodes by a schema. Raises SchemaError."""
        found = self._codecs.get(id(schema))
        if found is None:
            try:
                found = Codec(self.registry, schema)
            except SchemaError as error:
                found = error
            self._codecs[id(schema)] = found
        if isinstance(found, SchemaError):
            raise found
        return found


class TopicDecoder:
    """Decodes the records of one topic."""

    def __init__(self, decoder: PayloadDecoder, topic: str) -> None:
        self.key = FieldDecoder(decoder, f"{topic}-key", KEY_HEADER)
        self.value = FieldDecoder(decoder, f"{topic}-value", VALUE_HEADER)

    def __call__(
        self, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> tuple[bytes | Payload | None, bytes | Payload | None]:
        """Return key and value as they decode; each as it is where it has no schema."""
        key_header = value_header = None
        for name, data in headers:
            if name == KEY_HEADER:
                key_header = data
            elif name == VALUE_HEADER:
                value_header = data
        return self.key(key, key_header), self.value(value, value_header)


class FieldDecoder:
    """Decodes the keys, or the values, of one topic."""

    def __init__(self, decoder: PayloadDecoder, subject: str, header_name: bytes) -> None:
        self.header_name = header_name
        self._decoder = decoder
        self._registry = decoder.registry
        self._subject = subject
        self._has_frames = decoder.registry.knows_subject(subject)

    def __call__(self, data: bytes | None, header: bytes | None = None) -> bytes | Payload | None:
        """Return the value for JSON; as it is without a frame, and in a Payload with an error if it does not decode."""
        return self.decode(data, header, Codec.shown)

    def decode(
        self, data: bytes | None, header: bytes | None, read: Callable[[Codec, bytes, Frame], tuple[Any, str | None]]
    ) -> bytes | Payload | None:
        """Decode as `__call__` does, with a function of the caller's that makes the value."""
        if data is None:
            return None
        frame = header_frame(header)
        is_certain = frame is not None
        frame = frame or prefix_of(data) or self._known_guid(data)
        if frame is None:
            return data
        schema = self._schema(frame)
        number = frame.schema_id if schema is None else schema.id
        is_bound = schema is not None and self._registry.is_bound(schema, self._subject)
        is_certain = is_certain or is_bound or self._has_frames
        try:
            if schema is None:
                raise UnknownSchemaError(_unknown(frame))
            codec = self._decoder.codec(schema)
            if not is_certain and codec.is_primitive and len(data) == _LONG:
                return data
            value, message = read(codec, data, frame)
        except SchemaError as error:
            is_unknown = isinstance(error, UnknownSchemaError)
            return Payload(data, number, None, str(error), is_unknown) if is_certain else data
        self._has_frames = True
        return Payload(value, number, message)

    def _known_guid(self, data: bytes) -> Frame | None:
        """Return the frame of a value that begins with the GUID of a schema at hand; any other is a plain value."""
        frame = guid_prefix_of(data)
        is_known = frame is not None and frame.guid is not None and self._registry.by_guid(frame.guid) is not None
        return frame if is_known else None

    def _schema(self, frame: Frame) -> Schema | None:
        if frame.guid is not None:
            return self._registry.by_guid(frame.guid)
        assert frame.schema_id is not None
        return self._registry.by_id(frame.schema_id, self._subject)


def check_libraries(registry: Registry) -> None:
    """Raise ExtraMissingError where a library is not installed that a schema at hand needs."""
    types = {schema.type for schema in registry.schemas}
    if SchemaType.AVRO in types:
        AvroSchema('"null"')
    if SchemaType.PROTOBUF in types:
        ProtobufSchema("")


def _unknown(frame: Frame) -> str:
    if frame.guid is None:
        return f"schema {frame.schema_id} is not among the schemas"
    from uuid import UUID

    return f"schema {UUID(bytes=frame.guid)} is not among the schemas"


def decode_json(payload: bytes) -> Any:
    """Return the value of a payload that is JSON, of which its schema only says what is in it. Raises SchemaError."""
    try:
        value = json.loads(payload, parse_constant=_constant, parse_float=_number if _MAY_BE_HUGE(payload) else None)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from None
    if payload.count(b"[") + payload.count(b"{") > MAX_NESTING:
        check_nesting(value)
    return value


def _number(text: str) -> float | str:
    """Return a number, as text where it is one that is not finite by now."""
    value = float(text)
    return value if isfinite(value) else not_finite(value)


def _constant(text: str) -> str:
    """Return NaN and the infinities, which some serializers write and JSON has not."""
    return not_finite(float(text))
