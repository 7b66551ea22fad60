"""Units of time, and timestamps that are not in milliseconds."""

from __future__ import annotations

import time

MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
"""How many ms each unit has, the largest first."""

FUTURE_MS = 3_600_000
"""How far in the future a broker allows timestamps (message.timestamp.after.max.ms since Kafka 4.0)."""

PLAUSIBLE_FROM = 946_684_800_000  # the year 2000
_UNITS = (("seconds", 1, 1000), ("microseconds", 1000, 1), ("nanoseconds", 1_000_000, 1))


def wall_clock() -> int:
    """Return the time of this machine, in ms."""
    return time.time_ns() // 1_000_000


def unit_of(timestamp: int, now: int) -> str | None:
    """Return the unit that a timestamp is in, if taken so it lies between the year 2000 and `now` (ms); None for ms."""
    latest = now + FUTURE_MS
    if PLAUSIBLE_FROM <= timestamp <= latest:
        return None
    for unit, divisor, factor in _UNITS:
        if PLAUSIBLE_FROM <= timestamp * factor // divisor <= latest:
            return unit
    return None
