"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most like a word; None where none is as like as that (0 to 1)."""
    from difflib import get_close_matches  # few runs have a typo

    return next(iter(get_close_matches(word, list(known), 1, likeness)), None)
