"""Run whole processes with their output to /dev/null, and tell what they cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

# A process starts out with the peak memory of the one that forked it, so a small one does it.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.fork()
if not child:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(child, 0)
wall = time.perf_counter() - start
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status))
"""
Name = TypeVar("Name", bound=Hashable)
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class RunError(Exception):
    """A process that did not end well."""


class Cost(NamedTuple):
    """`wall` and `cpu` (user and system) in seconds, `peak` resident memory in bytes."""

    wall: float
    cpu: float
    peak: int


def run(command: Sequence[str]) -> Cost:
    """Run a command, its program given by its path. Raises RunError."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *command], capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{' '.join(command)}: {done.stderr}")
    wall, cpu, peak, code = done.stdout.split()
    if code != "0" or done.stderr:
        raise RunError(f"{' '.join(command)}: exit code {code}: {done.stderr}")
    return Cost(float(wall), float(cpu), int(peak) * PEAK_UNIT)


def measure(commands: Mapping[Name, Sequence[str]], repeat: int) -> dict[Name, Cost]:
    """The costs of each command: median seconds, largest peak. They take turns; the first only fills the caches."""
    for command in commands.values():
        run(command)
    costs: dict[Name, list[Cost]] = {name: [] for name in commands}
    for _ in range(repeat):
        for name, command in commands.items():
            costs[name].append(run(command))
    return {
        name: Cost(
            median(cost.wall for cost in turns),
            median(cost.cpu for cost in turns),
            max(cost.peak for cost in turns),
        )
        for name, turns in costs.items()
    }
