"""What one walk over the logs of a partition has read of them, kept so that what follows need not read it again.

A plan verifies a partition and then loads its logs in the plan, more than once where something is wrong. What a batch's
header says, and that its CRC holds, does not change in between: the second look takes it from here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from kdump.blocks import BATCH_COLUMNS, BatchBlock
from kdump.formats.batch import CODEC_MASK, CONTROL
from kdump.formats.faults import BLOCK_FULL

MAX_KEPT_BYTES = 96 << 20
"""Bytes of columns that are kept of a partition; logs with more batches than that are read again."""

FEW_ROWS = 256
"""Rows up to which equal columns are not looked for: what that saves is less than it takes."""

COLUMNS = tuple(name for name in BATCH_COLUMNS if name != "valid")
"""What is kept of each batch."""


class _Rows(NamedTuple):
    """Valid batches that follow one another from byte `start` up to byte `stop`; of a uniform column, its value.

    `moved` are their positions where the file's bytes were last asked for in another place, so far from their own.
    """

    start: int
    stop: int
    length: int
    columns: tuple[array[int] | int, ...]
    moved: dict[int, array[int]]


class WalkedLogs:
    """The valid batches of the .log files of a partition, by name, as far as there is room for them."""

    def __init__(self, room: int = MAX_KEPT_BYTES) -> None:
        """`room` is how many bytes of columns are kept."""
        self._room = room
        self._rows: dict[str, list[_Rows]] = {}
        self._starts: dict[str, list[int]] = {}
        self._last: tuple[tuple[str, int, int, int, int], BatchBlock] | None = None  # loading asks again and again

    def add(self, name: str, columns: Mapping[str, array[int]]) -> None:
        """Keep valid batches that follow one another in the .log `name`, behind those that were added before.

        `columns` has those of COLUMNS, as in a block that a walk has filled.
        """
        position, size = columns["position"], columns["size"]
        rows = _Rows(position[0], position[-1] + size[-1], len(position), _packed(columns), {})
        room = self._room - sum(8 * len(column) for column in rows.columns if not isinstance(column, int))
        if room >= 0:
            self._room = room
            self._rows.setdefault(name, []).append(rows)
            self._starts.setdefault(name, []).append(rows.start)

    def block(self, name: str, position: int, stop: int, moved: int = 0) -> BatchBlock | None:
        """Return the batches of the .log `name` from byte `position` on that end by byte `stop`, as far as together.

        `moved` is added to their positions. None where none that begins there is known. The block holds no bytes; asked
        for the same again it is the same one.
        """
        at = bisect_right(self._starts.get(name, ()), position) - 1
        if at < 0:
            return None
        rows = self._rows[name][at]
        if position >= rows.stop:
            return None
        positions = _full(rows, "position")
        first = bisect_left(positions, position)
        last = rows.length if rows.stop <= stop else bisect_right(positions, stop) - 1  # one begins where another ends
        if first >= last or positions[first] != position:
            return None
        key = name, at, first, last, moved
        if self._last is None or self._last[0] != key:
            self._last = key, _block(rows, first, last, moved)
        block = self._last[1]
        block.status = BLOCK_FULL
        return block


def _packed(columns: Mapping[str, array[int]]) -> tuple[array[int] | int, ...]:
    """Return the columns in the order of COLUMNS; of many rows, equal ones are the same."""
    if len(columns["position"]) <= FEW_ROWS:
        return tuple(columns[name] for name in COLUMNS)
    found: list[array[int] | int] = []
    for name in COLUMNS:
        column = columns[name]
        if column == array("q", column[:1]) * len(column):
            found.append(column[0])
        else:
            found.append(next((each for each in found if each == column), column))
    return tuple(found)


def _full(rows: _Rows, name: str) -> array[int]:
    column = rows.columns[COLUMNS.index(name)]
    return array("q", (column,)) * rows.length if isinstance(column, int) else column


def _moved(rows: _Rows, by: int) -> array[int]:
    """Return the positions of all rows, so many bytes further."""
    if by not in rows.moved:
        rows.moved.clear()
        rows.moved[by] = array("q", map(by.__add__, _full(rows, "position")))
    return rows.moved[by]


def _block(rows: _Rows, first: int, stop: int, moved: int) -> BatchBlock:
    length = stop - first
    columns: dict[str, array[int]] = {"valid": array("q", (1,)) * length}
    for name, column in zip(COLUMNS, rows.columns, strict=True):
        if isinstance(column, int):
            column = array("q", (column,)) * length
        elif length < rows.length:
            column = column[first:stop]
        columns[name] = column
    if moved:
        columns["position"] = _moved(rows, moved)[first:stop]
    block = BatchBlock.of(columns)
    if block.attributes.count(0) < length:
        block.packed = sum(1 for each in block.attributes if each & CODEC_MASK)
        block.controls = sum(1 for each in block.attributes if each & CONTROL)
    return block
