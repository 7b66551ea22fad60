"""`kdump verify --format jsonl`: one object a line, the summary last; docs/verify.md has the fields."""

from __future__ import annotations

from typing import Any

from kdump.check.resume import PassTotals
from kdump.findings.finding import Finding
from kdump.findings.kind import ERROR, NOTE, WARNING
from kdump.operations.verify import Totals
from kdump.storage.open import partition_of

from ..shell.rows import fields_of, row_line
from .text import Report, Sink, shown_severities


class JsonLinesReport(Report):
    """One object a line, the summary last."""

    def __init__(self, out: Sink, *, verbose: bool = False) -> None:
        self._out = out
        self._shown = shown_severities(verbose=verbose)

    def finding(self, finding: Finding) -> None:
        """Print a line."""
        if finding.severity in self._shown:
            self._out.write(row_line(_row(finding)))

    def end(self, totals: Totals, _code: int) -> None:
        """Print the last line."""
        self._out.write(row_line(summary_row(totals)))


def _row(finding: Finding) -> dict[str, Any]:
    name = partition_of(finding.group)
    return {
        "type": "finding",
        **fields_of(finding, "code severity"),
        **fields_of(name, "topic partition"),
        **fields_of(finding, "path position length first_offset last_offset"),
        "details": dict(finding.details or {}),
        **fields_of(finding, "message broker repair"),
        "actions": [
            {"command": list(remedy.words(finding.group)) or None, **fields_of(remedy, "text=note loses")}
            for remedy in finding.remedies
        ],
    }


def summary_row(totals: Totals) -> dict[str, Any]:
    """Return the object that ends the machine formats."""
    return {
        "type": "summary",
        "isSound": totals.is_sound,
        "isComplete": totals.is_complete,
        "errors": totals.counts[ERROR],
        "warnings": totals.counts[WARNING],
        "notes": totals.counts[NOTE],
        **fields_of(totals, "unread partitions segments segmentsSkipped=skipped bytes"),
        "seconds": round(totals.seconds, 3),
    } | ({"pass": _pass_row(totals.whole)} if totals.is_part else {})


def _pass_row(totals: PassTotals) -> dict[str, Any]:
    fields = totals._asdict()
    fields["segmentsSkipped"] = fields.pop("skipped")
    return fields
