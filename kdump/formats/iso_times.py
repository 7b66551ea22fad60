"""Times as ISO 8601, in UTC; beyond the year 9999 with a sign, as the standard has it."""

from __future__ import annotations

from functools import lru_cache

_EPOCH_ORDINAL = 719_162  # days from 0001-01-01 to 1970-01-01
_CYCLE_DAYS = 146_097  # 400 years, after which the calendar repeats
DAY = 86_400
_YEAR_10000 = 253_402_300_800_000


def iso_time(ms: int) -> str:
    """Return a timestamp (ms): 2026-11-20T02:10:00.240Z."""
    seconds, millis = divmod(ms, 1000)
    return f"{iso_second(seconds)}.{millis:03d}Z"


def shown(timestamp: int) -> str:
    """Return a timestamp (ms) for a sentence: a time, or the number where it cannot be one."""
    return iso_time(timestamp) if 0 <= timestamp < _YEAR_10000 else str(timestamp)


@lru_cache(4096)
def iso_second(seconds: int) -> str:
    """Return seconds since 1970 without the zone: 2026-11-20T02:10:00."""
    days, second = divmod(seconds, DAY)
    return f"{iso_date(days)}T{clock(second)}"


def iso_date(days: int) -> str:
    """Return days since 1970: 2026-11-20."""
    from datetime import date

    cycles, day = divmod(days + _EPOCH_ORDINAL, _CYCLE_DAYS)
    in_cycle = date.fromordinal(day + 1)
    year = in_cycle.year + 400 * cycles
    shown = f"{year:04d}" if 0 <= year <= date.max.year else f"{year:+05d}"
    return f"{shown}-{in_cycle.month:02d}-{in_cycle.day:02d}"


def clock(second: int) -> str:
    """Return seconds since midnight: 02:10:00."""
    minutes, second = divmod(second, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def parse_time(text: str) -> int:
    """Return a date or time in ISO 8601, UTC where it names no zone, as ms, rounded up. Raises ValueError."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // timedelta(milliseconds=1))
