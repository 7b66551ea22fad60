"""Do the tests notice a mistake? One small change at a time is made to a module, and its tests have to fail.

First the tests of a group run once: that tells which of them take which line, and how long they last. Then they are
collected once, and each mutant is a fork of that process: it changes the function and runs the tests that take the
line until one fails, first those that noticed another mutant of the function, then the quickest. A mutant that none of
these notices survives. Those in equivalent.toml, which make no difference or one that no test should look at, are not
tried; their reasons are there.

`./dev campaign mutation [--seed N] [--sample N] [--seconds N] [--longest N] [--resume FILE] [GROUP...]`

With `--resume FILE` each result is a line of that file, and mutants that it has are not tried again; with `--again`
those that survived are, with `--slow` only these, with other tests, among them those that kill a process at every step.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from coverage import CoverageData

from tests.campaigns.mutants import HERE, Mutant, functions_here, mutants


class Group(NamedTuple):
    """Modules of a folder, the tests that are run first, and those that are run where `--slow` asks for them."""

    folder: str
    tests: tuple[str, ...]
    slow: tuple[str, ...] = ()


_NO_KILLS = ("--ignore=tests/repair/test_crash.py", "-k", "not killed_anywhere")
"""Tests that kill a process at every step last longer than all others together."""
_KILLS = ("tests/repair/test_crash.py", "tests/change/test_undo.py", "tests/campaigns/test_crash_states.py")
_REPAIR = tuple(f"tests/commands/test_repair{each}.py" for each in ("", "_decisions", "_parts"))
GROUPS: dict[str, Group] = {
    "change": Group(
        "kdump/change",
        ("tests/change", "tests/repair", "tests/commands/test_undo.py", *_NO_KILLS),
        (*_KILLS, *_REPAIR, "tests/retention/test_apply.py", "tests/commands/test_compact.py", "tests/replicas"),
    ),
    "recovery": Group(
        "kdump/recovery",
        ("tests/recovery", "tests/commands/test_startup.py"),
        ("tests/verify", "tests/repair", "tests/write/test_model.py", *_NO_KILLS),
    ),
    "repair": Group("kdump/mend", ("tests/repair", *_REPAIR, *_NO_KILLS), ("tests/commands/test_undo.py", *_KILLS)),
    "clean": Group(
        "kdump/clean", ("tests/clean", "tests/commands/test_compact.py"), ("tests/commands/test_compact_settings.py",)
    ),
    "replicas": Group(
        "kdump/replication",
        ("tests/replicas", "tests/commands/test_replicas.py"),
        ("tests/campaigns/test_divergences.py", "tests/commands/test_repair.py", "tests/cluster/test_resurrect.py"),
    ),
}
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
MAX_SECONDS = 120
"""Tests that take longer wait for something that does not come."""
_CPU_SECONDS = 5
"""Processor time that a test may take besides five times its usual one: more, and it goes round in circles."""
_MEMORY = 4 << 30
QUIET = ("-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-profile=many")


class Timer:
    """A pytest plugin: how long each test took (s)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pytest calls this after the setup, the call and the teardown of every test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


class Taken:
    """Which tests take which line of a package, and how long they last."""

    def __init__(self, package: str, tests: Sequence[str], scratch: Path) -> None:
        """Run the tests once. Raises SystemExit where they fail."""
        data, durations = scratch / "coverage", scratch / "durations"

        def run() -> int:
            os.environ["COVERAGE_FILE"] = str(data)
            timer = Timer()
            measured = [f"--cov={package.replace('/', '.')}", "--cov-context=test", "--cov-report="]
            code = pytest.main([*QUIET, *measured, *tests], plugins=[timer])
            durations.write_text(json.dumps(timer.seconds))
            return int(code)

        if in_a_process(run, float("inf")) != 0:
            raise SystemExit(f"{' '.join(tests)}: these tests fail without a mutant")
        coverage = CoverageData(str(data))
        coverage.read()
        self._contexts = cache(lambda module: coverage.contexts_by_lineno(str(module)))
        self.seconds: dict[str, float] = json.loads(durations.read_text())

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that take a mutant's line, the quickest first."""
        by_line: dict[int, list[str]] = self._contexts(mutant.module)
        for line in mutant.lines:
            found = {context.rpartition("|")[0] for context in by_line.get(line, ())} & self.seconds.keys()
            if found:
                return sorted(found, key=self.seconds.__getitem__)
        return []


class Tried:
    """Results, as lines of a file or in memory: the test that noticed each mutant, or none."""

    def __init__(self, file: Path | None, again: bool = False) -> None:
        """Read what an earlier run left; with `again` mutants that survived are forgotten."""
        self._file = file
        self.by_name: dict[str, str | None] = {}
        self._noticing: defaultdict[tuple[Path, str], set[str]] = defaultdict(set)
        if file is not None and file.exists():
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            results = {line["mutant"]: line["noticed_by"] for line in lines}
            self.by_name = {name: test for name, test in results.items() if test is not None or not again}
        self.survived = frozenset(name for name, test in self.by_name.items() if test is None)

    def add(self, mutant: Mutant, test: str | None) -> None:
        """Note a result."""
        self.by_name[mutant.name] = test
        if test is not None:
            self._noticing[mutant.module, mutant.function].add(test)
        if self._file is not None:
            with self._file.open("a") as file:
                print(json.dumps({"mutant": mutant.name, "noticed_by": test}), file=file)

    def sorted(self, mutant: Mutant, tests: Sequence[str]) -> list[str]:
        """The tests that noticed another mutant of the function in front."""
        noticing = self._noticing[mutant.module, mutant.function]
        return sorted(tests, key=lambda test: test not in noticing)


class Trials:
    """A pytest plugin that runs collected tests in forks of the process, each with a mutant."""

    def __init__(self, campaign: Callable[[Trials], None]) -> None:
        self._campaign = campaign
        self._items: dict[str, pytest.Item] = {}
        self._functions: Mapping[tuple[str, str, int], list[FunctionType]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Pytest calls this after it collected the tests."""
        self._items = {item.nodeid: item for item in session.items}
        self._functions = functions_here()
        self._campaign(self)
        return True

    def noticed_by(self, mutant: Mutant | None, tests: Sequence[str], seconds: Mapping[str, float]) -> str | None:
        """The test that fails or does not end with a mutant (none: as it is), None where all pass.

        Raises LookupError where there is no such function in this process.
        """
        told, tell = os.pipe()

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            if mutant is not None and not mutant.make(self._functions):
                return 3
            items = [self._items[test] for test in tests]
            for number, (item, after) in enumerate(zip(items, [*items[1:], None], strict=False)):
                os.write(tell, number.to_bytes(4, "little"))
                used = resource.getrusage(resource.RUSAGE_SELF)
                most = used.ru_utime + used.ru_stime + _CPU_SECONDS + 5 * seconds.get(item.nodeid, 1.0)
                resource.setrlimit(resource.RLIMIT_CPU, (int(most) + 1, resource.RLIM_INFINITY))
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
                    return 1
            return 0

        code = in_a_process(run, MAX_SECONDS + 5 * sum(seconds.get(test, 1.0) for test in tests))
        os.close(tell)
        with open(told, "rb") as numbers:
            number = int.from_bytes(numbers.read()[-4:], "little")
        if code == 3:
            raise LookupError(f"{mutant}: no such function")
        return tests[number] if code else None


def in_a_process(run: Callable[[], int], most_seconds: float) -> int:
    """The exit code of a function in a process of its own, without output; that of SIGKILL where it does not end."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 99
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            status = run()
        finally:
            os._exit(status)
    end = time.monotonic() + most_seconds
    pause = 0.002
    done = status = 0
    while not done and time.monotonic() < end:
        time.sleep(pause)
        pause = min(0.1, pause * 1.2)
        done, status = os.waitpid(child, os.WNOHANG)
    # What it started ends with it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def with_tests(tests: Sequence[str], scratch: Path, campaign: Callable[[Trials], None]) -> None:
    """Collect tests, and call a function with them. Raises SystemExit where they cannot be collected."""
    base = f"--basetemp={scratch / 'tests'}"
    if pytest.main([*QUIET, "-s", "-p", "no:cov", base, *tests], plugins=[Trials(campaign)]) != 0:
        raise SystemExit(f"{' '.join(tests)}: pytest cannot collect these")


def try_group(group: str, asked: argparse.Namespace, tried: Tried, end: float) -> None:
    """Try the mutants of a group until the time ends, and print which survive and how many were noticed."""
    folder, tests, slow = GROUPS[group]
    tests = slow if asked.slow else tests
    modules = sorted((HERE / folder).glob("*.py"))
    equivalent = tomllib.loads(EQUIVALENT.read_text())
    every = [mutant for module in modules for mutant in mutants(module)]
    found = [mutant for mutant in every if mutant.name not in equivalent]
    for name in equivalent.keys() - {mutant.name for mutant in every}:
        if name.startswith(f"{folder}/"):
            print(f"  {EQUIVALENT.name}: there is no such mutant: {name}")
    drawn = random.Random(asked.seed).sample(found, min(asked.sample or len(found), len(found)))
    for module in modules:
        importlib.import_module(".".join(module.relative_to(HERE).with_suffix("").parts))

    def campaign(trials: Trials) -> None:
        if (test := trials.noticed_by(None, sorted(taken.seconds, key=taken.seconds.__getitem__), taken.seconds)):
            raise SystemExit(f"{test}: fails in a fork without a mutant")
        for mutant in drawn:
            if time.monotonic() > end:
                break
            if mutant.name in tried.survived if asked.slow else mutant.name not in tried.by_name:
                took = taken.of(mutant)
                ends = accumulate(map(taken.seconds.__getitem__, took))
                quick = [test for test, at in zip(took, ends, strict=True) if at <= asked.longest or test == took[0]]
                tried.add(mutant, trials.noticed_by(mutant, tried.sorted(mutant, quick), taken.seconds))

    with tempfile.TemporaryDirectory() as scratch:
        taken = Taken(folder, tests, Path(scratch))
        with_tests(tests, Path(scratch), campaign)
        results = [(mutant, tried.by_name[mutant.name]) for mutant in drawn if mutant.name in tried.by_name]
        for mutant, test in results:
            if test is None:
                print(f"  survives {len(taken.of(mutant))} tests: {mutant.name}, line {mutant.line}")
    noticed = sum(test is not None for _, test in results)
    print(f"{group}: {noticed} of {len(results)} noticed; {len(found)} mutants, and {len(every) - len(found)} in "
          f"{EQUIVALENT.name}; seed {asked.seed}", flush=True)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn, in which order")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each group (default: all)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument(
        "--longest", type=float, default=float("inf"), help="seconds that the tests of a mutant may last"
    )
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep results there, and do not try these again")
    parser.add_argument("--again", action="store_true", help="try again what survived")
    parser.add_argument("--slow", action="store_true", help="try what survived, with a group's slow tests")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"by default all: {', '.join(GROUPS)}")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    tried = Tried(asked.resume, asked.again)
    for group in asked.groups or GROUPS:
        try_group(group, asked, tried, end)
    return 0


if __name__ == "__main__":
    sys.exit(main())
