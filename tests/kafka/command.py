"""Runs kdump as users do: by its command line, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_BIN = Path(sys.executable).parent


class Ran(NamedTuple):
    """What a command left."""

    exit_code: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects of jsonl."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["type"] == kind]


def kdump(*arguments: object, requests: Iterable[object] | None = None) -> Ran:
    """Run `kdump`; `requests` go to its standard input as lines of JSON."""
    return run("kdump", *arguments, requests=requests)


def jsonl(*arguments: object) -> Ran:
    return run("kdump", *arguments, "--format", "jsonl")


def run(program: str, *arguments: object, requests: Iterable[object] | None = None) -> Ran:
    lines = None if requests is None else "".join(json.dumps(request) + "\n" for request in requests).encode()
    done = subprocess.run(
        [_BIN / program, *map(os.fspath, map(str, arguments))],
        input=lines,
        stdin=subprocess.DEVNULL if lines is None else None,
        capture_output=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
