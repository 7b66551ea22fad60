"""One pass of the cleaner over a partition: build the offset map, then write group after group of segments again."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kdump.clean.grouping import group_segments
from kdump.clean.new_segment import NewSegment
from kdump.clean.offset_map import Progress, build_map, new_keys
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.rewriting import Counts, Rewriting
from kdump.clean.staging import NewFile, Staging
from kdump.clean.state import PartitionState
from kdump.clean.transactions import aborted_from
from kdump.formats import names
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.facts import SegmentFacts
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
    found = build_map(new_keys(config, compares_keys=compares_keys), state, buffer, progress)
    legacy_horizon = _legacy_horizon(state, config)
    rewriting = Rewriting(state, config, found, buffer, now, progress)
    any_aborted = any(each.segment.has(names.TXN_INDEX) for each in state.segments)
    groups = []
    segments = state.between(0, found.end_offset)
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
    clean_segments = state.between(0, state.first_dirty_offset)
    return clean_segments[-1].modified - config.delete_retention_ms if clean_segments else 0
