"""Build the wheels of every common platform on this one machine, with the C compiler of the package `ziglang`.

The kernel keeps to CPython's limited API, so one wheel a platform serves CPython 3.11 and later. Each wheel's name is
checked against the symbols that it needs (auditwheel, abi3audit). The wheel for this machine is installed in a new
virtual environment, where it must load the compiled kernel. `--python TAG COMMAND` names a Python for another platform,
say one under qemu-aarch64 or one of musl's, which has what kdump depends on: what the kernel gives and what commands
print for the logs of fixtures/corpus must be the same there.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import ziglang
from elftools.elf.elffile import ELFFile

PROJECT = Path(__file__).resolve().parent.parent
CORPUS = PROJECT / "fixtures" / "corpus"
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
DUMP_LOG = "from kdump.commands.dump_log.command import main; main()"
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.so", "*.egg-info")


@dataclass(frozen=True, slots=True)
class Target:
    tag: str  # the wheel's platform
    compiler: str  # what zig calls it; the number is the oldest C library, or macOS, that will do
    link: str = ""


TARGETS = (
    Target("manylinux2014_x86_64", "x86_64-linux-gnu.2.17"),
    Target("manylinux2014_aarch64", "aarch64-linux-gnu.2.17"),
    Target("musllinux_1_2_x86_64", "x86_64-linux-musl"),
    Target("musllinux_1_2_aarch64", "aarch64-linux-musl"),
    # The interpreter has the symbols that the kernel needs, and is known when it is loaded only.
    Target("macosx_11_0_arm64", "aarch64-macos.11.0", "-undefined dynamic_lookup"),
    Target("macosx_11_0_x86_64", "x86_64-macos.11.0", "-undefined dynamic_lookup"),
)


def build(target: Target, source: Path, out: Path) -> Path:
    """The wheel for `target`. Raises CalledProcessError where it cannot be built."""
    zig = Path(ziglang.__file__).parent / "zig"
    compiler = f"{zig} cc -target {target.compiler}"
    environment = {
        **os.environ,
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared -Wl,-s {target.link}".rstrip(),
        "CFLAGS": "-DNDEBUG",
        "KDUMP_REQUIRE_NATIVE": "1",
    }
    made = out / target.tag
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made)]
    command += [f"--config-settings=--build-option=--plat-name={target.tag}", str(source)]
    subprocess.run(command, env=environment, check=True)
    (wheel,) = made.glob("*.whl")
    wheel = wheel.rename(out / wheel.name)
    made.rmdir()
    return wheel


def check_symbols(target: Target, wheel: Path) -> None:
    """Stop where the wheel needs more of a system than its name says."""
    tools = Path(sys.executable).parent
    subprocess.run([tools / "abi3audit", "--strict", wheel], check=True)
    if "manylinux" in target.tag:
        shown = subprocess.run([tools / "auditwheel", "show", wheel], check=True, capture_output=True, text=True).stdout
        if f'"{target.tag.replace("2014", "_2_17")}"' not in shown:
            raise SystemExit(f"{wheel.name} is for another platform:\n{shown}")
    # auditwheel takes this system's libc.so for musl's.
    if "musllinux" in target.tag and libraries_of(wheel) != ["libc.so"]:
        raise SystemExit(f"{wheel.name} needs {libraries_of(wheel)}")


def libraries_of(wheel: Path) -> list[str]:
    """The shared libraries that the kernel in a Linux wheel names."""
    with ZipFile(wheel) as archive:
        (kernel,) = (name for name in archive.namelist() if name.endswith(".so"))
        elf = ELFFile(BytesIO(archive.read(kernel)))
    return [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]


def try_out(wheel: Path, folder: Path) -> None:
    """Install the wheel where nothing else is, and run the command with the compiled kernel."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", wheel], check=True)
    environment = {**os.environ, "KDUMP_KERNELS": "native"}
    subprocess.run([programs / "kdump", "--version"], env=environment, check=True)
    subprocess.run([programs / "kdump", "verify", "--deep", CORPUS / "s-src-lz4"], env=environment, check=True)
    if results([programs / "python"], {}) != results_here():
        raise SystemExit(f"{wheel.name}: other results than those of the project itself")


def results(python: Sequence[str | Path], environment: dict[str, str]) -> dict[str, str]:
    """Digests of what the kernel that `python` loads gives, and the commands print, for fixtures/corpus."""
    logs = sorted(CORPUS.rglob("*.log"))
    directories = sorted(path.name for path in CORPUS.iterdir())
    commands: dict[str, list[str | Path]] = {
        "kernel": [PROJECT / "packaging" / "exercise.py", *logs],
        "dump": ["-m", "kdump", "dump", "--format", "csv", *directories],
        "verify": ["-m", "kdump", "verify", "--deep", "--format", "junit", *directories],
    }
    for directory in directories:
        files = [file for kind in DUMPED for file in sorted(CORPUS.glob(f"{directory}/*/*{kind}"))]
        names = ",".join(str(file.relative_to(CORPUS)) for file in files)
        commands[f"dump-log {directory}"] = ["-c", DUMP_LOG, "--print-data-log", "--files", names]
    asked = {**os.environ, "KDUMP_KERNELS": "native", **environment}
    return {name: sha256(output([*python, *command], asked)).hexdigest() for name, command in commands.items()}


def output(command: list[str | Path], environment: dict[str, str]) -> bytes:
    """What a command prints in fixtures/corpus, where some of it has findings. Stops where it could not do its work."""
    run = subprocess.run(command, cwd=CORPUS, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode not in (0, 1):
        raise SystemExit(f"{shlex.join(map(str, command))} ended with {run.returncode}:\n{run.stdout.decode()}")
    return run.stdout


@cache
def results_here() -> dict[str, str]:
    return results([sys.executable], {})


def compare(wheel: Path, python: str, folder: Path) -> None:
    """Stop where another platform's Python gives other results with that platform's wheel."""
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    interpreter, environment = shlex.split(python), {"PYTHONPATH": str(folder)}
    print(output([*interpreter, "-m", "kdump", "--version"], {**os.environ, **environment}).decode(), end="")
    there, here = results(interpreter, environment), results_here()
    if other := [name for name in here if there[name] != here[name]]:
        raise SystemExit(f"{wheel.name} gives other results than here: {', '.join(other)}")
    print(f"{wheel.name}: {len(here)} results as here")


def runs_here(target: Target) -> bool:
    return target.tag == f"manylinux2014_{platform.machine()}" and sys.platform == "linux"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PROJECT / "dist")
    help_python = "tries the wheel of this platform with this Python"
    parser.add_argument("--python", nargs=2, action="append", default=[], metavar=("TAG", "COMMAND"), help=help_python)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="only these platforms")
    asked = parser.parse_args()
    pythons = dict(asked.python)
    if unknown := pythons.keys() - {target.tag for target in TARGETS}:
        parser.error(f"--python: no platform is called {', '.join(sorted(unknown))}")
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        shutil.copytree(PROJECT, source, ignore=LEFT_OUT)
        for target in TARGETS:
            if asked.tags and target.tag not in asked.tags:
                continue
            wheel = build(target, source, asked.out)
            check_symbols(target, wheel)
            if runs_here(target):
                try_out(wheel, Path(scratch, target.tag))
            elif target.tag in pythons:
                compare(wheel, pythons[target.tag], Path(scratch, target.tag))
            print(f"{wheel.name}: {wheel.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
