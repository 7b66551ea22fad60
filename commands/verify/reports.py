"""The forms in which `kdump verify` reports, and reports to files beside that to stdout."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kdump.disk.durable import replace_alone
from kdump.findings.finding import Finding
from kdump.formats.printable import escape_json
from kdump.operations.verify import Totals

from ..shell.rows import JSON, JSONL, Envelope
from ..shell.screen import Screen
from .text import JsonLinesReport, Report, Sink, TextReport

FORMATS = ("text", "json", "jsonl", "junit", "sarif")
PROM = "prom"


def report_to(text: str) -> tuple[str, str]:
    """Return the format and the file of a `FORMAT:FILE`. Raises ValueError."""
    format_, colon, path = text.partition(":")
    if not colon or not path or format_ not in (*FORMATS, PROM):
        raise ValueError(f"{text!r}: expected FORMAT:FILE, FORMAT one of {', '.join((*FORMATS, PROM))}")
    return format_, path


def reports_in(
    format_: str,
    out: Sink,
    *,
    strict: bool,
    verbose: bool = False,
    color: bool = False,
    paths: Sequence[str] = (),
    width: int | None = None,
) -> Report:
    """Return what prints in one of the formats."""
    if format_ == "text":
        return TextReport(out, verbose=verbose, color=color, paths=paths, width=width)
    if format_ in (JSON, JSONL):
        return JsonLinesReport(out, verbose=verbose)
    if format_ == "junit":
        from .junit import JUnitReport

        return JUnitReport(out, strict=strict)
    from .sarif import SarifReport

    return SarifReport(out)


class Together(Report):
    """Several reports of one run."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self._reports = reports

    def start(self) -> None:
        """Begin the run."""
        for each in self._reports:
            each.start()

    def partition(self, path: str) -> None:
        """Begin the check of a partition directory."""
        for each in self._reports:
            each.partition(path)

    def finding(self, finding: Finding) -> None:
        """Take a finding."""
        for each in self._reports:
            each.finding(finding)

    def finish(self, totals: Totals, code: int) -> None:
        """End the run."""
        for each in self._reports:
            each.finish(totals, code)


class FileReport(Together):
    """A report to a file, which is there as a whole when the run is over and not before."""

    def __init__(self, format_: str, path: str, *, strict: bool, paths: Sequence[str] = ()) -> None:
        self._path = path
        self._pieces: list[str] = []
        self._escapes = format_ in (JSON, JSONL, "sarif")
        is_rows = format_ in (JSON, JSONL)
        self._envelope = Envelope(click.get_current_context(), is_document=format_ == JSON) if is_rows else None
        if format_ == PROM:
            from .prometheus import PrometheusReport

            report: Report = PrometheusReport(self, path)
        else:
            report = reports_in(format_, self, strict=strict, verbose=bool(Screen.current.verbosity), paths=paths)
        super().__init__([report])

    def write(self, text: str) -> None:
        """Hold it for the end."""
        self._pieces.append(text if self._envelope is None else self._envelope.rows(text))

    def finish(self, totals: Totals, code: int) -> None:
        """End the run."""
        super().finish(totals, code)
        if self._envelope is not None:
            self._pieces.append(self._envelope.end(code))
        text = "".join(self._pieces)
        data = (escape_json(text) if self._escapes else text).encode("utf-8", "backslashreplace")
        replace_alone(self._path, data, durable=False)
