"""Numbers, sizes, time spans and ranges of offsets in words: one way to say each, for every message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.formats.time_units import MS

MAX_PLAIN = 10_000
"""Counts from here on are written in groups of three digits, and sizes in units."""


def count_text(number: int) -> str:
    """Return a count for people: 9999, 12,345. Offsets, positions and ids are no counts: they are to be copied."""
    return f"{number:,}" if abs(number) >= MAX_PLAIN else str(number)


def number_words(number: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 byte, 1234 batches, 12,345 records."""
    return f"{count_text(number)} {one if number == 1 else many or f'{one}s'}"


def byte_words(size: int) -> str:
    """Return a size for a sentence: 752 bytes, 10.3 KiB, 10 MiB."""
    return size_text(size).replace(".0 ", " ")


def offset_range(first: int | None, last: int | None) -> str:
    """Return offsets from `first` to `last`, both of them included."""
    return str(first) if first == last else f"{first}\N{EN DASH}{last}"


def offset_words(first: int | None, last: int | None) -> str:
    """Return offsets from `first` to `last`, both of them included, with their noun."""
    return f"offset{'' if first == last else 's'} {offset_range(first, last)}"


def either(words: Iterable[object]) -> str:
    """Return alternatives: a, b or c."""
    *others, last = map(str, words)
    return f"{', '.join(others)} or {last}" if others else last


def listed(items: Sequence[object], most: int) -> str:
    """Return the first of some items, `most` at most, and how many more there are: a, b and 3 more."""
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {count_text(len(items) - most)} more"


_TWO_MINUTES = 120
_LARGEST = 1023.95
"""Larger numbers of a unit would be shown as 1024.0."""


def size_text(size: int) -> str:
    """Return a size for a table: 312 bytes, 12.0 KiB."""
    if size < MAX_PLAIN:
        return number_words(size, "byte")
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < _LARGEST or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def elapsed(seconds: float) -> str:
    """Return how long something took: 12.3 s, from two minutes on as `duration`."""
    return f"{seconds:.1f} s" if seconds < _TWO_MINUTES else duration(round(seconds * 1000))


def duration(ms: int) -> str:
    """Return a time span for people, in its two largest units: 3 d 4 h, 5 min 12 s, 830 ms."""
    sign, left = ("-" if ms < 0 else ""), abs(ms)
    parts: list[str] = []
    for unit, size in MS.items():
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return sign + (" ".join(part for part in parts if not part.startswith("0 ")) or "0 ms")
