"""Make dist/kdump-VERSION-PLATFORM.tar.gz: one folder with kdump, its libraries and a Python, for hosts that have none.

The folder runs wherever the C library is at least as new as the one here, so make it on the oldest system that it is
for. It has the libraries that decode payloads, but not pyarrow: `kdump export` and Spark do not run from it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "fixtures" / "corpus"


def collect(scratch: Path) -> Path:
    """The folder that PyInstaller makes below `scratch`, with both commands."""
    command: list[str | Path] = [sys.executable, "-m", "PyInstaller", "--log-level", "WARN"]
    command += ["--distpath", scratch / "dist", "--workpath", scratch / "build", HERE / "kdump.spec"]
    subprocess.run(command, check=True, cwd=scratch)
    folder = scratch / "dist" / "kdump"
    (folder / "dump-log").symlink_to("kdump")
    return folder


def answers(kdump: str | Path, dump_log: str | Path) -> list[bytes]:
    """What the two commands print of the logs of fixtures/corpus, with the compiled kernel."""
    environment = {"PATH": os.defpath, "KDUMP_KERNELS": "native", "COLUMNS": "80"}
    logs, log_dirs = sorted(CORPUS.rglob("*.log")), sorted(path for path in CORPUS.iterdir() if path.is_dir())
    commands: list[list[str | Path]] = [
        [kdump, "--version"],
        [kdump, "verify", "--deep", *log_dirs],
        [kdump, "startup", *log_dirs],
        [kdump, "dump", *logs],
        [dump_log, "--print-data-log", "--files", ",".join(map(str, logs))],
    ]
    return [_printed(command, environment) for command in commands]


def _printed(command: list[str | Path], environment: dict[str, str]) -> bytes:
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not run.stdout:
        raise SystemExit(f"{command[0]} {command[1]} prints nothing")
    return re.sub(rb" in [\d.]+ s\.", b"", run.stdout)  # how long verify took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent / "dist")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    installed = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as scratch:
        folder = collect(Path(scratch))
        if answers(folder / "kdump", folder / "dump-log") != answers(installed / "kdump", installed / "dump-log"):
            raise SystemExit("the bundle says other things than the commands that it was made from")
        name = f"kdump-{version('kafka-kdump')}-{platform.system().lower()}-{platform.machine()}"
        bundle = asked.out / f"{name}.tar.gz"
        with tarfile.open(bundle, "w:gz") as archive:
            archive.add(folder, arcname=name)
    print(f"{bundle.name}: {bundle.stat().st_size} bytes, for {' '.join(platform.libc_ver())} and later")


if __name__ == "__main__":
    main()
