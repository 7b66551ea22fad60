r"""Sessions: text files with commands and exactly what they print.

    # a comment
    $ kdump ls data
    what the command prints to standard output
    2> what it prints to standard error, line by line
    exit 0

A session begins in an empty folder with the specifications of `specs/` in it, and its commands run there one after the
other: without a terminal, as in a pipe. `$ COLUMNS=80 kdump …` has lines of that width, and
`$ printf 'a\nb\n' | kdump …` standard input; `/*` in a path is what is there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agreement.running import Said, kdump

HERE = Path(__file__).resolve().parent
SESSIONS = HERE / "sessions"
SPECS = HERE / "specs"
PROMPT, ERROR, COMMENT = "$ ", "2> ", "#"

# What differs from run to run, and what stands for it. Nothing else may.
_VARYING = (
    (re.compile(r"\bin \d+(?:\.\d+)? s\b"), "in N s"),
    (re.compile(r'("(?:seconds|elapsed|kdump)": ?)[^,}]+'), r"\1N"),
    (re.compile(r'("(?:host|startedAt)": ?)"[^"]*"'), r"\1N"),
    (re.compile(r'("allocatedSize": ?)\d+'), r"\1N"),
    (re.compile(r'("begunTimestamp": ?)\d+'), r"\1N"),
    (re.compile(r"\b\d{8}T\d{6}(?:-\d+)?\b"), "CHANGE"),
    # with the journal, which has inodes and times
    (re.compile(r"(deletes the originals of CHANGE \(|pruned, )\S+ KiB"), r"\1N KiB"),
    (re.compile(r"\S+Z(?=  file time)"), "TIME"),
    (re.compile(r"(there is something in it) \(.*?\)"), r"\1 (NAME)"),
    (re.compile(r"^kdump \d\S*$", re.MULTILINE), "kdump N"),
    (re.compile(r"^(kernels|CRC-32C): .*$", re.MULTILINE), r"\1: N"),
)


@dataclass(frozen=True)
class Step:
    """A command line of a session, with the comments before it."""

    comments: tuple[str, ...]
    line: str

    @property
    def words(self) -> list[str]:
        """The arguments of `kdump`."""
        return self._parsed[2]

    @property
    def columns(self) -> str | None:
        """The width of the lines; None where they are not folded."""
        return self._parsed[1]

    @property
    def stdin(self) -> str:
        return self._parsed[0]

    @property
    def _parsed(self) -> tuple[str, str | None, list[str]]:
        before, pipe, rest = self.line.rpartition(" | ")
        stdin = ""
        if pipe:
            program, text = shlex.split(before)
            assert program == "printf", self.line
            stdin = text.encode().decode("unicode_escape")
        words = shlex.split(rest)
        columns = words.pop(0).removeprefix("COLUMNS=") if words[0].startswith("COLUMNS=") else None
        assert words[0] == "kdump", self.line
        return stdin, columns, words[1:]

    def run(self, folder: Path, patch: pytest.MonkeyPatch) -> Said:
        """Run the command as it stands there."""
        patch.delenv("COLUMNS", raising=False)
        if self.columns is not None:
            patch.setenv("COLUMNS", self.columns)
        words = [found for word in self.words for found in (_matches(folder, word) if "/*" in word else [word])]
        return kdump(folder, *words, stdin=self.stdin)


def _matches(folder: Path, pattern: str) -> list[str]:
    """The paths that a shell puts in the place of a pattern."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def steps(text: str) -> Iterator[Step]:
    """The commands of a session, whatever they print."""
    comments: list[str] = []
    is_output = False
    for line in text.splitlines():
        if line.startswith(PROMPT):
            yield Step(tuple(comments), line.removeprefix(PROMPT))
            comments, is_output = [], True
        elif is_output and re.fullmatch(r"exit \d+", line):
            is_output = False
        elif not is_output and line.startswith(COMMENT):
            comments.append(line)


def written(step: Step, said: Said, folder: Path) -> str:
    """A command and what it printed, as it stands in a session."""
    lines = [*step.comments, PROMPT + step.line]
    lines += _lines(normal(said.out, folder))
    lines += [ERROR + line for line in _lines(normal(said.err, folder))]
    return "\n".join([*lines, f"exit {said.code}", ""])


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def normal(text: str, folder: Path) -> str:
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "/kafka")
    for pattern, stands_for in _VARYING:
        text = pattern.sub(stands_for, text)
    return text


def session_text(blocks: Iterable[str]) -> str:
    return "\n".join(blocks)
