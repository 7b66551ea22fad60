"""Writes the screens of the README and the docs from the transcripts, which are what the commands really print.

    pytest tests/transcripts --rewrite-transcripts    # what the commands print now
    python docs/screens.py [--check]

A screen is a code block after a line such as

    <!-- screen: doctor 1-18,44- -->

with the name of a session in tests/transcripts/sessions and the lines of the output that are shown (without any: all);
what is left out is `...`. The block begins with the command line, as it is in the session, but for a `COLUMNS=80`
before it. `--check` writes nothing and fails where a page is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SESSIONS = HERE.parent / "tests" / "transcripts" / "sessions"
PAGES = (HERE.parent / "README.md", *sorted(HERE.glob("*.md")))

_SCREEN = re.compile(r"(<!-- screen: (\S+)(?: ([\d,-]+))? -->\n```\w+\n)\$ ([^\n]+)\n(.*?)(```\n)", re.DOTALL)
_WIDTH = re.compile(r"^\$ COLUMNS=\d+ ", re.MULTILINE)
_PROMPT, _ERROR = "$ ", "2> "
_LEFT_OUT = "..."
# What sessions have in the place of what differs from run to run.
_PLACEHOLDERS = ((re.compile(r"\bin N s\b"), "in 0.1 s"), (re.compile(r"\bCHANGE\b"), "20261122T035030"))


class ScreenError(Exception):
    """A page names a screen that is not there."""


def with_screens(page: str) -> str:
    """Return the page with its screens as they should be. Raises ScreenError."""
    return _SCREEN.sub(lambda found: f"{found[1]}{_PROMPT}{found[4]}\n{_screen(found)}{found[6]}", page)


def _screen(found: re.Match[str]) -> str:
    output = _output(found[2], found[4])
    shown = [line for part in _parts(found[3], len(output)) for line in _lines(output, part)]
    text = "".join(f"{line}\n" for line in shown)
    for pattern, example in _PLACEHOLDERS:
        text = pattern.sub(example, text)
    return text


def _output(session: str, command: str) -> list[str]:
    """Return what the first such command of a session prints. Raises ScreenError."""
    path = SESSIONS / f"{session}.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = _WIDTH.sub(_PROMPT, text).splitlines()
    if _PROMPT + command not in lines:
        raise ScreenError(f"{path} has no '{_PROMPT}{command}'")
    begin = lines.index(_PROMPT + command) + 1
    end = next(at for at in range(begin, len(lines)) if re.fullmatch(r"exit \d+", lines[at]))
    return [line.removeprefix(_ERROR) for line in lines[begin:end]]


def _parts(text: str | None, size: int) -> Iterator[tuple[int, int] | None]:
    """Return the ranges of lines (from 1, inclusive), with None where some are left out between."""
    before = 0
    for part in (text or "1-").split(","):
        first, dash, last = part.partition("-")
        begin, end = int(first), int(last or size) if dash else int(first)
        if begin > before + 1:
            yield None
        yield begin, end
        before = end
    if before < size:
        yield None


def _lines(output: Sequence[str], part: tuple[int, int] | None) -> Sequence[str]:
    return [_LEFT_OUT] if part is None else output[part[0] - 1 : part[1]]


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or say whether they are current."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    stale = {page: wanted for page, text in texts.items() if (wanted := with_screens(text)) != text}
    if "--check" in arguments:
        for page in stale:
            print(f"{page} is not current: run python docs/screens.py", file=sys.stderr)
        return int(bool(stale))
    for page, wanted in stale.items():
        page.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
