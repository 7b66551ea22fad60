"""What `kdump append` reads: lines of JSON as `kdump dump` prints them, CSV with a row of names, or plain lines.

Each reader gives records, and the JSON one the batches too that the records after them belong to.
"""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from kdump.errors import KdumpError
from kdump.formats.codecs import NAMES as CODECS
from kdump.formats.encode import NewRecord
from kdump.formats.java_text import INT_MAX, LONG_MAX
from kdump.storage.records import LOG_APPEND
from kdump.write.retold import ToldBatch

MOST_LINE = 1 << 30
NO_OFFSET = -1
_SHORT_MAX = (1 << 15) - 1

Headers = tuple[tuple[bytes, bytes | None], ...]
Item = NewRecord | ToldBatch


class InputError(KdumpError):
    """A line of the input is not what it should be."""


class Lines:
    """The lines of a file, without their line feeds; `number` is that of the last one, `name` that of the file."""

    def __init__(self, stream: BinaryIO, name: str, waiting: Callable[[bool], object] = bool) -> None:
        """`waiting` is told when a line is waited for, and when it has come."""
        self.name = name
        self.number = 0
        self._stream = stream
        self._waiting = waiting

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._waiting(True)
            line = self._stream.readline(MOST_LINE)
            self._waiting(False)
            if not line:
                return
            self.number += 1
            if len(line) == MOST_LINE:
                raise self.error(f"longer than {MOST_LINE} bytes")
            yield line.removesuffix(b"\n")

    def text(self) -> Iterator[str]:
        """The lines as text. Raises InputError where one is not UTF-8."""
        for line in self:
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise self.error(f"not UTF-8 at byte {error.start} of the line") from None

    def error(self, what: str) -> InputError:
        """What is wrong with the last line."""
        return InputError(f"{self.name}, line {self.number}: {what}")


class Reading(NamedTuple):
    """How input is read.

    `timestamp` (ms) is that of records without one, as told by a clock. `retells`: batches are made as the lines of
    batches say; else those, and control records, are passed over. `key_separator` and `null_marker` are for lines.
    """

    timestamp: Callable[[], int]
    retells: bool = True
    key_separator: bytes | None = None
    null_marker: bytes | None = None


def read_lines(lines: Lines, reading: Reading) -> Iterator[Item]:
    """A record a line: its value, or key and value where there is a separator. Raises InputError."""
    separator, null = reading.key_separator, reading.null_marker
    for line in lines:
        key: bytes | None = None
        value: bytes | None = line.removesuffix(b"\r")
        if separator is not None:
            key, found, value = line.removesuffix(b"\r").partition(separator)
            if not found:
                raise lines.error(f"no key separator ({separator!r:.40}) in it")
        if null is not None:
            key, value = (None if part == null else part for part in (key, value))
        yield NewRecord(NO_OFFSET, reading.timestamp(), key, value)


def read_jsonl(lines: Lines, reading: Reading) -> Iterator[Item]:
    """An object a line, as in the dump's JSON format; blank lines are passed over. Raises InputError."""
    place = None
    for line in lines.text():
        if not line or line.isspace():
            continue
        try:
            values = json.loads(line)
        except ValueError as error:
            raise lines.error(f"not JSON: {error}") from None
        except RecursionError:
            raise lines.error("not JSON that can be read: nested too deeply") from None
        if not isinstance(values, dict):
            raise lines.error("not a JSON object")
        fields = _Fields(values, lines)
        kind = values.get("type", "record")
        if kind not in ("record", "batch"):
            raise lines.error(f"an object of type {kind!r:.40}: expected record or batch")
        if reading.retells:
            place = _same_place(fields, place)
        if kind == "record":
            if reading.retells or not fields.truth("isControl"):
                yield _record(fields, reading)
        elif reading.retells:
            yield _batch(fields)


def _same_place(fields: _Fields, place: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    """Where the objects are from: all from one partition, or nothing holds together."""
    here = fields.values.get("topic"), fields.values.get("partition")
    if place is not None and here != place:
        now, before = (f"{str(topic)[:60]}-{str(partition)[:60]}" for topic, partition in (here, place))
        raise fields.lines.error(f"of {now}, after others of {before}: give one partition's, or use --repack")
    return here


class _Fields:
    """The fields of an object, checked as they are asked for."""

    def __init__(self, values: Mapping[str, Any], lines: Lines) -> None:
        self.values = values
        self.lines = lines

    def number(self, name: str, default: int, most: int = LONG_MAX, least: int = -1) -> int:
        """A whole number."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.lines.error(f"{name} is {value!r:.60}: expected a number from {least} to {most}")
        return value

    def truth(self, name: str) -> bool:
        """true or false, which nothing stands for too."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.lines.error(f"{name} is {value!r:.60}: expected true or false")
        return value

    def content(self, name: str) -> bytes | None:
        """Bytes: text, or base64 under the name's twin."""
        value, twin = self.values.get(name), self.values.get(f"{name}Base64")
        if value is not None and twin is not None:
            raise self.lines.error(f"both {name} and {name}Base64")
        if twin is not None:
            return _base64(twin, f"{name}Base64", self.lines)
        if value is None:
            return None
        if not isinstance(value, str):
            hint = " (of an internal topic: dump it with --raw)" if isinstance(value, dict) else ""
            raise self.lines.error(f"{name} is {value!r:.60}: expected text, null, or {name}Base64{hint}")
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise self.lines.error(f"{name} has half a surrogate pair, which is no character") from None

    def headers(self) -> Headers:
        """The list of headers."""
        return _headers(self.values.get("headers"), self.lines)


def _record(fields: _Fields, reading: Reading) -> NewRecord:
    given = fields.values.get("timestamp") is not None
    return NewRecord(
        fields.number("offset", NO_OFFSET),
        fields.number("timestamp", -1, least=-LONG_MAX - 1) if given else reading.timestamp(),
        fields.content("key"),
        fields.content("value"),
        fields.headers(),
    )


def _batch(fields: _Fields) -> ToldBatch:
    codec = fields.values.get("codec", CODECS[0])
    if codec not in CODECS:
        raise fields.lines.error(f"codec is {codec!r:.60}: expected one of {', '.join(CODECS)}")
    base_offset, any_time = fields.number("baseOffset", NO_OFFSET), -LONG_MAX - 1
    return ToldBatch(
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


def _headers(found: object, lines: Lines) -> Headers:
    if not found:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise lines.error("headers is not a list of objects")
    pairs = []
    for each in found:
        header = _Fields(each, lines)
        key = header.content("key")
        if key is None:
            raise lines.error("a header without a key")
        pairs.append((key, header.content("value")))
    return tuple(pairs)


def _base64(value: object, name: str, lines: Lines) -> bytes:
    try:
        if isinstance(value, str):
            return a2b_base64(value.encode("ascii"), strict_mode=True)
    except (Base64Error, UnicodeEncodeError):
        pass
    raise lines.error(f"{name} is {value!r:.60}: expected base64")


_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|$)')
_COLUMNS = ("key", "keyBase64", "value", "valueBase64", "timestamp", "headers", "isControl")


def read_csv(lines: Lines, reading: Reading) -> Iterator[Item]:
    """A record a row, under the names of the first row; an empty cell without quotes is null. Raises InputError."""
    rows = _rows(lines)
    names = next(rows, None)
    if names is None:
        return
    if not {"key", "keyBase64", "value", "valueBase64"} & set(names):
        raise lines.error("the first row has to name the columns, with key or value among them")
    places = [(name, names.index(name)) for name in _COLUMNS if name in names]
    for row in rows:
        if len(row) != len(names):
            raise lines.error(f"a row of {len(row)} cells where the first has {len(names)}")
        cells = {name: row[place] for name, place in places}
        if cells.pop("isControl", None) == "true":
            continue
        yield _csv_record(cells, lines, reading)


def _csv_record(cells: dict[str, str | None], lines: Lines, reading: Reading) -> NewRecord:
    fields = _Fields(cells, lines)
    timestamp, headers = cells.get("timestamp"), cells.get("headers")
    if timestamp is not None and not re.fullmatch(r"-?[0-9]{1,19}", timestamp):
        raise lines.error(f"timestamp is {timestamp!r:.60}: expected milliseconds")
    try:
        found = json.loads(headers) if headers else ()
    except (ValueError, RecursionError):
        raise lines.error("headers is not JSON") from None
    return NewRecord(
        NO_OFFSET,
        reading.timestamp() if timestamp is None else int(timestamp),
        fields.content("key"),
        fields.content("value"),
        _headers(found, lines),
    )


def _rows(lines: Lines) -> Iterator[Sequence[str | None]]:
    """The cells of each row, which may go over several lines."""
    held: list[str] = []
    is_open = False
    for line in lines.text():
        held.append(line)
        is_open ^= line.count('"') % 2 == 1
        if is_open:
            continue
        text = "\n".join(held).removesuffix("\r")
        held.clear()
        if text:
            yield _cells(text, lines)
    if held:
        raise lines.error("a quote that is not closed")


def _cells(text: str, lines: Lines) -> list[str | None]:
    cells: list[str | None] = []
    at = 0
    while True:
        found = _CELL.match(text, at)
        if not found:
            raise lines.error(f"no cell of a CSV row at character {at}: a quote inside a cell has to be doubled")
        quoted, plain, end = found.groups()
        cells.append(plain or None if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        at = found.end()


READERS = {"jsonl": read_jsonl, "csv": read_csv, "lines": read_lines}
"""The formats of input."""


def begun(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, of which the first has been read: what is wrong from the start is found before anything is done.

    Raises InputError.
    """
    first = next(items, None)
    return iter(()) if first is None else chain((first,), items)
