"""`kdump stats --report`: one page for the browser, complete in itself, without any script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate

from kdump.formats.iso_times import iso_time
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import duration, number_words, size_text
from kdump.operations.stats import PartitionStats, TopicStats
from kdump.retention.policy import departures
from kdump.stats.partition import SegmentTimes, Stats
from kdump.stats.series import Moment

from .answers import answers, link
from .svg import Plot, Point, number_ticks, size_ticks, time_ticks
from .text import lines, percent, records_text, time_text

MAX_PLOTTED = 40
MAX_LINES = 12
_OUTLIERS = 0.005
_FAR = 10

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2733;--dim:#66737f;--rule:#d9dfe5;--back:#fff;--bar:#3572b0;--fill:#3572b033;
--bad:#a8321c;--good:#22724a}
@media(prefers-color-scheme:dark){:root{--ink:#dce4ec;--dim:#93a1ae;--rule:#35414d;--back:#141a20;--bar:#6aa7e4;
--fill:#6aa7e433;--bad:#ff9076;--good:#6fcb9b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:62rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid var(--rule);padding-top:1.2rem}
h3{font-size:1rem;margin:1.4rem 0 .2rem}p.note{color:var(--dim);margin:.2rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{color:var(--dim);font-weight:500;white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}td{overflow-wrap:anywhere}
td.t{white-space:nowrap}.scroll td:first-child{min-width:9rem}a{color:var(--bar)}
.bad{color:var(--bad);font-weight:600}.good{color:var(--good);font-weight:600}
code{background:var(--fill);padding:.1rem .3rem;overflow-wrap:anywhere}
.row{display:flex;flex-wrap:wrap;align-items:center;column-gap:.8rem;margin:.25rem 0}.name{flex:0 1 14rem;
overflow-wrap:anywhere}.track{flex:1 1 8rem}.fill{display:block;height:.8rem;min-width:2px;background:var(--bar)}
.what{flex:0 1 20rem;color:var(--dim)}h2,p,td{overflow-wrap:anywhere}
.scroll svg{min-width:38rem}
svg{width:100%;height:auto;display:block}.tick{font-size:11px;fill:var(--dim)}.grid{stroke:var(--rule)}
.axis{stroke:var(--dim)}.bar{fill:var(--bar)}.bar:hover{opacity:.7}.area{fill:var(--fill)}
.key{color:var(--bar)}.line{fill:none;stroke-width:1.6;stroke:var(--bar)}.mark{stroke:var(--dim);stroke-dasharray:4 3}
.s1{stroke:#c8553d;color:#c8553d}.s2{stroke:#3b9a6d;color:#3b9a6d}
.s3{stroke:#a06cc4;color:#a06cc4}.s4{stroke:#b98a1d;color:#b98a1d}
.s5{stroke:#4aa3b5;color:#4aa3b5}
"""


def page(topics: Sequence[TopicStats], *, now: int, retention_ms: int) -> str:
    """Return the whole page. `now` and `retention_ms` (ms) are what the outlook on retention goes by."""
    size = sum(topic.stats.size for topic in topics)
    partitions = sum(len(topic.partitions) for topic in topics)
    largest = sorted(topics, key=lambda topic: -topic.stats.size)
    ids = {topic.topic: f"topic-{number}" for number, topic in enumerate(largest[:MAX_PLOTTED], 1)}
    body = [
        "<h1>Kafka logs</h1>",
        f"<p>{number_words(len(topics), 'topic')}, {number_words(partitions, 'partition')}, {size_text(size)}; as of"
        f" {iso_time(now)}.</p>",
        *answers(largest, ids),
        "<h3>All topics</h3>",
        _table(largest, ids),
    ]
    if len(largest) > MAX_PLOTTED:
        body.append(f'<p class="note">The {MAX_PLOTTED} largest topics follow.</p>')
    for topic in largest[:MAX_PLOTTED]:
        body += _topic(topic, ids[topic.topic], now, retention_ms)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width"><title>Kafka logs</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _text(text: str) -> str:
    return escape(safe(text), quote=True)


_NUMBERS = ("Partitions", "Size", "Records", "Batches")


def _table(topics: Sequence[TopicStats], ids: Mapping[str, str]) -> str:
    heads = ("Topic", "Partitions", "Size", "Records", "Batches", "Earliest", "Latest")
    head = "".join(f'<th class="n">{each}</th>' if each in _NUMBERS else f"<th>{each}</th>" for each in heads)
    rows = []
    for topic in topics:
        batches = topic.stats.batches
        numbers = (len(topic.partitions), size_text(topic.stats.size), records_text(batches), batches.batches)
        cells = "".join(f'<td class="n">{each}</td>' for each in numbers)
        times = "".join(f'<td class="t">{_text(time_text(each))}</td>' for each in (batches.earliest, batches.latest))
        rows.append(f"<tr><td>{link(topic.topic, ids)}</td>{cells}{times}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _topic(topic: TopicStats, id_: str, now: int, retention_ms: int) -> Iterator[str]:
    yield f'<h2 id="{id_}">{_text(topic.topic)}</h2>'
    only = topic.partitions[0] if len(topic.partitions) == 1 else None
    if only:
        yield f'<p class="note">{escape(safe_path(only.path))}</p>'
    rows = "".join(
        f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"
        for label, text in lines(topic.stats, only.dirtiness if only else None)
    )
    yield f"<table>{rows}</table>"
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
    stretches = [stretch for each in drawn for stretch in each.stats.batches.envelope.stretches]
    times = [time for each in stretches for time in (each.earliest, each.latest) if time != -1]
    first, last = min(each.first_offset for each in stretches), max(each.last_offset for each in stretches)
    low, high = _central_range(times)
    plot = Plot((first, last), (low, high))
    for series, each in enumerate(drawn):
        points: list[Point] = []
        for stretch in each.stats.batches.envelope.stretches:
            if stretch.latest != -1:
                least = stretch.latest if stretch.earliest == -1 else stretch.earliest
                points += ((stretch.first_offset, least), (stretch.last_offset, stretch.latest))
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
    yield plot.svg(
        "Bytes that retention leaves",
        time_ticks(now, horizon),
        size_ticks(total, _size),
        "bytes left, from now on; UTC",
    )
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
