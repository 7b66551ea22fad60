"""The resident JVM of a release: Kafka's tools and clients without the second that each start of a JVM costs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.kafka.broker import java, minor
from tests.kafka.jars import class_path, made_once

SOURCES = Path(__file__).resolve().parent / "java"


class KitError(Exception):
    """A request that failed in the JVM."""


class Printed(NamedTuple):
    """What a tool left."""

    exit_code: int
    out: bytes
    err: bytes


def sources(release: str) -> list[Path]:
    """The Java sources for a release: those of all, and those in folders since-N that are not newer."""
    found = sorted(SOURCES.glob("*.java"))
    for folder in sorted(SOURCES.glob("since-*")):
        if _number(folder.name.removeprefix("since-")) <= _number(minor(release)):
            found += sorted(folder.glob("*.java"))
    return found


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def compiled(release: str, cache: Path) -> Path:
    """The folder with our classes for a release, compiled unless they are there. Raises KitError."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources(release))).hexdigest()[:16]
    return made_once(cache / f"classes-{release}-{digest}", partial(_compile, release))


def _compile(release: str, target: Path) -> None:
    command = ["javac", "-nowarn", "-proc:none", "-d", str(target)]
    command += ["-cp", ":".join(map(str, class_path(release))), *map(str, sources(release))]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KitError(f"{release}: javac: {done.stdout}{done.stderr}")


class Kit:
    """The process; a context manager. Its own complaints go to `log`."""

    def __init__(self, release: str, cache: Path, log: Path) -> None:
        self.release = release
        self._scratch = tempfile.TemporaryDirectory()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            java(release, "Kit", heap="1g", extra=[compiled(release, cache)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Kit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, with all clients in it: as if they had been killed."""
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._scratch.cleanup()

    def ask(self, do: str, **rest: object) -> Any:
        """Send a request and return the answer. Raises KitError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **rest}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise KitError(f"{self.release}: the JVM ended at {do} {rest}: see {self._log.name}")
        answer = json.loads(line)
        if "failed" in answer:
            raise KitError(f"{self.release}: {do} {rest}: {answer['failed']}: see {self._log.name}")
        return answer["ok"]

    def tool(self, name: str, *arguments: str) -> Printed:
        """Run the main method of one of Kafka's tools."""
        out, err = Path(self._scratch.name, "out"), Path(self._scratch.name, "err")
        code = self.ask("tool", **{"class": name, "args": arguments, "out": str(out), "err": str(err)})
        return Printed(code, out.read_bytes(), err.read_bytes())

    def dump_log(self, *arguments: str) -> Printed:
        """This release's kafka-dump-log."""
        package = "kafka.tools" if minor(self.release) in ("3.9", "4.0", "4.1", "4.2") else "org.apache.kafka.tools"
        return self.tool(f"{package}.DumpLogSegments", *arguments)
