"""What `kdump verify` prints: text grouped by partition, or rows in JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kdump.findings.catalogue import ERROR, INFO, WARNING, Finding
from kdump.findings.finding import Remedy
from kdump.formats.names import is_partition_dir
from kdump.verify.resume import Mark

from ..shell.output import Style, counted, safe, safe_path, size_text


class Sink(Protocol):
    """Takes text."""

    def write(self, text: str) -> None:
        """Take more of it."""


class Verified(Protocol):
    """A verification that is over, wherever it was done; `mark` is where it ended early, else None."""

    mark: Mark | None
    partitions: int
    segments: int
    skipped: int
    bytes: int


@dataclass(slots=True)
class Summary:
    """What a run came to."""

    counts: dict[str, int] = field(default_factory=lambda: {ERROR: 0, WARNING: 0, INFO: 0})
    unread: int = 0
    partitions: int = 0
    segments: int = 0
    skipped: int = 0
    bytes: int = 0
    seconds: float = 0.0
    is_complete: bool = True
    was_interrupted: bool = False
    exit_code: int = 0
    _start: float = field(default_factory=time.monotonic)

    def add(self, finding: Finding, *, is_unread: bool) -> None:
        """Count a finding."""
        self.counts[finding.severity] += 1
        self.unread += is_unread

    def finish(self, verification: Verified, *, was_interrupted: bool = False) -> None:
        """The run is over."""
        self.partitions, self.segments = verification.partitions, verification.segments
        self.skipped, self.bytes = verification.skipped, verification.bytes
        self.was_interrupted = was_interrupted
        self.is_complete = verification.mark is None and not was_interrupted
        self.seconds = time.monotonic() - self._start

    @property
    def is_sound(self) -> bool:
        """Whether all that was asked for was looked at, and no error was found."""
        return self.is_complete and not self.unread and not self.counts[ERROR]

    def row(self) -> dict[str, Any]:
        """The object that ends the machine formats."""
        return {
            "type": "summary",
            "sound": self.is_sound,
            "complete": self.is_complete,
            "errors": self.counts[ERROR],
            "warnings": self.counts[WARNING],
            "infos": self.counts[INFO],
            "unread": self.unread,
            "partitions": self.partitions,
            "segments": self.segments,
            "segmentsSkipped": self.skipped,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
        }


class Report(Protocol):
    """Prints findings as they come."""

    def start(self) -> None:
        """The run begins."""

    def partition(self, path: str) -> None:
        """The check of a partition directory begins."""

    def finding(self, finding: Finding) -> None:
        """A finding, in the order of the files."""

    def finish(self, summary: Summary) -> None:
        """The run is over."""


def row(finding: Finding) -> dict[str, Any]:
    """A finding as an object of the machine formats."""
    return {
        "type": "finding",
        "code": finding.code,
        "severity": finding.severity,
        "path": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "message": finding.message,
        "broker": finding.broker,
        "repair": finding.repair,
        "actions": [
            {
                "command": list(remedy.words(group_of(finding.path))) or None,
                "text": remedy.note,
                "loses": remedy.loses,
            }
            for remedy in finding.remedies
        ],
    }


def advice_lines(finding: Finding) -> Iterator[str]:
    """The ways out of a finding: what loses nothing comes first."""
    group = safe_path(group_of(finding.path))
    for number, remedy in enumerate(finding.remedies):
        command = " ".join(remedy.words(group))
        said = f"{command} ({remedy.note})" if command and remedy.note else command or remedy.note
        yield f"{'else' if number else 'do'}: {said}; loses {remedy.loses}"


def group_of(path: str) -> str:
    """The partition directory that a path belongs to, or the log directory where it belongs to none."""
    if is_partition_dir(os.path.basename(path)):
        return path
    return os.path.dirname(path) or "."


class JsonLinesReport:
    """One object a line, the summary last."""

    def __init__(self, out: Sink) -> None:
        self._out = out

    def start(self) -> None:
        """Nothing comes first."""

    def partition(self, path: str) -> None:
        """Said by its findings alone."""

    def finding(self, finding: Finding) -> None:
        """A line."""
        self._out.write(json.dumps(row(finding)) + "\n")

    def finish(self, summary: Summary) -> None:
        """The last line."""
        self._out.write(json.dumps(summary.row()) + "\n")


class TextReport:
    """For people: what is wrong, partition by partition, and a verdict in the last line."""

    def __init__(self, out: Sink, *, verbose: bool, color: bool) -> None:
        self._out = out
        self._verbose = verbose
        self._group: str | None = None
        self._advised: set[str] = set()
        self._told: set[tuple[Remedy, ...]] = set()
        self._bold = Style(color, bold=True)
        self._dim = Style(color, dim=True)
        self._good = Style(color, "green", bold=True)
        self._styles: dict[str, Style] = {
            ERROR: Style(color, "red", bold=True),
            WARNING: Style(color, "yellow"),
            INFO: Style(color, "cyan"),
        }

    def start(self) -> None:
        """Nothing comes first."""

    def partition(self, path: str) -> None:
        """A sound partition is not mentioned."""

    def finding(self, finding: Finding) -> None:
        """What and where and, for the first of its code in a partition, what follows from it."""
        if finding.severity == INFO and not self._verbose:
            return
        group = group_of(finding.path)
        if group != self._group:
            self._out.write(("" if self._group is None else "\n") + self._bold(safe_path(group)) + "\n")
            self._group = group
            self._advised.clear()
            self._told.clear()
        name = os.path.relpath(finding.path, group)
        place = "" if name == "." else f" {safe_path(name)}"
        if finding.position is not None:
            place += f", byte {finding.position}"
        if finding.offset is not None:
            place += f", offset {finding.offset}"
        severity = self._styles[finding.severity](f"{finding.severity:7}")
        self._out.write(f"  {severity} {finding.code}{place}: {safe(finding.message)}\n")
        if finding.severity != INFO and finding.code not in self._advised:
            self._advised.add(finding.code)
            self._out.write(self._dim(f"          a broker {_verb(finding.broker)}") + "\n")
            self._ways_out(finding)

    def _ways_out(self, finding: Finding) -> None:
        """What to do, once for all findings of a partition that have the same ways out."""
        remedies = finding.remedies
        if remedies not in self._told:
            self._told.add(remedies)
            for line in advice_lines(finding):
                self._out.write(self._dim(f"          {line}") + "\n")

    def finish(self, summary: Summary) -> None:
        """The verdict."""
        counts = summary.counts
        said = [counted(counts[ERROR], "error"), counted(counts[WARNING], "warning")]
        if counts[INFO]:
            said.append(counted(counts[INFO], "note") + ("" if self._verbose else " (-v shows them)"))
        if summary.unread:
            said.append(f"{summary.unread} not readable")
        where = f"{counted(summary.partitions, 'partition')}, {counted(summary.segments, 'segment')}"
        if summary.skipped:
            where += f" ({summary.skipped} more were verified before)"
        where += f", {size_text(summary.bytes)} in {summary.seconds:.1f} s"
        if summary.is_sound:
            verdict = self._good("sound")
        elif counts[ERROR]:
            verdict = self._styles[ERROR]("not sound")
        else:
            verdict = self._styles[WARNING]("not all checked")
        if not summary.is_complete:
            said.append("interrupted" if summary.was_interrupted else "ended by --max-duration")
        gap = "" if self._group is None else "\n"
        self._out.write(f"{gap}{verdict}: {', '.join(said)}; {where}\n")


def _verb(broker: str) -> str:
    """The broker's phrase after `a broker`."""
    return f"{broker} it" if broker in ("ignores", "rebuilds at start") else broker
