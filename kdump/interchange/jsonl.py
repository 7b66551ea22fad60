"""Records and batches as JSON, an object a line: written and read. docs/dump-format.md has the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from json.encoder import encode_basestring as quote
from json.encoder import encode_basestring_ascii as quote_ascii
from typing import Any, NamedTuple

from kdump.formats.printable import base64
from kdump.interchange.dumped import Item
from kdump.interchange.fields import BATCH, RECORD, SCHEMA, TYPE
from kdump.interchange.lines import Lines, Reading
from kdump.interchange.reading import Fields, read_batch, read_record, shown
from kdump.interchange.rows import Content, Contents, Origin, Payload, Table, Value, Write
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState

decoded_json = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""What a record of an internal topic was decoded to, as an object."""


class JsonLines:
    """Prints objects. What it writes has to go through `output.escape_json` before it leaves."""

    def __init__(self, write: Write, *, has_schemas: bool = False) -> None:
        """With `has_schemas` every record has the fields that say by which schemas it was decoded."""
        self._write = write
        self._schemas = has_schemas
        self._place = ""

    def begin(self, origin: Origin, _size: int) -> None:
        """Begin a log: objects are of this one from now on."""
        self._place = (
            f'"topic":{json_text(origin.topic)},"partition":{json_text(origin.partition)}'
            f',"segment":{json_text(origin.number)}'
        )

    def batch(self, batch: Batch, transaction: TxnState) -> None:
        """Write the batch's object."""
        b = batch
        shape = _shape(b.magic, b.attributes, b.valid, transaction)
        horizon = b.base_timestamp if shape.has_horizon else "null"
        first, count = ("null", "null") if shape.is_wrapper else (b.base_offset, b.record_count)
        self._write(
            f'{{"type":"batch",{self._place},"position":{b.position},"size":{b.size}'
            f',"baseOffset":{first},"lastOffset":{b.last_offset}{shape.codec},"crc":{b.crc}{shape.kind}'
            f',"baseTimestamp":{b.base_timestamp},"maxTimestamp":{b.max_timestamp}'
            f',"deleteHorizonMs":{horizon},"producerId":{b.producer_id}'
            f',"producerEpoch":{b.producer_epoch},"baseSequence":{b.base_sequence},"lastSequence":{b.last_sequence}'
            f',"count":{count},"partitionLeaderEpoch":{b.leader_epoch}{shape.flags}}}\n'
        )

    def records(
        self, batch: Batch, transaction: TxnState, selected: Selected, contents: Sequence[Contents] | None = None
    ) -> None:
        """Write an object for each record."""
        given = iter(contents or ())
        named = _NO_SCHEMAS if self._schemas else ""
        shape = _shape(batch.magic, batch.attributes, batch.valid, transaction)
        head = f'{{"type":"record",{self._place},"offset":'
        kind = shape.record_kind
        producer = f',"producerId":{batch.producer_id},"producerEpoch":{batch.producer_epoch},"sequence":'
        tail = f'{shape.flags},"leaderEpoch":{batch.leader_epoch},"position":{batch.position}{shape.valid}}}\n'
        source = selected.source
        lines = []
        for offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
            if contents:
                found = next(given)
                key, value = map(_content, ("key", "value"), found)
                if self._schemas:
                    named = _schema_fields(*found)
            else:
                if key_size < 0:
                    key = "null"
                else:
                    data = source[key_at : key_at + key_size]
                    try:
                        key = quote(data.decode())
                    except UnicodeDecodeError:
                        key = f'null,"keyBase64":"{base64(data)}"'
                if value_size < 0:
                    value = "null"
                else:
                    data = source[value_at : value_at + value_size]
                    try:
                        value = quote(data.decode())
                    except UnicodeDecodeError:
                        value = f'null,"valueBase64":"{base64(data)}"'
            headers = headers_json(header_pairs(source, headers_at, count)) if count else "[]"
            lines.append(
                f'{head}{offset},"timestamp":{timestamp}{kind}{key},"value":{value},"headers":{headers}{named}'
                f"{producer}{sequence}{tail}"
            )
        self._write("".join(lines))

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """Write an object for each row."""
        names = table.all_columns()
        before = table.origin_values(origin)
        head = f'{{"type":"{table.type}"' + "".join(
            f',"{name}":{json_text(value)}' for name, value in zip(names, before, strict=False)
        )
        template = "".join(f',"{name}":%s' for name in table.columns)
        for row in rows:
            self._write(f"{head}{template % tuple(map(json_text, row))}}}\n")


_NO_SCHEMAS = ',"keySchemaId":null,"keyMessage":null,"valueSchemaId":null,"valueMessage":null'


def _schema_fields(key: Content, value: Content) -> str:
    """Return the fields that say by which schemas a record was decoded."""
    fields = []
    for name, content in (("key", key), ("value", value)):
        number, message = (content.schema_id, content.message) if isinstance(content, Payload) else (None, None)
        fields.append(f',"{name}SchemaId":{json_text(number)},"{name}Message":{json_text(message)}')
    return "".join(fields)


class _Shape(NamedTuple):
    """What the objects of a batch and of its records have in common with those of most others."""

    is_wrapper: bool
    has_horizon: bool
    codec: str
    kind: str
    record_kind: str
    flags: str
    valid: str


@lru_cache(1024)
def _shape(magic: int, attributes: int, valid: bool, transaction: TxnState) -> _Shape:
    batch = Batch(0, 0, 0, 0, magic, attributes, 0, valid, 0, 0, -1, -1, -1, 0, -1)
    timestamp_type = f',"timestampType":"{batch.timestamp_type}"'
    is_valid = f',"isValid":{json_text(valid)}'
    return _Shape(
        batch.is_wrapper,
        batch.delete_horizon is not None,
        f',"magic":{magic},"codec":"{batch.codec}"',
        f"{is_valid}{timestamp_type}",
        f'{timestamp_type},"key":',
        f',"isTransactional":{json_text(batch.is_transactional)},"isControl":{json_text(batch.is_control)}'
        f',"transaction":"{transaction}"',
        is_valid,
    )


def json_text(value: Value) -> str:
    """Return a value as JSON, pure ASCII."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value) if isinstance(value, int) else quote_ascii(value)


def headers_json(pairs: Iterable[tuple[bytes, bytes | None]]) -> str:
    """Return the headers of a record as a JSON list of objects."""
    objects = [f"{{{_text('key', key)},{_text('value', value)}}}" for key, value in pairs]
    return f"[{','.join(objects)}]"


def _text(name: str, data: bytes | None) -> str:
    """Return `"name": text`, with the twin in base64 where the bytes are not UTF-8."""
    return f'"{name}":{_content(name, data)}'


def _content(name: str, content: Content) -> str:
    """Return a key or value, with its twin where needed; an object where it is decoded."""
    if content is None:
        return "null"
    if isinstance(content, Payload):
        if content.error is None:
            return decoded_json(content.value)
        return _text_or_twin(name, content.value)
    if isinstance(content, dict):
        return decoded_json(content)
    return _text_or_twin(name, content)


def _text_or_twin(name: str, data: bytes) -> str:
    try:
        return quote(data.decode())
    except UnicodeDecodeError:
        return f'null,"{name}Base64":"{base64(data)}"'


def _rows(lines: Lines) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield type and content of the objects that are records or batches. Raises InterchangeError."""
    for line in lines.text():
        if not line or line.isspace():
            continue
        values = load_json(line, lines)
        if not isinstance(values, dict):
            raise lines.error("not a JSON object")
        kind = values.get(TYPE, RECORD)
        if kind in (RECORD, BATCH):
            yield kind, values
        elif kind == _HEADER:
            _check_schema(values.get("schema"), lines)
        elif kind != _SUMMARY:
            raise lines.error(f"an object of type {kind!r:.40}: expected {RECORD} or {BATCH}", TYPE)


def read_jsonl(lines: Lines, reading: Reading) -> Iterator[Item]:
    """Read an object a line; blank lines are skipped. Raises InterchangeError."""
    place = None
    for kind, values in _rows(lines):
        fields = Fields.of_object(values, kind, lines)
        if reading.keeps_batches:
            place = _same_place(fields, place)
        if kind == RECORD:
            if reading.keeps_batches or not fields.truth("isControl"):
                yield read_record(fields, reading)
        elif reading.keeps_batches:
            yield read_batch(fields)


_HEADER, _SUMMARY = "header", "summary"
"""Types of the objects around the rows of a command: the first says what rows they are, the last how it ended."""


def _check_schema(schema: object, lines: Lines) -> None:
    """Refuse the header of rows that are not records, or of a version that is not known. Raises InterchangeError."""
    if schema == SCHEMA:
        return
    rows, _, version = SCHEMA.partition("/")
    hint = ""
    if isinstance(schema, str) and schema.startswith(f"{rows}/"):
        hint = f" (another version of these rows: dump them with --schema {version})"
    raise lines.error(f"schema is {shown(schema)}: expected {SCHEMA}{hint}", "schema")


class _TwiceError(ValueError):
    """A field that an object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found


_decode = JSONDecoder(object_pairs_hook=_object).decode


def load_json(text: str, lines: Lines, what: str = "") -> Any:
    """Return what a JSON text says, in which no object has a field twice; `what` it is. Raises InterchangeError."""
    try:
        return _decode(text)
    except _TwiceError as error:
        name = str(error)
        raise lines.error(f"{name:.60} is given twice: leave one out", name) from None
    except ValueError as error:
        raise lines.error(f"{what}not JSON: {error}") from None
    except RecursionError:
        raise lines.error(f"{what}not JSON that can be read: nested too deeply") from None


def _same_place(fields: Fields, place: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    """Return the partition that an object is of; all must be of the same one. Raises InterchangeError."""
    here = fields.values.get("topic"), fields.values.get("partition")
    if place is not None and here != place:
        now, before = (f"{str(topic)[:60]}-{str(partition)[:60]}" for topic, partition in (here, place))
        raise fields.lines.error(f"of {now}, after others of {before}: give one partition's, or use --repack")
    return here
