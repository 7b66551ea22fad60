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
from functools import partial
from pathlib import Path

from tests.kafka import clients
from tests.kafka.jars import MIRROR, RELEASES, SPARK_SOURCE, JarError, cache, class_path, why_not
from tests.kafka.page import PAGE, written

ROOT = Path(__file__).resolve().parent.parent.parent

INCOMPLETE = 3

_WORKERS = min(3, os.cpu_count() or 1)

_BY_NAME = ("tests/kafka/test_disks.py",)
"""Tests that take long and run only when they are named."""

_NEWEST_ONLY = {"tests/kafka/test_spark.py": SPARK_SOURCE, "tests/kafka/test_mirror.py": MIRROR}
"""Tests of which the release makes no difference: they run with the newest one, or where they are named. Each with the
jars that it needs besides that release's.
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
    for client in clients.absent():
        print(f"not run: the client {client}: it is not installed", flush=True)
    present = [release for release in wanted if release not in absent]
    lacking = {path: why for path, jars in _NEWEST_ONLY.items() if RELEASES[-1] in present and (why := _why_not(jars))}
    for path, why in lacking.items():
        print(f"not run: {path}: {why}", flush=True)
    if not present:
        return INCOMPLETE
    _LAST_RUN.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    others = [part for release in present for part in ("--other", release)]
    left_out = [f"--ignore={path}" for path in lacking]
    each = partial(_run, rest=[*rest, *others, *left_out, "--seconds", str(options.seconds // len(present))])
    with ThreadPoolExecutor(max(1, options.workers)) as workers:
        codes = dict(zip(present, workers.map(each, present), strict=True))
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    print(f"{', '.join(present)}: {minutes} min {seconds} s", flush=True)
    code = max(codes.values())
    if code:
        failed = ", ".join(release for release, ended in codes.items() if ended)
        print(f"{failed}: logs of brokers and directories that made a difference are in {_LAST_RUN}", flush=True)
    if options.write_docs:
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for release in present:
            if _results(release).exists():
                counts |= json.loads(_results(release).read_text())
        PAGE.write_text(written(counts))
    return code or (INCOMPLETE if absent or lacking or clients.absent() else 0)


def _results(release: str) -> Path:
    return _LAST_RUN / f"{release}.json"


def _run(release: str, rest: list[str]) -> int:
    """Run the tests of a release, and print what they said when they are over; the exit code is pytest's."""
    _results(release).unlink(missing_ok=True)
    named = any((ROOT / part.split("::")[0]).exists() for part in rest if not part.startswith("-"))
    left_out = _BY_NAME if release == RELEASES[-1] else (*_BY_NAME, *_NEWEST_ONLY)
    tests = [] if named else ["tests/kafka", *(f"--ignore={path}" for path in left_out)]
    command = [sys.executable, "-m", "pytest", *tests, "--release", release, "--results", str(_results(release)), *rest]
    command += ["--basetemp", str(_LAST_RUN / release), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(f"== Kafka {release}\n{done.stdout.decode(errors='replace')}", flush=True)
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
