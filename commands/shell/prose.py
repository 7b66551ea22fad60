"""Sentences and commands in lines of a terminal's width: prose with a hanging indent, commands so that a copy works."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap

DEFAULT_WIDTH = 80
MAX_WIDTH = 100
MIN_WIDTH = 40


def prose_width() -> int:
    """Return columns for sentences: those of the terminal, up to what reads well; in a file or pipe
    COLUMNS, else 80.
    """
    if sys.stdout.isatty():
        width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    else:
        text = os.environ.get("COLUMNS", "")
        width = int(text) if text.isdecimal() and len(text) < 5 else DEFAULT_WIDTH
    return max(MIN_WIDTH, min(width, MAX_WIDTH))


def folded(text: str, width: int, *, first: str = "", indent: str | None = None) -> list[str]:
    """Return a text in lines of `width`, the first one after `first`, the others after `indent` (default: as long)."""
    after = " " * len(first) if indent is None else indent
    return wrap(
        text, width, initial_indent=first, subsequent_indent=after, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def folded_command(words: Sequence[str], width: int, *, first: str = "") -> list[str]:
    r"""Return a command line in lines of `width` that end with ` \`, so that it can be copied as it stands."""
    lines, line, is_empty = [], first, True
    indent = " " * (len(first) + 2)
    for word in words:
        if is_empty:
            line, is_empty = line + word, False
        elif len(line) + 1 + len(word) <= width - 2:
            line += f" {word}"
        else:
            lines.append(f"{line} \\")
            line = indent + word
    return [*lines, line]


def labelled(label: str, text: str, width: int, *, column: int) -> Iterator[str]:
    """Yield lines of a text with a label before its first one; the text begins at `column`."""
    yield from folded(text, width, first=f"{label:<{column}}")
