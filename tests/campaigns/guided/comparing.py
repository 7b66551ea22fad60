"""What the portable kernels and the readers in Python say about an input of the fuzzer."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import accumulate, zip_longest
from struct import Struct, unpack_from
from types import ModuleType
from typing import Any, NamedTuple

from kdump.errors import KdumpError
from kdump.formats.checkpoints import (
    format_leader_epochs,
    format_offset_checkpoint,
    parse_leader_epochs,
    parse_offset_checkpoint,
)
from kdump.formats.index_entries import decode_aborted_txns, encode_aborted_txns
from kdump.formats.producer_snapshot import decode_producer_snapshot, encode_producer_snapshot, schema_fault
from kdump.kernels.portable import kernels as portable
from kdump.kernels.portable.rows import RowColumn
from kdump.kernels.row_kinds import ROW_BOOL, ROW_BYTES, ROW_HEADERS, ROW_INT32, ROW_INT64, ROW_JSON, ROW_TEXT
from tests.kernels.observe import Case, observe

BASES = (0, 0, 4096, 1 << 40)
NEW_WIDTH = 18
INDEX_ROWS = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")
MAX_INT64 = (1 << 63) - 1


class Kind(IntEnum):
    """What an input holds; the order is that of inputs.pxi."""

    LOG = 0
    TEXTS = 1
    NEW = 2
    INDEX = 3
    SNAPSHOT = 4
    CHECKPOINT = 5


class Given(NamedTuple):
    """An input taken apart, as inputs.pxi does it."""

    kind: int
    stage: int
    rows: int
    records: int
    flags: int
    extra: int
    first: bytes
    second: bytes


class NewColumns:
    """Columns of new records (portable.encode.NewRecords)."""

    def __init__(self, given: Given) -> None:
        rows = [unpack_from(">i7h", given.first, at) for at in range(0, len(given.first) - NEW_WIDTH + 1, NEW_WIDTH)]
        columns = [array("q", column) for column in zip(*rows, strict=True)] or [array("q")] * 8
        shift = 32 if given.flags & 1 else 0
        self.timestamp = array("q", (time << shift for time in columns[0]))
        self.key_position, self.key_length, self.value_position, self.value_length = columns[1:5]
        self.headers_position, self.headers_length, self.headers_count = columns[5:]
        self.length = len(rows)
        self.source = given.second


class Comparing:
    """The compiled kernels of one module beside the portable ones."""

    def __init__(self, compiled: ModuleType) -> None:
        self._kernels = portable, compiled
        self._looks: dict[int, Callable[[Given, ModuleType], Iterable[object]]] = {
            Kind.LOG: lambda given, kernel: observe(_case(given), kernel),
            Kind.TEXTS: _texts,
            Kind.NEW: _new,
            Kind.INDEX: _index,
        }

    def __call__(self, *parts: Any) -> None:
        """Raise AssertionError where the kernels differ, or a reader does not read what it wrote."""
        given = Given(*parts)
        look = self._looks.get(given.kind)
        if look:
            expected, found = (list(look(given, kernel)) for kernel in self._kernels)
            for left, right in zip_longest(expected, found):
                assert left == right, f"portable: {left}\nnative: {right}"
            assert not any(isinstance(one, tuple) and one[0] in ("raised", "stalled") for one in found), found
        _read_again(given)


def _case(given: Given) -> Case:
    base = BASES[given.flags & 3]
    file_end = base + len(given.first) + 20 * (given.flags >> 2 & 3)
    end = file_end - (given.extra & 31 if given.flags & 16 else 0)
    search = (given.extra & 15, len(given.first), len(given.first), -1 if given.flags & 1 else 0, MAX_INT64)
    return Case(
        given.first,
        end,
        file_end,
        base,
        given.second or None,
        given.rows,
        given.records,
        given.extra & 7 if given.stage % 6 in (1, 5) else None,
        search if given.flags & 64 else None,
    )


def _texts(given: Given, kernel: ModuleType) -> Iterable[object]:
    ends = array("i", [min(end, len(given.first)) for end in accumulate(given.second[:4095], initial=0)])
    count = len(ends) - 1
    kind, is_csv, first = given.stage & 7, bool(given.stage & 8), given.flags >> 1 & 7
    bits = given.second[: (count + 7) // 8] if given.flags & 1 else None
    buffers: tuple[object, ...] = (first, bits, ends, given.first)
    if kind == ROW_HEADERS:
        lists = array("i", [min(2 * row, count) for row in range(count + 1)])
        buffers = (first, bits, lists, (0, None, ends, given.first), (0, bits, ends, given.first))
    elif kind in (ROW_INT32, ROW_INT64, ROW_BOOL):
        buffers = (first, bits, given.first)
    twin = b"," if is_csv else b',"vBase64":'
    column = RowColumn(kind, b'{"v":', twin if kind in (ROW_TEXT, ROW_BYTES, ROW_JSON) else b"")
    lines = bytearray()
    try:
        kernel.RowText([column], is_csv).render(max(count - first, 0), [buffers], lines.extend)
    except ValueError:
        yield "refused"
    else:
        yield lines
    yield kernel.murmur2(given.first, ends)
    yield kernel.crc32c(given.first, given.extra)
    yield kernel.crc32(given.first, given.extra)


def _new(given: Given, kernel: ModuleType) -> Iterable[object]:
    columns = NewColumns(given)
    if columns.length:
        first = given.stage % columns.length
        try:
            yield kernel.encode(columns, first, columns.length, 16 * given.extra, given.flags)
        except ValueError:
            yield "refused"


def _index(given: Given, kernel: ModuleType) -> Iterable[object]:
    layout = INDEX_ROWS[given.stage % 3]
    whole = len(given.first) // layout.size * layout.size
    rows = [row[2:4] or row for row in layout.iter_unpack(given.first[:whole])]
    if rows:
        left, right = (array("q", column) for column in zip(*rows, strict=True))
        yield kernel.column_stats(left)
        yield kernel.column_stats(right)
        yield kernel.differences(left, right)


def _read_again(given: Given) -> None:
    """What a reader takes is written and read again; what it refuses is an error of kdump's."""
    data = given.first
    try:
        if given.kind == Kind.INDEX and given.stage % 3 == 2:
            whole = data[: len(data) // 34 * 34]
            assert encode_aborted_txns(decode_aborted_txns(data)) == whole
        elif given.kind == Kind.SNAPSHOT:
            schema_fault(data)
            entries = decode_producer_snapshot(data)
            assert decode_producer_snapshot(encode_producer_snapshot(entries)) == entries
        elif given.kind == Kind.CHECKPOINT and given.stage & 1:
            epochs = parse_leader_epochs(data, "file")
            assert parse_leader_epochs(format_leader_epochs(epochs), "file") == epochs
        elif given.kind == Kind.CHECKPOINT:
            offsets = parse_offset_checkpoint(data, "file")
            assert parse_offset_checkpoint(format_offset_checkpoint(offsets), "file") == offsets
    except KdumpError:
        pass
