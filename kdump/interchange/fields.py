"""The format `kdump-records/1`: the fields of records and batches as text, and how their values are read.

Names are camelCase, as in Kafka's own JSON; in CSV and columns the same words may stand in snake_case. Bytes are text
under the field's name, or base64 under its twin (`key`, `keyBase64`) where they are not UTF-8. Null is written.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kdump.formats.close_names import closest
from kdump.formats.codecs import NAMES as CODECS
from kdump.formats.encode import NewRecord
from kdump.formats.java_text import INT_MAX, LONG_MAX
from kdump.interchange.dumped import NO_OFFSET, DumpedBatch
from kdump.interchange.lines import Lines, Reading
from kdump.interchange.rows import BATCH_COLUMNS, RECORD_COLUMNS, SCHEMA_COLUMNS
from kdump.storage.records import LOG_APPEND

TYPE = "type"
RECORD, BATCH = "record", "batch"
AROUND = frozenset(("header", "summary"))
"""Types of the objects around the rows of a command, which say nothing of records."""

_EXPORTED = ("timestampUs", "keySize", "valueSize", "headerCount", "magic", "codec", "path")
"""Fields of records that only an export writes (kdump.columns)."""

_CONTENTS = ("key", "keyBase64", "value", "valueBase64")
KNOWN = {
    RECORD: frozenset((TYPE, *RECORD_COLUMNS, *SCHEMA_COLUMNS, *_EXPORTED)),
    BATCH: frozenset((TYPE, *BATCH_COLUMNS)),
    "header": frozenset(_CONTENTS),
}
"""The fields of each kind of object. Some follow from others and are not read; any other name is an error."""

_SHORT_MAX = (1 << 15) - 1
Headers = tuple[tuple[bytes, bytes | None], ...]


def camel_case(name: str) -> str:
    """Return a name of the format for one written in snake_case."""
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), name)


class Fields:
    """The fields of one object, checked when they are asked for; all raise InterchangeError."""

    def __init__(self, values: Mapping[str, Any], kind: str, lines: Lines) -> None:
        """Take the fields of an object of this kind, and refuse names that it does not have."""
        self.values = {camel_case(name): value for name, value in values.items()}
        self.lines = lines
        if len(self.values) < len(values):
            raise lines.error("a field is given twice, in camelCase and in snake_case")
        check_names(self.values, KNOWN[kind], kind, lines)

    def number(self, name: str, default: int, most: int = LONG_MAX, least: int = -1) -> int:
        """Return a whole number."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.lines.error(f"{name} is {value!r:.60}: expected a number from {least} to {most}")
        return value

    def truth(self, name: str, *, default: bool = False) -> bool:
        """Return true or false; `default` where the field is missing."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.lines.error(f"{name} is {value!r:.60}: expected true or false")
        return value

    def content(self, name: str) -> bytes | None:
        """Return bytes: text, or base64 under the name's twin."""
        value, twin = self.values.get(name), self.values.get(f"{name}Base64")
        if twin is None and self.values.get(f"{name}SchemaId") is not None:
            raise self.lines.error(f"{name} is decoded by a schema, and its bytes are not given: dump it with --raw")
        if value is not None and twin is not None:
            raise self.lines.error(f"both {name} and {name}Base64")
        if twin is not None:
            return self._from_base64(f"{name}Base64", twin)
        if value is None:
            return None
        if not isinstance(value, str):
            hint = " (of an internal topic: dump it with --raw)" if isinstance(value, dict) else ""
            raise self.lines.error(f"{name} is {value!r:.60}: expected text, null, or {name}Base64{hint}")
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise self.lines.error(f"{name} has half a surrogate pair, which is no character") from None

    def headers(self, found: object) -> Headers:
        """Return the pairs of a list of header objects."""
        if not found:
            return ()
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.lines.error("headers is not a list of objects")
        pairs = []
        for each in found:
            header = Fields(each, "header", self.lines)
            key = header.content("key")
            if key is None:
                raise self.lines.error("a header without a key")
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
        if self.values.keys().isdisjoint(_CONTENTS):
            raise self.lines.error('a record has "key" or "value" (null for none), and this has neither')

    def _from_base64(self, name: str, value: object) -> bytes:
        try:
            if isinstance(value, str):
                return a2b_base64(value.encode("ascii"), strict_mode=True)
        except (Base64Error, UnicodeEncodeError):
            pass
        raise self.lines.error(f"{name} is {value!r:.60}: expected base64")


def check_names(names: Iterable[str], known: Collection[str], kind: str, lines: Lines) -> None:
    """Raise InterchangeError for a name that is not known, with the one that may have been meant."""
    for name in names:
        if name not in known:
            close = closest(name, sorted(known))
            hint = f"did you mean {close!r}?" if close else f"there are {', '.join(sorted(known))}"
            raise lines.error(f"a {kind} has no field {name!r:.60}: {hint}")


def read_record(fields: Fields, reading: Reading) -> NewRecord:
    """Return the record that the fields describe. Raises InterchangeError."""
    fields.check_contents()
    check_valid(fields.truth("isValid", default=True), fields.lines)
    return NewRecord(
        fields.number("offset", NO_OFFSET),
        fields.timestamp(reading),
        fields.content("key"),
        fields.content("value"),
        fields.headers(fields.values.get("headers")),
    )


def check_valid(is_valid: bool, lines: Lines) -> None:
    """Refuse what comes out of a batch that fails its CRC: whoever wants it has to look at it first."""
    if not is_valid:
        raise lines.error("of a damaged batch (isValid is false): look at it, then leave the field out")


def read_batch(fields: Fields) -> DumpedBatch:
    """Return the batch that the fields describe. Raises InterchangeError."""
    check_valid(fields.truth("isValid", default=True), fields.lines)
    codec = fields.values.get("codec", CODECS[0])
    if codec not in CODECS:
        raise fields.lines.error(f"codec is {codec!r:.60}: expected one of {', '.join(CODECS)}")
    base_offset, any_time = fields.number("baseOffset", NO_OFFSET), -LONG_MAX - 1
    return DumpedBatch(
        fields.number("magic", 2, 2, 0),
        CODECS.index(codec),
        fields.values.get("timestampType") == LOG_APPEND,
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
