"""What a log goes by besides its configuration: the time, and by how much a segment is rolled earlier."""

from __future__ import annotations

from collections.abc import Callable

from kdump.settings.writing import WritingSettings

Clock = Callable[[], int]
"""Tells the time in ms."""

Jitter = Callable[[int], int]
"""A number of ms from 0 up to, but without, the one that it gets."""


def random_jitter(limit: int) -> int:
    """Return a number of ms from 0 up to, but without, `limit`."""
    import random

    return random.randrange(limit)


def draw_jitter(config: WritingSettings, jitter: Jitter) -> int:
    """Return how much earlier (ms) than segment.ms a new segment is rolled."""
    limit = min(config.segment_jitter_ms, config.segment_ms)
    return jitter(limit) if limit else 0
