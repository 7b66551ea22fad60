"""The plots of `kdump stats --report`, as inline SVG. Every text that goes in is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate
from math import ceil, floor, log10

from kdump.formats.iso_times import iso_time
from kdump.formats.printable import safe
from kdump.formats.time_units import MS
from kdump.formats.words import duration, number_words, size_text
from kdump.operations.stats import PartitionStats, TopicStats
from kdump.retention.policy import departures
from kdump.statistics.partition import SegmentTimes, Stats
from kdump.statistics.series import Moment

from .text import percent

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 104, 44, 12, 40
TICKS = 6
MAX_LINES = 12
_OUTLIERS = 0.005
_FAR = 10

Format = Callable[[float], str]
Point = tuple[float, float]

_TIME_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1000 * seconds for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(3_600_000 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 72, 120, 240, 336, 720, 1440, 2160, 4380, 8766)),
)  # fmt: skip


def plots(topic: TopicStats, now: int, retention_ms: int) -> Iterator[str]:
    """Yield the plots of a topic, with their titles and notes; the last one is the outlook on retention (ms)."""
    if topic.stats.batches.batches:
        yield from _over_time(topic.stats)
        yield from _batch_sizes(topic.stats)
        yield from _times_over_offsets(topic.partitions)
    yield from _outlook(topic.partitions, now, retention_ms)


def _over_time(stats: Stats) -> Iterator[str]:
    yield "<h3>Bytes over time</h3>"
    moments = list(stats.batches.series.moments())
    width = stats.batches.series.width
    if not moments:
        yield '<p class="note">No batch has a timestamp.</p>'
        return
    shown = _central(moments)
    left_out = sum(moment.bytes for moment in moments) - sum(moment.bytes for moment in shown)
    low, high = shown[0].start, shown[-1].start + width
    most = max(moment.bytes for moment in shown)
    plot = Plot((low, high), (0, most))
    for moment in shown:
        tip = f"{iso_time(moment.start)}: {size_text(moment.bytes)}, {number_words(moment.batches, 'batch', 'batches')}"
        plot.bar(moment.start, moment.start + width, moment.bytes, tip)
    label = f"by the batches' max timestamp, in steps of {duration(width)}; UTC"
    yield plot.svg("Bytes over time", time_ticks(low, high), size_ticks(most, _size), label)
    if left_out:
        yield f'<p class="note">{size_text(left_out)} lie far outside of what is shown.</p>'


def _central(moments: list[Moment]) -> list[Moment]:
    """Return those that most bytes belong to, where the few others are so far that nothing would be seen of them."""
    total = sum(moment.bytes for moment in moments)
    sums = list(accumulate(moment.bytes for moment in moments))
    inner = [
        moment
        for moment, seen in zip(moments, sums, strict=True)
        if seen > _OUTLIERS * total and seen - moment.bytes < (1 - _OUTLIERS) * total
    ]
    span, whole = inner[-1].start - inner[0].start, moments[-1].start - moments[0].start
    return inner if whole > _FAR * max(span, 1) else moments


def _batch_sizes(stats: Stats) -> Iterator[str]:
    yield "<h3>Batch sizes</h3>"
    buckets = list(stats.batches.sizes.buckets())
    most = max(bucket.members for bucket in buckets)
    plot = Plot((0, len(buckets)), (0, most))
    ticks = []
    for at, bucket in enumerate(buckets):
        share = percent(bucket.members / stats.batches.batches)
        tip = f"{size_text(bucket.low)} to below {size_text(bucket.high)}: {bucket.members} ({share})"
        plot.bar(at, at + 1, bucket.members, tip)
        ticks.append((float(at), size_text(bucket.low)))
    every = -(-len(ticks) // 10)
    y_ticks = [tick for tick in number_ticks(0, most, lambda number: f"{number:.0f}") if tick[0] == int(tick[0])]
    yield plot.svg("Histogram of batch sizes", ticks[::every], y_ticks, "bytes of a batch; number of batches")


def _times_over_offsets(partitions: Sequence[PartitionStats]) -> Iterator[str]:
    yield "<h3>Timestamps over offsets</h3>"
    drawn = sorted(partitions, key=lambda each: -each.stats.size)[:MAX_LINES]
    drawn = [each for each in drawn if each.stats.batches.latest is not None]
    if not drawn:
        yield '<p class="note">No batch has a timestamp.</p>'
        return
    ranges = [range_ for each in drawn for range_ in each.stats.batches.envelope.ranges]
    times = [time for each in ranges for time in (each.earliest, each.latest) if time != -1]
    first, last = min(each.first_offset for each in ranges), max(each.last_offset for each in ranges)
    low, high = _central_range(times)
    plot = Plot((first, last), (low, high))
    for series, each in enumerate(drawn):
        points: list[Point] = []
        for range_ in each.stats.batches.envelope.ranges:
            if range_.latest != -1:
                least = range_.latest if range_.earliest == -1 else range_.earliest
                points += ((range_.first_offset, least), (range_.last_offset, range_.latest))
        plot.line(points, series, f"{each.topic}-{each.partition}")
    ticks = number_ticks(first, last, lambda number: f"{number:.0f}")
    yield plot.svg("Timestamps over offsets", ticks, time_ticks(low, high), "offset; max timestamp of batches, UTC")
    if len(drawn) > 1:
        keys = (
            f'<span class="key s{series % 6}">\u25a0</span>&nbsp;{each.partition}' for series, each in enumerate(drawn)
        )
        yield f'<p class="note">Partitions: {", ".join(keys)}</p>'
    if len(partitions) > len(drawn):
        yield f'<p class="note">Of {len(partitions)} partitions the {len(drawn)} largest ones are drawn.</p>'
    outside = sum(not low <= time <= high for time in times)
    if outside:
        yield '<p class="note">Timestamps far off are drawn at the edge: the earliest and latest are in the table.</p>'


def _central_range(times: list[int]) -> tuple[int, int]:
    """Return what most of the times are in, where a few are so far off that nothing could be seen of the others."""
    ordered = sorted(times)
    cut = int(len(ordered) * 4 * _OUTLIERS)
    low, high = ordered[cut], ordered[-1 - cut]
    if ordered[-1] - ordered[0] > _FAR * max(1, high - low):
        margin = max(1, (high - low) // 20)
        return low - margin, high + margin
    return ordered[0], ordered[-1]


def _outlook(partitions: Sequence[PartitionStats], now: int, retention_ms: int) -> Iterator[str]:
    yield f"<h3>Outlook on retention of {escape(duration(retention_ms))}</h3>"
    ends = sorted(end for each in partitions for end in _ends(each.stats.segments, retention_ms))
    total = sum(size for _, size in ends)
    if not total:
        yield '<p class="note">There is nothing to be deleted.</p>'
        return
    horizon = now + max(retention_ms, 1) * 5 // 4
    left = total - sum(size for time, size in ends if time <= now)
    points: list[Point] = [(now, left)]
    for time, size in ends:
        if now < time <= horizon:
            points += ((time, left), (time, left - size))
            left -= size
    points.append((horizon, left))
    overdue = total - points[0][1]
    plot = Plot((now, horizon), (0, total))
    plot.area(points)
    plot.line(points)
    ticks = time_ticks(now, horizon), size_ticks(total, _size)
    yield plot.svg("Bytes that retention leaves", *ticks, "bytes left, from now on; UTC")
    if overdue:
        yield f'<p class="note">{size_text(round(overdue))} are past their time already.</p>'
    if left:
        yield (
            f'<p class="note">{size_text(left)} stay longer than is shown, behind timestamps of the future: kdump'
            " retain names the records.</p>"
        )
    yield (
        '<p class="note">By time alone, as a broker computes it without time indexes; kdump retain knows the settings'
        " of topics, sizes and offsets too.</p>"
    )


def _ends(segments: Sequence[SegmentTimes], retention_ms: int) -> Iterator[tuple[int, int]]:
    """Return when (ms) each segment of a partition goes, and its size."""
    times = departures((segment.time for segment in segments), retention_ms)
    return zip(times, (segment.size for segment in segments), strict=True)


def _size(number: float) -> str:
    return size_text(round(number)).replace(".0 ", " ")


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
            f"<title>{escaped(tip)}</title></rect>"
        )

    def line(self, points: Sequence[Point], series: int = 0, tip: str = "") -> None:
        """Draw a line through points; `series` picks its colour."""
        title = f"<title>{escaped(tip)}</title>" if tip else ""
        self._parts.append(f'<polyline class="line s{series % 6}" points="{self._path(points)}">{title}</polyline>')

    def area(self, points: Sequence[Point]) -> None:
        """Draw what is below a line."""
        base = self._at_y(self._y0)
        first, last = self._at_x(points[0][0]), self._at_x(points[-1][0])
        path = f"{first:.1f},{base:.1f} {self._path(points)} {last:.1f},{base:.1f}"
        self._parts.append(f'<polygon class="area" points="{path}"/>')

    def _path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self._at_x(x):.1f},{self._at_y(y):.1f}" for x, y in points)

    def svg(
        self, label: str, x_ticks: Iterable[tuple[float, str]], y_ticks: Iterable[tuple[float, str]], x_label: str
    ) -> str:
        """Return the plot as an element; `label` says what it shows to those who cannot see it."""
        axes = "".join((*self._grid(y_ticks), *self._feet(x_ticks)))
        foot = f'<text class="tick" x="{LEFT}" y="{HEIGHT - 6}">{escaped(x_label)}</text>'
        return (
            '<div class="scroll">'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(label)}">{axes}{"".join(self._parts)}'
            f"{foot}</svg></div>"
        )

    def _grid(self, ticks: Iterable[tuple[float, str]]) -> Iterator[str]:
        for value, text in ticks:
            y = self._at_y(value)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escaped(text)}</text>'

    def _feet(self, ticks: Iterable[tuple[float, str]]) -> Iterator[str]:
        y = HEIGHT - BOTTOM
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        for value, text in ticks:
            x = self._at_x(value)
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{y + 17}" text-anchor="middle">{escaped(text)}</text>'


def number_ticks(low: float, high: float, show: Format) -> list[tuple[float, str]]:
    """Return round numbers from `low` to `high`."""
    low, high = _widened((low, high))
    return _ticks(low, high, _round_step((high - low) / TICKS), show)


def size_ticks(high: float, show: Format) -> list[tuple[float, str]]:
    """Return round numbers of bytes, in their unit, from 0 to `high`."""
    unit = 1024.0 ** max(0, floor(log10(max(1.0, high)) / log10(1024)))
    step = unit * _round_step(max(1.0, high) / unit / TICKS)
    return _ticks(0, max(1.0, high), max(1.0, step), show)


def time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round times (ms) from `low` to `high`, as far as is told apart there."""
    low, high = _widened((low, high))
    wanted = (high - low) / TICKS
    step = next((float(each) for each in _TIME_STEPS if each >= wanted), _round_step(wanted))
    return _ticks(low, high, step, lambda ms: _time_text(ms, step))


def _time_text(ms: float, step: float) -> str:
    text = iso_time(int(ms))
    date, _, clock = text.rpartition("T")
    if step >= MS["d"]:
        return date
    return f"{date[-5:]} {clock[:5]}" if step >= MS["min"] else clock[:8] if step >= MS["s"] else clock[:-1]


def _ticks(low: float, high: float, step: float, show: Format) -> list[tuple[float, str]]:
    first = ceil(low / step)
    return [(number * step, show(number * step)) for number in range(first, floor(high / step) + 1)]


def _round_step(wanted: float) -> float:
    if wanted <= 0:
        return 1.0
    power = 10.0 ** floor(log10(wanted))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * 0.999)


def _widened(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    return (low, high) if high > low else (low, low + 1)


def escaped(text: str) -> str:
    """Return a text as an element has it."""
    return escape(safe(text), quote=True)
