"""The job `./dev kafka`: kdump against real brokers of every release that it knows.

    ./dev kafka [--release R ...] [--rounds N] [--seed N] [--seconds N] [--write-docs] [PYTEST'S ARGUMENT ...]

Exit codes: 0 all ran and all agreed; 1 something differs; 3 not everything could run on this machine (a line each says
what and why), and what ran agreed; others are pytest's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kafka.jars import RELEASES, JarError, cache, class_path, why_not
from tests.kafka.page import PAGE, written

ROOT = Path(__file__).resolve().parent.parent.parent

INCOMPLETE = 3

_LAST_RUN = cache() / "last-run"


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="./dev kafka", description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=RELEASES, help="only these (default: all)")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE.relative_to(ROOT)} from this run")
    options, rest = parser.parse_known_args()
    wanted = options.release or list(RELEASES)
    absent = {release: why for release in wanted if (why := _why_not(release))}
    for release, why in absent.items():
        print(f"not run: Kafka {release}: {why}", flush=True)
    present = [release for release in wanted if release not in absent]
    if not present:
        return INCOMPLETE
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch, "results.json")
        chosen = [part for release in present for part in ("--release", release)]
        named = any((ROOT / part.split("::")[0]).exists() for part in rest if not part.startswith("-"))
        tests = [] if named else ["tests/kafka"]
        command = [sys.executable, "-m", "pytest", *tests, *chosen, "--results", str(results), *rest]
        code = subprocess.run([*command, "--basetemp", str(_LAST_RUN)], cwd=ROOT, check=False).returncode
        if code:
            print(f"logs of brokers and directories that made a difference are in {_LAST_RUN}", flush=True)
        if options.write_docs and results.exists():
            PAGE.write_text(written(json.loads(results.read_text())))
    return code or (INCOMPLETE if absent else 0)


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
