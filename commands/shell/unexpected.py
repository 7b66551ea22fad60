"""What is said of an error that nobody has foreseen."""

from __future__ import annotations

import os

_SHOWS_WHERE = "KDUMP_DEBUG"
_NO_THREAD = "can't start new thread"


def shows_where() -> bool:
    """Return whether the environment asks for Python's own report of such an error."""
    return bool(os.environ.get(_SHOWS_WHERE))


def unexpected_text(error: Exception) -> str:
    """Return what is said instead of it."""
    if str(error) == _NO_THREAD:
        return "the system starts no more threads: memory or the number of processes (ulimit -u) is limited"
    return (
        f"an error in kdump itself: {type(error).__name__}: {error}. Nothing after this was looked at."
        f" {_SHOWS_WHERE}=1 shows where, for a report."
    )
