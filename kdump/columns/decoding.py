"""Keys and values of record batches as typed columns, or as JSON text, by the schemas that they name.

A field (key or value) of a topic has one reader's schema: the newest of its subject, or the one that is asked for.
Columns of a decoded field, such as `value`:

    value            its type: that of the reader's schema, or JSON text (JSON Schema, no subject, several messages)
    value_raw        the bytes of what has no schema, or does not decode
    value_schema_id  the schema that the record names
    value_error      why it does not decode
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kdump.columns import avro_types, protobuf_types
from kdump.columns.names import HEADERS, JSON_FIELD, KEY, VALUE, Decode
from kdump.interchange.jsonl import decoded_json
from kdump.interchange.rows import Payload
from kdump.schema_registry.avro import AvroSchema
from kdump.schema_registry.avro_values import Form
from kdump.schema_registry.decoder import Codec, FieldDecoder, PayloadDecoder
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.framing import Frame
from kdump.schema_registry.registry import Registry, Schema, SchemaType
from kdump.schema_registry.usage import FieldUse, PartitionUse, usage_of
from kdump.storage.partition import PartitionLog

Make = Callable[[Codec, bytes, Frame], tuple[Any, str | None]]
Convert = Callable[[pa.DataType], pa.DataType]


class Choice(NamedTuple):
    """What the keys (or values, as `name` says) of a topic are read by: a reader's schema, or JSON text without one.

    `message` is the full name of the Protobuf message that they all are.
    """

    name: str
    reader: Schema | None = None
    message: str | None = None


class DecodedField(NamedTuple):
    """How the keys or values of a topic are decoded: the column's Arrow field, and what makes its values.

    The values have the type `native`; where the field has another one they are cast to it.
    """

    name: str
    field: pa.Field
    decoder: FieldDecoder
    make: Make
    native: pa.DataType

    @property
    def added(self) -> tuple[pa.Field, ...]:
        """The columns that come at the end."""
        return (
            pa.field(f"{self.name}_raw", pa.binary()),
            pa.field(f"{self.name}_schema_id", pa.int32()),
            pa.field(f"{self.name}_error", pa.string()),
        )


class TopicColumns:
    """Decodes the record batches of one topic. It can be pickled: the other process makes its own decoder."""

    def __init__(
        self, decoder: PayloadDecoder, topic: str, choices: Sequence[Choice], convert: Convert | None = None
    ) -> None:
        """`convert` gives the types that the columns are to have, by those that the schemas give.

        Raises SchemaError for a reader's schema that cannot be used.
        """
        self.choices = tuple(choices)
        self._decoder, self._topic, self._convert = decoder, topic, convert
        self.fields = tuple(_converted(_built(decoder, topic, each), convert) for each in self.choices)

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_another_process, (self._decoder.registry, self._topic, self.choices, self._convert)

    @property
    def description(self) -> dict[str, str]:
        """The types of the columns, as text."""
        return {each.name: str(each.field.type) for each in self.fields}

    def schema(self, plain: pa.Schema, names: Sequence[str]) -> pa.Schema:
        """Return the schema that batches of `plain` get, of which the columns `names` are wanted."""
        decoded = {each.name: each for each in self.fields}
        wanted = [decoded[name].field if name in decoded else plain.field(name) for name in names]
        added = [field for name in names if name in decoded for field in decoded[name].added]
        return pa.schema([*wanted, *added])

    def decode(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return the columns `names` of a batch, keys and values decoded, with what is added; none of its rows is lost.

        The batch has the column `headers`, where a record may name its schemas.
        """
        schema = self.schema(rows.schema, names)
        columns = {name: rows.column(name) for name in rows.schema.names} | self.decoded(rows, names)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def decoded(self, rows: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the columns that the fields among `names` become, by their names."""
        headers = _header_values(rows) if HEADERS in rows.schema.names else {}
        columns: dict[str, pa.Array] = {}
        for each in self.fields:
            if each.name in names:
                columns |= _decoded(each, rows.column(each.name), headers.get(each.decoder.header_name))
        return columns


def _in_another_process(
    registry: Registry, topic: str, choices: Sequence[Choice], convert: Convert | None
) -> TopicColumns:
    return TopicColumns(PayloadDecoder(registry), topic, choices, convert)


def topic_columns(
    decoder: PayloadDecoder, topic: str, logs: Iterable[PartitionLog], decode: Decode, schema_id: int | None = None
) -> TopicColumns:
    """Return how the records of a topic are decoded, found out by the subjects and a sample of its partitions.

    `schema_id` is that of the values' reader's schema. A field of which nothing in the sample has a schema stays as it
    is. Raises SchemaError for a reader's schema that cannot be used, OSError.
    """
    uses = PartitionUse()
    for log in logs:
        found = usage_of(log, topic, decoder, lambda _problem: None, deep=False)
        uses.key.add(found.key)
        uses.value.add(found.value)
    choices = []
    for name, use in ((KEY, uses.key), (VALUE, uses.value)):
        if use.schemas or use.undecodable or use.unknown:
            wanted = schema_id if name == VALUE else None
            choices.append(
                Choice(name) if decode is Decode.JSON else _chosen(decoder, f"{topic}-{name}", name, use, wanted)
            )
    return TopicColumns(decoder, topic, choices)


def json_columns(decoder: PayloadDecoder, topic: str) -> TopicColumns:
    """Return keys and values of a topic as JSON text, whatever is in it."""
    return TopicColumns(decoder, topic, (Choice(KEY), Choice(VALUE)))


def _chosen(decoder: PayloadDecoder, subject: str, name: str, use: FieldUse, schema_id: int | None) -> Choice:
    registry = decoder.registry
    if schema_id is not None:
        reader = registry.by_id(schema_id, subject)
        if reader is None:
            raise SchemaError(f"there is no schema {schema_id} to read {subject} with")
    else:
        newest = registry.latest(subject)
        reader = newest.schema if newest else _only(decoder, use)
    if reader is None or reader.type == SchemaType.JSON or (schema_id is None and _is_mixed(decoder, subject, use)):
        return Choice(name)
    if reader.type == SchemaType.AVRO:
        return Choice(name, reader)
    messages = {message for _, message in use.messages}
    if reader.type == SchemaType.PROTOBUF and len(messages) == 1:
        return Choice(name, reader, messages.pop())
    return Choice(name)


def _built(decoder: PayloadDecoder, topic: str, choice: Choice) -> DecodedField:
    fields = decoder.of_topic(topic)
    field = fields.key if choice.name == KEY else fields.value
    if choice.reader is None:
        kind = pa.string()
        return DecodedField(choice.name, pa.field(choice.name, kind, metadata=JSON_FIELD), field, _make_json, kind)
    if choice.message is None:
        return _avro_field(decoder, choice.name, field, choice.reader)
    return _protobuf_field(decoder, choice.name, field, choice.reader, choice.message)


def _converted(found: DecodedField, convert: Convert | None) -> DecodedField:
    return found if convert is None else found._replace(field=found.field.with_type(convert(found.native)))


def _only(decoder: PayloadDecoder, use: FieldUse) -> Schema | None:
    """Return the schema that all records name, of a topic whose values are registered under another subject."""
    return decoder.registry.by_id(next(iter(use.schemas))) if len(use.schemas) == 1 else None


def _is_mixed(decoder: PayloadDecoder, subject: str, use: FieldUse) -> bool:
    """Return whether records name schemas of other subjects besides the topic's own."""
    registry = decoder.registry
    if not registry.knows_subject(subject):
        return False
    return any(not registry.is_bound(schema, subject) for number in use.schemas if (schema := registry.by_id(number)))


def _make_json(codec: Codec, data: bytes, frame: Frame) -> tuple[Any, str | None]:
    value, message = codec.shown(data, frame)
    text = decoded_json(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half a pair, which JSON can escape and UTF-8 has no bytes for
            text = json.dumps(value, separators=(",", ":"))
    return text, message


def _avro_field(decoder: PayloadDecoder, name: str, field: FieldDecoder, reader: Schema) -> DecodedField:
    natives: dict[int, AvroSchema] = {}

    def native(schema: Schema) -> AvroSchema:
        found = natives.get(schema.id)
        if found is None:
            references = [each.text for _, each in decoder.registry.referenced(schema)]
            found = natives[schema.id] = AvroSchema(schema.text, references, Form.NATIVE)
        return found

    target = native(reader)
    kind, fix = avro_types.arrow_type(target)

    def make(codec: Codec, data: bytes, frame: Frame) -> tuple[Any, str | None]:
        if codec.avro is None:
            raise SchemaError(f"schema {codec.schema.id} is no Avro schema, as schema {reader.id} is")
        value = native(codec.schema).decode(data[frame.start :], target if codec.schema is not reader else None)
        return (value if fix is None else fix(value)), None

    return DecodedField(name, pa.field(name, kind), field, make, kind)


def _protobuf_field(
    decoder: PayloadDecoder, name: str, field: FieldDecoder, reader: Schema, message: str
) -> DecodedField:
    schema = decoder.codec(reader).protobuf
    assert schema is not None
    kind, read = protobuf_types.arrow_type(schema, message)

    def make(codec: Codec, data: bytes, frame: Frame) -> tuple[Any, str | None]:
        if codec.protobuf is None:
            raise SchemaError(f"schema {codec.schema.id} is no Protobuf schema, as schema {reader.id} is")
        found, full_name = codec.protobuf.decode(data, frame.start, frame.indexes)
        if full_name != message:
            raise SchemaError(f"a {full_name}, and the column is of {message}")
        if codec.schema is not reader:
            found = schema.message_class(message).FromString(found.SerializeToString())
        return read(found), full_name

    return DecodedField(name, pa.field(name, kind), field, make, kind)


def _header_values(rows: pa.RecordBatch) -> dict[bytes, list[bytes | None]]:
    """Return the last value of each header that may name a schema, by record; none where none has such a header."""
    column = rows.column(HEADERS)
    if not column.null_count < len(column):
        return {}
    found: dict[bytes, list[bytes | None]] = {}
    for at, headers in enumerate(column.to_pylist()):
        for header in headers or ():
            name = header["key"].encode()
            if name.endswith(b"_schema_id"):
                found.setdefault(name, [None] * len(column))[at] = header["value"]
    return found


def _decoded(each: DecodedField, column: pa.Array, headers: list[bytes | None] | None) -> dict[str, pa.Array]:
    values: list[Any] = []
    raw: list[bytes | None] = []
    ids: list[int | None] = []
    errors: list[str | None] = []
    for at, data in enumerate(column.to_pylist()):
        found = each.decoder.decode(data, headers[at] if headers else None, each.make)
        payload = found if isinstance(found, Payload) else None
        is_decoded = payload is not None and payload.error is None
        values.append(payload.value if payload and is_decoded else None)
        raw.append(None if is_decoded else data)
        ids.append(payload and payload.schema_id)
        errors.append(payload and payload.error)
    array = _array(each, values, column, raw, errors)
    added = (pa.array(raw, pa.binary()), pa.array(ids, pa.int32()), pa.array(errors, pa.string()))
    return {each.name: array, **{field.name: made for field, made in zip(each.added, added, strict=True)}}


_REFUSALS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)


def _array(
    each: DecodedField, values: list[Any], column: pa.Array, raw: list[bytes | None], errors: list[str | None]
) -> pa.Array:
    """Return the values as a column; what does not fit its type becomes an error of its row."""
    try:
        return _fitted(each, values)
    except _REFUSALS:
        pass
    for at, value in enumerate(values):
        try:
            _fitted(each, [value])
        except _REFUSALS as error:
            values[at], raw[at], errors[at] = None, column[at].as_py(), f"it does not fit its column: {error}"
    return _fitted(each, values)


def _fitted(each: DecodedField, values: list[Any]) -> pa.Array:
    found = pa.array(values, each.native)
    if each.field.type == each.native:
        return found
    return pc.cast(found, options=pc.CastOptions(target_type=each.field.type, allow_time_truncate=True))
