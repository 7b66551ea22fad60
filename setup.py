"""What pyproject.toml cannot say: the compiled kernel, and commands/ installed as kdump.commands.

Environment variables read while building:
    KDUMP_REQUIRE_NATIVE=1    a kernel that cannot be compiled is an error (else the portable kernels serve)
    KDUMP_SKIP_NATIVE=1       do not compile it
    KDUMP_SANITIZE=address    compile it for AddressSanitizer
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from glob import glob
from pathlib import Path
from runpy import run_path

from setuptools import Extension, find_packages, setup

KERNELS = "kdump/kernels"
CYTHON_FOLDER = "build/cython"
SHARED_NUMBERS = (
    "kdump/formats/faults.py",
    "kdump/formats/batch.py",
    "kdump/formats/message_set.py",
    "kdump/formats/codecs/common.py",
    "kdump/kernels/verdicts.py",
    "kdump/kernels/batch_verdicts.py",
    "kdump/kernels/row_kinds.py",
)
# With CPython's limited API one wheel a platform serves 3.11 and later. A free-threaded interpreter does not have it.
LIMITED_API = None if sysconfig.get_config_var("Py_GIL_DISABLED") else "0x030B0000"


def numbers() -> str:
    """Return the numbers that the compiled kernel shares with Python modules, as Cython enums."""
    lines = ["# Written by setup.py."]
    known: dict[str, int] = {}
    if (here := str(Path(__file__).parent)) not in sys.path:
        sys.path.insert(0, here)  # for what these modules import
    for path in SHARED_NUMBERS:
        values = {name: value for name, value in run_path(path).items() if name.isupper() and type(value) is int}
        lines += ["", f"cdef enum:  # {path}"]
        # What a module imports is known already. A name for two numbers is written twice, which does not compile.
        lines += [f"    {name} = {value}" for name, value in values.items() if known.get(name) != value]
        known |= values
    return "\n".join(lines) + "\n"


def write_numbers() -> None:
    """Write numbers.pxi, unless it is there: what is compiled from it would be compiled again."""
    path = Path(CYTHON_FOLDER, "numbers.pxi")
    text = numbers()
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def native_kernels() -> list[Extension]:
    """Return the compiled kernel as the list that setup() wants; empty where it is not to be, or cannot be, built."""
    required = os.environ.get("KDUMP_REQUIRE_NATIVE") == "1"
    if os.environ.get("KDUMP_SKIP_NATIVE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        if required:
            raise
        print("Cython is missing: kdump is built without its compiled kernel", file=sys.stderr)
        return []
    sanitizer = os.environ.get("KDUMP_SANITIZE")
    sanitize = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else []
    write_numbers()
    for earlier in glob(f"{KERNELS}/_native.cpython-*.so"):
        os.remove(earlier)  # it would be loaded in place of the one with the limited API
    extension = Extension(
        "kdump.kernels._native",
        [f"{KERNELS}/_native.pyx"],
        include_dirs=[KERNELS],
        depends=sorted(path for kind in ("h", "pxi") for path in glob(f"{KERNELS}/**/*.{kind}", recursive=True)),
        extra_compile_args=[*sanitize, "-fno-omit-frame-pointer", "-g", "-O1"] if sanitizer else ["-O3", "-g0"],
        extra_link_args=sanitize,
        define_macros=[("Py_LIMITED_API", LIMITED_API)] if LIMITED_API else [],
        py_limited_api=LIMITED_API is not None,
    )
    extensions: list[Extension] = cythonize(
        extension, build_dir=CYTHON_FOLDER, include_path=[CYTHON_FOLDER], language_level=3
    )
    for built in extensions:
        without_inspect(Path(built.sources[0]))
        built.optional = not required  # only now: cythonize() drops it
    return extensions


def without_inspect(source: Path) -> None:
    """Have the flags of code objects read from a module of ours, if that is what Cython's C code imports `inspect` for.

    For the limited API it imports that when the kernel is loaded, for seven numbers that no release has changed. It is
    a tenth of what dumping a small file takes.
    """
    text = source.read_text()
    changed = text.replace('PyImport_ImportModule("inspect")', 'PyImport_ImportModule("kdump.kernels.code_flags")')
    if changed != text:
        source.write_text(changed)


def build_folder() -> str:
    """Return a folder that lives as long as this process.

    setuptools packs whatever lies in its build folder: a kernel left there by an earlier build (sanitized, or of a
    source that no longer compiles) would be installed as if it were this build's.
    """
    folder = tempfile.mkdtemp(prefix="kdump-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


extensions = native_kernels()

setup(
    packages=[
        *find_packages(include=["kdump", "kdump.*"]),
        *(f"kdump.{name}" for name in find_packages(include=["commands", "commands.*"])),
    ],
    package_dir={"kdump.commands": "commands"},
    py_modules=["pyspark_kdump"],
    ext_modules=extensions,
    options={
        "build": {"build_base": build_folder()},
        "bdist_wheel": {"py_limited_api": "cp311"} if extensions and LIMITED_API else {},
    },
)
