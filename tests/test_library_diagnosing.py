"""The functions of `import kdump` that say what is wrong, what it means and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.errors import NameFormatError, ProblemError
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
    assert kdump.doctor(log.directory, now=NOW, errors="skip").unread


def test_a_disk_that_is_not_there(log: Log, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(FileNotFoundError):
        kdump.doctor(log.directory, gone)
    with pytest.raises(NameFormatError):
        kdump.doctor(tmp_path / "data" / "orders-0" / file(0, "log"))
    with pytest.raises(ValueError, match="no path"):
        kdump.doctor()
    with pytest.raises(ValueError, match="one result"):
        kdump.doctor(log.directory, errors="yield")
    health = kdump.doctor(log.directory, gone, now=NOW, config={"log.dirs": f"{log.directory},{gone}"})
    assert str(gone) in health.offline or health.stops
    assert health.needs_somebody()
