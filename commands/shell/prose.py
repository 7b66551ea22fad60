r"""Lines that fit a terminal: sentences folded under an indent, commands with ` \` so that a copy works."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .screen import Screen

_TOGETHER = r"(?<=\d) (?=(?:d|h|min|s|ms|bytes?|B|[KMGT]iB|%)\b)|(?<=\bbyte) (?=\d)"
"""Where a line does not end: between a number and its unit."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_COMMAND = r"(?:(?<=\s)|^)(?:kdump|kafka-[a-z-]+\.sh) (?=\S)"
STYLE = "\ud800"
"""What stands for the ESC of a style until text goes out: it is in no path, and all other controls are escaped."""
_ESCAPE = rf"{STYLE}\[[0-9;]*m"
_QUOTED = r"""(?<!\w)\$?'[^']*'(?:"'"'[^']*')*"""
"""A word of a shell, in which no line ends."""
_WORD_OF_COMMAND = rf" *(?:--?[a-z][^ =]* (?=[^- ]))?(?:{_QUOTED}|[^ '])+| *[^ ]+"
"""An option stays with its value."""
_WORD = rf" *(?:{_QUOTED}|[^ ])+"
# re keeps what it has compiled; most runs fold no line
MAX_WIDTH = 100
MIN_WIDTH = 40


def text_width(text: str) -> int:
    """Return the columns a terminal gives to a text: two for each wide character, none for a mark above another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)


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
    together = re.sub(_QUOTED, lambda word: word[0].replace(" ", _NO_BREAK), re.sub(_TOGETHER, _NO_BREAK, text))
    lines = wrap(
        together, width,
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


def fitted(text: str, width: int) -> str:
    """Complete lines of a text in lines of `width`; a word that is longer than that stays whole."""
    if all(len(line) <= width for line in text.split("\n")):
        return text
    return "\n".join(each for line in text.split("\n") for each in _folded(line, width))


def _folded(line: str, width: int) -> Iterator[str]:
    if text_width(re.sub(_ESCAPE, "", line)) <= width:
        yield line
        return
    longest = max(map(text_width, re.sub(_ESCAPE, "", line).split()))
    furthest = width * 3 // 5
    hanging = _hanging(line, max(furthest, len(line) // 2))
    indent = " " * min(hanging, furthest, max(4, width - longest - 4))
    command = re.search(_COMMAND, line)
    begin = command.start() if command else len(line)
    margin = len(line) - len(line.lstrip(" "))
    held = line[:margin]
    has_words = False
    at = margin
    while word := re.compile(_WORD_OF_COMMAND if at >= begin else _WORD).match(line, at):
        text = word[0]
        is_in_command = at > begin
        at = word.end()
        room = width - 2 if is_in_command else width
        if has_words and text_width(re.sub(_ESCAPE, "", held + text)) > room:
            yield held + (" \\" if is_in_command else "")
            held = indent + ("  " if is_in_command and begin != margin else "") + text.lstrip(" ")
        else:
            held += text
        has_words = True
    yield held


def _hanging(line: str, stop: int) -> int:
    """Return the column under which a line is continued: that of its last text that stands apart, as after a label.

    It begins before `stop`. Where more texts that stand apart come after it, it is a row: that is continued under its
    beginning.
    """
    apart = [found.end() for found in re.finditer(r"(?<=\S) {2,}(?=\S)", line)]
    begin = len(line) - len(line.lstrip(" "))
    return apart[-1] if apart and apart[-1] < stop else begin + 2
