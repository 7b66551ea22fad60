"""Builds the kernels with coverage counters and libFuzzer into one extension module.

libFuzzer is taken from the package atheris. The C code is compiled by clang, or by the one in the package ziglang;
neither links C++, so that is left to the C compiler of the system.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import files
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
KERNELS = ROOT / "kdump" / "kernels"
BUILT = ROOT / "build" / "guided"
COVERAGE = "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp"
SOURCES = (".pyx", ".pxi", ".h")
LIBFUZZER = "libclang_rt.fuzzer_no_main.a"
PUBLIC_API = "-DPy_LIMITED_API=0x030B0000"


class CannotBuildError(Exception):
    """What the build needs is not here."""


def built() -> Path:
    """Build the module, unless it is newer than its sources. Return its path."""
    made = BUILT / "guided.abi3.so"
    sources = [path for folder in (HERE, KERNELS) for path in folder.rglob("*") if path.suffix in SOURCES]
    if made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    source = _translated()
    compiled = made.with_suffix(".o")
    include = f"-I{sysconfig.get_paths()['include']}"
    _run(
        *_clang(), COVERAGE, "-O2", "-g1", "-fPIC", "-fno-omit-frame-pointer", PUBLIC_API, include,
        f"-I{HERE}", f"-I{KERNELS}", "-c", str(source), "-o", str(compiled),
    )  # fmt: skip
    fuzzer = str(_libfuzzer())
    _run("cc", "-shared", "-o", str(made), str(compiled), fuzzer, "-l:libstdc++.so.6", "-lpthread", "-lm", "-ldl")
    return made


def loaded(path: Path) -> ModuleType:
    """Import the module that was built."""
    spec = importlib.util.spec_from_file_location("guided", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _libfuzzer() -> Path:
    """Return the library that atheris brings."""
    try:
        found = [path for path in files("atheris") or () if path.name == LIBFUZZER]
    except ModuleNotFoundError:
        found = []
    if not found:
        raise CannotBuildError(f"{LIBFUZZER} is not here: install the package atheris")
    return Path(str(found[0].locate()))


def _clang() -> list[str]:
    if clang := shutil.which("clang"):
        return [clang]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CannotBuildError("no compiler that counts is here: install clang, or the package ziglang")


def _translated() -> Path:
    """Translate guided.pyx, which includes the kernels, to C."""
    from Cython.Build import cythonize

    _run(sys.executable, "setup.py", "--quiet", "--version")  # writes the numbers that the kernels share with Python
    first = (KERNELS / "_native.pyx").read_text().splitlines()[0]
    directives = dict(part.strip().split("=") for part in first.removeprefix("# cython:").split(","))
    directives.pop("language_level")
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        made = cythonize(  # type: ignore[no-untyped-call]
            str((HERE / "guided.pyx").relative_to(ROOT)),
            build_dir="build/cython",
            include_path=["build/cython", str(KERNELS.relative_to(ROOT)), str(HERE.relative_to(ROOT))],
            compiler_directives={name: value == "True" for name, value in directives.items()},
            language_level=3,
            quiet=True,
            force=True,
        )
    finally:
        os.chdir(before)
    return ROOT / str(made[0].sources[0])


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuildError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
