"""The compiled kernel where memory runs out, at every allocation in turn."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.reading import only_native

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")


@only_native
@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None or platform.libc_ver()[0] != "glibc", reason="needs a C compiler, and glibc")
def test_a_memory_error_or_the_same_result_and_no_crash(tmp_path: Path) -> None:
    """A list comprehension in RecordColumns crashed here: what cannot be appended is freed twice by Cython 3.3."""
    shim = tmp_path / "shim.so"
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", shim, HERE / "failing_malloc.c"], check=True)
    command = [sys.executable, "-m", "tests.kernels.allocations", str(shim), "--cases", "3"]
    environment = os.environ | {"LD_PRELOAD": str(shim), "PYTHONMALLOC": "malloc"}
    done = subprocess.run(command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = re.search(r"3 cases: (\d+) allocations failed, (\d+) ended in a MemoryError", done.stdout)
    assert said is not None
    assert int(said[1]) >= int(said[2]) > 200
