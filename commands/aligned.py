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
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    for row in (header, *rows):
        cells = (
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(header, row, widths, strict=True)
        )
        yield f"{indent}{'  '.join(cells).rstrip()}\n"
