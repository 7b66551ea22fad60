"""Sentences and commands in lines of a terminal's width: prose with a hanging indent, commands so that a copy works."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .screen import Screen
from .text_width import text_width

_TOGETHER = r"(?<=\d) (?=(?:d|h|min|s|ms|bytes?|B|[KMGT]iB|%)\b)|(?<=\bbyte) (?=\d)"
"""Where a line does not end: between a number and its unit."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
MAX_WIDTH = 100
MIN_WIDTH = 40


def prose_width() -> int | None:
    """Return columns for sentences: those of the screen, up to what reads well; None where lines are not folded."""
    return _for_prose(Screen.current.width)


def error_lines(text: str) -> list[str]:
    """Return a message in lines of the width of stderr. A command at its end has a line of its own if it fits one."""
    width = _for_prose(Screen.current.error_width)
    if width is None or text_width(text) <= width:
        return [text]
    prose, colon, command = text.rpartition(": kdump ")
    last = f"  kdump {command}"
    if colon and text_width(last) <= width:
        return [*folded(f"{prose}:", width, indent="  "), last]
    return folded(text, width, indent="  ")


def _for_prose(width: int | None) -> int | None:
    return None if width is None else max(MIN_WIDTH, min(width, MAX_WIDTH))


def folded(text: str, width: int | None, *, first: str = "", indent: str | None = None) -> list[str]:
    """Return a text in lines of `width`, the first one after `first`, the others after `indent` (default: as long).

    Without a width it is one line.
    """
    if width is None:
        return [f"{first}{text}".replace("\n", " ").rstrip()]
    from textwrap import wrap

    after = " " * len(first) if indent is None else indent
    lines = wrap(
        re.sub(_TOGETHER, _NO_BREAK, text), width,
        initial_indent=first, subsequent_indent=after, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_NO_BREAK, " ") for line in lines] or [first.rstrip()]


def folded_command(words: Sequence[str], width: int | None, *, first: str = "") -> list[str]:
    r"""Return a command line in lines of `width` that end with ` \`, so that it can be copied as it stands."""
    if width is None:
        return [first + " ".join(words)]
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


def labelled(label: str, text: str, width: int | None, *, column: int) -> Iterator[str]:
    """Yield lines of a text with a label before its first one; the text begins at `column`."""
    yield from folded(text, width, first=f"{label:<{column}}")
