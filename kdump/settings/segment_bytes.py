"""segment.bytes as brokers take it: from Kafka 4.1 on they end at their start with a topic below 1 MiB (KIP-1030)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kdump.formats.java_text import parse_int
from kdump.releases import LARGE_SEGMENTS, KafkaRelease
from kdump.settings.table import SEGMENT_BYTES

MIN_SEGMENT_BYTES = 1 << 20
"""The least segment.bytes of a topic from 4.1 on."""


def is_too_small(size: int, release: KafkaRelease) -> bool:
    """Return whether brokers of a release end at their start with a topic that has this segment.bytes."""
    return release.has(LARGE_SEGMENTS) and size < MIN_SEGMENT_BYTES


def with_too_small(topics: Iterable[tuple[str, Mapping[str, str]]], release: KafkaRelease) -> Iterator[str]:
    """Yield the names of topics, given with their own settings, of which brokers of a release refuse segment.bytes.

    What cannot be read as a number is passed over.
    """
    for name, settings in topics:
        size = parse_int(settings.get(SEGMENT_BYTES.name, ""))
        if size is not None and is_too_small(size, release):
            yield name
