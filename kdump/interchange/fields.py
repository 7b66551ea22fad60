"""The format `kdump-records/1`: the fields of records and batches, which are the columns in CSV and in exports too.

Names are camelCase, as in Kafka's own JSON; in CSV and columns the same words may stand in snake_case. Bytes are text
under the field's name, or base64 under its twin (`key`, `keyBase64`) where they are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kdump.formats.batch import TimestampType
from kdump.formats.codecs import NAMES as CODECS
from kdump.storage.txn_state import TxnState

SCHEMA = "kdump.dump/1"
"""What the header before rows in this format says that they are."""

TYPE = "type"
RECORD, BATCH, HEADER = "record", "batch", "header"
BASE64 = "Base64"
"""What the name of a twin ends with."""


class Kind(NamedTuple):
    """What a field has in JSON: whole numbers from `least` to `most`, or what is of `types`; only `words` if any."""

    expected: str
    types: tuple[type, ...] = ()
    least: float = 0
    most: float = -1
    words: tuple[str, ...] = ()


class Field(NamedTuple):
    """A field: what it has, whether it may be null, which is as if it were missing, and whether it has a twin."""

    name: str
    kind: Kind
    null: bool = True
    has_twin: bool = False


def _whole(least: int, most: int) -> Kind:
    return Kind(f"a number from {least} to {most}", (), least, most)


def _signed(bits: int) -> Kind:
    return _whole(-(1 << bits - 1), (1 << bits - 1) - 1)


def _one_of(*words: str, also: tuple[str, ...] = ()) -> Kind:
    return Kind(f"one of {', '.join(words)}", (str,), words=(*words, *also))


INT8, INT16, INT32, INT64, CRC = _signed(8), _signed(16), _signed(32), _signed(64), _whole(0, (1 << 32) - 1)
TRUTH = Kind("true or false", (bool,))
TEXT = Kind("text", (str,))
BYTES = Kind("text, null, or its base64", (str, dict, list, float, bool), float("-inf"), float("inf"))
"""What was decoded may be any value: whoever wants the bytes has to refuse it."""
BASE64_TEXT = Kind("base64", (str,))
HEADERS = Kind("a list of objects", (list,))
TIMESTAMP_TYPE = _one_of(*TimestampType)
TIMESTAMP_TYPE_OR_NUMBER = TIMESTAMP_TYPE._replace(least=-1, most=1)
"""As a column of an export it is Kafka's number."""
CODEC = _one_of(*CODECS, also=tuple(f"codec {number}" for number in range(len(CODECS), 8)))
TRANSACTION = _one_of(*TxnState)

_PLACE = (Field("topic", TEXT), Field("partition", INT32), Field("segment", INT64))
_FLAGS = (Field("isTransactional", TRUTH, null=False), Field("isControl", TRUTH, null=False))
_VALID = Field("isValid", TRUTH, null=False)

RECORD_FIELDS = (
    *_PLACE,
    Field("offset", INT64),
    Field("timestamp", INT64),
    Field("timestampType", TIMESTAMP_TYPE_OR_NUMBER),
    Field("key", BYTES, has_twin=True),
    Field("value", BYTES, has_twin=True),
    Field("headers", HEADERS),
    Field("producerId", INT64),
    Field("producerEpoch", INT16),
    Field("sequence", INT32),
    *_FLAGS,
    Field("transaction", TRANSACTION),
    Field("leaderEpoch", INT32),
    Field("position", INT64),
    _VALID,
)
SCHEMA_FIELDS = tuple(
    field
    for name in ("key", "value")
    for field in (Field(f"{name}SchemaId", INT64), Field(f"{name}Message", TEXT))
)
"""Fields of records that come after `headers` where keys and values are decoded by schemas."""
EXPORTED_FIELDS = (
    Field("timestampUs", INT64),
    Field("keySize", INT32),
    Field("valueSize", INT32),
    Field("headerCount", INT32),
    Field("magic", INT8),
    Field("codec", CODEC),
    Field("path", TEXT),
)
"""Fields of records that only an export writes (kdump.columns)."""
BATCH_FIELDS = (
    *_PLACE,
    Field("position", INT64),
    Field("size", INT64),
    Field("baseOffset", INT64),
    Field("lastOffset", INT64),
    Field("magic", INT8),
    Field("codec", CODEC, null=False),
    Field("crc", CRC),
    _VALID,
    Field("timestampType", TIMESTAMP_TYPE),
    Field("baseTimestamp", INT64),
    Field("maxTimestamp", INT64),
    Field("deleteHorizonMs", INT64),
    Field("producerId", INT64),
    Field("producerEpoch", INT16),
    Field("baseSequence", INT32),
    Field("lastSequence", INT32),
    Field("count", INT32),
    Field("partitionLeaderEpoch", INT32),
    *_FLAGS,
    Field("transaction", TRANSACTION),
)
HEADER_FIELDS = (Field("key", BYTES, has_twin=True), Field("value", BYTES, has_twin=True))
"""Fields of each object in `headers`."""


def _with_twins(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        yield field
        if field.has_twin:
            yield Field(field.name + BASE64, BASE64_TEXT)


def _columns(fields: tuple[Field, ...]) -> tuple[str, ...]:
    return tuple(field.name for field in _with_twins(fields))


RECORD_COLUMNS, SCHEMA_COLUMNS, BATCH_COLUMNS = map(_columns, (RECORD_FIELDS, SCHEMA_FIELDS, BATCH_FIELDS))
"""The names of the values in a row, twins included."""


def known_fields(kind: str) -> Mapping[str, Field]:
    """Return the fields of a kind of object by their names."""
    fields: tuple[Field, ...] = {
        RECORD: (*RECORD_FIELDS, *SCHEMA_FIELDS, *EXPORTED_FIELDS),
        BATCH: BATCH_FIELDS,
        HEADER: HEADER_FIELDS,
    }[kind]
    if kind != HEADER:
        fields = (Field(TYPE, _one_of(kind), null=False), *fields)
    return {field.name: field for field in _with_twins(fields)}


def camel_case(name: str) -> str:
    """Return a name of the format for one written in snake_case."""
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), name)
