"""The catalogue: every code has a case in which it is found, and says what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdump.findings.catalogue import BROKER, CATALOGUE, SEVERITIES, Finding
from tests.verify.building import build, found
from tests.verify.cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_the_code_is_found(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, value in case.changes.items():
        monkeypatch.setattr(attribute, value)
    findings = found(*case.prepare(tmp_path), **case.options)
    of_code = [finding for finding in findings if finding.code == case.code]
    assert case.names in {Path(finding.path).name for finding in of_code}
    for finding in of_code:
        kind = CATALOGUE[case.code]
        assert (finding.severity, finding.broker, finding.repair) == (kind.severity, kind.broker, kind.repair)
        assert finding.meaning == kind.meaning
        assert finding.message


def test_every_code_has_a_case() -> None:
    assert {case.code for case in CASES} == set(CATALOGUE)


@pytest.mark.parametrize("closed", [True, False])
def test_a_sound_log_has_none_of_them(tmp_path: Path, closed: bool) -> None:
    findings = found(build(tmp_path / "data", closed=closed).directory)
    assert {finding.code for finding in findings} == {"KD-TIME-HELD"}


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.code)
def test_an_entry_of_the_catalogue_is_whole(kind: Finding) -> None:
    assert re.fullmatch(r"KD(-[A-Z]+)+", kind.code)
    assert kind.severity in SEVERITIES
    assert kind.broker in BROKER
    assert kind.meaning.endswith(".")
    assert kind.repair
    assert kind.repair[-1] != "."


def test_every_phrase_for_what_a_broker_does_is_in_use() -> None:
    assert {kind.broker for kind in CATALOGUE.values()} == set(BROKER)
