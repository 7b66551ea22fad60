"""Compare dump-log with what kafka-dump-log.sh printed for the log directories of `fixtures/`.

Runs on its own too: `python -m tests.commands.golden` prints one line for each difference and exits 1 if there is any.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
CORPUS = FIXTURES / "corpus"
RELEASE = "4.0"
"""The release whose tool gave the expected texts."""
JAVA_DEATH = b'Exception in thread "main" '

Row = dict[str, Any]


class Outcome(NamedTuple):
    """What a command left behind."""

    out: bytes
    err: bytes
    code: int


def cases() -> list[str]:
    """The cases that have expected texts."""
    return sorted(path.stem for path in (FIXTURES / "expected").glob("*.jsonl"))


def rows(case: str) -> list[Row]:
    """The invocations of a case, each with its `args` and what Kafka's tool gave."""
    with open(FIXTURES / "expected" / f"{case}.jsonl", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def in_process(arguments: list[str], release: str = RELEASE, folder: Path = CORPUS) -> Outcome:
    """Call dump-log's entry point in a folder, with files in place of the terminal, for a release."""
    return in_process_unasked(["--kafka", release, *arguments], folder)


def in_process_unasked(arguments: list[str], folder: Path = CORPUS) -> Outcome:
    """The same for the release that dump-log chooses."""
    from kdump.commands.dump_log import main

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _as_command(["dump-log", *arguments], out, err, folder):
            try:
                code: object = main()
            except SystemExit as stop:
                code = stop.code
        out.seek(0)
        err.seek(0)
        return Outcome(out.read(), err.read(), code if isinstance(code, int) else 0 if code is None else 1)


@contextlib.contextmanager
def _as_command(argv: list[str], out: Any, err: Any, folder: Path) -> Iterator[None]:
    before = sys.argv, sys.stdout, sys.stderr, os.getcwd()
    sys.argv = argv
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8")
    os.chdir(folder)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout.detach()
        sys.stderr.detach()
        sys.argv, sys.stdout, sys.stderr, cwd = before
        os.chdir(cwd)


def differences(row: Row, got: Outcome) -> list[str]:
    """What differs from Kafka's tool: `stdout`, `exit code`, `stderr`; of a Java death only that there is a message."""
    found = []
    if got.out != _bytes(row, "out"):
        found.append("stdout")
    if got.code != row["rc"]:
        found.append(f"exit code {got.code} for {row['rc']}")
    want = _bytes(row, "err")
    if want.startswith(JAVA_DEATH):
        if not got.err.startswith(JAVA_DEATH) or b"Traceback" in got.err:
            found.append("stderr")
    elif sorted(got.err.replace(os.fsencode(CORPUS), b"@CWD@").splitlines()) != sorted(want.splitlines()):
        found.append("stderr")
    return found


def _bytes(row: Row, name: str) -> bytes:
    return base64.b64decode(row[f"{name}_b64"]) if f"{name}_b64" in row else row[name].encode()


def main() -> int:
    """Run every invocation and report."""
    total = bad = 0
    for case in cases():
        for row in rows(case):
            total += 1
            found = differences(row, in_process(row["args"]))
            if found:
                bad += 1
                print(f"{row['file']} {row['variant']}: {', '.join(found)}")
    print(f"{total - bad} of {total} invocations identical")
    return 1 if bad or not total else 0


if __name__ == "__main__":
    sys.exit(main())
