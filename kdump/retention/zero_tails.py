"""Segments that retention deletes although their records are young: their time index ends in zeros."""

from __future__ import annotations

from kdump.errors import ConfigError, KdumpError
from kdump.recovery.startup import Startup
from kdump.releases import KafkaRelease
from kdump.settings.sources import Settings
from kdump.storage.partition import PartitionLog
from kdump.storage.timestamps import TimestampSource, has_zero_tail


def aged_by_zeros(
    log: PartitionLog, startup: Startup, log_end_offset: int, settings: Settings, release: KafkaRelease
) -> tuple[int, ...]:
    """Return the base offsets of sealed segments that a broker deletes soon after this start, as if they were of 1970.

    It opens them without a look at their batches and takes the last time index entry, zeros included. Raises OSError.
    """
    tails = {segment.base_offset for segment in log.segments[:-1] if has_zero_tail(segment)}
    if not tails or log.name is None:
        return ()
    from kdump.retention.policy import TIME, Bounds, deletions
    from kdump.retention.segments import Shutdown, segment_states
    from kdump.settings.retention import RetentionSettings

    try:
        config = RetentionSettings.of(settings.of(log.name.topic), release)
        states = segment_states(log, Shutdown(startup.clean, startup.recovery_point))
    except (ConfigError, KdumpError):
        return ()
    bounds = Bounds(startup.now, startup.log_start_offset, log_end_offset)
    reasons = deletions(states, bounds, config)
    gone = zip(states, reasons, strict=False)
    return tuple(
        state.base_offset
        for state, reason in gone
        if reason == TIME and state.source == TimestampSource.TIME_INDEX and state.base_offset in tails
    )
