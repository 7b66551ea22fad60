"""Records and batches out of the fields that describe them: exactly what they say, or an error that names the field."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from kdump.formats.batch import TimestampType
from kdump.formats.close_names import closest
from kdump.formats.codecs import NAMES as CODECS
from kdump.formats.encode import NewRecord
from kdump.formats.java_text import INT_MAX, LONG_MAX
from kdump.interchange.dumped import NO_OFFSET, DumpedBatch
from kdump.interchange.fields import BASE64, BASE64_TEXT, CODEC, HEADER, HEADERS, Field, camel_case, known_fields
from kdump.interchange.lines import InterchangeError, Lines, Reading

CONTENTS = frozenset(("key", "keyBase64", "value", "valueBase64"))
"""The fields that a record has one of at least."""
_SHORT_MAX = (1 << 15) - 1
Headers = tuple[tuple[bytes, bytes | None], ...]


class _NameError(Exception):
    """Names of fields that are not as they should be."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what)
        self.name = name


@lru_cache(256)
def _fields_of(kind: str, names: tuple[str, ...]) -> tuple[Field, ...]:
    """Return the fields of these names, which may be in snake_case. Raises _NameError."""
    known = known_fields(kind)
    found: dict[str, Field] = {}
    for name in map(camel_case, names):
        if name not in known:
            close = closest(name, sorted(known))
            hint = f"did you mean {close!r}?" if close else f"there are {', '.join(sorted(known))}"
            raise _NameError(f"a {kind} has no field {name!r:.60}: {hint}", name)
        if name in found:
            raise _NameError(f"{name} is given twice: leave one out", name)
        found[name] = known[name]
    return tuple(found.values())


def fields_of(kind: str, names: Iterable[str], lines: Lines) -> tuple[Field, ...]:
    """Return the fields that a kind of object has under these names. Raises InterchangeError."""
    try:
        return _fields_of(kind, tuple(names))
    except _NameError as error:
        raise lines.error(str(error), error.name) from None


def shown(value: object) -> str:
    """Return a value for a message."""
    return "null" if value is None else f"{value!r:.60}"


class Fields:
    """The fields of one object, each of its kind; everything raises InterchangeError."""

    def __init__(self, fields: Iterable[Field], values: Iterable[Any], lines: Lines) -> None:
        """Take the values of these fields, and refuse those of another kind, whether they are read or not."""
        self.values: dict[str, Any] = {}
        self.lines = lines
        for (name, (expected, types, least, most, words), null, _), value in zip(fields, values, strict=True):
            if type(value) is int:
                is_right = least <= value <= most
            else:
                is_right = null if value is None else type(value) in types and (not words or value in words)
            if not is_right:
                raise self.wrong(name, expected, value)
            self.values[name] = value

    @classmethod
    def of_object(cls, values: Mapping[str, Any], kind: str, lines: Lines) -> Fields:
        """Take the fields of an object of this kind, and refuse names that it does not have."""
        return cls(fields_of(kind, values, lines), values.values(), lines)

    def number(self, name: str, default: int, most: int = LONG_MAX, least: int = -1) -> int:
        """Return a whole number."""
        value: int | None = self.values.get(name)
        if value is None:
            return default
        if not least <= value <= most:
            raise self.wrong(name, f"a number from {least} to {most}", value)
        return value

    def truth(self, name: str, *, default: bool = False) -> bool:
        """Return true or false; `default` where the field is missing."""
        value: bool | None = self.values.get(name)
        return default if value is None else value

    def content(self, name: str) -> bytes | None:
        """Return bytes: text, or base64 under the name's twin."""
        value, twin = self.values.get(name), self.values.get(name + BASE64)
        if twin is None and self.values.get(f"{name}SchemaId") is not None:
            raise self.lines.error(
                f"{name} is decoded by a schema, and its bytes are not given: dump it with --raw", name
            )
        if value is not None and twin is not None:
            raise self.lines.error(f"both {name} and {name}{BASE64}", name)
        if twin is not None:
            return self._from_base64(name + BASE64, twin)
        if value is None:
            return None
        if not isinstance(value, str):
            hint = " (of an internal topic: dump it with --raw)" if isinstance(value, dict) else ""
            raise self.wrong(name, f"text, null, or {name}{BASE64}{hint}", value)
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise self.lines.error(f"{name} has half a surrogate pair, which is no character", name) from None

    def headers(self) -> Headers:
        """Return the pairs of the list of header objects."""
        found = self.values.get("headers")
        if not found:
            return ()
        pairs = []
        for each in found:
            if not isinstance(each, dict):
                raise self.wrong("headers", HEADERS.expected, each)
            header = Fields.of_object(each, HEADER, self.lines)
            key = header.content("key")
            if key is None:
                raise self.lines.error("a header without a key", "headers")
            pairs.append((key, header.content("value")))
        return tuple(pairs)

    def timestamp(self, reading: Reading) -> int:
        """Return the record's timestamp in ms, or the reading's where it has none."""
        if self.values.get("timestamp") is not None:
            return self.number("timestamp", -1, least=-LONG_MAX - 1)
        if self.values.get("timestampUs") is not None:
            return self.number("timestampUs", -1, least=-LONG_MAX - 1) // 1000
        return reading.timestamp()

    def check_contents(self) -> None:
        """Refuse a record of which neither key nor value is given: a tombstone's value is null, in writing."""
        if self.values.keys().isdisjoint(CONTENTS):
            raise self.lines.error('a record has "key" or "value" (null for none), and this has neither', "value")

    def wrong(self, name: str, expected: str, value: object) -> InterchangeError:
        """Return that a field has something else than it should."""
        return self.lines.error(f"{name} is {shown(value)}: expected {expected}", name)

    def _from_base64(self, name: str, value: str) -> bytes:
        try:
            return a2b_base64(value.encode("ascii"), strict_mode=True)
        except (Base64Error, UnicodeEncodeError):
            raise self.wrong(name, BASE64_TEXT.expected, value) from None


def read_record(fields: Fields, reading: Reading) -> NewRecord:
    """Return the record that the fields describe. Raises InterchangeError."""
    fields.check_contents()
    check_valid(fields.truth("isValid", default=True), fields.lines)
    return NewRecord(
        fields.number("offset", NO_OFFSET),
        fields.timestamp(reading),
        fields.content("key"),
        fields.content("value"),
        fields.headers(),
    )


def check_valid(is_valid: bool, lines: Lines) -> None:
    """Refuse what comes out of a batch that fails its CRC: whoever wants it has to look at it first."""
    if not is_valid:
        raise lines.error("of a damaged batch (isValid is false): look at it, then leave the field out", "isValid")


def read_batch(fields: Fields) -> DumpedBatch:
    """Return the batch that the fields describe. Raises InterchangeError."""
    check_valid(fields.truth("isValid", default=True), fields.lines)
    codec = fields.values.get("codec", CODECS[0])
    if codec not in CODECS:
        raise fields.wrong("codec", CODEC.expected, codec)
    base_offset, any_time = fields.number("baseOffset", NO_OFFSET), -LONG_MAX - 1
    return DumpedBatch(
        fields.number("magic", 2, 2, 0),
        CODECS.index(codec),
        fields.values.get("timestampType") == TimestampType.LOG_APPEND_TIME,
        fields.truth("isTransactional"),
        fields.truth("isControl"),
        fields.values.get("deleteHorizonMs") is not None,
        None if base_offset == NO_OFFSET else base_offset,
        fields.number("lastOffset", NO_OFFSET),
        fields.number("baseTimestamp", -1, least=any_time),
        fields.number("maxTimestamp", -1, least=any_time),
        fields.number("producerId", -1),
        fields.number("producerEpoch", -1, _SHORT_MAX),
        fields.number("baseSequence", -1, INT_MAX),
        fields.number("partitionLeaderEpoch", -1, INT_MAX),
    )
