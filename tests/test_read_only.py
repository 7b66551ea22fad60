"""Reading changes nothing on disk: whatever the commands are pointed at is afterwards what it was before."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sampling import sampled

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "corpus"
INDEXES = (".index", ".timeindex")


class Entry(NamedTuple):
    """What a file or directory is; a reader that writes, touches or replaces it changes one of these."""

    mode: int
    inode: int
    links: int
    size: int
    blocks: int
    mtime_ns: int
    ctime_ns: int
    content: str


def listing(folder: Path) -> dict[str, Entry]:
    """Every file and directory below and including `folder`."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.stat()
        content = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = Entry(
            status.st_mode,
            status.st_ino,
            status.st_nlink,
            status.st_size,
            status.st_blocks,
            status.st_mtime_ns,
            status.st_ctime_ns,
            content,
        )
    return found


def called(main: Callable[[], object], *arguments: str) -> object:
    """The exit code of a command's entry point in this process; its output is thrown away."""
    saved = sys.argv, sys.stdout, sys.stderr
    sys.argv = list(arguments)
    with open(os.devnull, "wb") as out, open(os.devnull, "wb") as err:
        sys.stdout, sys.stderr = io.TextIOWrapper(out), io.TextIOWrapper(err)
        try:
            return main()
        except SystemExit as done:
            return done.code
        finally:
            sys.stdout, sys.stderr = saved[1:]
            sys.argv = saved[0]


def read_in_all_ways(folder: Path) -> None:
    """Run every command that reads over a log directory; none of them may fail to."""
    from kdump.commands.cli import main as kdump
    from kdump.commands.dump_log.command import main as dump_log

    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        assert called(dump_log, "dump-log", "--files", str(path), "--print-data-log") in (0, 1)
        if path.suffix in INDEXES:
            for option in ("--verify-index-only", "--index-sanity-check"):
                assert called(dump_log, "dump-log", "--files", str(path), option) in (0, 1)
    assert called(kdump, "kdump", "ls", str(folder), "--segments", "--count") == 0
    for partition in sorted(path for path in folder.iterdir() if path.is_dir()):
        assert called(kdump, "kdump", "ls", str(partition)) == 0
        assert called(kdump, "kdump", "lookup", str(partition), "--offset", "150") in (0, 1, 3)
        assert called(kdump, "kdump", "lookup", str(partition), "--timestamp", "1700000001000") in (0, 1, 3)
        for how in ("--clean", "--unclean"):
            assert called(kdump, "kdump", "startup", str(partition), how, "--recovery-point", "0") in (0, 1)
        if any(partition.glob("*.log")):
            assert called(kdump, "kdump", "dump", str(partition), "--offsets", "100:200") in (0, 1)
    whole = ("--include", "all", "--format", "jsonl")
    assert called(kdump, "kdump", "dump", str(folder), *whole) in (0, 1, 3)
    looks = ("groups", "txns", "metadata", "schemas", "stats", "verify", "doctor", "replicas", "quorum")
    for command in (*looks, "retain", "compact", "repair", "rebuild-index", "trim", "undo"):
        assert called(kdump, "kdump", command, str(folder)) in (0, 1, 3)


def unchanged_by_reading(case: Path, scratch: Path) -> list[str]:
    """What reading a copy of the case changed: names of files that are other, gone or new."""
    copy = scratch / case.name
    shutil.copytree(case, copy)
    before = listing(copy)
    read_in_all_ways(copy)
    after = listing(copy)
    shutil.rmtree(copy)
    return [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


@pytest.mark.parametrize("case", sampled(sorted(path.name for path in FIXTURES.iterdir()), 6))
def test_reading_a_fixture_changes_nothing(case: str, tmp_path: Path) -> None:
    assert unchanged_by_reading(FIXTURES / case, tmp_path) == []


def small_cases(corpus: Path) -> Iterator[Path]:
    """The corpus without the one case whose preallocated indexes give 40 MB of text for each way to read them."""
    for case in sorted((corpus / "corpus").iterdir()):
        if sum(path.stat().st_size for path in case.rglob("*")) < 10 << 20:
            yield case


@pytest.mark.slow
def test_reading_the_corpus_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    changed = {case.name: found for case in small_cases(corpus) if (found := unchanged_by_reading(case, tmp_path))}
    assert changed == {}


def test_a_missing_index_is_not_made(tmp_path: Path) -> None:
    """Kafka's own tool makes one while it dumps a time index."""
    folder = tmp_path / "case"
    shutil.copytree(FIXTURES / "s-src-gzip", folder)
    for path in folder.rglob("*.index"):
        path.unlink()
    before = listing(folder)
    read_in_all_ways(folder)
    assert listing(folder) == before


def test_a_directory_without_write_permission_can_be_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from kdump.commands.cli import main

    folder = tmp_path / "case"
    shutil.copytree(FIXTURES / "s-src-gzip", folder)
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        sys_argv, sys.argv = sys.argv, ["kdump", "ls", str(folder)]
        with pytest.raises(SystemExit) as done:
            main()
    finally:
        sys.argv = sys_argv
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
    assert done.value.code == 0
    assert "topic-0" in capfd.readouterr().out


def test_a_change_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "s-src-gzip"
    shutil.copytree(FIXTURES / "s-src-gzip", copy)
    before = listing(copy)
    assert listing(copy) == before
    path = copy / "topic-0" / "00000000000000000000.index"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert listing(copy) != before
    before = listing(copy)
    (copy / "topic-0" / "new.index").write_bytes(b"")
    assert listing(copy) != before
