"""One unreadable partition, log, checkpoint or meta.properties ends no command for the rest of a log directory."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdump.formats import names
from kdump.storage.log_reader import LogFile
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


def unprivileged(folder: Path, *command: str, warm: Path | None = None) -> Said:
    """What a command says to a user whom the system keeps from reading; root is made one for that long.

    It runs once before in the `warm` folder, so that all modules are there, which the other user may not read either.
    """
    if os.geteuid() != 0:
        return kdump(folder, *command)
    kdump(warm or folder, *command)
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


@pytest.fixture
def own(disks: Path) -> Iterator[Path]:
    """A copy of the log directories that is the unprivileged user's own; an index of orders-1 is missing."""
    root = disks.with_name("own")
    shutil.copytree(disks, root)
    (root / "disk-1" / "orders-1" / f"{0:020d}.index").unlink()
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, -1)
    yield root
    for path in (root / "disk-1", root / "disk-1" / "orders-0"):
        path.chmod(0o755)
    shutil.rmtree(root)


def changed(own: Path, *command: str) -> Said:
    """What a command says that may change something: all modules are there after it has run on a copy."""
    warm = own.with_name("warm")
    shutil.copytree(own, warm)
    try:
        return unprivileged(own, *command, warm=warm)
    finally:
        shutil.rmtree(warm)


CHANGES = {
    "repair": ("repair", "--apply"),
    "salvage": ("repair", "--strategy", "salvage", "--only-copy", "--apply"),
    "rebuild-index": ("rebuild-index", "--apply"),
    "to another place": ("repair", "--apply", "--output", "out"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_rest_is_changed(own: Path, change: str) -> None:
    (own / "disk-1" / "orders-0").chmod(0)
    said = changed(own, *CHANGES[change], "--jobs", "1", "disk-1")
    assert said.code == 3, said.out + said.err
    assert "disk-1/orders-0: Permission denied" in said.err
    done = own / ("out" if "--output" in CHANGES[change] else "disk-1")
    assert (done / "orders-1" / f"{0:020d}.index").exists()
    assert "Done. 1 partition changed" in said.out


def test_a_file_that_cannot_be_read_is_in_no_copy(own: Path) -> None:
    """Its partition is left out whole, and the copy is complete but for that."""
    (own / "disk-1" / "orders-0" / f"{0:020d}.log").chmod(0)
    said = changed(own, "repair", "--apply", "--output", "out", "--jobs", "1", "disk-1")
    assert said.code == 3, said.out + said.err
    assert "Permission denied" in said.err
    assert not (own / "out" / "orders-0").exists()
    assert (own / "out" / "orders-1" / f"{0:020d}.index").exists()


def test_changes_of_the_rest_are_listed_and_undone(own: Path) -> None:
    said = changed(own, "repair", "--apply", "--jobs", "1", "disk-1")
    assert said.code == 0, said.err
    (own / "disk-1" / "orders-1").chmod(0)
    try:
        said = changed(own, "undo", "--format", "jsonl", "disk-1")
        assert said.code == 3
        assert [row["state"] for row in said.of_type("change")] == ["partition cannot be read"]
        (change,) = said.of_type("change")
        said = changed(own, "undo", "disk-1", "--change", change["id"], "--apply")
        assert said.code == 3
        assert "Permission denied" in said.err
    finally:
        (own / "disk-1" / "orders-1").chmod(0o755)
    assert changed(own, "undo", "disk-1", "--change", change["id"], "--apply").code == 0
    assert not (own / "disk-1" / "orders-1" / f"{0:020d}.index").exists()


OF_A_LOG_DIRECTORY = (
    ("ls",), ("verify", "--jobs", "1"), ("startup",), ("doctor", "--max-duration", "0", "--jobs", "1"), ("stats",),
    ("txns", "--all"), ("dump",), ("retain",), ("compact",), ("repair", "--jobs", "1"),
    ("rebuild-index", "--jobs", "1"), ("trim", "--jobs", "1"), ("undo",), ("export", "--to", "exported"),
)  # fmt: skip


@pytest.mark.parametrize("command", OF_A_LOG_DIRECTORY, ids=lambda command: command[0])
def test_a_log_directory_that_cannot_be_read_does_not_hold_the_others_up(own: Path, command: tuple[str, ...]) -> None:
    shutil.copytree(own / "disk-1", own / "disk-9")
    (own / "disk-1").chmod(0)
    said = changed(own, *command, "disk-1", "disk-9")
    assert said.code == 3, said.out + said.err
    assert "disk-1: Permission denied" in said.err + said.out
    assert "an error in kdump" not in said.err
    assert said.out.strip()


@pytest.mark.parametrize(
    "command",
    [
        *(each for each in OF_A_LOG_DIRECTORY[1:] if each[0] not in ("compact", "undo")),
        ("ls", "--count"), ("replicas",), ("lookup", "--timestamp", "latest"), ("verify", "--deep", "--jobs", "2"),
        ("repair", "--strategy", "salvage"), ("repair", "--strategy", "truncate"), ("stats", "--records"),
        ("retain", "--retention-ms", "-1", "--apply"), ("compact", "--config", "compact.properties"),
        ("compact", "--config", "compact.properties", "--apply"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_error_in_kdump_itself_ends_no_command(
    own: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Of one partition: it is named with what a report needs, and the others are done."""
    (own / "compact.properties").write_text("cleanup.policy=compact\n")
    blocks = LogFile.blocks

    def failing(self: LogFile, *arguments: Any, **options: Any) -> Any:
        if f"orders-0{os.sep}" in self.path:
            raise ZeroDivisionError("division by zero")
        return blocks(self, *arguments, **options)

    monkeypatch.setattr(LogFile, "blocks", failing)
    said = kdump(own, *command, "disk-1")
    assert said.code == 3, said.out + said.err
    everything = said.out + said.err
    assert "orders-0" in everything
    assert "an error in kdump itself: ZeroDivisionError: division by zero (kdump." in everything
    assert f"and the command line: kdump {' '.join(command)} disk-1" in said.err
    assert "Nothing after this was looked at" not in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", [("lookup", "--timestamp", "latest"), ("verify",), ("metadata",), ("dump",)])
def test_the_only_path_cannot_be_read(own: Path, command: tuple[str, ...]) -> None:
    (own / "disk-1").chmod(0)
    said = changed(own, *command, "disk-1")
    assert said.code == 3, said.err
    assert "disk-1: Permission denied" in said.err


def without(monkeypatch: pytest.MonkeyPatch, error: int, concerns: Callable[[str, int], bool]) -> None:
    """Let files be opened for writing no longer, of which this is said by path and flags."""
    opened = os.open

    def open_(path: str, flags: int, *more: Any, **options: Any) -> int:
        folder = options.get("dir_fd")
        where = os.fspath(path) if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and concerns(where, flags):
            raise OSError(error, os.strerror(error), path)
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", open_)


@pytest.mark.parametrize("way", [(), ("--strategy", "truncate")])
def test_a_read_only_mount_is_rescued_elsewhere(
    own: Path, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    """Also one with a lock file that a broker left."""
    lock, info = own / "disk-1" / names.LOCK, (own / "disk-1").stat()
    lock.touch()
    os.chown(lock, info.st_uid, info.st_gid)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    without(monkeypatch, errno.EROFS, lambda path, _: "disk-1/" in path)
    said = kdump(own, "repair", *way, "--apply", "--jobs", "1", "disk-1")
    assert said.code == 3
    assert "disk-1/.lock: Read-only file system. --output DIR makes a repaired copy elsewhere" in said.err
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before
    said = kdump(own, "repair", *way, "--apply", "--output", "out", "--jobs", "1", "disk-1")
    assert said.code == 0, said.err
    assert (own / "out" / "orders-1" / f"{0:020d}.index").exists()


def test_a_copy_for_which_the_disk_is_too_small_leaves_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether that is known beforehand, or shows while it is written."""
    for module in ("kdump.change.copy_out", "kdump.disk.copies"):
        monkeypatch.setattr(f"{module}.reflink", lambda source, target: False)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", full)
        said = kdump(own, "repair", "--apply", "--output", "out", "--jobs", "1", "disk-1")
    assert said.code == 3
    assert "No space left on device" in said.err
    assert sorted(path.name for path in own.iterdir()) == sorted(path.name for path in own.with_name("all").iterdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=7))
    for arguments in (("--output", "out"), ()):
        said = kdump(own, "repair", "--apply", *arguments, "--jobs", "1", "disk-1")
        assert said.code == 4, said.err
        assert "bytes of space are needed here, and 7 are free" in said.err
        assert not (own / "out").exists()
        assert not (own / "disk-1" / "orders-1" / f"{0:020d}.index").exists()
