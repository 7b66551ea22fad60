"""How many fields the column of a value may have: types that hold each other would have as many as there are ways.

Twelve messages that can each hold all others have 12! of them. Where there are too many, what lies deeper is JSON text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

MAX_FIELDS = 10_000
"""Fields of one column, those within others included."""
_DEPTHS = (300, 16, 8, 6, 5, 4, 3, 2, 1)

Made = TypeVar("Made")


class Room:
    """What is left for the fields of a column; records and messages deeper than `depth` are JSON text."""

    __slots__ = ("depth", "left")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.left = MAX_FIELDS

    def take(self) -> None:
        """Take room for a field. Raises _FullError."""
        self.left -= 1
        if self.left < 0:
            raise _FullError


class _FullError(Exception):
    """There are more fields than there is room for."""


def deepest(build: Callable[[Room], Made]) -> Made:
    """Return what is built with the deepest room that is enough; with a depth of 0 all of it is JSON text."""
    for depth in _DEPTHS:
        try:
            return build(Room(depth))
        except _FullError:
            continue
    return build(Room(0))
