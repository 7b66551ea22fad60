"""Figures that only the records themselves give: sizes, tombstones, keys, and what compaction would keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import not_

from kdump import kernels
from kdump.blocks import RecordBlock
from kdump.formats.batch import is_control_batch
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.query.selection import EVERYTHING, Selection
from kdump.statistics.sizes import Sizes
from kdump.storage.damage import Damage
from kdump.storage.decoded import DecodedRows, Passed, decode_run, walk
from kdump.storage.scan import Run
from kdump.storage.segment import Segment

KEY_MEMORY = 64 << 20
_ENTRY_SIZE = 24
_LOAD = 0.9


@dataclass(slots=True)
class RecordStats:
    """What the records come to, markers left out.

    Sizes are bytes of keys and values that are not null, of both together (`sizes`), and numbers of headers. Timestamps
    are ms, without -1. `distinct_keys` is None where there are more than memory has room for; `kept` are the records
    that compaction of everything would leave, tombstones among them, and `kept_bytes` what their keys and values take.
    """

    records: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    keys: Sizes = field(default_factory=Sizes)
    values: Sizes = field(default_factory=Sizes)
    headers: int = 0
    with_headers: int = 0
    null_keys: int = 0
    null_values: int = 0
    tombstones: int = 0
    no_timestamp: int = 0
    earliest: int | None = None
    latest: int | None = None
    distinct_keys: int | None = 0
    kept: int | None = 0
    kept_bytes: int | None = 0
    kept_tombstones: int | None = 0

    @property
    def keyed(self) -> int:
        """Records with a key."""
        return self.records - self.null_keys

    @property
    def superseded_ratio(self) -> float | None:
        """The share of the records with a key that a later one with the same key supersedes."""
        if self.distinct_keys is None or not self.keyed:
            return None
        return 1 - self.distinct_keys / self.keyed

    def add(self, decoded: DecodedRows) -> None:
        """Count decoded records."""
        records = decoded.records
        keep = _picked(decoded)
        if not keep:
            return
        length = len(keep)
        keys = _taken(records.key_length, keep)
        values = _taken(records.value_length, keep)
        self.records += length
        self.sizes.add([max(0, key) + max(0, value) for key, value in zip(keys, values, strict=True)])
        self.null_keys += _negative(keys)
        self.null_values += _negative(values)
        self.tombstones += sum(value < 0 <= key for key, value in zip(keys, values, strict=True))
        self.keys.add([size for size in keys if size >= 0] if min(keys) < 0 else keys)
        self.values.add([size for size in values if size >= 0] if min(values) < 0 else values)
        counts = _taken(records.headers_count, keep)
        self.headers += sum(counts)
        self.with_headers += length - counts.count(0)
        times = _taken(records.timestamp, keep)
        known = [time for time in times if time != -1] if min(times) < 0 else times
        self.no_timestamp += length - len(known)
        if known:
            least, most = min(known), max(known)
            self.earliest = least if self.earliest is None else min(self.earliest, least)
            self.latest = most if self.latest is None else max(self.latest, most)

    def note_kept(self, key_length: int, value_length: int) -> None:
        """Count a record that compaction would keep; a value of length -1 is null."""
        assert self.kept is not None
        assert self.kept_bytes is not None
        assert self.kept_tombstones is not None
        self.kept += 1
        self.kept_bytes += key_length + max(0, value_length)
        self.kept_tombstones += value_length < 0

    def merge(self, other: RecordStats) -> None:
        """Add the figures of another partition, whose keys are taken for others than the ones here."""
        for name in ("records", "headers", "with_headers", "null_keys", "null_values", "tombstones", "no_timestamp"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("distinct_keys", "kept", "kept_bytes", "kept_tombstones"):
            own, more = getattr(self, name), getattr(other, name)
            setattr(self, name, None if own is None or more is None else own + more)
        self.sizes.merge(other.sizes)
        self.keys.merge(other.keys)
        self.values.merge(other.values)
        if other.earliest is not None and other.latest is not None:
            self.earliest = other.earliest if self.earliest is None else min(self.earliest, other.earliest)
            self.latest = other.latest if self.latest is None else max(self.latest, other.latest)


class KeyCensus:
    """The different keys of a partition and the latest record of each, by their MD5 sums as in Kafka's cleaner."""

    def __init__(self, memory: int = KEY_MEMORY) -> None:
        """`memory` bytes are the most that is taken: 24 a key."""
        self._map = kernels.OffsetMap(memory, int(memory // _ENTRY_SIZE * _LOAD))
        self.is_full = False

    def add(self, decoded: DecodedRows) -> None:
        """Note keys, as long as there is room."""
        if not self.is_full:
            block, first, _, records, payloads = decoded
            self.is_full = self._map.take(block, records, first, payloads, _wanted(decoded), 0) < records.length

    @property
    def distinct(self) -> int | None:
        """The number of different keys; None where there was no room for all."""
        return None if self.is_full else self._map.size

    def keep(self, decoded: DecodedRows, stats: RecordStats) -> None:
        """Count, in a second pass, what compaction would keep."""
        block, first, _, records, payloads = decoded
        verdicts = self._map.classify(block, records, first, payloads, (1 << 63) - 1, 0, True, 0, 0)
        for at in _picked(decoded):
            if verdicts[at] & 1:
                stats.note_kept(max(0, records.key_length[at]), records.value_length[at])


def decoded_in(
    segment: Segment, limit: int = DEFAULT_LIMIT, selection: Selection = EVERYTHING
) -> Iterator[DecodedRows | Damage | int]:
    """Yield the records of a segment's selected batches in blocks, batches that cannot be decoded, and bytes read.

    What headers and CRCs tell to be damage is skipped in silence: the pass over the batches tells of it.

    `limit` bounds what a batch may decompress to. Raises OSError.
    """
    records = RecordBlock()
    with segment.open_log() as log:
        position = 0
        for part in walk(log, segment.base_offset, choice=selection):
            if isinstance(part, Passed):
                yield part.position - position
                position = part.position
            elif isinstance(part, Run):
                for rows in decode_run(part, log.path, limit, records):
                    yield rows
                    if isinstance(rows, DecodedRows):
                        yield from rows.bad_messages(log.path)


def _wanted(rows: DecodedRows) -> bytes:
    """Return whether the records of a batch count, row by row: markers do not."""
    block, first, stop = rows.block, rows.first, rows.stop
    if not block.controls:
        return b"\1" * (stop - first)
    controls = map(is_control_batch, block.attributes[first:stop], block.magic[first:stop])
    return bytes(map(not_, controls))


def _picked(rows: DecodedRows) -> Sequence[int]:
    """Return the numbers of the records that count."""
    wanted, records = _wanted(rows), rows.records
    if all(wanted):
        return range(records.length)
    return [at for at in range(records.length) if wanted[records.row[at] - rows.first]]


def _taken(column: Sequence[int], picks: Sequence[int]) -> Sequence[int]:
    return column[picks.start : picks.stop] if isinstance(picks, range) else [column[at] for at in picks]


def _negative(numbers: Sequence[int]) -> int:
    return sum(number < 0 for number in numbers) if min(numbers) < 0 else 0
