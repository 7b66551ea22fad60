"""The job `./dev kafka`: kdump against real brokers of every release that it knows.

    ./dev kafka [--release R ...] [--workers N] [--rounds N] [--seed N] [--seconds N] [--write-docs]
                [PYTEST'S ARGUMENT ...]

Exit codes: 0 all ran and all agreed; 1 something differs; 3 not everything could run on this machine (a line each says
what and why), and what ran agreed; others are pytest's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka import clients
from tests.kafka.broker import BrokerError, archive_classes
from tests.kafka.jars import MIRROR, RELEASES, SPARK_SOURCE, JarError, cache, class_path, why_not
from tests.kafka.page import PAGE, written
from tests.kafka.tally import summed

ROOT = Path(__file__).resolve().parent.parent.parent

INCOMPLETE = 3

_WORKERS = min(3, os.cpu_count() or 1)

_BY_NAME = ("tests/kafka/test_disks.py",)
"""Tests that take long and run only when they are named."""

_WITH_ONE = {
    "tests/kafka/test_spark.py": (RELEASES[-1], SPARK_SOURCE),
    "tests/kafka/test_tables.py": (RELEASES[-1], RELEASES[-1]),
    "tests/kafka/test_mirror.py": (MIRROR.removeprefix("mirror-"), MIRROR),
}
"""Tests of which the release makes no difference: they run with this one, or where they are named. Each with the jars
that it needs besides that release's: MirrorMaker 2 is not on Maven Central for each release.
"""

_LAST_RUN = cache() / "last-run"


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="./dev kafka", description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=RELEASES, help="only these (default: all)")
    parser.add_argument("--workers", type=int, default=_WORKERS, help=f"releases at a time [{_WORKERS}]")
    parser.add_argument("--seconds", type=int, default=60, help="that the soaks of all releases take together [60]")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE.relative_to(ROOT)} from this run")
    options, rest = parser.parse_known_args()
    wanted = options.release or list(RELEASES)
    absent = {release: why for release in wanted if (why := _why_not(release))}
    for release, why in absent.items():
        print(f"not run: Kafka {release}: {why}", flush=True)
    present = [release for release in wanted if release not in absent]
    lacking = {
        path: why for path, (release, jars) in _WITH_ONE.items() if release in present and (why := _why_not(jars))
    }
    for path, why in lacking.items():
        print(f"not run: {path}: {why}", flush=True)
    if not present:
        return INCOMPLETE
    for client in clients.absent():
        print(f"not run: the client {client}: it is not installed", flush=True)
    _LAST_RUN.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    others = [part for release in present for part in ("--other", release)]
    left_out = [f"--ignore={path}" for path in lacking]
    each = partial(_run, rest=[*rest, *others, *left_out, "--seconds", str(options.seconds // len(present))])
    parts = _parts(present, rest)
    with ThreadPoolExecutor(max(1, options.workers)) as workers:
        list(workers.map(_archive, present))
        codes = _by_release(parts, list(workers.map(each, parts)))
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    print(f"{', '.join(present)}: {minutes} min {seconds} s", flush=True)
    code = max(codes.values())
    if code:
        failed = ", ".join(release for release, ended in codes.items() if ended)
        print(f"{failed}: logs of brokers and directories that made a difference are in {_LAST_RUN}", flush=True)
    if options.write_docs:
        results = [json.loads(part.results.read_text()) for part in parts if part.results.exists()]
        PAGE.write_text(written(summed(results)))
    return code or (INCOMPLETE if absent or lacking or clients.absent() else 0)


class _Part(NamedTuple):
    """Files of tests that run in a process of their own, for a release; none where the arguments name them."""

    release: str
    name: str
    files: tuple[str, ...]

    @property
    def results(self) -> Path:
        return _LAST_RUN / f"{self.name}.json"


def _parts(releases: list[str], rest: list[str]) -> list[_Part]:
    """Two for each release, so that nobody waits long for the last one; the second find what the first have made."""
    if any((ROOT / part.split("::")[0]).exists() for part in rest if not part.startswith("-")):
        return [_Part(release, release, ()) for release in releases]
    files = {release: _files(release) for release in releases}
    first = [_Part(release, f"{release}-1", files[release][::2]) for release in releases]
    return first + [_Part(release, f"{release}-2", files[release][1::2]) for release in releases]


def _files(release: str) -> tuple[str, ...]:
    left_out = {*_BY_NAME, *(path for path, (with_one, _) in _WITH_ONE.items() if with_one != release)}
    paths = (path.relative_to(ROOT).as_posix() for path in sorted(Path(__file__).parent.glob("test_*.py")))
    return tuple(path for path in paths if path not in left_out)


def _by_release(parts: list[_Part], codes: list[int]) -> dict[str, int]:
    """Return the worst exit code of each release; that a part of it had nothing to run is none."""
    found: dict[str, list[int]] = {}
    for part, code in zip(parts, codes, strict=True):
        found.setdefault(part.release, []).append(code)
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    return {release: max([each for each in ended if each != nothing] or ended) for release, ended in found.items()}


def _archive(release: str) -> None:
    """Save the starts to come a part of their work; without that they are slower, and no worse."""
    with suppress(BrokerError):
        archive_classes(release)


def _run(part: _Part, rest: list[str]) -> int:
    """Run the tests of a part, and print what they said when they are over; the exit code is pytest's."""
    part.results.unlink(missing_ok=True)
    options = ["--release", part.release, "--results", str(part.results), "--basetemp", str(_LAST_RUN / part.name)]
    command = [sys.executable, "-m", "pytest", *part.files, *rest, *options, "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(f"== Kafka {part.name}\n{done.stdout.decode(errors='replace')}", flush=True)
    return done.returncode


def _why_not(release: str) -> str | None:
    if why := why_not(release):
        return why
    try:
        class_path(release)
    except JarError as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
