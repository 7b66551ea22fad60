"""Run `kdump` in this process, in any working directory, and keep what it prints."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import pytest

from tests.rows import rows_in

Row = dict[str, Any]


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


def kdump(folder: Path, *arguments: object, stdin: str = "", terminal: bool = False) -> Said:
    """Run `kdump` with these arguments in a working directory. Raises what is not caught by the command line itself."""
    from kdump.commands.cli import main

    argv = tuple(map(str, arguments))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _standing_in(folder, ["kdump", *argv], stdin, out, err, terminal), pytest.raises(SystemExit) as done:
            main()
        out.seek(0)
        err.seek(0)
        code = done.value.code
        assert isinstance(code, int)
        return Said(argv, out.read().decode("utf-8", "surrogateescape"), err.read().decode(), code)


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
