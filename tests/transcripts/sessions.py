r"""Sessions: text files with commands and exactly what they print.

    # a comment
    $ kdump ls data
    what the command prints to standard output
    2> what it prints to standard error, line by line
    exit 0

A session begins in an empty folder with the specifications of `specs/` in it, and its commands run there one after the
other: without a terminal, as in a pipe. Around a command may stand, as in a shell:

    $ COLUMNS=80 kdump …            lines of that width
    $ KILLED_AFTER=6 kdump …        its process is killed after so many steps of a change, as by a power cut
    $ flock data kdump …            a broker runs on that log directory
    $ printf 'a\nb\n' | kdump …     standard input
    $ kdump … > FILE                standard output goes to a file, which `$ cat FILE` shows
    $ kdump … & NEED; kill -INT %1  it ends by that signal, once NEED is done: `grep -q TEXT` waits for that text,
                                    `fetch orders-0 10 > FILE` has a client read from an offset on
    $ mkdir DIRECTORY               a new directory
    $ kdump ls data/*               what is there
    $ kdump undo --change CHANGE    the change that a command before it has named
"""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from kdump.storage.live import tally
from tests.agreement.running import Need, Said, kdump
from tests.change.kept import killed_after
from tests.locked import broker_on
from tests.serve.wire import batches

HERE = Path(__file__).resolve().parent
SESSIONS = HERE / "sessions"
SPECS = HERE / "specs"
PROMPT, ERROR, COMMENT = "$ ", "2> ", "#"
KILLED = 137
PATIENCE_SECONDS = 20

_CHANGE = re.compile(r"\b\d{8}T\d{6}(?:-\d+)?\b")
# What differs from run to run, and what stands for it. Nothing else may.
_VARYING = (
    (re.compile(r"\bin \d+(?:\.\d+)? (?:s(?: \d+ ms)?|ms)(?!\w)"), "in N s"),
    (re.compile(r'("(?:seconds|elapsed|elapsedMs|kdump)": ?)[^,}]+'), r"\1N"),
    (re.compile(r'("host": ?)"[^"]*"(?=, ?"startedAt")'), r"\1N"),
    (re.compile(r'("startedAt": ?)"[^"]*"'), r"\1N"),
    (re.compile(r"(?<=\(process )\d+(?= holds)"), "N"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}\b"), "PORT"),
    (re.compile(r"(?<= )\d+\.\d ms$", re.MULTILINE), "N ms"),
    (re.compile(r"^(\w+_(?:duration|timestamp)_seconds) .*$", re.MULTILINE), r"\1 N"),
    (re.compile(r'("allocatedSize": ?)\d+'), r"\1N"),
    (re.compile(r'("begunTimestamp": ?)\d+'), r"\1N"),
    (_CHANGE, "CHANGE"),
    # with the journal, which has inodes and times
    (re.compile(r"(deletes the originals of CHANGE \(|pruned, )\S+ KiB"), r"\1N KiB"),
    (re.compile(r"\S+Z(?=  file time)"), "TIME"),
    (re.compile(r"(there is something in it) \(.*?\)"), r"\1 (NAME)"),
    (re.compile(r"^kdump \d\S*$", re.MULTILINE), "kdump N"),
    (re.compile(r"^(kernels|CRC-32C): .*$", re.MULTILINE), r"\1: N"),
)


class CommandLine(NamedTuple):
    """A command line by its parts."""

    stdin: str
    environment: dict[str, str]
    locked: str | None
    words: list[str]
    output: str | None
    meanwhile: list[str]

    @classmethod
    def parse(cls, line: str) -> Self:
        rest, _, meanwhile = line.partition(" & ")
        before, pipe, rest = rest.rpartition(" | ")
        stdin = ""
        if pipe:
            program, text = shlex.split(before)
            assert program == "printf", line
            stdin = text.encode().decode("unicode_escape")
        words = shlex.split(rest)
        environment = {}
        while re.match("[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        locked = None
        if words[0] == "flock":
            locked, words = words[1], words[2:]
        output = None
        if words[-2] == ">":
            output, words = words[-1], words[:-2]
        assert words[0] in ("kdump", "cat", "mkdir"), line
        return cls(stdin, environment, locked, words, output, shlex.split(meanwhile.replace(";", " ;")))


@dataclass(frozen=True)
class Step:
    """A command line of a session, with the comments before it."""

    comments: tuple[str, ...]
    line: str

    @property
    def words(self) -> list[str]:
        """The arguments of `kdump`; none where the command is another."""
        program, *words = self._parsed.words
        return words if program == "kdump" else []

    @property
    def columns(self) -> str | None:
        """The width of the lines; None where they are not folded."""
        return self._parsed.environment.get("COLUMNS")

    @cached_property
    def _parsed(self) -> CommandLine:
        return CommandLine.parse(self.line)

    def run(self, folder: Path, patch: pytest.MonkeyPatch, change: str = "") -> Said:
        """Run the command as it stands there; `change` is the id that CHANGE stands for."""
        program, *words = self._parsed.words
        if program == "cat":
            return Said(tuple(words), "".join((folder / word).read_text(encoding="utf-8") for word in words), "", 0)
        if program == "mkdir":
            (folder / words[0]).mkdir()
            return Said(tuple(words), "", "", 0)
        patch.delenv("COLUMNS", raising=False)
        if self.columns is not None:
            patch.setenv("COLUMNS", self.columns)
        words = [found for word in words for found in (_matches(folder, word) if "/*" in word else [word])]
        words = [change if word == "CHANGE" else word for word in words]
        killed = self._parsed.environment.get("KILLED_AFTER")
        said = Said(tuple(words), "", "", KILLED)
        with ExitStack() as around:
            if self._parsed.locked is not None:
                around.enter_context(broker_on(folder / self._parsed.locked))
            if killed:
                around.enter_context(killed_after(int(killed)))
            said = kdump(folder, *words, stdin=self._parsed.stdin, ended=self._ended(folder))
        if killed:
            tally.clear()  # whose process is gone
        if self._parsed.output is None:
            return said
        (folder / self._parsed.output).write_text(said.out, encoding="utf-8")
        return replace(said, out="")

    def _ended(self, folder: Path) -> tuple[Need, signal.Signals] | None:
        if not self._parsed.meanwhile:
            return None
        *need, end, program, name, job = self._parsed.meanwhile
        assert (end, program, job) == (";", "kill", "%1"), self.line
        does = _NEEDS[need[0]]
        return lambda printed: does(printed, folder, need[1:]), signal.Signals[f"SIG{name.removeprefix('-')}"]


def _wait_for(pattern: str, printed: Callable[[], str]) -> re.Match[str]:
    """Wait until something is printed."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := re.search(pattern, printed())):
        assert time.monotonic() < until, f"{pattern} does not come: {printed()}"
        time.sleep(0.01)
    return found


def _grep(printed: Callable[[], str], _folder: Path, words: list[str]) -> None:
    option, pattern = words
    assert option == "-q"
    _wait_for(pattern, printed)


def _fetch(printed: Callable[[], str], folder: Path, words: list[str]) -> None:
    partition, offset, _, file = words
    topic, _, number = partition.rpartition("-")
    server = _wait_for(r"127\.0\.0\.1:\d+(?=[:\"])", printed)[0]
    (folder / file).write_bytes(b"".join(batches(server, topic, int(number), int(offset))))


_NEEDS = {"grep": _grep, "fetch": _fetch}


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


def last_change(said: Said) -> str | None:
    """The id of the change that was printed last."""
    found = _CHANGE.findall(said.out)
    return found[-1] if found else None


def normal(text: str, folder: Path) -> str:
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "/kafka")
    for pattern, stands_for in _VARYING:
        text = pattern.sub(stands_for, text)
    return text


def session_text(blocks: Iterable[str]) -> str:
    return "\n".join(blocks)
