"""Compare two copies of a partition in this process, beside verifying both of them.

    python benchmarks/comparing.py [--dir DIR] [--repeat N] [--divisor N] [--check]

A segment of 1 GiB in 16 KB batches and its copy, and one of one-record batches; the target is at most 1.3 times the CPU
seconds of verifying both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import data
import lookups
import verifying
from processes import RunError

import kdump
from kdump.replication.compare import Relation, compare

VERIFY, COMPARE = "verify both", "compare them"
LIMIT = 1.3
LOGS = (replace(data.LARGE, name="gibibyte", size=1024 * data.MIB), data.ONE_RECORD)


def copies(log: data.Log, folder: Path, divisor: int) -> tuple[Path, Path]:
    """The partition and a copy of it whose bytes are its own."""
    first = lookups.with_indexes(data.generate(log, folder, divisor))
    second = folder / "other-broker" / first.name
    shutil.rmtree(second, ignore_errors=True)
    second.mkdir(parents=True)
    for path in first.iterdir():
        shutil.copy2(path, second / path.name)
    return first, second


def compare_both(first: Path, second: Path) -> None:
    """Raises RunError where the copies are not found to be equal."""
    (pair,) = compare([kdump.open_log(str(path)) for path in (first, second)]).pairs
    if pair.relation is not Relation.IDENTICAL:
        raise RunError(f"{second} is not found to be the copy that it is: {pair.relation}")


def measure(log: data.Log, folder: Path, divisor: int, repeat: int) -> tuple[int, dict[str, verifying.Seconds]]:
    """The bytes of a copy, and what each takes. Raises RunError, OSError."""
    first, second = copies(log, folder, divisor)
    size = os.path.getsize(verifying.log_of(first))

    def verify_both() -> None:
        verifying.check(first)
        verifying.check(second)

    jobs = {VERIFY: verify_both, COMPARE: lambda: compare_both(first, second)}
    try:
        return size, verifying.timed(jobs, repeat)
    finally:
        shutil.rmtree(second.parent)


def main() -> int:
    """Measure and print; 1 where something could not be run, or the target is missed that was to be checked."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    default = Path(tempfile.gettempdir()) / "kdump-benchmarks"
    parser.add_argument("--dir", type=Path, default=default, help="where the log is and stays (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="turns (default: %(default)s)")
    parser.add_argument("--divisor", type=int, default=1, metavar="N", help="divide the size by N")
    parser.add_argument("--check", action="store_true", help="exit with 1 when the target is missed")
    options = parser.parse_args()
    is_missed = False
    for log in LOGS:
        try:
            size, costs = measure(log, options.dir, options.divisor, options.repeat)
        except (RunError, OSError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        print(f"two copies of {size / 1e6:.0f} MB: {log.description}")
        plain = costs[VERIFY]
        for name, cost in costs.items():
            ratio = f"{cost.wall / plain.wall:.2f} (CPU {cost.cpu / plain.cpu:.2f})"
            print(f"{name:12}  {cost.wall:6.2f} s, CPU {cost.cpu:6.2f} s; {ratio} times verifying both")
        is_missed = is_missed or costs[COMPARE].cpu > LIMIT * plain.cpu
    return int(options.check and is_missed)


if __name__ == "__main__":
    sys.exit(main())
