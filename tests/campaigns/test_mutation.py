"""What the campaign of mutants changes, and that a module with a change is the one that runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.mutation import HERE, Mutant, mutants

SOURCE = '''
LIMIT = 5

def place(at: int | None = None) -> int:
    """Not text."""
    if at is None and LIMIT > 3:
        raise ValueError(1 + 2)
    at -= 1
    return at + 1
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return path


def test_every_decision_is_changed_and_nothing_else(module: Path) -> None:
    assert sorted(each.what for each in mutants(module)) == [
        "1 + 1",
        "1 + 1",
        "3 + 1",
        "LIMIT > 3: GtE",
        "at + 1",
        "at is None and LIMIT > 3: Or",
        "at is None: IsNot",
        "if not at is None and LIMIT > 3",
        "without at -= 1",
    ]


def test_a_mutant_differs_in_one_place(module: Path) -> None:
    unchanged = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants(module):
        changed = mutant.source().splitlines()
        assert sum(one != other for one, other in zip(unchanged, changed, strict=True)) == 1, mutant.what


def test_tests_run_with_the_mutant(tmp_path: Path) -> None:
    """`is_changed` is a name that the module has only as a mutant."""
    changed = tmp_path / "units.py"
    changed.write_text("is_changed = True\n")
    command = "import tests.campaigns.mutated, kdump.formats.time_units as units; assert units.is_changed"
    environment = os.environ | {"KDUMP_MUTANT": f"kdump.formats.time_units={changed}"}
    subprocess.run([sys.executable, "-c", command], cwd=HERE, env=environment, check=True)


def test_a_mutant_names_its_place(module: Path) -> None:
    first = next(iter(mutants(module)))
    assert isinstance(first, Mutant)
    assert (first.module, first.line) == (module, 6)


NOTICED = """
import sys
from pathlib import Path
from tests.campaigns.mutation import HERE, Mutant, Taken, mutants, survives

module = HERE / "kdump" / "replicas" / "truncation.py"
(mutant,) = [each for each in mutants(module) if each.what.startswith("not own.cache.entries")]
taken = Taken("kdump/replicas", ["tests/replicas/test_truncation.py"], Path(sys.argv[1]))
tests = taken.of(module, mutant.line, float("inf"))
assert tests
assert all(test.startswith("tests/replicas/test_truncation.py::") for test in tests)
assert not survives(mutant, tests)
assert survives(mutant, [])
Mutant.source = lambda mutant: mutant.module.read_text()
assert survives(mutant, tests)
"""


def test_a_mutant_is_noticed_by_tests_that_take_its_line(tmp_path: Path) -> None:
    """With the module as it is they pass; with one that cuts nothing they fail.

    As in the campaign, the process has not imported the module before.
    """
    done = subprocess.run([sys.executable, "-c", NOTICED, tmp_path], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
