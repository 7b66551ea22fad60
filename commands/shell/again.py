"""The present command line with something more, or something else, in it: what a `Next:` line has to be copied."""

from __future__ import annotations

from kdump.errors import HoldsLogDirectoriesError
from kdump.formats.printable import safe

from .screen import Screen

_SHOWN = ("--wide", "--no-pager")


def again(*more: str) -> str:
    """Return the command line of this run, but how its lines are shown, with some words after it."""
    return _line([*(word for word in Screen.current.words if word not in _SHOWN), *more])


def holds_text(error: HoldsLogDirectoriesError) -> str:
    """Return what a directory is not, and this command line with the log directories that are in it."""
    words = [other for word in Screen.current.words for other in (error.inside if word == error.path else (word,))]
    return f"not a log directory; it holds {len(error.inside)}: {_line(words)}"


def _line(words: list[str]) -> str:
    from shlex import quote

    return " ".join(safe(quote(word)) for word in ("kdump", *words))
