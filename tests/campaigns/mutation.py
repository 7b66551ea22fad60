"""Do the tests notice a mistake? One small change at a time is made to a module, and its tests have to fail.

Changed are comparisons, the operators `and`, `or`, `not`, `in`, `is` and of arithmetic, numbers, True and False, a
condition, `continue` and `break`, and statements that are left out; not what is annotated, documented or raised.
First the tests of a group run once: that tells which of them take which line, and how long they last. Of the mutants
of the group's modules some are drawn with a seed; each runs in a process of its own with the tests that take its line,
the quickest first, until one fails. A mutant that none of these notices survives: the list of these is the result.

`./dev campaign mutation [--seed N] [--sample N] [--seconds N] [--longest N] [--tests PATH]... [GROUP...]`
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import CoverageData

HERE = Path(__file__).resolve().parents[2]
_NO_KILLS = ("--ignore=tests/repair/test_crash.py", "-k", "not killed_anywhere")
"""Left out: tests that kill a process at every step, which last longer than all others together."""
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "change": ("kdump/change", ("tests/change", "tests/repair", "tests/commands/test_undo.py", *_NO_KILLS)),
    "recovery": ("kdump/recovery", ("tests/recovery",)),
    "repair": ("kdump/repair", ("tests/repair", *_NO_KILLS)),
    "clean": ("kdump/clean", ("tests/clean",)),
    "replicas": ("kdump/replicas", ("tests/replicas",)),
}
MOST_SECONDS = 300
"""A run of the tests that takes longer has noticed the mutant: it goes round in circles."""
QUIET = ("-n0", "-p", "no:cacheprovider")
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """A module with one change: which node (in the order of ast.walk), which of its changes, and that in words."""

    module: Path
    node: int
    change: int
    line: int
    what: str

    def source(self) -> str:
        """The changed module."""
        tree = ast.parse(self.module.read_text())
        node = next(islice(ast.walk(tree), self.node, None))
        _, changed = next(islice(_changes(node), self.change, None))
        _put(tree, node, changed)
        return ast.unparse(tree)


def mutants(module: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(module.read_text())
    parents = {each: parent for parent in ast.walk(tree) for each in ast.iter_child_nodes(parent)}
    for number, node in enumerate(ast.walk(tree)):
        if _counts(parents, node):
            for change, (what, _) in enumerate(_changes(node)):
                yield Mutant(module, number, change, getattr(node, "lineno", 0), what)


def _counts(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a node is code that decides something."""
    child, parent = node, parents.get(node)
    in_function = isinstance(node, ast.FunctionDef)
    while parent is not None:
        if isinstance(parent, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return False
        if isinstance(parent, ast.AnnAssign) and child is parent.annotation:
            return False
        if isinstance(parent, (ast.FunctionDef, ast.arg)):
            if child is getattr(parent, "returns", None) or child is getattr(parent, "annotation", None):
                return False
            if child in getattr(parent, "decorator_list", ()):
                return False
            in_function = True
        child, parent = parent, parents.get(parent)
    return in_function


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand instead of a node, with a few words."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        other = _COMPARED[type(node.ops[0])]
        changed = ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
        yield f"{ast.unparse(node)}: {other.__name__}", changed
    elif isinstance(node, ast.BoolOp):
        turned: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{ast.unparse(node)}: {type(turned).__name__}", ast.BoolOp(turned, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{ast.unparse(node)}: without not", node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        yield ast.unparse(node), ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} turned", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield f"{node.value} + 1", ast.Constant(node.value + 1)
    elif isinstance(node, (ast.If, ast.IfExp)):
        turned_round = copy.copy(node)
        turned_round.test = ast.UnaryOp(ast.Not(), node.test)
        yield f"if not {ast.unparse(node.test)}", turned_round
    elif isinstance(node, ast.Continue):
        yield "break for continue", ast.Break()
    elif isinstance(node, ast.Break):
        yield "continue for break", ast.Continue()
    elif isinstance(node, (ast.Expr, ast.AugAssign)) and not _is_text(node):
        yield f"without {ast.unparse(node)}", ast.Pass()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Yield, ast.YieldFrom))


def _put(tree: ast.Module, node: ast.AST, changed: ast.AST) -> None:
    """Put a node in the place of another."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, changed)
            elif isinstance(value, list):
                value[:] = [changed if each is node else each for each in value]
    ast.fix_missing_locations(tree)


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
            code = pytest.main(["-q", *QUIET, *measured, *tests], plugins=[timer])
            durations.write_text(json.dumps(timer.seconds))
            return int(code)

        if in_a_process(run, float("inf")) != 0:
            raise SystemExit(f"{' '.join(tests)}: these tests fail without a mutant")
        self._coverage = CoverageData(str(data))
        self._coverage.read()
        self._seconds: dict[str, float] = json.loads(durations.read_text())

    def of(self, module: Path, line: int, longest: float) -> list[str]:
        """The tests that take a line, the quickest first; those that last longer in all than that are left out."""
        contexts = self._coverage.contexts_by_lineno(str(module))
        found = {context.rpartition("|")[0] for context in contexts.get(line, ())} & self._seconds.keys()
        tests = sorted(found, key=self._seconds.__getitem__)
        ends = accumulate(map(self._seconds.__getitem__, tests))
        return [test for test, end in zip(tests, ends, strict=True) if end <= longest or test == tests[0]]


def in_a_process(run: Callable[[], int], most_seconds: float) -> int | None:
    """The exit code of a function in a process of its own, without output; None where it does not end in time."""
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
    pause = 0.01
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(1.0, pause * 1.2)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def survives(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether all tests pass with a mutant; they run with the module of another source, which is not written."""
    if not tests:
        return True
    with tempfile.NamedTemporaryFile("w", suffix=".py") as source:
        source.write(mutant.source())
        source.flush()

        def run() -> int:
            name = ".".join(mutant.module.relative_to(HERE).with_suffix("").parts)
            os.environ["KDUMP_MUTANT"] = f"{name}={source.name}"
            return int(pytest.main(["-q", "-x", *QUIET, "-p", "no:cov", "-p", "tests.campaigns.mutated", *tests]))

        return in_a_process(run, MOST_SECONDS) == 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=100, help="mutants of each group")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument(
        "--longest", type=float, default=float("inf"), help="seconds that the tests of a mutant may last"
    )
    parser.add_argument("--tests", action="append", metavar="PATH", help="these tests in the place of a group's own")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"by default all: {', '.join(GROUPS)}")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    for group in asked.groups or GROUPS:
        folder, tests = GROUPS[group]
        tests = tuple(asked.tests or tests)
        found = [mutant for module in sorted((HERE / folder).glob("*.py")) for mutant in mutants(module)]
        drawn = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
        tried = killed = 0
        with tempfile.TemporaryDirectory() as scratch:
            taken = Taken(folder, tests, Path(scratch))
            for mutant in drawn:
                if time.monotonic() > end:
                    break
                tried += 1
                if not survives(mutant, covering := taken.of(mutant.module, mutant.line, asked.longest)):
                    killed += 1
                    continue
                place = f"{mutant.module.relative_to(HERE)}:{mutant.line}"
                print(f"  survives {len(covering)} tests: {place}: {mutant.what}", flush=True)
        print(f"{group}: {killed} of {tried} noticed; {len(found)} mutants, seed {asked.seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
