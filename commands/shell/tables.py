"""Tables of text in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), indent: str = ""
) -> Iterator[str]:
    """The lines of a table, its header first; columns whose heading is in `right` are aligned at their end.

    Nothing where there are no rows. Texts must be safe already.
    """
    if not rows:
        return
    widths = [max(_width(row[at]) for row in (header, *rows)) for at in range(len(header))]
    for row in (header, *rows):
        cells = (
            " " * (width - _width(text)) + text if name in right else text + " " * (width - _width(text))
            for name, text, width in zip(header, row, widths, strict=True)
        )
        yield f"{indent}{'  '.join(cells).rstrip()}\n"


def _width(text: str) -> int:
    """The columns that a terminal gives to a text: two for each wide character, none for a mark above another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)
