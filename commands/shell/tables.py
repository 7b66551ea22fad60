"""Text for people: lines, blocks, and tables, which give up columns where a terminal is too narrow for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from .prose import text_width
from .screen import Screen
from .times import iso_second

MIN_COLUMNS = 3
"""With fewer a table is no table: each row is a block of lines."""
_ELLIPSIS = "…"
_MIN_CELL = 12
"""A cell is not cut to less than this."""

Row = Sequence[str]


class TextPrinter:
    """Prints what a command finds for people, in blocks with an empty line between them."""

    def __init__(self, write: Callable[[str], object]) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._is_first = True

    def _line(self, text: str) -> None:
        self._write(f"{text}\n")

    def _lines(self, lines: Iterable[str]) -> None:
        """Print lines under a heading; empty ones as they are."""
        for line in lines:
            self._write(f"  {line}\n" if line else "\n")

    def _heading(self, text: str) -> None:
        """Begin a block."""
        if not self._is_first:
            self._write("\n")
        self._is_first = False
        if text:
            self._line(text)

    def _table(self, header: Row, rows: Sequence[Row], **how: Any) -> None:
        """Print a table, as `aligned` has it."""
        for line in aligned(header, rows, **how):
            self._write(line)


def aligned(
    header: Row, rows: Sequence[Row], *, right: Sequence[str] = (), indent: str = "", drop: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines of a table, its header first; columns whose heading is in `right` are aligned at their end.

    On a terminal that is too narrow the columns in `drop` are left out, the first one first, then others from the
    last on, and a line below names them; then the first column is cut in the middle. Nothing where there are no rows.
    Texts must be safe already.
    """
    if not rows:
        return
    screen = Screen.current
    room = None if screen.width is None else screen.width - len(indent)
    widths = [max(text_width(row[at]) for row in (header, *rows)) for at in range(len(header))]
    shown = list(range(len(header)))
    hidden: list[int] = []
    if room is not None and _total(widths, shown) > room:
        shown, hidden = _fitting(header, widths, drop, room)
        if len(shown) < MIN_COLUMNS and len(header) >= MIN_COLUMNS:
            yield from _blocks(header, rows, indent)
            return
        over = _total(widths, shown) - room
        if over > 0:
            widths[shown[0]] = max(_MIN_CELL, widths[shown[0]] - over)
    for row in (header, *rows):
        cells = (_cell(row[at], widths[at], is_right=header[at] in right) for at in shown)
        yield f"{indent}{'  '.join(cells).rstrip()}\n"
    if hidden:
        yield f"{indent}Hidden: {', '.join(header[at] for at in sorted(hidden))} (--wide).\n"


def times_of_table(times: Collection[int]) -> tuple[str, Callable[[int], str]]:
    """Return the date that timestamps (ms) share, to say once, and how each is shown; without one each has its date."""
    dates = {iso_second(ms).partition("T")[0] for ms in times}
    if len(dates) != 1 or Screen.current.times_in_ms:
        return "", iso_second
    return dates.pop(), lambda ms: iso_second(ms).partition("T")[2].rstrip("Z")


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + 2 * (len(shown) - 1)


def _fitting(header: Row, widths: Sequence[int], drop: Sequence[str], room: int) -> tuple[list[int], list[int]]:
    """Return the columns shown in `room` and those that are not; the first one always is, cut if it must be."""
    shown = list(range(len(header)))
    first = [header.index(name) for name in drop if name in header]
    order = [at for at in (*first, *(at for at in reversed(shown) if at not in first)) if at != 0]
    hidden: list[int] = []
    narrowest = [min(widths[0], _MIN_CELL * 2), *widths[1:]]
    for at in order:
        if _total(narrowest, shown) <= room:
            break
        shown.remove(at)
        hidden.append(at)
    return shown, hidden


def _blocks(header: Row, rows: Sequence[Row], indent: str) -> Iterator[str]:
    width = max(map(text_width, header))
    for number, row in enumerate(rows):
        yield from ("\n" for _ in range(number > 0))
        for name, text in zip(header, row, strict=True):
            if text:
                yield f"{indent}{_cell(name, width, is_right=False)}  {text}".rstrip() + "\n"


def _cell(text: str, width: int, *, is_right: bool) -> str:
    text = cut_in_the_middle(text, width)
    space = " " * (width - text_width(text))
    return space + text if is_right else text + space


def cut_in_the_middle(text: str, width: int) -> str:
    """Return a text that has to fit: its beginning and its end, where it is too long."""
    if text_width(text) <= width:
        return text
    before, after = (width - 1 + 1) // 2, (width - 1) // 2
    while before + after > 1 and text_width(text[:before]) + text_width(text[len(text) - after :]) >= width:
        before, after = (before - 1, after) if before > after else (before, after - 1)
    return text[:before] + _ELLIPSIS + text[len(text) - after :]
