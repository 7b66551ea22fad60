"""The campaign that libFuzzer guides: its first inputs, what is compared, and a short run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from kdump.kernels.portable import kernels as portable
from tests.campaigns.guided.building import CannotBuildError, built
from tests.campaigns.guided.comparing import Comparing, Given, Kind
from tests.campaigns.guided.corpus import first_inputs, input_of, write_corpus
from tests.kernels.reading import NATIVE

ROOT = Path(__file__).parents[2]
PREFIX = 8


def given(data: bytes) -> Given:
    """The input, taken apart as inputs.pxi does it."""
    split = len(data) - int.from_bytes(data[6:8], "big")
    rows, records = 1 + data[2] % 8, 1 + data[3] % 24
    return Given(data[0], data[1], rows, records, data[4], data[5], data[PREFIX:split], data[split:])


def test_the_kernels_agree_on_inputs_of_every_kind() -> None:
    compare = Comparing(NATIVE or portable)
    inputs = list(map(given, first_inputs()))
    assert {one.kind for one in inputs} == set(Kind)
    for one in inputs[::10]:
        compare(*one)


def test_a_difference_is_an_error() -> None:
    broken = SimpleNamespace(**{name: getattr(portable, name) for name in dir(portable)})
    broken.column_stats = lambda column: (0, 0, 0, -1, 0)
    one = given(input_of(Kind.INDEX, bytes(range(16))))
    Comparing(portable)(*one)
    with pytest.raises(AssertionError, match="portable"):
        Comparing(cast(ModuleType, broken))(*one)


def test_the_corpus_is_written_once(tmp_path: Path) -> None:
    count = write_corpus(tmp_path)
    assert count > 300
    assert write_corpus(tmp_path) == count


@pytest.mark.slow
def test_a_short_run_finds_nothing_and_keeps_its_figures(tmp_path: Path) -> None:
    try:
        built()
    except CannotBuildError as error:
        pytest.skip(str(error).splitlines()[0])
    for seed in (1, 2):
        command = [sys.executable, "-m", "tests.campaigns.guided", "--inputs", "3000", "--sample", "64"]
        command += ["--seed", str(seed), "--resume", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert [run["seed"] for run in runs] == [1, 2]
    assert all(run["inputs"] >= 2900 and run["compared"] > 10 for run in runs)
    kernels = {name: count for name, count in runs[1].items() if name not in ("seed", "seconds", "cpu")}
    assert all(kernels.values()), kernels
