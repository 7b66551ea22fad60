"""Copies that are repaired in place of the source, which stays as it is."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections import namedtuple
from pathlib import Path
from typing import BinaryIO

import pytest

from kdump.change import copy_out
from kdump.change.copy_out import PART_SUFFIX, CopyError, complete, copy_log_directory
from kdump.disk import copies
from kdump.errors import RefusedError
from kdump.formats import names
from tests.repair.damaged import build, name

PARTITION = "orders-0"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    log_dir = tmp_path / "logs"
    build(log_dir)
    (log_dir / names.META_PROPERTIES).write_text("version=1\n")
    (log_dir / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    (log_dir / names.LOCK).write_text("")
    (log_dir / ".kdump-20260101T000000+orders-0+journal").write_text("{}")
    return log_dir


def tree(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, modification time and mode of all files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            info = path.stat()
            found[str(path.relative_to(folder))] = (path.read_bytes(), info.st_mtime_ns, info.st_mode)
    return found


def copied(source: Path) -> Path:
    target = source.parent / "copy"
    part = copy_log_directory(str(source), [PARTITION], str(target))
    assert part == f"{target}{PART_SUFFIX}"
    assert not target.exists()
    complete(part, str(target))
    return target


def shared(source: Path, copy: Path) -> set[str]:
    """The files of the partition that are one and the same in both places."""
    return {
        path.name
        for path in (copy / PARTITION).iterdir()
        if path.stat().st_ino == (source / PARTITION / path.name).stat().st_ino
    }


def test_everything_but_the_lock_and_the_marker_of_a_clean_shutdown(source: Path) -> None:
    before = tree(source)
    copy = copied(source)
    assert tree(source) == before
    left_out = (names.LOCK, names.CLEAN_SHUTDOWN, ".kdump-20260101T000000+orders-0+journal")
    assert tree(copy) == {path: each for path, each in before.items() if path not in left_out}
    assert (copy / PARTITION).stat().st_mtime_ns == (source / PARTITION).stat().st_mtime_ns
    assert not list(copy.glob(".kdump-*"))


def test_no_file_of_the_copy_is_one_of_the_source(source: Path) -> None:
    assert shared(source, copied(source)) == set()


def test_what_is_changed_in_the_copy_stays_as_it_was_in_the_source(source: Path) -> None:
    before = tree(source)
    copy = copied(source)
    for path in (copy / PARTITION).iterdir():
        with open(path, "r+b") as file:
            file.truncate(1)
    assert tree(source) == before


def test_where_the_file_system_can_share_bytes_it_does(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = 0x40049409
    cloned = []

    def ioctl(target: int, request: int, origin: int) -> int:
        assert request == clone
        data = os.pread(origin, 1 << 20, 0)
        cloned.append(os.write(target, data))
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 0))  # none is needed then
    before = tree(source)
    copy = copied(source)
    assert len(cloned) > len(tree(copy))  # the first one was a trial
    assert shared(source, copy) == set()
    assert tree(source) == before
    assert (copy / PARTITION / name(40, "log")).stat().st_mtime_ns == before[f"{PARTITION}/{name(40, 'log')}"][1]


def test_not_enough_space(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 100))
    with pytest.raises(RefusedError, match="bytes of space are needed here, and 100 are free"):
        copied(source)
    assert sorted(path.name for path in source.parent.iterdir()) == ["logs"]


@pytest.mark.parametrize("kind", ["file", "full"])
def test_a_target_that_is_there_is_not_overwritten(source: Path, kind: str) -> None:
    target = source.parent / "copy"
    if kind == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    with pytest.raises(CopyError, match="exists already"):
        copied(source)
    assert (target if kind == "file" else target / "mine").read_text() == "mine"


def test_an_empty_directory_may_be_the_target(source: Path) -> None:
    target = source.parent / "copy"
    target.mkdir()
    complete(copy_log_directory(str(source), [PARTITION], str(target)), str(target))
    assert (target / PARTITION).is_dir()


def test_what_an_interrupted_copy_left_goes(source: Path) -> None:
    part = source.parent / f"copy{PART_SUFFIX}"
    (part / PARTITION).mkdir(parents=True)
    (part / PARTITION / "junk").write_text("half")
    copy = copied(source)
    assert not part.exists()
    assert not (copy / PARTITION / "junk").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_copy_of_what_nobody_may_write_can_be_changed(source: Path) -> None:
    """As of a directory that somebody protected: an unprivileged user rescues what is in it."""
    for path in (source / PARTITION).iterdir():
        path.chmod(0o440 if path.is_file() else 0o550)
    (source / PARTITION).chmod(0o550)
    copy = copied(source) / PARTITION
    assert stat.S_IMODE(copy.stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in copy.iterdir()} == {0o640}


def test_owners_are_kept(source: Path) -> None:
    for path in (source / PARTITION, source / PARTITION / name(0, "index"), source / names.META_PROPERTIES):
        os.chown(path, 1234, 2345)
    copy = copied(source)
    for each in (PARTITION, f"{PARTITION}/{name(0, 'index')}", names.META_PROPERTIES):
        info = (copy / each).stat()
        assert (info.st_uid, info.st_gid) == (1234, 2345)


class TestSourcesThatCannotBeRead:
    @pytest.fixture
    def failing(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
        """How reading a file of this name fails, once somebody has said so."""
        codes: dict[str, int] = {}
        real = copies.copy_file

        def copy(source: str, target: str) -> None:
            if code := codes.get(os.path.basename(source)):
                raise OSError(code, os.strerror(code), source)
            real(source, target)

        monkeypatch.setattr(copy_out, "copy_file", copy)
        return codes

    def copied(self, source: Path) -> tuple[Path, list[str]]:
        told: list[str] = []
        target = source.parent / "copy"
        part = copy_log_directory(str(source), [PARTITION], str(target), lambda path, _: told.append(path))
        complete(part, str(target))
        return target, told

    def test_a_directory_is_copied_whole_or_left_out(self, source: Path, failing: dict[str, int]) -> None:
        failing[name(0, "log")] = errno.EIO
        copy, told = self.copied(source)
        assert told == [str(source / PARTITION)]
        assert not (copy / PARTITION).exists()
        assert (copy / names.META_PROPERTIES).exists()

    def test_a_file_beside_the_partitions_that_went_meanwhile(self, source: Path, failing: dict[str, int]) -> None:
        failing[names.META_PROPERTIES] = errno.ENOENT
        copy, told = self.copied(source)
        assert told == [str(source / names.META_PROPERTIES)]
        assert tree(copy / PARTITION) == tree(source / PARTITION)

    def test_a_full_disk_is_no_fault_of_the_source(self, source: Path, failing: dict[str, int]) -> None:
        failing[name(0, "log")] = errno.ENOSPC
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            self.copied(source)
        assert not (source.parent / f"copy{PART_SUFFIX}").exists()

    def test_without_somebody_to_tell_it_is_an_error(self, source: Path, failing: dict[str, int]) -> None:
        failing[name(0, "log")] = errno.EACCES
        with pytest.raises(PermissionError):
            copied(source)
        assert not (source.parent / f"copy{PART_SUFFIX}").exists()


class TestNamesThatLeadElsewhere:
    def test_what_the_owner_may_not_read_is_not_copied(self, source: Path) -> None:
        """Whoever runs this may: but the owner could have put the link there."""
        secret = source.parent / "secret"
        secret.write_text("of somebody else")
        secret.chmod(0o600 if os.geteuid() == 0 else 0)
        (source / PARTITION / "notes.txt").symlink_to(secret)
        (source / "other.txt").symlink_to(secret)
        if os.geteuid() == 0:
            source.parent.chmod(0o755)
            for path in (source, *source.rglob("*")):
                os.chown(path, 4321, 4321, follow_symlinks=False)
        told: list[str] = []
        part = Path(copy_log_directory(str(source), [PARTITION], f"{source}-copy", lambda path, _: told.append(path)))
        assert told == [str(source / "other.txt"), str(source / PARTITION)]
        assert {path.name for path in part.iterdir()} == {names.META_PROPERTIES}

    def test_rights_are_those_of_the_file_that_was_read(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And not of what has its name by the time when they are given."""
        path = source / PARTITION / name(0, "log")
        path.chmod(0o600)
        real = copies.reflink

        def swapped(old: BinaryIO, target: str) -> bool:
            if target.endswith(path.name) and path.stat().st_mode & 0o777 == 0o600:
                path.rename(source.parent / "moved")
                path.write_bytes(b"")
                path.chmod(0o666)
            return real(old, target)

        monkeypatch.setattr(copies, "reflink", swapped)
        copy = copied(source) / PARTITION / path.name
        assert copy.read_bytes() == (source.parent / "moved").read_bytes() != b""
        assert copy.stat().st_mode & 0o777 == 0o600
