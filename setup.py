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
import tempfile
from glob import glob

from setuptools import Extension, find_packages, setup

KERNELS = "kdump/kernels"


def native_kernels() -> list[Extension]:
    """The compiled kernel as the list that setup() wants; empty where it is not to be, or cannot be, built."""
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
    sanitize = [f"-fsanitize={sanitizer}"] if sanitizer else []
    extension = Extension(
        "kdump.kernels._native",
        [f"{KERNELS}/_native.pyx"],
        include_dirs=[KERNELS],
        depends=sorted(path for kind in ("h", "pxi") for path in glob(f"{KERNELS}/**/*.{kind}", recursive=True)),
        extra_compile_args=[*sanitize, "-fno-omit-frame-pointer", "-g", "-O1"] if sanitizer else ["-O3"],
        extra_link_args=sanitize,
    )
    extensions: list[Extension] = cythonize(extension, build_dir="build/cython", language_level=3)
    for built in extensions:
        built.optional = not required  # only now: cythonize() drops it
    return extensions


def build_folder() -> str:
    """A folder that lives as long as this process.

    setuptools packs whatever lies in its build folder: a kernel left there by an earlier build (sanitized, or of a
    source that no longer compiles) would be installed as if it were this build's.
    """
    folder = tempfile.mkdtemp(prefix="kdump-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


setup(
    packages=[
        *find_packages(include=["kdump", "kdump.*"]),
        *(f"kdump.{name}" for name in find_packages(include=["commands", "commands.*"])),
    ],
    package_dir={"kdump.commands": "commands"},
    py_modules=["pyspark_kdump"],
    ext_modules=native_kernels(),
    options={"build": {"build_base": build_folder()}},
)
