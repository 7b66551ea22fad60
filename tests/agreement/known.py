"""The contradictions that are known today: who mends one takes its line away, for the test then passes, which fails."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A rule that directories break, and what the two commands say."""

    rule: str
    directories: tuple[str, ...]
    why: str


KNOWN: tuple[Known, ...] = ()
