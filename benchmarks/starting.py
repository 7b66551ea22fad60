"""Measure what starting takes: whole commands on one small partition, CPU time and instructions.

    python benchmarks/starting.py [--against BIN] [--repeat N] [--instructions] [--dir DIR]

Of the kdump that this Python has, and of another one whose folder of programs is BIN, in turns: the least of N turns
counts, for other processes only add to it. Both should be installed, not editable ones: what is compiled then stays so.
--instructions counts instructions of user space with valgrind, which other processes cannot change; it is slow.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import data
import lookups
from processes import RunError, run

_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def commands(partition: Path) -> dict[str, list[str]]:
    """The commands by their names: program and arguments."""
    log = next(partition.glob("*.log"))
    return {
        "dump-log": ["dump-log", "--files", str(log)],
        "dump": ["kdump", "dump", "--batches-only", str(log)],
        "lookup": ["kdump", "lookup", str(partition), "--offset", "0"],
        "ls": ["kdump", "ls", str(partition)],
        "verify": ["kdump", "verify", str(partition)],
        "startup": ["kdump", "startup", "--clean", str(partition)],
        "repair": ["kdump", "repair", "--clean", str(partition)],
    }


def cpu(command: list[str]) -> float:
    """The CPU seconds of a run. Raises RunError."""
    return run(command).cpu


def instructions(command: list[str]) -> float:
    """The instructions of a run. Raises RunError."""
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run([*counting, *command], capture_output=True, text=True)
    found = _COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise RunError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr}")
    return float(found[1].replace(",", ""))


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--against", type=Path, metavar="BIN", help="the folder of the other one's python and kdump")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--instructions", action="store_true", help="count instructions, with valgrind")
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    measure, unit, scale = (instructions, "M", 1e-6) if options.instructions else (cpu, "ms", 1e3)
    folder = options.dir or Path(tempfile.mkdtemp(prefix="kdump-starting-"))
    bins = [Path(sys.executable).parent] + ([options.against] if options.against else [])
    try:
        partition = lookups.with_indexes(data.generate(data.TINY, folder))
        for name, (program, *arguments) in commands(partition).items():
            whole = [[str(each / "python"), str(each / program), *arguments] for each in bins]
            for command in whole:
                run(command)  # which compiles what is not compiled yet
            repeat = 1 if options.instructions else options.repeat
            turns = [[measure(command) for command in whole] for _ in range(repeat)]
            least = [min(each) for each in zip(*turns, strict=True)]
            figures = "".join(f"{each * scale:9.1f} {unit}" for each in least)
            print(f"{name:<10}{figures}" + (f"{least[0] / least[1]:7.2f} x" if len(least) > 1 else ""))
    except (RunError, OSError) as error:
        print(f"starting.py: {error}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
