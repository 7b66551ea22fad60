"""`kdump stats --report`: one page for the browser, complete in itself, without any script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from kdump.formats.codecs import codec_name
from kdump.formats.iso_times import iso_time
from kdump.formats.printable import command_line, safe_path
from kdump.formats.words import byte_words, number_words, size_text
from kdump.operations.stats import UNEVEN, WORTHWHILE, TopicStats

from .svg import escaped, plots
from .text import lines, percent, records_text, time_text

MAX_PLOTTED = 40
MAX_ROWS = 8
"""Rows of each answer."""

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


class _Bar(NamedTuple):
    """A row with a bar: the topic, what the bar shows, and that in words."""

    topic: str
    value: int
    text: str


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
        *_answers(largest, ids),
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


_NUMBERS = ("Partitions", "Size", "Records", "Batches")


def _table(topics: Sequence[TopicStats], ids: Mapping[str, str]) -> str:
    heads = ("Topic", "Partitions", "Size", "Records", "Batches", "Earliest", "Latest")
    head = "".join(f'<th class="n">{each}</th>' if each in _NUMBERS else f"<th>{each}</th>" for each in heads)
    rows = []
    for topic in topics:
        batches = topic.stats.batches
        numbers = (len(topic.partitions), size_text(topic.stats.size), records_text(batches), batches.batches)
        cells = "".join(f'<td class="n">{each}</td>' for each in numbers)
        times = "".join(f'<td class="t">{escaped(time_text(each))}</td>' for each in (batches.earliest, batches.latest))
        rows.append(f"<tr><td>{_link(topic.topic, ids)}</td>{cells}{times}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _topic(topic: TopicStats, id_: str, now: int, retention_ms: int) -> Iterator[str]:
    yield f'<h2 id="{id_}">{escaped(topic.topic)}</h2>'
    only = topic.partitions[0] if len(topic.partitions) == 1 else None
    if only:
        yield f'<p class="note">{escape(safe_path(only.path))}</p>'
    rows = "".join(
        f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"
        for label, text in lines(topic.stats, only.dirtiness if only else None)
    )
    yield f"<table>{rows}</table>"
    yield from plots(topic, now, retention_ms)


def _answers(topics: Sequence[TopicStats], ids: Mapping[str, str]) -> Iterator[str]:
    """Yield the answers as elements, of topics with the largest first; `ids` are those of the topics' sections."""
    yield from _damage(topics)
    total = max(sum(topic.stats.size for topic in topics), 1)
    yield "<h3>Largest topics</h3>"
    yield _bars([_Bar(each.topic, each.stats.size, _share(each.stats.size, total)) for each in topics], ids)
    uneven = sorted(_uneven(topics), key=lambda bar: -bar.value)
    yield "<h3>Uneven topics</h3>"
    yield _bars(uneven, ids) if uneven else _note(f"No partition has {UNEVEN} times the mean of its topic.")
    savings = sorted(_savings(topics), key=lambda bar: -bar.value)
    yield "<h3>What another codec would save</h3>"
    yield _bars(savings, ids) if savings else _note(f"Nothing that is worth it: below {percent(WORTHWHILE)} a topic.")
    if savings:
        yield _note("Estimated from a sample of each partition, at Kafka's default level.")


def _damage(topics: Iterable[TopicStats]) -> Iterator[str]:
    found = [each for topic in topics for each in topic.partitions if each.stats.damage_count]
    if not found:
        yield '<p class="good">No damage was found in what was read.</p>'
        return
    yield f'<p class="bad">{number_words(len(found), "partition")} with damage:</p>'
    for each in sorted(found, key=lambda each: -each.stats.damaged)[:MAX_ROWS]:
        what = f"{number_words(each.stats.damage_count, 'damaged range')}, {byte_words(each.stats.damaged)}"
        command = command_line("kdump", "doctor", each.path)
        yield f"<p>{escaped(f'{each.topic}-{each.partition}')}: {what}</p>"
        yield f"<p><code>{escape(command)}</code></p>"
    if len(found) > MAX_ROWS:
        yield _note(f"{len(found) - MAX_ROWS} more: kdump verify names them.")


def _uneven(topics: Iterable[TopicStats]) -> Iterator[_Bar]:
    for topic in topics:
        if topic.is_uneven:
            largest = topic.largest
            size = f"{size_text(largest.stats.size)}, {topic.unevenness:.1f} times the mean"
            yield _Bar(topic.topic, largest.stats.size, f"partition {largest.partition}: {size}")


def _savings(topics: Iterable[TopicStats]) -> Iterator[_Bar]:
    for topic in topics:
        saving = topic.saving
        if saving:
            share = _share(saving.bytes, topic.stats.batches.bytes)
            yield _Bar(topic.topic, saving.bytes, f"{codec_name(saving.codec)} saves {share}")


def _share(size: int, total: int) -> str:
    return f"{size_text(size)}, {percent(size / total)}"


def _bars(rows: Sequence[_Bar], ids: Mapping[str, str]) -> str:
    most = max((row.value for row in rows), default=0) or 1
    shown = "".join(
        f'<div class="row"><span class="name">{_link(row.topic, ids)}</span>'
        f'<span class="track"><span class="fill" style="width:{100 * row.value / most:.1f}%"></span></span>'
        f'<span class="what">{escaped(row.text)}</span></div>'
        for row in rows[:MAX_ROWS]
    )
    more = _note(f"{number_words(len(rows) - MAX_ROWS, 'more topic')}.") if len(rows) > MAX_ROWS else ""
    return f'<div class="bars">{shown}</div>{more}'


def _link(topic: str, ids: Mapping[str, str]) -> str:
    """Return a topic's name, which leads to its section where the page has one."""
    return f'<a href="#{ids[topic]}">{escaped(topic)}</a>' if topic in ids else escaped(topic)


def _note(text: str) -> str:
    return f'<p class="note">{escaped(text)}</p>'
