"""Rebuild the producer state of a log up to an offset, from the newest snapshot and the batches behind it."""

from __future__ import annotations

from kdump.recovery.producer_batches import LoadedBatches
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segments import LoadedSegment, Segments
from kdump.recovery.startup import Startup
from kdump.storage.planned_log import LogView


def rebuild_producer_state(
    states: ProducerStates,
    segments: Segments,
    startup: Startup,
    log_start_offset: int,
    end_offset: int,
    partition: str,
    *,
    clean: bool,
) -> None:
    """Bring `states` to `end_offset`, writing snapshots on the way where Kafka does.

    Without any snapshot after a clean shutdown (a log from before there were snapshots), and with a format that has
    no producers, nothing is scanned: empty snapshots are written. Raises LoadError, OSError.
    """
    bases = segments.bases()
    wanted = [*bases[-2:], end_offset]
    if not startup.config.has_epochs or (clean and states.snapshots.latest() is None):
        for offset in wanted:
            states.map_end_offset = offset
            states.take_snapshot()
        return
    was_empty = not states.producers and states.map_end_offset >= end_offset
    states.truncate_and_reload(log_start_offset, end_offset, startup.now, startup.config.producer_id_expiration_ms)
    if end_offset > states.map_end_offset and not was_empty:
        last = segments.floor(end_offset)
        for segment in segments.between(states.map_end_offset, end_offset):
            start = max(segment.base_offset, states.map_end_offset, log_start_offset)
            states.map_end_offset = start
            if segment.base_offset in wanted:
                states.take_snapshot()
            _load(states, segment, start, end_offset if segment is last else None, partition)
    states.map_end_offset = end_offset
    states.take_snapshot()


def _load(states: ProducerStates, segment: LoadedSegment, start: int, end_offset: int | None, partition: str) -> None:
    """Take the batches from the one with offset `start` on, up to the one with `end_offset` or to the end."""
    with segment.open_log() as log:
        stop = log.size
        if end_offset is not None:
            found = segment.find(log, end_offset)
            stop = log.size if found is None else found
        position = segment.find(log, start)
        if position is None:
            return
        log.check_range(position, stop)
        _load_range(states, log, position, stop, partition)


def _load_range(states: ProducerStates, log: LogView, position: int, stop: int, partition: str) -> None:
    batches = LoadedBatches(states, log, partition)
    for block in log.blocks(position, stop):
        batches.apply(block, 0, block.length)
        log.check_end(block)
    batches.finish()
