"""Times in text: UTC, or as they are with --times ms."""

from __future__ import annotations

from kdump.formats import iso_times

from .screen import Screen


def iso_time(ms: int) -> str:
    """Return a timestamp (ms): 2026-11-20T02:10:00.240Z, with --times ms as it is."""
    return str(ms) if Screen.current.times_in_ms else iso_times.iso_time(ms)


def iso_second(ms: int) -> str:
    """Return a timestamp (ms) to the second, with --times ms as it is."""
    return str(ms) if Screen.current.times_in_ms else f"{iso_times.iso_time(ms).rpartition('.')[0]}Z"
