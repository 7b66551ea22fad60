"""One pass of the cleaner over a partition: build the offset map, then write group after group of segments again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kdump.clean.new_segment import NewSegment
from kdump.clean.offset_map import Progress, build_map, new_keys
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.rewriting import Counts, Rewriting
from kdump.clean.staging import NewFile, Staging
from kdump.clean.state import PartitionState, between
from kdump.clean.transactions import aborted_from
from kdump.formats import names
from kdump.formats.index_entries import ENTRY_SIZES
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.facts import SegmentFacts
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.storage.segment import segment_end_offset


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring segments that become one, which has the base offset of the first; its files."""

    segments: tuple[SegmentFacts, ...]
    files: tuple[NewFile, ...]

    @property
    def base_offset(self) -> int:
        """The new segment's."""
        return self.segments[0].base_offset

    @property
    def size_before(self) -> int:
        """The bytes of the .log files."""
        return sum(each.size for each in self.segments)

    @property
    def size_after(self) -> int:
        """The bytes of the new .log."""
        return self.files[0].size


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What a pass over a partition comes to.

    `keys` different ones were found in the dirty section; `is_full` if memory did not reach for all of it. `end_offset`
    (absolute) is up to where the log is clean afterwards: the new checkpoint.
    """

    state: PartitionState
    keys: int
    is_full: bool
    end_offset: int
    groups: tuple[Group, ...]
    counts: Counts

    @property
    def size_after(self) -> int:
        """The bytes of all .log files afterwards."""
        return self.state.size - self.counts.size_before + self.counts.size_after


def clean(
    state: PartitionState,
    config: CleaningSettings,
    now: int,
    staging: Staging,
    *,
    compares_keys: bool,
    progress: Progress = lambda *_: None,
) -> Cleaning:
    """Clean a partition as of the time `now` (ms), in the plan but for what `staging` writes.

    `progress` is told how many bytes of which file were read. Raises OSError, KdumpError (CleaningError where Kafka's
    cleaner would not get through).
    """
    buffer = ReadBuffer(config)
    found = build_map(new_keys(config, compares_keys=compares_keys), state, buffer, progress, config)
    legacy_horizon = _legacy_horizon(state, config)
    rewriting = Rewriting(state, config, found, buffer, now, progress)
    any_aborted = any(each.segment.has(names.TXN_INDEX) for each in state.segments)
    groups = []
    segments = between(state.segments, 0, found.end_offset)
    for group in group_segments(segments, state.first_uncleanable_offset, config):
        target = NewSegment(group[0].base_offset, config, state.log.path)
        with staging.open_log(target.base_offset) as target.out:
            for number, facts in enumerate(group):
                if any_aborted:
                    stop = (
                        group[number + 1].base_offset if number + 1 < len(group) else segment_end_offset(facts.segment)
                    )
                    rewriting.transactions.add(aborted_from(state, facts.base_offset, stop))
                rewriting.copy(facts, target, facts.modified > legacy_horizon)
        files = staging.finish(target, group[-1].modified, os.stat(group[0].segment.log_path))
        rewriting.counts.size_after += target.size
        groups.append(Group(tuple(group), files))
    return Cleaning(state, found.keys.size, found.is_full, found.end_offset, tuple(groups), rewriting.counts)


def _legacy_horizon(state: PartitionState, config: CleaningSettings) -> int:
    """Return the latest time (ms) of segments that tombstones of format v0 and v1 go from: long clean before now."""
    clean_segments = between(state.segments, 0, state.first_dirty_offset)
    return clean_segments[-1].modified - config.delete_retention_ms if clean_segments else 0


def group_segments(
    segments: Sequence[SegmentFacts], first_uncleanable_offset: int, config: CleaningSettings
) -> Iterator[list[SegmentFacts]]:
    """Yield the segments in groups of as many as fit into one by size, by index size and by offsets. Raises OSError."""
    group: list[SegmentFacts] = []
    sizes: tuple[int, ...] = (0, 0, 0)
    most = config.segment_bytes, config.loading.segment_index_bytes, config.loading.segment_index_bytes
    ends = [each.base_offset for each in segments[1:]] + [first_uncleanable_offset]
    for facts, end in zip(segments, ends, strict=False):
        own = facts.size, _index_size(facts, names.OFFSET_INDEX), _index_size(facts, names.TIME_INDEX)
        together = tuple(a + b for a, b in zip(sizes, own, strict=True))
        fits = all(size <= limit for size, limit in zip(together, most, strict=True))
        if group and not (fits and (not facts.size or end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)):
            yield group
            group, together = [], own
        group.append(facts)
        sizes = together
    if group:
        yield group


def _index_size(facts: SegmentFacts, kind: str) -> int:
    """Return the bytes of an index that are whole entries; 0 where there is none."""
    entry_size = ENTRY_SIZES[kind]
    try:
        return os.stat(facts.segment.path(kind)).st_size // entry_size * entry_size
    except FileNotFoundError:
        return 0
