r"""Lines that fit a terminal: sentences are folded under their indent, commands with ` \` so that a copy works."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .text_width import text_width

_COMMAND = r"(?:(?<=\s)|^)(?:kdump|kafka-[a-z-]+\.sh) (?=\S)"
_WORD = r" *[^ ]+"
_WORD_OF_COMMAND = r" *(?:--?[a-z][^ =]* (?=[^- ]))?(?:'[^']*'|[^ '])+| *[^ ]+"
"""An option stays with its value."""
_ESCAPE = r"\x1b\[[0-9;]*m"
# re keeps what it has compiled; most runs fold no line


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
