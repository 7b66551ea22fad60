"""What builds the wheels: the parts that need neither a compiler nor a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kdump import kernels

ROOT = Path(__file__).parent.parent
LOG = ROOT / "fixtures" / "corpus" / "s-src-none"


def test_a_wheel_is_named_after_the_library_that_it_is_compiled_for() -> None:
    """PEP 599: manylinux2014 is glibc 2.17."""
    text = (ROOT / "packaging" / "wheels.py").read_text(encoding="utf-8")
    targets = re.findall(r'Target\("(\w+)", "([\w.-]+)"', text)
    assert len(targets) == 6
    for tag, compiler in targets:
        assert tag.replace("arm64", "aarch64").endswith(compiler.split("-")[0])
        assert compiler.endswith(
            ".2.17" if tag.startswith("manylinux2014") else "-musl" if tag.startswith("musl") else ".11.0"
        )


@pytest.mark.skipif(kernels.active != "native", reason="the compiled kernel is not built")
def test_the_kernel_gives_the_same_digest_twice_and_another_for_another_log(tmp_path: Path) -> None:
    logs = sorted(LOG.rglob("*.log"))[:1]
    changed = tmp_path / "changed.log"
    changed.write_bytes(logs[0].read_bytes()[:-1])
    command: list[str | Path] = [sys.executable, ROOT / "packaging" / "exercise.py", *logs, *logs, changed]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    first, second, third = (line.split()[0] for line in shown.splitlines())
    assert first == second != third


@pytest.mark.parametrize(("name", "usage"), [("kdump", "Usage: kdump "), ("dump-log", "This tool helps to parse")])
def test_the_bundle_begins_with_the_command_that_its_program_is_called_by(
    tmp_path: Path, name: str, usage: str
) -> None:
    (tmp_path / name).symlink_to(ROOT / "packaging" / "start.py")
    run = subprocess.run([sys.executable, tmp_path / name, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert usage in run.stdout + run.stderr
