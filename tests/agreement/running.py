"""Run `kdump` in this process, in any working directory, and keep what it prints."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import pytest

from tests.rows import rows_in

Row = dict[str, Any]
Need = Callable[[Callable[[], str]], object]
"""What is done while a command runs; it gets what tells what has been printed so far."""


@dataclass(frozen=True)
class Said:
    """What one run of a command left: arguments, standard output, standard error, exit code."""

    arguments: tuple[str, ...]
    out: str
    err: str
    code: int

    @cached_property
    def rows(self) -> list[Row]:
        """The JSON objects of the output, one a line."""
        return rows_in(self.out)

    def of_type(self, kind: str) -> list[Row]:
        """The rows of one type."""
        return [row for row in self.rows if row.get("type") == kind]

    def __str__(self) -> str:
        return f"kdump {' '.join(self.arguments)}"


class _Terminal(io.TextIOWrapper):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class _Input(io.BytesIO):
    """Standard input, which has a name."""

    name = "<stdin>"


def kdump(
    folder: Path,
    *arguments: object,
    stdin: str = "",
    terminal: bool = False,
    ended: tuple[Need, signal.Signals] | None = None,
) -> Said:
    """Run `kdump` with these arguments in a working directory; `ended` by a signal, once what it needs is done.

    Raises what is not caught by the command line itself.
    """
    from kdump.commands.cli import main

    argv = tuple(map(str, arguments))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _ending(ended, out):
        with _standing_in(folder, ["kdump", *argv], stdin, out, err, terminal), pytest.raises(SystemExit) as done:
            main()
        out.seek(0)
        err.seek(0)
        code = done.value.code
        assert isinstance(code, int)
        return Said(argv, out.read().decode("utf-8", "surrogateescape"), err.read().decode(), code)


@contextmanager
def _ending(ended: tuple[Need, signal.Signals] | None, out: IO[bytes]) -> Iterator[None]:
    """Do what is needed in a thread, which then sends the signal; raises what is raised there."""
    if ended is None:
        yield
        return
    need, number = ended
    is_over = threading.Event()

    def end() -> None:
        try:
            need(lambda: os.pread(out.fileno(), 1 << 20, 0).decode())
        finally:
            if not is_over.is_set():
                os.kill(os.getpid(), number)

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(end)
        yield
        is_over.set()
        done.result()


@contextmanager
def _standing_in(
    folder: Path, argv: list[str], stdin: str, out: IO[bytes], err: IO[bytes], terminal: bool
) -> Iterator[None]:
    """Put files in the place of the standard streams, and go to the folder."""
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    home = os.getcwd()
    os.chdir(folder)
    sys.argv = argv
    sys.stdin = io.TextIOWrapper(_Input(stdin.encode()), encoding="utf-8")
    sys.stdout = (_Terminal if terminal else io.TextIOWrapper)(out, encoding="utf-8")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8")
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            stream.detach()
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        os.chdir(home)
