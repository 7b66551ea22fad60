"""What the cleaner was at when the broker ended: nothing to warn of after a kill, for the next start finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.findings.kind import NOTE, WARNING
from kdump.verify.directory import partition_files


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
