"""Where a partition's log is clean, dirty or not to be cleaned yet, and the offsets that matter."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.clean.state import PartitionState, examine_partition
from kdump.errors import KdumpError
from kdump.query.inventory import PartitionInfo
from kdump.query.outline import Mark, Outline, Section, SectionKind
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import ClusterMetadata


def outline(log: PartitionLog, info: PartitionInfo, cluster: ClusterMetadata, now: int) -> Outline | None:
    """Return the outline of a log at the time `now` (ms), by its topic's settings in a cluster's metadata.

    What the cleaner knows is not in it where that cannot be told. None without segments.
    """
    return outline_of(info, _cleaner_state(log, info, cluster, now)) if info.segments else None


def outline_of(info: PartitionInfo, state: PartitionState | None) -> Outline:
    """Return the outline of a log that has segments; `state` is what the cleaner knows.

    The cleaner's sections are only told apart where its checkpoint names the partition.
    """
    last = info.segments[-1]
    end = last.base_offset if last.end_offset is None else max(last.end_offset, last.base_offset)
    return Outline(tuple(_sections(info, state, end)), tuple(_marks(info, state, end)), end)


def _cleaner_state(log: PartitionLog, info: PartitionInfo, cluster: ClusterMetadata, now: int) -> PartitionState | None:
    try:
        settings = CleaningSettings.of(cluster.settings().of(info.topic or ""), cluster.kafka)
        return examine_partition(log, info.checkpoints, settings, now)
    except (KdumpError, OSError):
        return None


def _sections(info: PartitionInfo, state: PartitionState | None, end: int) -> Iterator[Section]:
    active = info.segments[-1].base_offset
    bounds = [(SectionKind.DELETED, info.log_start_offset)]
    if state and state.checkpoint is not None:
        bounds += [
            (SectionKind.CLEAN, state.first_dirty_offset),
            (SectionKind.DIRTY, state.first_uncleanable_offset),
            (SectionKind.HELD, active),
        ]
    else:
        bounds.append((SectionKind.CLOSED, active))
    at = info.segments[0].base_offset
    for kind, stop in bounds:
        if stop > at:
            yield Section(kind, stop)
            at = stop
    yield Section(SectionKind.ACTIVE, max(end, at + 1))


def _marks(info: PartitionInfo, state: PartitionState | None, end: int) -> Iterator[Mark]:
    yield Mark(info.log_start_offset, "log start")
    if state:
        if state.checkpoint is not None:
            yield Mark(state.first_dirty_offset, "first dirty")
            yield Mark(state.first_uncleanable_offset, "first uncleanable", state.limits[0].kind)
        yield Mark(state.last_stable_offset, "last stable")
    if info.checkpoints.high_watermark is not None:
        yield Mark(info.checkpoints.high_watermark, "high watermark")
    if info.checkpoints.recovery_point is not None:
        yield Mark(info.checkpoints.recovery_point, "recovery point")
    yield Mark(end, "log end")
