"""A run in figures for Prometheus, as a text file that node_exporter and others pick up."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator

from kdump.disk.reading import read_small
from kdump.findings.finding import Finding
from kdump.operations.verify import Totals

from .text import Report, Sink

LAST_PASS = "kdump_verify_last_complete_pass_timestamp_seconds"
_MAX_BYTES = 1 << 22


class PrometheusReport(Report):
    """Gauges of the last run. The time of the last complete pass stays as it was where this one is not complete."""

    def __init__(self, out: Sink, path: str) -> None:
        """`path` is where the file of the run before is."""
        self._out = out
        self._found: Counter[tuple[str, str]] = Counter()
        self._last_pass = _last_pass_in(path)

    def finding(self, finding: Finding) -> None:
        """Count it."""
        self._found[finding.code, finding.severity] += 1

    def end(self, totals: Totals, _code: int) -> None:
        """Write the figures."""
        for line in self._lines(totals):
            self._out.write(f"{line}\n")

    def _lines(self, totals: Totals) -> Iterator[str]:
        yield from _head("kdump_verify_findings", "Findings by code and severity.")
        for (code, severity), count in sorted(self._found.items()):
            yield f'kdump_verify_findings{{code="{code}",severity="{severity}"}} {count}'
        figures = (
            ("kdump_verify_errors", "Findings of severity error.", totals.counts["error"]),
            ("kdump_verify_warnings", "Findings of severity warning.", totals.counts["warning"]),
            ("kdump_verify_unreadable", "Files and directories that could not be read.", totals.unread),
            ("kdump_verify_partitions", "Partitions that were looked at.", totals.partitions),
            ("kdump_verify_segments", "Segments that were read.", totals.segments),
            ("kdump_verify_segments_skipped", "Segments that an earlier run had verified.", totals.skipped),
            ("kdump_verify_bytes", "Bytes of logs that were read.", totals.bytes),
            ("kdump_verify_duration_seconds", "How long the run lasted.", f"{totals.seconds:.3f}"),
            ("kdump_verify_complete", "Whether everything was looked at.", int(totals.is_complete)),
        )
        for name, what, value in figures:
            yield from _head(name, what)
            yield f"{name} {value}"
        last_pass = f"{time.time():.0f}" if totals.is_complete and not totals.whole.unread else self._last_pass
        if last_pass is not None:
            yield from _head(LAST_PASS, "When everything had last been looked at.")
            yield f"{LAST_PASS} {last_pass}"


def _head(name: str, what: str) -> tuple[str, str]:
    return f"# HELP {name} {what}", f"# TYPE {name} gauge"


def _last_pass_in(path: str) -> str | None:
    try:
        text = read_small(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    found = re.search(rf"^{LAST_PASS} ([0-9]+)$", text, re.MULTILINE)
    return found[1] if found else None
