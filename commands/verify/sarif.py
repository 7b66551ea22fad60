"""Findings in SARIF 2.1.0, the format of static analysis results that code hosts and dashboards read."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from kdump import __version__
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.finding import Finding
from kdump.findings.kind import FindingKind
from kdump.operations.verify import Totals

from .jsonl import summary_row
from .text import Report, Sink

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def rule(kind: FindingKind) -> dict[str, Any]:
    """Return an entry of the catalogue."""
    return {
        "id": kind.code,
        "shortDescription": {"text": kind.meaning},
        "help": {"text": f"{EXPLANATIONS[kind.code].broker} Repair: {kind.repair}."},
        "defaultConfiguration": {"level": kind.severity},
    }


def result(finding: Finding) -> dict[str, Any]:
    """Return a finding."""
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(os.fsencode(finding.path))}}
    if finding.position is not None:
        place["region"] = {"byteOffset": finding.position}
        if finding.length:
            place["region"]["byteLength"] = finding.length
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
        "properties": {"broker": finding.broker, "repair": finding.repair},
    }
    if finding.offset is not None:
        found["properties"]["offset"] = finding.offset
    return found


class SarifReport(Report):
    """One document, its results written as they come."""

    def __init__(self, out: Sink) -> None:
        self._out = out
        self._before = "\n"

    def start(self) -> None:
        """Open the document; the rules are the whole catalogue."""
        driver = {"name": "kdump", "version": __version__, "rules": [rule(kind) for kind in CATALOGUE.values()]}
        self._out.write(
            f'{{"$schema": "{SCHEMA}", "version": "2.1.0", "runs": [{{"tool": {json.dumps({"driver": driver})},\n'
            '"results": ['
        )

    def finding(self, finding: Finding) -> None:
        """Write a result."""
        self._out.write(self._before + json.dumps(result(finding)))
        self._before = ",\n"

    def end(self, totals: Totals, _code: int) -> None:
        """Close the document."""
        invocation = {"executionSuccessful": totals.is_complete, "properties": summary_row(totals)}
        self._out.write(f'\n], "invocations": [{json.dumps(invocation)}]}}]}}\n')
