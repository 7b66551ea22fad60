"""Plots as inline SVG: axes with ticks, bars, and lines. Every text that goes in is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from kdump.formats.iso_times import iso_time as utc_time
from kdump.formats.printable import safe
from kdump.formats.time_units import MS

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 104, 44, 12, 40
TICKS = 6

Format = Callable[[float], str]
Point = tuple[float, float]

_TIME_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1000 * seconds for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(3_600_000 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 72, 120, 240, 336, 720, 1440, 2160, 4380, 8766)),
)  # fmt: skip


class Plot:
    """A plot over ranges of x and y; parts are drawn in the order in which they are added."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Take ranges, which may be empty: they are widened then."""
        self._x0, self._x1 = _widened(x)
        self._y0, self._y1 = _widened(y)
        self._parts: list[str] = []

    def _at_x(self, x: float) -> float:
        share = (min(max(x, self._x0), self._x1) - self._x0) / (self._x1 - self._x0)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def _at_y(self, y: float) -> float:
        share = (min(max(y, self._y0), self._y1) - self._y0) / (self._y1 - self._y0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def bar(self, left: float, right: float, height: float, tip: str) -> None:
        """Draw a bar from the bottom, at least a pixel wide and, unless it is 0, high; `tip` is under the pointer."""
        x, end = self._at_x(left), self._at_x(right)
        y, base = self._at_y(height), self._at_y(self._y0)
        if height > 0:
            y = min(y, base - 1)
        self._parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(1.0, end - x - 0.5):.1f}" height="{base - y:.1f}">'
            f"<title>{_text(tip)}</title></rect>"
        )

    def line(self, points: Sequence[Point], series: int = 0, tip: str = "") -> None:
        """Draw a line through points; `series` picks its colour."""
        path = " ".join(f"{self._at_x(x):.1f},{self._at_y(y):.1f}" for x, y in points)
        title = f"<title>{_text(tip)}</title>" if tip else ""
        self._parts.append(f'<polyline class="line s{series % 6}" points="{path}">{title}</polyline>')

    def area(self, points: Sequence[Point]) -> None:
        """Draw what is below a line."""
        base = self._at_y(self._y0)
        path = " ".join(f"{self._at_x(x):.1f},{self._at_y(y):.1f}" for x, y in points)
        first, last = self._at_x(points[0][0]), self._at_x(points[-1][0])
        self._parts.append(f'<polygon class="area" points="{first:.1f},{base:.1f} {path} {last:.1f},{base:.1f}"/>')

    def mark(self, x: float, text: str) -> None:
        """Draw a vertical line with a label."""
        at = self._at_x(x)
        end = "end" if at > WIDTH / 2 else "start"
        shift = -4 if end == "end" else 4
        self._parts.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="tick" x="{at + shift:.1f}" y="{TOP + 10}" text-anchor="{end}">{_text(text)}</text>'
        )

    def svg(
        self, label: str, x_ticks: Iterable[tuple[float, str]], y_ticks: Iterable[tuple[float, str]], x_label: str
    ) -> str:
        """Return the plot as an element; `label` says what it shows to those who cannot see it."""
        axes = "".join((*self._grid(y_ticks), *self._feet(x_ticks)))
        foot = f'<text class="tick" x="{LEFT}" y="{HEIGHT - 6}">{_text(x_label)}</text>'
        return (
            '<div class="scroll">'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(label)}">{axes}{"".join(self._parts)}'
            f"{foot}</svg></div>"
        )

    def _grid(self, ticks: Iterable[tuple[float, str]]) -> Iterator[str]:
        for value, text in ticks:
            y = self._at_y(value)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_text(text)}</text>'

    def _feet(self, ticks: Iterable[tuple[float, str]]) -> Iterator[str]:
        y = HEIGHT - BOTTOM
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        for value, text in ticks:
            x = self._at_x(value)
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{y + 17}" text-anchor="middle">{_text(text)}</text>'


def number_ticks(low: float, high: float, show: Format) -> list[tuple[float, str]]:
    """Return round numbers from `low` to `high`."""
    low, high = _widened((low, high))
    step = _round_step((high - low) / TICKS, 10)
    return _ticks(low, high, step, show)


def size_ticks(high: float, show: Format) -> list[tuple[float, str]]:
    """Return round numbers of bytes, in their unit, from 0 to `high`."""
    unit = 1024.0 ** max(0, floor(log10(max(1.0, high)) / log10(1024)))
    step = unit * _round_step(max(1.0, high) / unit / TICKS, 10)
    return _ticks(0, max(1.0, high), max(1.0, step), show)


def time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round times (ms) from `low` to `high`, as far as is told apart there."""
    low, high = _widened((low, high))
    wanted = (high - low) / TICKS
    step = next((float(each) for each in _TIME_STEPS if each >= wanted), _round_step(wanted, 10))
    return _ticks(low, high, step, lambda ms: _time_text(ms, step))


def _time_text(ms: float, step: float) -> str:
    text = utc_time(int(ms))
    date, _, clock = text.rpartition("T")
    if step >= MS["d"]:
        return date
    return f"{date[-5:]} {clock[:5]}" if step >= MS["min"] else clock[:8] if step >= MS["s"] else clock[:-1]


def _ticks(low: float, high: float, step: float, show: Format) -> list[tuple[float, str]]:
    first = ceil(low / step)
    return [(number * step, show(number * step)) for number in range(first, floor(high / step) + 1)]


def _round_step(wanted: float, base: int) -> float:
    if wanted <= 0:
        return 1.0
    power = float(base) ** floor(log10(wanted))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * 0.999)


def _widened(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    return (low, high) if high > low else (low, low + 1)


def _text(text: str) -> str:
    return escape(safe(text), quote=True)
