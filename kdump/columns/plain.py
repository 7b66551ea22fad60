"""Records as Arrow has them, without pyarrow: the kernels' own buffers, handed over by Arrow's C interfaces."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from sys import byteorder
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.columns.gathering import Tables
from kdump.columns.names import (
    ATTRIBUTES,
    BOOL,
    BYTES,
    HEADER_LISTS,
    HEADERS,
    INT32,
    KEY,
    LABELS,
    MAGIC,
    MAX_MS,
    MICROSECONDS,
    RECORD_KINDS,
    RECORD_NEEDS,
    TEXT,
    TRANSACTION,
    VALUE,
    Kind,
    utf8,
)  # fmt: skip
from kdump.formats.batch import CODEC_MASK, CONTROL, TRANSACTIONAL, timestamp_type
from kdump.formats.codecs import codec_name
from kdump.storage.txn_state import TxnState

if TYPE_CHECKING:
    from kdump.kernels.portable.columns import Buffers, ByteBuffers, HeaderBuffers

    Buffer = bytes | bytearray | array[int]

Numbers = Mapping[str, Sequence[int]]
"""Columns of the kernels, by name."""


class Column(NamedTuple):
    """Values: how many, how many of them null, and Arrow's buffers, first the bits that tell which (or None)."""

    kind: Kind
    length: int
    nulls: int
    buffers: tuple[Buffer | None, ...]
    children: tuple[Column, ...] = ()


_LOW_HALF = 0 if byteorder == "little" else 1


def row_kind(names: Sequence[str]) -> Kind:
    """Return the type of rows of columns."""
    return Kind("+s", tuple((name, RECORD_KINDS[name]) for name in names))


class Rows:
    """A batch of rows, for whatever takes Arrow's C stream interface."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.num_rows = column.length

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows as a stream of one batch."""
        return stream(self.column.kind, [self])


def stream(kind: Kind, rows: Iterable[Rows]) -> Any:
    """Return rows as a stream of Arrow's C interface, made when they are asked for. Needs the compiled kernels."""
    from kdump.kernels import _native

    return _native.arrow_stream(kind, (each.column for each in rows))


def schema(kind: Kind) -> Any:
    """Return a type, by Arrow's C interface. Needs the compiled kernels."""
    from kdump.kernels import _native

    return _native.arrow_schema(kind)


def no_rows(names: Sequence[str]) -> Rows:
    """Return a batch without rows."""
    kind = row_kind(names)
    return Rows(Column(kind, 0, 0, (None,), tuple(_empty(each) for _, each in kind.fields)))


class PlainTables(Tables[Rows]):
    """Gathers records into rows of certain columns."""

    def _made(self, taken: Buffers) -> Rows:
        length, numbers, key, value, headers = taken
        made = {name: memoryview(buffer).cast("q")[:length] for name, buffer in zip(self._needs, numbers, strict=True)}
        given = {KEY: key, VALUE: value}
        kind = row_kind(self._names)
        columns = []
        for name, each in kind.fields:
            if name in LABELS:
                columns.append(_constant(each, getattr(self.labels, name), length))
            elif name == HEADERS:
                assert headers is not None
                columns.append(header_lists(headers, length))
            elif name == TRANSACTION:
                columns.append(self._states(made, length))
            elif name in given:
                buffers = given[name]
                assert buffers is not None
                columns.append(byte_strings(each, buffers, length))
            else:
                columns.append(_MAKES.get(name, _plain)(made, name, length))
        return Rows(Column(kind, length, 0, (None,), tuple(columns)))

    def _states(self, made: Numbers, length: int) -> Column:
        none = TxnState.NONE.value
        flags = _has_flag(made, TRANSACTIONAL)
        if not any(flags):
            return _constant(TEXT, none, length)
        pairs = zip(flags, made["batch.producer_id"], made["offset"], strict=True)
        states = (self.transactions.state_of(*pair).value if is_part else none for is_part, *pair in pairs)
        return _texts(list(states))


def _empty(kind: Kind) -> Column:
    children = tuple(_empty(each) for _, each in kind.fields)
    buffers: dict[str, tuple[Buffer | None, ...]] = {"+s": (None,), "+l": (None, bytes(4))}
    texts = (None, bytes(4), b"")
    return Column(kind, 0, 0, buffers.get(kind.format, texts if kind in (TEXT, BYTES) else (None, b"")), children)


def _constant(kind: Kind, value: str | int | None, length: int) -> Column:
    rounded = max(1 << 10, 1 << (length - 1).bit_length()) if length else 1
    repeated = _repeated(kind, value, rounded)
    return repeated._replace(length=length, nulls=length if value is None else 0)


@lru_cache(16)
def _repeated(kind: Kind, value: str | int | None, length: int) -> Column:
    """Return a column of one value, of which a part may be used."""
    nulls = bytes((length + 7) >> 3) if value is None else None
    if kind is TEXT:
        data = utf8(str(value or "")).encode()
        ends = array("i", range(0, len(data) * length + 1, len(data))) if data else bytes(4 * length + 4)
        return Column(kind, length, 0, (nulls, ends, data * length))
    if kind is BOOL:
        return Column(kind, length, 0, (nulls, (b"\xff" if value else b"\0") * ((length + 7) >> 3)))
    return Column(kind, length, 0, (nulls, array("i", [int(value or 0)]) * length))


def byte_strings(kind: Kind, buffers: ByteBuffers, length: int) -> Column:
    """Return a column of byte strings, or of texts where they are known to be UTF-8."""
    nulls, validity, ends, data = buffers
    return Column(kind, length, nulls, (validity if nulls else None, ends, data))


def _texts(values: Sequence[str]) -> Column:
    encoded = [value.encode() for value in values]
    return Column(TEXT, len(values), 0, (None, array("i", accumulate(map(len, encoded), initial=0)), b"".join(encoded)))


def header_lists(buffers: HeaderBuffers, length: int) -> Column:
    """Return a column of lists of headers; null where a record has none."""
    nulls, validity, ends, names, values = buffers
    count = len(names[2]) // 4 - 1
    pairs = HEADER_LISTS.fields[0][1]
    children = (_names(names, count), byte_strings(BYTES, values, count))
    lists = (validity if nulls else None, ends)
    return Column(HEADER_LISTS, length, nulls, lists, (Column(pairs, count, 0, (None,), children),))


def _names(buffers: ByteBuffers, count: int) -> Column:
    """Return names of headers as text; what is not UTF-8 is replaced as Java does it, by U+FFFD."""
    _, _, ends, data = buffers
    if data.isascii():
        return byte_strings(TEXT, buffers, count)
    places = memoryview(ends).cast("i")
    return _texts([data[places[at] : places[at + 1]].decode("utf-8", "replace") for at in range(count)])


def _plain(made: Numbers, name: str, length: int) -> Column:
    kind = RECORD_KINDS[name]
    numbers: Any = made[RECORD_NEEDS[name][0]]
    if kind is INT32:
        numbers = numbers.cast("B").cast("i")[_LOW_HALF::2]
    return Column(kind, length, 0, (None, numbers.tobytes()))


def _microseconds(made: Numbers, _name: str, length: int) -> Column:
    times = made["timestamp"]
    fits = [-MAX_MS <= time <= MAX_MS for time in times]
    values = array("q", (time * 1000 if each else 0 for time, each in zip(times, fits, strict=True)))
    nulls = length - sum(fits)
    return Column(MICROSECONDS, length, nulls, (_bits(fits) if nulls else None, values))


def _bits(values: Sequence[bool]) -> bytes:
    digits = "".join("01"[value] for value in reversed(values))
    return int(digits or "0", 2).to_bytes((len(values) + 7) >> 3, "little")


def _by_flags(made: Numbers, find: Callable[[int, int], Any]) -> Sequence[Any]:
    """Return what attributes and magic of the batches say."""
    known: dict[tuple[int, int], Any] = {}
    pairs: Iterator[tuple[int, int]] = zip(made[ATTRIBUTES], made[MAGIC], strict=True)
    return [known[pair] if pair in known else known.setdefault(pair, find(*pair)) for pair in pairs]


def _has_flag(made: Numbers, flag: int) -> Sequence[bool]:
    return _by_flags(made, lambda attributes, magic: magic >= 2 and bool(attributes & flag))


def _flags(flag: int) -> Callable[[Numbers, str, int], Column]:
    return lambda made, _name, length: Column(BOOL, length, 0, (None, _bits(_has_flag(made, flag))))


def _types(made: Numbers, _name: str, length: int) -> Column:
    return Column(INT32, length, 0, (None, array("i", _by_flags(made, timestamp_type))))


def _codecs(made: Numbers, _name: str, _length: int) -> Column:
    return _texts([codec_name(attributes & CODEC_MASK) for attributes in made[ATTRIBUTES]])


_MAKES = {
    "timestamp_us": _microseconds,
    "timestamp_type": _types,
    "is_transactional": _flags(TRANSACTIONAL),
    "is_control": _flags(CONTROL),
    "codec": _codecs,
}
