"""`kdump.verify`: the findings of log directories, one by one."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.check import CATALOGUE, Finding
from kdump.library.verifying import verify
from tests.agreement.running import kdump as printed
from tests.verify.building import NOW, Log, build, file, flip


@pytest.fixture
def log(tmp_path: Path) -> Log:
    built = build(tmp_path / "data")
    built.edit(file(0, "log"), flip(70))
    return built


def test_the_findings_are_those_of_the_checks(log: Log) -> None:
    findings = list(kdump.verify(log.directory, now=NOW))
    assert findings == list(verify(str(log.directory), now=NOW))
    assert [finding.code for finding in findings[:2]] == ["KD-LOG-CRC", "KD-LOG-BEYOND"]
    first = findings[0]
    assert isinstance(first, Finding)
    assert first.meaning == CATALOGUE["KD-LOG-CRC"].meaning
    assert list(inspect.signature(kdump.verify).parameters) == list(inspect.signature(verify).parameters)


def test_a_run_that_is_left_closes_its_files(log: Log) -> None:
    findings = verify(str(log.directory), now=NOW)
    next(findings)
    findings.close()
    descriptors = Path("/proc/self/fd")
    opened = [os.readlink(each) for each in descriptors.iterdir() if each.is_symlink()]
    assert [path for path in opened if path.startswith(str(log.directory))] == []


def test_findings_come_as_they_are_found(log: Log) -> None:
    """The second segment is not read before it is asked for."""
    findings = kdump.verify(log.directory, now=NOW)
    assert next(findings).path == str(log.path(0, "log"))
    log.path(6, "log").write_bytes(b"")
    assert not any(finding.code == "KD-TIME-HELD" and file(6, "log") in finding.path for finding in findings)


def test_totals_are_those_that_the_command_prints(log: Log) -> None:
    found = kdump.verify(log.directory, now=NOW)
    list(found)
    command = printed(log.directory, "verify", log.directory, "--now", NOW, "--format", "jsonl")
    (told,) = command.of_type("summary")
    totals = found.totals
    assert (totals.is_sound, totals.is_complete) == (told["isSound"], told["isComplete"]) == (False, True)
    for count, name in ((totals.counts["error"], "errors"), (totals.partitions, "partitions"), (totals.bytes, "bytes")):
        assert count == told[name] > 0


def test_a_run_that_was_ended_goes_on_from_its_place(log: Log, tmp_path: Path) -> None:
    everything = [finding.code for finding in kdump.verify(log.directory, now=NOW)]
    place, state = tmp_path / "place", tmp_path / "state"
    ended = kdump.verify(log.directory, now=NOW, resume=place, state=state)
    assert next(ended).code == everything[0]
    ended.close()
    assert ended.totals.was_interrupted
    assert not ended.totals.is_complete
    assert place.exists()
    went_on = kdump.verify(log.directory, now=NOW, resume=place, state=state)
    assert everything[0] in [finding.code for finding in went_on]
    assert went_on.totals.is_complete
    assert went_on.totals.before.runs == 1
    assert not place.exists()
    assert state.exists()


def test_a_run_whose_time_is_up_says_so(log: Log) -> None:
    found = kdump.verify(log.directory, now=NOW, max_duration=0.0)
    list(found)
    assert found.totals.segments == 1
    assert not found.totals.is_complete
    assert not found.totals.is_sound


def test_options(log: Log) -> None:
    def codes(**options: Any) -> list[tuple[str, str]]:
        findings = kdump.verify(log.directory, **{"now": NOW, **options})
        return [(finding.code, finding.severity) for finding in findings]

    crc, beyond, held = ("KD-LOG-CRC", "error"), ("KD-LOG-BEYOND", "warning"), ("KD-TIME-HELD", "note")
    assert codes() == codes(deep=True) == codes(jobs=2) == codes(drops_pages=True) == [crc, beyond, held, held]
    assert codes(select=["KD-LOG-*"], ignore=["KD-LOG-BEYOND"]) == [crc]
    assert codes(select=["KD-TIME-HELD"], severities={"KD-TIME-*": "error"}) == [("KD-TIME-HELD", "error")] * 2
    (log.directory / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    assert codes(since_checkpoint=True, select=["KD-LOG-*"]) == []


@pytest.mark.parametrize(
    "options", [{"select": ["KD-NONE"]}, {"ignore": ["x"]}, {"severities": {"KD-LOG-CRC": "fatal"}}]
)
def test_options_that_make_no_sense(log: Log, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no code matches|is not a severity"):
        kdump.verify(log.directory, **options)


def test_several_paths(tmp_path: Path, log: Log) -> None:
    other = build(tmp_path / "other", name="payments-0")
    paths = {finding.path for finding in kdump.verify(log.directory, other.partition, now=NOW)}
    assert {Path(path).parent.name for path in paths} == {"orders-0", "payments-0"}
