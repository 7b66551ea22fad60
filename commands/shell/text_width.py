"""How much room a text takes on a terminal."""

from __future__ import annotations


def text_width(text: str) -> int:
    """Return the columns a terminal gives to a text: two for each wide character, none for a mark above another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)
