"""Split a segment whose offsets reach too far from its base offset (written by brokers before 2.0) into several.

A new segment begins at the base offset of a batch and takes batches as long as their last offsets fit. They are
copied in chunks of at most 1 MiB, and each chunk counts as one append: it gets at most one index entry, which names
its last offset and where it begins.
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    NO_SUCH_ELEMENT,
    NO_SUCH_FILE,
    KdumpError,
    LoadError,
)
from kdump.formats import names
from kdump.formats.batch import wrap64
from kdump.recovery.outcome import SPLIT, Step
from kdump.recovery.segments import LoadedSegment, Segments, file_name, fits
from kdump.settings.loading import LoadingSettings
from kdump.storage.decoded import first_offset
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import Recipe, piece_of
from kdump.storage.segment_indexes import SegmentIndexes

CHUNK_BYTES = 1 << 20


class Part(NamedTuple):
    """A new segment: where its bytes are in the old .log, and the content of its indexes."""

    base_offset: int
    start: int
    size: int
    offset_entries: bytes
    time_entries: bytes


class _Builder:
    """A new segment while it grows."""

    def __init__(self, base_offset: int, start: int, config: LoadingSettings, directory: PlannedPartition) -> None:
        self.base_offset = base_offset
        self.start = self.end = self._chunk_start = start
        self._is_per_batch = config.index_per_batch
        self._buffer = CHUNK_BYTES
        self._chunk_max = (-1 << 63, -1)
        self._last_offset = -1
        self._indexes = SegmentIndexes(
            base_offset, config.segment_index_bytes, config.index_interval_bytes, directory.full
        )

    def take(self, block: BatchBlock, row: int) -> None:
        """Add a batch, which fits."""
        size = block.size[row]
        held = self.end - self._chunk_start
        if held and (self._is_per_batch or held + size >= self._buffer):
            self._append()
        self.end += size
        self._last_offset = block.last_offset[row]
        if block.max_timestamp[row] > self._chunk_max[0]:
            self._chunk_max = (block.max_timestamp[row], self._last_offset)

    def finish(self) -> Part:
        """Return the new segment, closed."""
        self._append()
        indexes = self._indexes
        indexes.finish()
        return Part(
            self.base_offset, self.start, self.end - self.start, indexes.offsets.content(), indexes.times.content()
        )

    def _append(self) -> None:
        """Write the chunk, or the batch where each one may have an entry."""
        self._buffer = max(self._buffer, self.end - self._chunk_start)
        self._indexes.append(self._last_offset, self._chunk_start - self.start, *self._chunk_max)
        self._chunk_start = self.end
        self._chunk_max = (-1 << 63, -1)


def split_segment(
    directory: PlannedPartition, segments: Segments, old: LoadedSegment, config: LoadingSettings, steps: list[Step]
) -> list[int]:
    """Replace a segment by parts of it; the base offset that is gone, if it is. Raises LoadError, OSError."""
    next_offset = old.next_offset()
    if next_offset <= old.base_offset or fits(wrap64(next_offset - 1), old.base_offset):
        name = old.file(names.LOG)
        text = "Split operation is only permitted for segments with overflow, and the problem path is"
        raise LoadError(ILLEGAL_ARGUMENT, f"{text} {directory.full(name)}", name)
    with old.open_log() as log:
        source = directory.files[log.name]
        parts = _parts(log, old, config)
    bases = [part.base_offset for part in parts]
    if len(set(bases)) < len(bases):
        raise LoadError(NO_SUCH_FILE, f"two parts of {log.path} begin at the same offset", log.name)
    was_loaded = old.base_offset in segments
    if was_loaded:
        for kind in (names.LOG, *names.INDEX_KINDS):
            directory.delete(old.file(kind), "the segment is split")
    for part in parts:
        segments.add(_put(directory, part, source, config))
    if was_loaded and old.base_offset != min(bases):
        segments.remove(old.base_offset)  # even where a later part begins there: Kafka then loses sight of that part
    new_names = ", ".join(file_name(base, names.LOG) for base in sorted(bases))
    steps.append(Step(SPLIT, log.name, f"its offsets reach further than 2147483647 from its name: {new_names}"))
    return [] if not was_loaded or old.base_offset in bases else [old.base_offset]


def _parts(log: LogView, old: LoadedSegment, config: LoadingSettings) -> list[Part]:
    """Cut the log into new segments. Raises LoadError where a batch fits into none."""
    parts = []
    builder: _Builder | None = None
    end = 0
    for block in log.blocks():
        for row in range(block.length):
            if builder is None or not fits(block.last_offset[row], builder.base_offset):
                if builder is not None:
                    parts.append(builder.finish())
                builder = _Builder(_base_offset(log, block, row), block.position[row], config, old.directory)
                if not fits(block.last_offset[row], builder.base_offset):
                    where = f"LogSegment(baseOffset={old.base_offset}, size={log.size})"
                    text = f"Failed to append records from position {block.position[row]} in {where}"
                    raise LoadError(ILLEGAL_STATE, text, log.name)
            builder.take(block, row)
            end = builder.end
        log.check_end(block)
    if end < log.size:
        raise LoadError(NO_SUCH_ELEMENT, f"not a complete batch at position {end} of {log.path}", log.name)
    if builder is not None:
        parts.append(builder.finish())
    return parts


def _base_offset(log: LogView, block: BatchBlock, row: int) -> int:
    """Return the base offset of a batch; that of a v0/v1 wrapper is its first message's."""
    try:
        return first_offset(*log.held(block, row))
    except KdumpError as error:
        raise LoadError(CORRUPT_RECORD, str(error), log.name) from None


def _put(directory: PlannedPartition, part: Part, source: Recipe, config: LoadingSettings) -> LoadedSegment:
    directory.put(file_name(part.base_offset, names.LOG), piece_of(source, part.start, part.size))
    directory.write(file_name(part.base_offset, names.OFFSET_INDEX), part.offset_entries)
    directory.write(file_name(part.base_offset, names.TIME_INDEX), part.time_entries)
    return LoadedSegment(directory, part.base_offset, config.segment_index_bytes, search=config.offset_search)
