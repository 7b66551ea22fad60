"""Figures that the headers of batches give."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import compress
from operator import ne, sub

from kdump.blocks import BatchBlock
from kdump.formats.batch import CODEC_MASK, CONTROL, HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.statistics.series import Envelope, TimeSeries
from kdump.statistics.sizes import Sizes

MAX_PRODUCERS = 10_000


@dataclass(slots=True)
class CodecShare:
    """Batches of one codec: how many, with how many records (of those that say so), and their bytes."""

    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class BatchStats:
    """What the batches that can be trusted come to.

    `records` are as declared, markers included; `wrappers` are v0/v1 ones, whose headers do not say. `payload` is what
    is behind the headers of v2 batches. `producers` are the ids met, up to MAX_PRODUCERS of them, and then
    `has_more_producers` tells that there are others. Offsets are absolute; `missing` are those between the first and
    the last that no record has (None with wrappers), `gaps` the places where a batch does not follow on the one before.
    Timestamps are ms: `earliest` and `latest` are those of the batches' max timestamps without -1; `late` batches have
    one below that of a batch before.
    """

    bytes: int = 0
    batches: int = 0
    records: int = 0
    wrappers: int = 0
    payload: int = 0
    control: int = 0
    transactional: int = 0
    idempotent: int = 0
    append_time: int = 0
    no_timestamp: int = 0
    late: int = 0
    gaps: int = 0
    spanned: int = 0
    earliest: int | None = None
    latest: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    sizes: Sizes = field(default_factory=Sizes)
    records_per_batch: Sizes = field(default_factory=Sizes)
    codecs: dict[int, CodecShare] = field(default_factory=dict)
    magics: Counter[int] = field(default_factory=Counter)
    producers: set[int] = field(default_factory=set)
    has_more_producers: bool = False
    series: TimeSeries = field(default_factory=TimeSeries)
    envelope: Envelope = field(default_factory=Envelope)

    @property
    def missing(self) -> int | None:
        """Offsets between the first and the last batch that no record has."""
        return None if self.wrappers else self.spanned - self.records

    def add(self, block: BatchBlock, first: int, stop: int) -> None:
        """Count rows `first` to `stop` - 1 of a block, which follow on those that were counted before."""
        sizes = block.size[first:stop]
        counts = block.count[first:stop]
        attributes = block.attributes[first:stop]
        self.bytes += sum(sizes)
        self.batches += len(sizes)
        self.sizes.add(sizes)
        self.magics.update(block.magic[first:stop])
        known = [count for count in counts if count >= 0] if min(counts) < 0 else counts
        self.records += sum(known)
        self.wrappers += len(counts) - len(known)
        self.records_per_batch.add(known)
        self._add_kinds(block, first, stop)
        for codec in {attribute & CODEC_MASK for attribute in set(attributes)}:
            wanted = [attribute & CODEC_MASK == codec for attribute in attributes]
            share = self.codecs.setdefault(codec, CodecShare())
            share.batches += sum(wanted)
            share.bytes += sum(compress(sizes, wanted))
            share.records += sum(count for count in compress(counts, wanted) if count > 0)
        self._add_times(block, first, stop)
        self._add_offsets(block, first, stop)

    def _add_kinds(self, block: BatchBlock, first: int, stop: int) -> None:
        magics = block.magic[first:stop]
        self.append_time += self._with_flag(block, first, stop, LOG_APPEND_TIME, 1)
        if max(magics) < 2:
            return
        self.payload += sum(
            max(0, size - HEADER_SIZE) for size, magic in zip(block.size[first:stop], magics, strict=True) if magic >= 2
        )
        self.control += self._with_flag(block, first, stop, CONTROL, 2)
        self.transactional += self._with_flag(block, first, stop, TRANSACTIONAL, 2)
        ids = block.producer_id[first:stop]
        found = set(ids)
        found.discard(-1)
        if found:
            self.idempotent += len(ids) - ids.count(-1)
            self._add_producers(found)

    @staticmethod
    def _with_flag(block: BatchBlock, first: int, stop: int, flag: int, magic: int) -> int:
        if not any(attribute & flag for attribute in set(block.attributes[first:stop])):
            return 0
        return sum(
            bool(attribute & flag) and found >= magic
            for attribute, found in zip(block.attributes[first:stop], block.magic[first:stop], strict=True)
        )

    def _add_producers(self, found: set[int]) -> None:
        new = found - self.producers
        room = MAX_PRODUCERS - len(self.producers)
        self.has_more_producers |= len(new) > room
        self.producers.update(sorted(new)[:room])

    def _add_times(self, block: BatchBlock, first: int, stop: int) -> None:
        times = block.max_timestamp[first:stop]
        known = [time for time in times if time != -1] if min(times) < 0 else times
        self.no_timestamp += len(times) - len(known)
        if known:
            latest = min(known) if self.latest is None else self.latest
            for time in known:
                if time < latest:
                    self.late += 1
                else:
                    latest = time
            self.latest = latest
            least = min(known)
            self.earliest = least if self.earliest is None else min(self.earliest, least)
        self.series.add(times, block.size[first:stop])
        self.envelope.add(block.base_offset[first:stop], block.last_offset[first:stop], times)

    def _add_offsets(self, block: BatchBlock, first: int, stop: int) -> None:
        bases, lasts = block.base_offset[first:stop], block.last_offset[first:stop]
        before = [bases[0] - 1 if self.last_offset is None else self.last_offset, *lasts[:-1]]
        if self.wrappers:  # where a wrapper's offsets begin only its content tells
            breaks = [0 <= base != last + 1 for base, last in zip(bases, before, strict=True)]
            self.gaps += sum(breaks)
        else:
            self.gaps += sum(map(ne, map(sub, bases, before), [1] * len(bases)))
        if self.first_offset is None:
            self.first_offset = bases[0] if bases[0] >= 0 else lasts[0]
        self.last_offset = lasts[-1]
        self.spanned = self.last_offset - self.first_offset + 1

    def merge(self, other: BatchStats) -> None:
        """Add the figures of another partition; of offsets only how many are spanned and missing is kept."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.earliest is not None and other.latest is not None:
            self.earliest = other.earliest if self.earliest is None else min(self.earliest, other.earliest)
            self.latest = other.latest if self.latest is None else max(self.latest, other.latest)
        self.sizes.merge(other.sizes)
        self.records_per_batch.merge(other.records_per_batch)
        for codec, share in other.codecs.items():
            own = self.codecs.setdefault(codec, CodecShare())
            own.batches += share.batches
            own.records += share.records
            own.bytes += share.bytes
        self.magics.update(other.magics)
        self.has_more_producers |= other.has_more_producers
        self._add_producers(other.producers)
        self.series.merge(other.series)


_SUMS = (
    "bytes", "batches", "records", "wrappers", "payload", "control", "transactional", "idempotent", "append_time",
    "no_timestamp", "late", "gaps", "spanned",
)  # fmt: skip
