"""Output that grows with problems, not with partitions: how much a run lists before the rest is a count."""

from __future__ import annotations

import sys

from kdump.formats.words import number_words

from .output import note
from .screen import Screen

MAX_LINES = 40
"""Lines of lists in one run; with headings and totals it stays below 60."""


class LineBudget:
    """The lines that are left for lists in a run; -v lists everything."""

    def __init__(self, lines: int = MAX_LINES, *, is_all: bool | None = None) -> None:
        """`is_all`: there is no limit; by default -v asks for that."""
        self._is_all = Screen.current.verbosity > 0 if is_all is None else is_all
        self._left = lines
        self._is_fresh = True

    def takes(self, lines: int = 1) -> bool:
        """Return whether so many more lines are printed, which are then gone; the first ones always are."""
        if not self._is_all and not self._is_fresh and lines > self._left:
            return False
        self._is_fresh = False
        self._left -= lines
        return True


def unlisted(partitions: int) -> str:
    """Return the last line of a list that is not complete; where it may be filtered away, stderr says it too."""
    if not sys.stdout.isatty():
        note(f"{number_words(partitions, 'partition')} not listed: -v lists all.")
    return f"{number_words(partitions, 'more partition')}: -v lists all, --topic some."


def more_similar(partitions: int) -> str:
    """Return the line that stands for partitions of which the same is to be said."""
    return f"{number_words(partitions, 'more partition')} like these: -v lists all."
