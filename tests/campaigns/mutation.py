"""Do the tests notice a mistake? One small change at a time is made to a module, and its tests have to fail.

Changed are comparisons, the operators `and`, `or`, `not`, `in`, `is` and of arithmetic, numbers, True and False, a
condition, `continue` and `break`, and statements that are left out; not what is annotated, documented or raised.
The mutants of all modules of a group are drawn from with a seed; each runs in a process of its own, with the tests of
the group, until the first one fails. A mutant that no test notices survives: the list of these is the result.

`./dev campaign mutation [--seed N] [--sample N] [--seconds N] [GROUP...]`
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[2]
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "change": ("kdump/change", ("tests/change", "tests/repair")),
    "recovery": ("kdump/recovery", ("tests/recovery", "tests/change")),
    "repair": ("kdump/repair", ("tests/repair",)),
    "clean": ("kdump/clean", ("tests/clean",)),
    "replicas": ("kdump/replicas", ("tests/replicas",)),
}
MOST_SECONDS = 300
"""A run of the tests that takes longer has noticed the mutant: it goes round in circles."""
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


def survives(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether all tests pass with a mutant; they run with the module of another source, which is not written."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as source:
        source.write(mutant.source())
        source.flush()
        environment = os.environ | {
            "KDUMP_MUTANT": f"{'.'.join(mutant.module.relative_to(HERE).with_suffix('').parts)}={source.name}"
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "tests.campaigns.mutated", *tests]
        with subprocess.Popen(
            command, cwd=HERE, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                return process.wait(MOST_SECONDS) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=100, help="mutants of each group")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"by default all: {', '.join(GROUPS)}")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    for group in asked.groups or GROUPS:
        folder, tests = GROUPS[group]
        found = [mutant for module in sorted((HERE / folder).glob("*.py")) for mutant in mutants(module)]
        drawn = random.Random(asked.seed).sample(found, min(asked.sample, len(found)))
        tried = killed = 0
        for mutant in drawn:
            if time.monotonic() > end:
                break
            tried += 1
            if survives(mutant, tests):
                print(f"  survives: {mutant.module.relative_to(HERE)}:{mutant.line}: {mutant.what}", flush=True)
            else:
                killed += 1
        print(f"{group}: {killed} of {tried} noticed; {len(found)} mutants, seed {asked.seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
