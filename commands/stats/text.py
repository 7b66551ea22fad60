"""`kdump stats` for people: a table of partitions, then the figures of each topic in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kdump.formats.codecs import NAMES, codec_name
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import byte_words, count_text, number_words, size_text
from kdump.operations.stats import PartitionStats, TopicStats
from kdump.statistics.batches import MAX_PRODUCERS, BatchStats
from kdump.statistics.partition import Dirtiness, Stats
from kdump.statistics.records import RecordStats
from kdump.statistics.sizes import Sizes

from ..shell.choice import asked_paths
from ..shell.tables import TextPrinter
from ..shell.times import iso_second, iso_time

_HEAD = ("PARTITION", "SIZE", "SEGMENTS", "RECORDS", "BATCHES", "BYTES/BATCH", "CODECS", "EARLIEST", "LATEST", "DIRTY")
_RIGHT = ("SIZE", "SEGMENTS", "RECORDS", "BATCHES", "BYTES/BATCH", "DIRTY")
_LABEL = 14
_PERCENT = 100


MAX_PARTITIONS, LARGEST = 40, 10
"""Of more partitions than that, only so many of the largest are in the table."""
MAX_LINES = 60
"""Topics are put in words as long as there is room; --details puts all of them, and each partition, in words."""
_FOLDED = 5
"""Lines that a section needs beside its figures: an empty one, its title, and where a terminal folds long ones."""


class Text(TextPrinter):
    """Prints figures for people."""

    def __init__(self, write: Callable[[str], None], paths: Iterable[str], *, details: bool | None) -> None:
        """`write` takes whole lines; `paths` are those that were given.

        With `details` all topics are put in words, without (None) those that there is room for.
        """
        super().__init__(write)
        self._paths = tuple(paths)
        self._details = details

    def all(self, topics: list[TopicStats]) -> None:
        """Print the table of partitions, then topics in words."""
        found = [each for topic in topics for each in topic.partitions]
        self._figures(found, topics)
        ranges = [each.stats.damage_count for each in found if each.stats.damage_count]
        if ranges:
            of = f"{len(ranges)} of {number_words(len(found), 'partition')}"
            self._write(f"\nFOUND: {number_words(sum(ranges), 'damaged range')} in {of}.\n")
            self._write(f"Next: kdump doctor {asked_paths(self._paths)}\n")

    def _figures(self, found: list[PartitionStats], topics: list[TopicStats]) -> None:
        shown = found
        if len(found) > MAX_PARTITIONS:
            shown = sorted(found, key=lambda each: -each.stats.size)[:LARGEST]
        self._table(_HEAD, [_row(each) for each in shown], right=_RIGHT)
        if more := len(found) - len(shown):
            self._write(f"These are the largest; {number_words(more, 'more partition')}: --format jsonl has all.\n")
        if self._details:
            for each in found:
                self._section(safe_path(each.path), list(lines(each.stats, each.dirtiness)))
        if self._details is not False:
            self._topics(topics, None if self._details else MAX_LINES - len(shown) - 3)

    def _topics(self, topics: list[TopicStats], room: int | None) -> None:
        """Print each topic in words; in a `room` of so many lines the damaged ones, then the largest, and one at least.

        Where there is no limit, every partition has been put in words, and a topic of one partition with it.
        """
        if room is None:
            topics = [topic for topic in topics if len(topic.partitions) > 1]
        else:
            topics = sorted(topics, key=lambda topic: (not topic.stats.damage_count, -topic.stats.size))
        for at, topic in enumerate(topics):
            only = topic.partitions[0] if len(topic.partitions) == 1 else None
            figures = list(lines(topic.stats, only.dirtiness if only else None))
            if room is not None:
                room -= len(figures) + _FOLDED
                if room < 0 and at:
                    self._write(f"\n{number_words(len(topics) - at, 'more topic')}: --topic NAME, or --details.\n")
                    return
            together = f"{safe(topic.topic)}: {len(topic.partitions)} partitions together"
            self._section(safe_path(only.path) if only else together, figures)

    def _section(self, title: str, figures: list[tuple[str, str]]) -> None:
        self._write(f"\n{title}\n")
        for label, text in figures:
            self._write(f"  {label:<{_LABEL}}{text}\n")


def _row(each: PartitionStats) -> tuple[str, ...]:
    batches = each.stats.batches
    mean = batches.sizes.mean
    return (
        safe(f"{each.topic}-{each.partition}" if each.partition >= 0 else each.topic),
        size_text(each.stats.size),
        str(len(each.stats.segments)),
        records_text(batches),
        count_text(batches.batches),
        "" if mean is None else size_text(round(mean)),
        ",".join(codec_name(codec) for codec in sorted(batches.codecs)),
        time_text(batches.earliest),
        time_text(batches.latest),
        "" if each.dirtiness is None else percent(each.dirtiness.ratio),
    )


def lines(stats: Stats, dirtiness: Dirtiness | None) -> Iterator[tuple[str, str]]:
    """Yield the figures in words, as label and text. All of it is safe to print."""
    batches = stats.batches
    used = f"{number_words(len(stats.segments), 'segment')}, {size_text(stats.size)}"
    if stats.preallocated:
        used += f", {size_text(stats.preallocated)} of it zeros at the end"
    yield "size", used
    if stats.damage_count:
        ranges = number_words(stats.damage_count, "damaged range")
        yield "damage", f"{ranges}, {byte_words(stats.damaged)}: see kdump verify"
    if not batches.batches:
        yield "batches", "none"
        return
    yield from _batch_lines(batches)
    yield from _codec_lines(stats)
    yield "times", _times(batches)
    yield "producers", _producers(batches)
    if text := _empty_offsets(batches):
        yield "empty offsets", text
    if dirtiness is not None:
        yield (
            "cleaner",
            f"clean up to offset {dirtiness.checkpoint}: {size_text(dirtiness.clean)} clean,"
            f" {size_text(dirtiness.dirty)} dirty, dirty ratio {dirtiness.ratio:.2f}",
        )
    if stats.records is not None:
        yield from _record_lines(stats.records)


def _batch_lines(batches: BatchStats) -> Iterator[tuple[str, str]]:
    each = batches.records_per_batch
    text = f"{records_text(batches)} in {number_words(batches.batches, 'batch', 'batches')}"
    if each.mean is not None:
        text += f", {each.mean:.1f} a batch ({each.min} to {each.max})"
    if batches.records and not batches.wrappers:
        text += f", {batches.bytes / batches.records:.1f} bytes each on disk"
    yield "records", text
    yield "batch size", sizes_text(batches.sizes)
    formats = [f"v{magic}" for magic in sorted(batches.magics)]
    if formats != ["v2"]:
        yield "format", ", ".join(f"v{magic} in {batches.magics[magic]}" for magic in sorted(batches.magics))


def _codec_lines(stats: Stats) -> Iterator[tuple[str, str]]:
    batches, sample = stats.batches, stats.sample
    yield (
        "codecs",
        ", ".join(
            f"{codec_name(codec)} {percent(share.bytes / batches.bytes)} ({size_text(share.bytes)})"
            for codec, share in sorted(batches.codecs.items(), key=lambda item: -item[1].bytes)
        ),
    )
    if sample.batches:
        found = [(codec, stats.in_codec(codec)) for codec in range(len(NAMES))]
        yield (
            "recompressed",
            f"estimated from {number_words(sample.batches, 'batch', 'batches')}: "
            + ", ".join(
                f"{codec_name(codec)} {size_text(size)} ({round(100 * (size / batches.bytes - 1)):+d} %)"
                for codec, size in found
                if size is not None
            ),
        )


def _times(batches: BatchStats) -> str:
    if batches.earliest is None or batches.latest is None:
        return "no batch has a timestamp"
    text = f"{iso_time(batches.earliest)} to {iso_time(batches.latest)}"
    notes = [
        (batches.append_time, "of append time"),
        (batches.no_timestamp, "without a timestamp"),
        (batches.late, "older than one before"),
    ]
    return text + "".join(f", {number_words(number, 'batch', 'batches')} {what}" for number, what in notes if number)


def _producers(batches: BatchStats) -> str:
    if not batches.idempotent:
        return "no producer ids"
    more = f"more than {MAX_PRODUCERS}" if batches.has_more_producers else str(len(batches.producers))
    noun = "producer id" if more == "1" else "producer ids"
    text = f"{more} {noun}, in {percent(batches.idempotent / batches.batches)} of the batches"
    if batches.transactional:
        text += f"; {number_words(batches.transactional, 'transactional batch', 'transactional batches')}"
    if batches.control:
        text += f", {batches.control} of {'it' if batches.transactional == 1 else 'them'} markers"
    return text


def _empty_offsets(batches: BatchStats) -> str:
    """Return how many offsets have no record; nothing where all have one."""
    between = f"in {number_words(batches.gaps, 'place')} between batches"
    if batches.missing is not None:
        parts = [f"{count_text(batches.missing)} of {count_text(batches.spanned)}"] if batches.missing else []
        return "; ".join([*parts, *([between] if batches.gaps else [])])
    unknown = "v0/v1 wrappers do not say how many records are in them"
    return f"{between}; {unknown}" if batches.gaps else unknown


def _record_lines(found: RecordStats) -> Iterator[tuple[str, str]]:
    yield "contents", f"{number_words(found.records, 'record')}: {sizes_text(found.sizes)}"
    yield "keys", f"{sizes_text(found.keys)}; {found.null_keys} null"
    tombstones = f"{found.null_values} null, {number_words(found.tombstones, 'tombstone')} among them"
    yield "values", f"{sizes_text(found.values)}; {tombstones}"
    yield "headers", f"{found.headers} in {number_words(found.with_headers, 'record')}"
    if found.earliest is not None and found.latest is not None:
        yield "timestamps", f"{iso_time(found.earliest)} to {iso_time(found.latest)}"
    if found.distinct_keys is None:
        yield "compaction", "more different keys than --key-memory has room for"
    elif found.keyed:
        tombstones = number_words(found.kept_tombstones or 0, "tombstone")
        yield (
            "compaction",
            f"{found.distinct_keys} different keys: would keep {found.kept} records"
            f" ({percent((found.kept or 0) / found.records)}), {size_text(found.kept_bytes or 0)} of"
            f" {size_text(found.sizes.total)} of keys and values; {tombstones} among them",
        )


def sizes_text(sizes: Sizes) -> str:
    """Return a histogram of bytes in a few words."""
    if sizes.mean is None or sizes.min is None or sizes.max is None:
        return "none"
    half = sizes.quantile(0.5) or 0
    return (
        f"mean {size_text(round(sizes.mean))}, {size_text(sizes.min)} to {size_text(sizes.max)},"
        f" median ≤ {size_text(half)}"
    )


def records_text(batches: BatchStats) -> str:
    """Return the number of records, as far as headers tell."""
    return f"{count_text(batches.records)}{'+' if batches.wrappers else ''}"


def time_text(ms: int | None) -> str:
    """Return a timestamp to the second; nothing for None."""
    return "" if ms is None else iso_second(ms)


def percent(share: float) -> str:
    """Return a share in whole percents; what is too little for one, or for the last one, is said to be so."""
    whole = round(_PERCENT * share)
    if share > 0 and not whole:
        return "<1 %"
    return f"{whole} %" if whole < _PERCENT or share >= 1 else ">99 %"
