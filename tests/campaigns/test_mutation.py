"""What the campaign of mutants changes, and that a module with a change is the one that runs."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.campaigns.mutants import HERE, functions_here, mutants
from tests.campaigns.mutation import EQUIVALENT

pytestmark = pytest.mark.slow

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
        changed = ast.unparse(mutant.tree()).splitlines()
        assert sum(one != other for one, other in zip(unchanged, changed, strict=True)) == 1, mutant.what


def test_a_mutant_names_its_place(module: Path) -> None:
    first, *others = mutants(module)
    assert (first.module, first.line) == (module, 6)
    assert len({each.name for each in (first, *others)}) == 1 + len(others)


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHANGED = '''
from functools import lru_cache

class Places:
    def after(self, at, *, most=7):
        def once(place):
            return min(place + 1, most)
        return once(at)

    @property
    def first(self):
        return 1

    @lru_cache
    def of(self, number=3):
        return number
'''


def test_a_change_is_made_in_the_functions_that_others_have(tmp_path: Path) -> None:
    """Methods, properties, functions inside others and wrapped ones, and what they take where nothing is given."""
    path = tmp_path / "changed.py"
    path.write_text(CHANGED)
    said = {}
    for mutant in mutants(path):
        after, places = (module := loaded(path)).Places.after, module.Places()
        assert mutant.make(functions_here())
        said[mutant.function, mutant.what] = (after(places, 3), after(places, 9), places.first, places.of())
    assert said == {
        ("Places.after", "place + 1"): (2, 7, 1, 3),
        ("Places.after", "1 + 1"): (5, 7, 1, 3),
        ("Places.after", "7 + 1"): (4, 8, 1, 3),
        ("Places.first", "1 + 1"): (4, 7, 2, 3),
        ("Places.of", "3 + 1"): (4, 7, 1, 4),
    }


def test_what_is_not_there_cannot_be_changed(module: Path) -> None:
    assert not next(mutants(module)).make(functions_here())


def test_what_is_not_tried_exists_and_has_a_reason() -> None:
    not_tried = tomllib.loads(EQUIVALENT.read_text())
    modules = {mutant.partition(": ")[0] for mutant in not_tried}
    assert not_tried.keys() <= {mutant.name for module in modules for mutant in mutants(HERE / module)}
    assert all(len(reason.split()) > 3 for reason in not_tried.values())


NOTICED = """
import sys
from pathlib import Path
from tests.campaigns.mutation import Taken, Tried, with_tests
from tests.campaigns.mutants import HERE, Mutant, mutants
import kdump.replication.truncation

module = HERE / "kdump" / "replication" / "truncation.py"
(mutant,) = [each for each in mutants(module) if each.what.startswith("not own.cache.entries")]
scratch = Path(sys.argv[1])
files = ["tests/replicas/test_truncation.py"]
taken = Taken("kdump/replication", files, scratch)
tests = taken.of(mutant)
assert tests
assert all(test.startswith("tests/replicas/test_truncation.py::") for test in tests)


def campaign(trials):
    assert trials.noticed_by(None, tests, taken.seconds) is None
    assert trials.noticed_by(mutant, [], taken.seconds) is None
    noticing = trials.noticed_by(mutant, tests, taken.seconds)
    assert noticing in tests
    results = Tried(scratch / "results")
    results.add(mutant, noticing)
    assert results.sorted(mutant, tests)[0] == noticing
    assert Tried(scratch / "results").by_name == {mutant.name: noticing}
    assert trials.noticed_by(None, tests, taken.seconds) is None


with_tests(files, scratch, campaign)
"""


def test_a_mutant_is_noticed_by_tests_that_take_its_line(tmp_path: Path) -> None:
    """With the module as it is they pass; with one that cuts nothing they fail."""
    done = subprocess.run([sys.executable, "-c", NOTICED, tmp_path], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


