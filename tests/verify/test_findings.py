"""The catalogue: every code has a case in which it is found, and says what it should."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from kdump.findings.catalogue import CATALOGUE, COPIES, GROUPS
from kdump.findings.kind import BrokerEffect
from tests.verify.building import build, found
from tests.verify.cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_the_code_is_found(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, value in case.changes.items():
        module, _, name = attribute.rpartition(".")
        monkeypatch.setattr(import_module(module), name, value)
    findings = found(*case.prepare(tmp_path), **case.options)
    of_code = [finding for finding in findings if finding.code == case.code]
    assert case.names in {Path(finding.path).name for finding in of_code}
    for finding in of_code:
        kind = CATALOGUE[case.code]
        assert finding.severity == kind.severity
        assert finding.ways is not None or finding.repair == kind.repair
        assert finding.broker in (finding.effect, kind.broker)
        assert finding.meaning == kind.meaning
        assert finding.message


def test_every_code_has_a_case() -> None:
    of_several_runs = {"KD-LOG-REWRITTEN"}  # tests/commands/test_verify_scrub.py
    # tests/replicas/test_copies.py, tests/commands/test_groups.py
    others = {code for code, kind in CATALOGUE.items() if kind.checked_by in (COPIES, GROUPS)}
    assert {case.code for case in CASES} | of_several_runs | others == set(CATALOGUE)


@pytest.mark.parametrize("closed", [True, False])
def test_a_sound_log_has_none_of_them(tmp_path: Path, closed: bool) -> None:
    findings = found(build(tmp_path / "data", closed=closed).directory)
    assert {finding.code for finding in findings} == {"KD-TIME-HELD"}


def test_every_phrase_for_what_a_broker_does_is_in_use() -> None:
    hangs_on_the_log = {BrokerEffect.HIDES}  # tests/verify/test_indexes.py
    assert {kind.effect for kind in CATALOGUE.values()} | hangs_on_the_log == set(BrokerEffect)
