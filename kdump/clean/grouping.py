"""Which neighbouring segments the cleaner writes into one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.formats import names
from kdump.formats.index_entries import ENTRY_SIZES
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.facts import SegmentFacts
from kdump.storage.scan import MAX_RELATIVE_OFFSET


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
