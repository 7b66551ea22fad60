"""One unreadable partition, log, checkpoint or meta.properties ends no command for the rest of a log directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.formats import names
from tests.agreement.directories import EVERYTHING, build
from tests.agreement.running import Said, kdump

COMMANDS = {
    "repair": ("repair", "--jobs", "1"), "salvage": ("repair", "--strategy", "salvage", "--jobs", "1"),
    "truncate": ("repair", "--strategy", "truncate", "--jobs", "1"), "rebuild-index": ("rebuild-index", "--jobs", "1"),
    "trim": ("trim", "--jobs", "1"), "retain": ("retain",), "startup": ("startup",), "verify": ("verify",),
}  # fmt: skip
WITHOUT = {
    "partition": ("orders-0", COMMANDS),
    "log": (f"orders-0/{0:020d}.log", ["repair", "salvage", "truncate", "rebuild-index", "trim", "verify"]),
    "checkpoint": (
        names.RECOVERY_POINT_CHECKPOINT,
        ["repair", "salvage", "truncate", "rebuild-index", "trim", "retain", "startup", "verify"],
    ),
    "meta.properties": (names.META_PROPERTIES, ["repair", "salvage", "startup", "verify"]),
}
"""What may not be read, and which commands have to read it."""
NOBODY = 65534


@pytest.fixture(scope="module")
def disks() -> Iterator[Path]:
    """Log directories that an unprivileged user may look into: what is of pytest's own only root may."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    build(EVERYTHING, root / "all")
    shutil.rmtree(root / "all" / "disk-1" / "__consumer_offsets-7")
    yield root / "all"
    shutil.rmtree(root)


def unprivileged(folder: Path, *command: str) -> Said:
    """What a command says to a user whom the system keeps from reading; root is made one for that long."""
    if os.geteuid() != 0:
        return kdump(folder, *command)
    kdump(folder, *command)  # so that all modules are there, which the other user may not read either
    os.seteuid(NOBODY)
    try:
        return kdump(folder, *command)
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("what", "command"), [(what, command) for what, (_, commands) in WITHOUT.items() for command in commands]
)
def test_the_rest_is_done(disks: Path, what: str, command: str) -> None:
    path = disks / "disk-1" / WITHOUT[what][0]
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        name, *options = COMMANDS[command]
        said = unprivileged(disks, name, "--format", "jsonl", *options, "disk-1")
    finally:
        path.chmod(mode)
    assert said.code == 3, said.err
    assert f"disk-1/{WITHOUT[what][0]}" in said.err + said.out
    assert "ermission denied" in said.err + said.out
    assert "Traceback" not in said.err
    if command != "verify":
        assert "disk-1/orders-1" in [row.get("path") for row in said.rows]
    else:
        assert said.rows[-1]["partitions"] >= 3
