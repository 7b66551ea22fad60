"""The first screen of `kdump stats --report`: what is damaged, large or uneven, and what another codec would save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from shlex import quote

from kdump.formats.codecs import codec_name
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import byte_words, number_words, size_text
from kdump.named_tuples import NamedTuple
from kdump.operations.stats import UNEVEN, WORTHWHILE, TopicStats

from .text import percent

MAX_ROWS = 8
"""Rows of each answer."""


class _Bar(NamedTuple):
    """A row with a bar: the topic, what the bar shows, and that in words."""

    topic: str
    value: int
    text: str


def answers(topics: Sequence[TopicStats], ids: Mapping[str, str]) -> Iterator[str]:
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
        command = f"kdump doctor {quote(each.path)}"
        yield f"<p>{_text(f'{each.topic}-{each.partition}')}: {what}</p>"
        yield f"<p><code>{escape(safe_path(command))}</code></p>"
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
        f'<div class="row"><span class="name">{link(row.topic, ids)}</span>'
        f'<span class="track"><span class="fill" style="width:{100 * row.value / most:.1f}%"></span></span>'
        f'<span class="what">{_text(row.text)}</span></div>'
        for row in rows[:MAX_ROWS]
    )
    more = _note(f"{number_words(len(rows) - MAX_ROWS, 'more topic')}.") if len(rows) > MAX_ROWS else ""
    return f'<div class="bars">{shown}</div>{more}'


def link(topic: str, ids: Mapping[str, str]) -> str:
    """Return a topic's name, which leads to its section where the page has one."""
    return f'<a href="#{ids[topic]}">{_text(topic)}</a>' if topic in ids else _text(topic)


def _note(text: str) -> str:
    return f'<p class="note">{_text(text)}</p>'


def _text(text: str) -> str:
    return escape(safe(text), quote=True)
