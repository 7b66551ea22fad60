"""Runs the command in the tests' process, and reads what it prints."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kdump.commands.cli import cli
from kdump.commands.shell import exit_codes
from tests.rows import checked, rows_in


class Run:
    """Runs `kdump` in this process and keeps what came out."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        self._capture = capfdbinary
        self._patch = patch

    def __call__(self, *arguments: object) -> int:
        from kdump.commands.cli import main

        self._patch.setattr(sys, "argv", ["kdump", *map(os.fspath, map(str, arguments))])
        with pytest.raises(SystemExit) as done:
            main()
        captured = self._capture.readouterr()
        self.out, self.err = captured.out.decode(), captured.err.decode()
        code = done.value.code
        assert isinstance(code, int)
        if self.out.startswith('{"type":"header"') and code < exit_codes.INTERRUPTED:
            checked(self.out)
        return code

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_in(self.out)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["type"] == kind]

    def table(self, first: str) -> list[dict[str, str]]:
        """The table whose first column has this head, cells by the heads of their columns."""
        lines = iter(self.lines)
        head = next(line for line in lines if line.split()[:1] == first.split()[:1] and line.strip().startswith(first))
        spans = [(found.start(), found.end(), found[0]) for found in re.finditer(r"\S+(?: \S+)*", head)]
        rows = []
        for line in lines:
            if not line.strip() or line.lstrip().startswith(("!", "Times: ", "Hidden: ")):
                break
            row = {}
            for found in re.finditer(r"\S+(?: \S+)*", line):
                for start, end, name in spans:
                    if found.start() < end and found.end() > start:
                        row[name] = found[0]
            rows.append(row)
        return rows


def invoked(*arguments: object) -> Result:
    """What `kdump` leaves; its return value is the exit code, as in the real one. Raises what it raises."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result
