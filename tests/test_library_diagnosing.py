"""The functions of `import kdump` that say what is wrong, what it means and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import kdump
from kdump.errors import KdumpError, NameFormatError, ProblemError
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explained import Explained, Recognized
from kdump.findings.kafka_messages import MAX_LINE
from kdump.findings.kind import Severity
from kdump.formats import names
from tests.test_library_operations import content
from tests.verify.building import NOW, Log, build, file, flip


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return build(tmp_path / "data")


def test_a_sound_directory_needs_nobody(log: Log) -> None:
    before = content(log.directory)
    health = kdump.doctor(log.directory, log.directory, now=NOW)
    assert (health.starts, health.needs_somebody(), health.partitions, health.is_complete) == (True, False, 1, True)
    assert content(log.directory) == before


def test_damage_needs_somebody(log: Log) -> None:
    log.edit(file(0, "log"), flip(70))
    health = kdump.doctor(log.directory, now=NOW)
    assert health.starts
    assert health.needs_somebody(Severity.ERROR)
    assert health.diagnoses[0].severity is Severity.ERROR
    assert "KD-LOG-CRC" in health.diagnoses[0].codes


def test_a_partition_of_its_own(log: Log) -> None:
    assert kdump.doctor(log.partition, now=NOW).partitions == 1


def test_what_could_not_be_read(log: Log) -> None:
    path = log.directory / names.LOG_START_CHECKPOINT
    path.unlink(missing_ok=True)
    path.symlink_to(path)
    with pytest.raises(ProblemError) as raised:
        kdump.doctor(log.directory, now=NOW)
    assert raised.value.problem.path == str(path)
    health = kdump.doctor(log.directory, now=NOW, errors="skip")
    assert health.unread
    assert not health.is_complete


def test_a_disk_that_is_not_there(log: Log, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(FileNotFoundError):
        kdump.doctor(log.directory, gone)
    with pytest.raises(NameFormatError):
        kdump.doctor(tmp_path / "data" / "orders-0" / file(0, "log"))
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        kdump.doctor()
    with pytest.raises(ValueError, match="one result"):
        kdump.doctor(log.directory, errors="yield")
    health = kdump.doctor(log.directory, gone, now=NOW, config={"log.dirs": f"{log.directory},{gone}"})
    assert str(gone) in health.offline or health.stops
    assert health.needs_somebody()


LINE = "Found invalid messages in log segment /data/orders-17/00000000000000000235.log at byte offset 839."


def test_codes_are_explained() -> None:
    (found,) = kdump.explain("kd-log-crc")
    assert isinstance(found, Explained)
    assert (found.kind.code, found.explanation.title) == ("KD-LOG-CRC", "damaged batch")
    assert found.kafka_says
    assert len(kdump.explain("KD-IDX-* KD-LOG-CRC")) > 2
    assert len(kdump.explain()) == len(CATALOGUE)
    with pytest.raises(KdumpError, match="Did you mean 'KD-LOG-CRC'"):
        kdump.explain("KD-LOG-CRCC")


@pytest.mark.parametrize("line", [LINE, LINE.replace(" at byte", " \\\n  at byte")])
def test_lines_are_explained(line: str) -> None:
    (found,) = kdump.explain(line)
    assert isinstance(found, Recognized)
    assert (found.place, found.message.codes[0]) == ("/data/orders-17", "KD-LOG-CRC")
    assert kdump.explain("nothing of Kafka's") == []


def test_a_server_log_is_explained() -> None:
    (entry,) = kdump.explain_log(["started\n", f"[2026-01-01 00:00:00,000] ERROR {LINE}\n", f"{LINE}\n"])
    assert (entry.line, entry.count, entry.time, entry.place) == (2, 2, "2026-01-01 00:00:00", "/data/orders-17")


def test_a_log_s_lines_may_be_of_any_length() -> None:
    class Opened:
        """A file of which it is known how much of it was held at once."""

        largest = 0

        def __init__(self, text: str) -> None:
            self._text = StringIO(text)

        def __iter__(self) -> Iterator[str]:
            raise AssertionError

        def readline(self, size: int) -> str:
            piece = self._text.readline(size)
            self.largest = max(self.largest, len(piece))
            return piece

    log = Opened(f"{'x' * 100_000}\n{LINE}\n{LINE}{'x' * 100_000}{LINE}\n")
    (entry,) = kdump.explain_log(log)
    assert (entry.line, entry.count) == (2, 2)
    assert log.largest == MAX_LINE
