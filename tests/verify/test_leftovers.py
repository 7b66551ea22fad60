"""What the cleaner was at when the broker ended: nothing to warn of after a kill, for the next start finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.check.directory import partition_files
from kdump.findings.kind import NOTE, REFUSES, WARNING
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from tests.verify.building import NOW, batch, build, file, flip


@pytest.mark.parametrize(("was_closed", "severity"), [(True, WARNING), (False, NOTE)])
@pytest.mark.parametrize("state", ["cleaned", "swap"])
def test_leftovers_of_the_cleaner(tmp_path: Path, state: str, was_closed: bool, severity: str) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for name in (f"{0:020d}.log", f"{0:020d}.log.{state}"):
        (partition / name).touch()
    (finding,) = partition_files(kdump.open_log(partition), was_closed=was_closed)
    assert finding.code == f"KD-FILE-{state.upper()}"
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("damage", "effect", "loads"), [(bytes(40) + b"noise" * 20, REFUSES, False), (b"", None, True)]
)
def test_a_broker_that_cannot_find_the_end_of_a_replacement_does_not_start(
    tmp_path: Path, damage: bytes, effect: str | None, loads: bool
) -> None:
    """It asks for the end before it puts the file in its place; a batch with a wrong CRC does not keep it from that."""
    log = build(tmp_path, beside={f"{file(0, 'log')}.swap": flip(80)(batch(0)) + damage})
    findings = [finding for finding in log.findings() if finding.code == "KD-FILE-SWAP-DAMAGED"]
    assert findings
    assert {finding.effect for finding in findings} == {effect}
    outcome = load_log(kdump.open_log(log.partition), Startup(now=NOW, clean=True))
    assert outcome.ok == loads


def test_a_replacement_that_lacks_batches(tmp_path: Path) -> None:
    """A broker puts it in the place of every segment that begins below its end."""
    log = build(tmp_path, beside={f"{file(0, 'log')}.swap": batch(0)})
    (finding,) = (finding for finding in log.findings() if finding.code == "KD-FILE-SWAP-DAMAGED")
    assert finding.message.endswith("but it lacks offsets 2\N{EN DASH}5 (4 records)")
