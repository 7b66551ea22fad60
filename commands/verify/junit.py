"""Findings as JUnit's XML: a test suite for each partition, a failed test case for each finding that counts."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from kdump.findings.finding import Finding
from kdump.findings.kind import ERROR, NOTE, WARNING
from kdump.formats.printable import safe, safe_path
from kdump.operations.verify import Totals

from .text import Report, Sink, consequences


class JUnitReport(Report):
    """Suites are written when the next one begins, for their counts come first."""

    def __init__(self, out: Sink, *, strict: bool) -> None:
        self._out = out
        self._failing = (ERROR, WARNING) if strict else (ERROR,)
        self._group: str | None = None
        self._cases: list[str] = []
        self._failures = 0

    def start(self) -> None:
        """Open the document."""
        self._out.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kdump verify">\n')

    def partition(self, path: str) -> None:
        """Begin the check of a partition directory: a suite of its own, sound or not."""
        self._begin(path)

    def finding(self, finding: Finding) -> None:
        """Write a test case; nothing of a note."""
        self._begin(finding.group)
        if finding.severity == NOTE:
            return
        place = "" if finding.position is None else f" byte {finding.position}"
        name = quoteattr(f"{finding.code} {safe_path(finding.path)}{place}")
        effect = next(consequences(finding, finding.group))
        text = f"{safe(finding.message)}\n{effect}\nrepair: {finding.repair}"
        case = f"    <testcase classname={quoteattr(finding.code)} name={name}>"
        if finding.severity in self._failing:
            self._failures += 1
            kind, message = quoteattr(finding.severity), quoteattr(safe(finding.message))
            case += f"<failure type={kind} message={message}>{escape(text)}</failure>"
        else:
            case += f"<system-out>{escape(f'{finding.severity}: {text}')}</system-out>"
        self._cases.append(f"{case}</testcase>\n")

    def end(self, _totals: Totals, _code: int) -> None:
        """Close the document."""
        self._write()
        self._out.write("</testsuites>\n")

    def _begin(self, group: str) -> None:
        if group != self._group:
            self._write()
            self._group = group

    def _write(self) -> None:
        if self._group is None:
            return
        name = quoteattr(safe_path(self._group))
        cases = self._cases or [f"    <testcase classname={quoteattr('kdump verify')} name={name}></testcase>\n"]
        self._out.write(f'  <testsuite name={name} tests="{len(cases)}" failures="{self._failures}">\n')
        self._out.write("".join(cases))
        self._out.write("  </testsuite>\n")
        self._cases, self._failures = [], 0
