"""`kdump ls --graph`: a partition's life as a picture, segments as bars over offsets, and the offsets that matter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from kdump.formats.printable import safe
from kdump.formats.words import size_text
from kdump.query.inventory import PartitionInfo
from kdump.query.outline import Mark, Outline, Section, SectionKind
from kdump.storage.facts import SegmentInfo

from ..shell.prose import STYLE
from ..shell.screen import Screen
from ..shell.times import iso_time
from .text import Text as Tables

if TYPE_CHECKING:
    from rich.text import Text

MAX_ROWS = 40
MIN_BAR = 20
MAX_BAR = 120
NO_TERMINAL = 110
MIN_LABEL = 16


class SectionStyle(NamedTuple):
    """How a kind of range is drawn, where it can be and in plain ASCII, its colour, and what the legend calls it."""

    sign: str
    plain: str
    color: str
    words: str


STYLES = {
    SectionKind.DELETED: SectionStyle("·", ".", "dim", "before the log start"),
    SectionKind.CLEAN: SectionStyle("█", "#", "green", "clean"),
    SectionKind.DIRTY: SectionStyle("▓", "%", "yellow", "dirty"),
    SectionKind.HELD: SectionStyle("▒", "+", "magenta", "dirty, not to be cleaned yet"),
    SectionKind.CLOSED: SectionStyle("█", "#", "cyan", "closed segments"),
    SectionKind.ACTIVE: SectionStyle("░", "-", "blue", "active segment"),
}


class Bar(NamedTuple):
    """Neighbouring segments that are drawn as one; offsets are absolute, `stop` is the first one behind them."""

    first: int
    stop: int
    segments: int
    size: int
    first_timestamp: int | None
    largest_timestamp: int | None


class Graphs(Tables):
    """Draws partitions in place of their tables of segments."""

    def __init__(self, write: Callable[[str], None], *, is_colored: bool = False) -> None:
        """`write` takes whole lines."""
        super().__init__(write, is_colored=is_colored)
        self._is_colored = is_colored

    def partition(self, info: PartitionInfo, *, lists_segments: bool) -> None:
        """Print the facts about the partition, and its picture."""
        super().partition(info, lists_segments=False)
        if lists_segments and info.outline:
            columns = Screen.current.width or NO_TERMINAL
            lines = picture(info, info.outline, columns, plain=not _can_draw())
            self._write("\n" + _rendered(lines, self._is_colored).replace("\x1b", STYLE))


def picture(info: PartitionInfo, outline: Outline, columns: int, *, plain: bool = False) -> Iterator[Text]:
    """Yield the lines of the picture of a partition that has segments, `columns` wide; `plain` for ASCII alone."""
    from rich.text import Text

    bars = list(_bars(info.segments, outline.end))
    sections = outline.sections
    heads = [_head(bar) for bar in bars]
    tails = [_tail(bar) for bar in bars]
    margin = max(map(len, heads))
    width = min(MAX_BAR, max(MIN_BAR, columns - margin - max(map(len, tails)) - 6))
    scale = _Scale(bars[0].first, max(outline.end, bars[0].first + 1), width)
    for bar, head, tail in zip(bars, heads, tails, strict=True):
        line = Text(f"  {head:>{margin}}  ")
        line.append_text(_drawn(bar, sections, scale, plain))
        yield line.append(f"  {tail}", "dim")
    indent = " " * (margin + 4)
    for text in _pointers(outline.marks, scale, columns - margin - 4, plain):
        yield Text(indent + text)
    legend = Text(indent)
    for kind in dict.fromkeys(section.kind for section in sections):
        sign = STYLES[kind].plain if plain else STYLES[kind].sign
        legend.append(sign, STYLES[kind].color).append(f" {STYLES[kind].words}  ")
    legend.rstrip()
    yield legend


class _Scale:
    """From offsets to the columns of a bar."""

    def __init__(self, low: int, high: int, width: int) -> None:
        self.low, self.high, self.width = low, high, width

    def column(self, offset: int) -> int:
        """Return the column that an offset falls into; one behind the end for the end."""
        return min(max(0, offset - self.low) * self.width // (self.high - self.low), self.width)

    def span(self, first: int, stop: int) -> range:
        """Return the columns of some offsets, at least one."""
        start = min(self.column(first), self.width - 1)
        return range(start, max(self.column(stop), start + 1))

    def offset(self, column: int) -> int:
        """Return the offset that a column begins in."""
        return self.low + column * (self.high - self.low) // self.width


def _bars(segments: Sequence[SegmentInfo], end: int) -> Iterator[Bar]:
    """Yield the segments of a log that ends at an offset, so many together that they fit; the active one apart."""
    stops = [*(segment.base_offset for segment in segments[1:]), end]
    together = -(-(len(segments) - 1) // (MAX_ROWS - 1)) or 1
    for start in range(0, len(segments) - 1, together):
        stop = min(start + together, len(segments) - 1)
        yield _bar(segments[start:stop], stops[stop - 1])
    yield _bar(segments[-1:], stops[-1])


def _bar(segments: Sequence[SegmentInfo], stop: int) -> Bar:
    return Bar(
        segments[0].base_offset,
        stop,
        len(segments),
        sum(segment.size for segment in segments),
        next((each.first_timestamp for each in segments if each.first_timestamp is not None), None),
        max((each.largest_timestamp for each in segments if each.largest_timestamp is not None), default=None),
    )


def _head(bar: Bar) -> str:
    return str(bar.first) if bar.segments == 1 else f"{bar.first} ({bar.segments} segments)"


def _tail(bar: Bar) -> str:
    size = f"{size_text(bar.size):>10}"
    if bar.first_timestamp is None and bar.largest_timestamp is None:
        return size
    return f"{size}  {_time(bar.first_timestamp)} to {_time(bar.largest_timestamp)}"


def _time(timestamp: int | None) -> str:
    return "?" if timestamp is None else f"{iso_time(timestamp).partition('.')[0]}Z"


def _drawn(bar: Bar, sections: Sequence[Section], scale: _Scale, plain: bool) -> Text:
    """Return a bar in its place among the columns."""
    from rich.text import Text

    span = scale.span(bar.first, bar.stop)
    line = Text(" " * span.start)
    for column in span:
        offset = max(bar.first, scale.offset(column))
        style = STYLES[next((each.kind for each in sections if offset < each.stop), sections[-1].kind)]
        line.append(style.plain if plain else style.sign, style.color)
    line.append(" " * (scale.width - span.stop))
    return line


def _pointers(marks: Sequence[Mark], scale: _Scale, room: int, plain: bool) -> Iterator[str]:
    """Yield lines, up to `room` wide, that point from below at the columns of the marks, the rightmost one first."""
    stem, branch, corner, left_branch, left_corner = "||`|'" if plain else "│├└┤┘"
    labels: dict[int, dict[int, list[str]]] = {}
    for mark in sorted(marks, key=lambda mark: mark.offset):
        column = min(scale.column(mark.offset), scale.width - 1)
        label = f"{mark.name} ({safe(mark.reason)})" if mark.reason else mark.name
        labels.setdefault(column, {}).setdefault(mark.offset, []).append(label)
    columns = sorted(labels)
    yield _row([(column, stem) for column in columns])
    while columns:
        column = columns.pop()
        stems = [(each, stem) for each in columns]
        texts = [f"{', '.join(names)} {offset}" for offset, names in labels[column].items()]
        right, left = room - column - 2, column - 3
        longest = max(map(len, texts))
        goes_right = longest <= right or left < max(longest, right)
        texts = [line for text in texts for line in wrap(text, max(MIN_LABEL, right if goes_right else left))]
        for number, text in enumerate(texts, 1):
            is_last = number == len(texts)
            if goes_right:
                yield _row([*stems, (column, f"{corner if is_last else branch} {text}")])
            else:
                start = max(0, column - len(text) - 1)
                ahead = [each for each in stems if each[0] < start]
                yield _row([*ahead, (start, f"{text} {left_corner if is_last else left_branch}")])


def _row(pieces: Sequence[tuple[int, str]]) -> str:
    """Return a line with texts at their columns, none of which reaches into the next."""
    line = ""
    for column, text in pieces:
        line += " " * (column - len(line)) + text
    return line


def _can_draw() -> bool:
    """Return whether what shows the text has the signs for it; files and pipes get UTF-8."""
    if not sys.stdout.isatty():
        return True
    try:
        "█│·".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _rendered(lines: Iterator[Text], is_colored: bool) -> str:
    """Return the lines as text, with the escapes of colours where there are any."""
    from rich.console import Console

    out = StringIO()
    console = Console(
        file=out,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        legacy_windows=False,
        highlight=False,
    )
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    return out.getvalue()
