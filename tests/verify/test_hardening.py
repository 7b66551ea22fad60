"""Whatever lies in a log directory, and whatever happens to it meanwhile: a finding, and the rest is checked."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.check import Finding
from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.disk import reading as files
from kdump.errors import NameFormatError
from kdump.formats.batch import CRC_START, HEADER_SIZE
from kdump.formats.checksums import crc32c
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.library.verifying import verify
from tests.verify.building import NOW, TOPIC_DIR, Log, batch, build, file, found, produced

OTHER = "payments-1"
ALL_FILES = [
    *(f"{TOPIC_DIR}/{file(base, kind)}" for base in (0, 6) for kind in ("log", "index", "timeindex")),
    *(f"{TOPIC_DIR}/{name}" for name in (file(0, "txnindex"), file(6, "snapshot"))),
    *(f"{TOPIC_DIR}/{name}" for name in ("leader-epoch-checkpoint", "partition.metadata", "quorum-state")),
    *("meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"),
    *("replication-offset-checkpoint", "log-start-offset-checkpoint"),
    f"{TOPIC_DIR}/00000000000000000006-0000000001.checkpoint",
]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A partition and, behind it, a second one whose first batch has a wrong CRC."""
    other = build(tmp_path / "data", name=OTHER)
    other.edit(file(0, "log"), lambda data: data[:70] + b"?" + data[71:])
    return build(tmp_path / "data")


def read_findings(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(Path(each.path).name, each.message) for each in findings if each.code == "KD-READ"]


def rest_is_checked(findings: list[Finding]) -> bool:
    return any(each.code == "KD-LOG-CRC" and OTHER in each.path for each in findings)


def refuse(patch: pytest.MonkeyPatch, path: Path, error: int = errno.EACCES) -> None:
    """Let nobody open a file or list a directory, as its permissions would for anyone but root."""

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(target, str) and os.path.abspath(target) == str(path):
                raise OSError(error, os.strerror(error), target)
            return real(target, *rest, **options)

        return call

    patch.setattr(os, "open", guarded(os.open))
    patch.setattr(os, "scandir", guarded(os.scandir))


@pytest.mark.parametrize("name", ALL_FILES)
def test_a_file_that_may_not_be_read(name: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log.directory / name
    if not path.exists():
        path.write_bytes(b"")
    refuse(monkeypatch, path)
    findings = found(log.directory)
    assert read_findings(findings) == [(path.name, "Permission denied")]
    assert rest_is_checked(findings)
    assert not any(each.code.startswith("KD-CKPT") for each in findings if TOPIC_DIR in each.message)


def test_a_partition_that_may_not_be_listed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, log.partition)
    findings = found(log.directory)
    assert read_findings(findings) == [(TOPIC_DIR, "Permission denied")]
    assert rest_is_checked(findings)


def test_a_directory_that_may_not_be_listed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, log.directory)
    with pytest.raises(PermissionError):
        list(verify(log.directory))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_device_that_fails_in_the_middle(jobs: int, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = str(log.path(6, "log"))
    real = files.ReadOnlyFile.read_into

    def read_into(self: files.ReadOnlyFile, view: memoryview, position: int) -> int:
        if self.path == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, view, position)

    monkeypatch.setattr(files.ReadOnlyFile, "read_into", read_into)
    findings = found(log.directory, jobs=jobs)
    assert read_findings(findings) == [(file(6, "log"), "Input/output error")]
    assert rest_is_checked(findings)


def run_while(log: Log, what: Callable[[], object], when: Callable[[Finding], bool]) -> list[Finding]:
    """Verify, and do something as soon as there is such a finding."""
    findings = []
    is_done = False
    for each in verify(log.directory, now=NOW, deep=True):
        findings.append(each)
        if when(each) and not is_done:
            what()
            is_done = True
    return findings


@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_a_file_that_vanishes_during_the_run(kind: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention removes the second segment while the first one is read."""
    path = log.path(6, kind)
    findings = run_while(log, path.unlink, lambda each: each.path == str(log.path(0, "log")))
    if kind == "log":
        assert read_findings(findings) == [(path.name, "vanished while it was being checked")]
    else:
        assert f"KD-{'IDX' if kind == 'index' else 'TIDX'}-MISSING" in {each.code for each in findings}
    assert rest_is_checked(findings)


def test_a_partition_that_vanishes_during_the_run(log: Log) -> None:
    gone = log.directory / OTHER
    findings = run_while(log, lambda: gone.rename(log.directory.parent / "gone"), lambda each: TOPIC_DIR in each.path)
    assert (OTHER, "vanished while it was being checked") in read_findings(findings)


def test_an_index_that_shrinks_while_it_is_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.ReadOnlyFile.read

    def read(self: files.ReadOnlyFile, position: int, size: int) -> bytes:
        return b"" if self.path == str(log.path(0, "index")) else real(self, position, size)

    monkeypatch.setattr(files.ReadOnlyFile, "read", read)
    findings = found(log.directory)
    ((name, text),) = read_findings(findings)
    assert (name, text) == (file(0, "index"), f"{log.path(0, 'index')} became shorter while it was read")
    assert rest_is_checked(findings)


def test_links(log: Log) -> None:
    (log.partition / "loop").symlink_to("loop")
    (log.partition / "dangling").symlink_to("nowhere")
    (log.directory / "up-0").symlink_to(log.directory)
    (log.directory / "again-0").symlink_to(log.partition)
    findings = found(log.directory)
    assert {name for name, _ in read_findings(findings)} == {"loop", "dangling"}
    assert rest_is_checked(findings)
    assert any(each.code == "KD-TIME-HELD" and "again-0" in each.path for each in findings)


@pytest.mark.parametrize("is_linked", [False, True])
def test_what_is_neither_file_nor_directory(log: Log, is_linked: bool) -> None:
    """A pipe under a log's name: nobody waits at it, and nobody calls the log sound."""
    path = log.partition / file(99, "log")
    os.mkfifo(log.directory.parent / "pipe" if is_linked else path)
    if is_linked:
        path.symlink_to(log.directory.parent / "pipe")
    findings = found(log.directory)
    assert read_findings(findings) == [(path.name, "neither a file nor a directory")]
    assert rest_is_checked(findings)
    with pytest.raises(NameFormatError, match="neither a file nor a directory"):
        found(path)


def test_a_directory_that_is_not_kafka_s(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of Kafka's")
    with pytest.raises(NameFormatError, match="neither a partition directory"):
        list(verify(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(verify(tmp_path / "none"))
    with pytest.raises(NameFormatError, match="not the name of a file that Kafka writes"):
        list(verify(tmp_path / "notes.txt"))


@pytest.mark.parametrize("name", ALL_FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(content=st.binary(max_size=300))
def test_any_content_of_any_file(name: str, tmp_path: Path, content: bytes) -> None:
    log = build(tmp_path / "data", {0: [produced(0, 7, 0)], 6: [batch(6)]})
    (log.directory / name).write_bytes(content)
    for deep in (False, True):
        for each in found(log.directory, deep=deep):
            assert each.severity in ("error", "warning", "note")
            assert each.position is None or each.position >= 0


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_sizes_and_counts_that_nothing_can_have(tmp_path: Path, magic: int) -> None:
    """No length is believed, and nothing is set aside for it."""
    for at in (8, 18, 26, 57):
        for number in (-1, 0, 13, 1 << 30, (1 << 31) - 1, -(1 << 31)):
            data = bytearray(batch(0))
            data[16] = magic
            data[at : at + 4] = number.to_bytes(4, "big", signed=True)
            log = build(tmp_path / f"{at}-{number}", {0: [batch(0)]})
            log.path(0, "log").write_bytes(data)
            assert any(each.severity == "error" for each in found(log.directory))


def test_a_verification_that_nobody_finishes(log: Log) -> None:
    """Threads end, files are closed."""
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    findings = Verification(Options(jobs=2, now=NOW)).run([str(log.directory)])
    next(findings)
    del findings
    if before is not None:
        assert set(os.listdir("/proc/self/fd")) == before


def test_attributes_of_a_record_are_none_that_kafka_knows(tmp_path: Path) -> None:
    """Kafka's DefaultRecord reads the byte and nothing asks for it; deep verification says so."""
    data = bytearray(encode_batch([NewRecord(n, NOW, b"k", b"v") for n in range(3)], NewBatch(leader_epoch=0)))
    data[HEADER_SIZE + 9 + 1] = 0x7F  # behind the length of the second record; the first one has 9 bytes
    data[CRC_START - 4 : CRC_START] = crc32c(bytes(data[CRC_START:])).to_bytes(4, "big")
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(data)
    found = [each for each in verify(str(tmp_path / "t-0"), now=NOW, deep=True) if each.code == "KD-BATCH-BITS"]
    assert [each.offset for each in found] == [1]
    assert "attributes other than 0" in found[0].message
