"""`kdump verify` for people: what is wrong, by partition or a line each, then the verdict."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

from kdump.findings.finding import Finding
from kdump.findings.kind import ERROR, NOTE, WARNING, BrokerEffect
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import count_text, duration, elapsed, number_words, size_text
from kdump.operations.verify import Totals

from ..shell import exit_codes
from ..shell.choice import asked_paths
from ..shell.line_budget import LineBudget
from ..shell.options import severities_from
from ..shell.output import Style
from ..shell.prose import folded
from ..shell.screen import Screen
from ..shell.words import way_out

WIDE = 160
"""From so many columns on a terminal has room for a finding a line."""


class Sink(Protocol):
    """Takes text."""

    def write(self, text: str) -> None:
        """Take more of it."""


class Report:
    """Prints findings as they come; for what a form has no words it does nothing."""

    def start(self) -> None:
        """Begin the run."""

    def partition(self, path: str) -> None:
        """Begin the check of a partition directory."""

    def finding(self, finding: Finding) -> None:
        """Print a finding, in the order of the files."""

    def end(self, totals: Totals, code: int) -> None:
        """End the run."""


def shown_severities(*, verbose: bool) -> frozenset[str]:
    """Return the severities of the findings that are printed: those of --min-severity, or without it all but notes."""
    least = Screen.current.min_severity
    return severities_from(least or ("note" if verbose else "warning"))


class TextReport(Report):
    """For people: what is wrong; the last lines are the answer.

    On a terminal findings stand under their partition, with what follows from them and what to do. In a file or pipe,
    and on a wide terminal, each finding is one line.
    """

    def __init__(
        self, out: Sink, *, verbose: bool, is_colored: bool, paths: Sequence[str] = (), width: int | None = None
    ) -> None:
        """`paths` are those of the command line, `width` is that of the screen (None: lines are not folded)."""
        self._out = out
        self._shown = shown_severities(verbose=verbose)
        self._paths = paths
        self._is_line_each = width is None or width >= WIDE
        self._width = width
        self._group: str | None = None
        self._explained: set[str] = set()
        self._do = ""
        self._groups: set[str] = set()
        self._budget = LineBudget(is_all=verbose)
        self._codes: set[str] = set()
        self._unlisted: Counter[str] = Counter()
        self._unlisted_groups: defaultdict[str, set[str]] = defaultdict(set)
        self._bold = Style(is_colored, bold=True)
        self._dim = Style(is_colored, dim=True)
        self._good = Style(is_colored, "green", bold=True)
        self._styles: dict[str, Style] = {
            ERROR: Style(is_colored, "red", bold=True),
            WARNING: Style(is_colored, "yellow"),
            NOTE: Style(is_colored, "cyan"),
        }

    def finding(self, finding: Finding) -> None:
        """Print what and where and, for the first of its code in a partition, what follows from it and what to do.

        The first finding of each code is listed; of more than a screen takes, the others are counted.
        """
        if finding.severity not in self._shown:
            return
        Screen.current.has_findings |= finding.severity != NOTE
        if finding.severity != NOTE:
            self._groups.add(finding.group)
        is_new = finding.code not in self._codes
        has_room = self._budget.takes(1 if self._is_line_each else self._lines(finding))
        self._codes.add(finding.code)
        if not is_new and not has_room:
            self._unlisted[finding.code] += 1
            self._unlisted_groups[finding.code].add(finding.group)
        elif self._is_line_each:
            self._line(finding)
        else:
            self._block(finding)

    def _line(self, finding: Finding) -> None:
        place = _place(finding)
        severity = self._styles[finding.severity](finding.severity)
        head = f"{safe_path(finding.group)}  {severity}  {finding.code}"
        self._out.write(f"{head}{f'  {place}' if place else ''}: {safe(finding.text)}\n")
        self._group = finding.group

    def _block(self, finding: Finding) -> None:
        group = finding.group
        is_explained = finding.severity == NOTE or (group == self._group and finding.code in self._explained)
        *effects, do = ("",) if is_explained else consequences(finding, group)
        if group != self._group or finding.severity == NOTE or (do and do != self._do):
            self._say_what_to_do()
        if group != self._group:
            self._out.write(("" if self._group is None else "\n") + self._bold(safe_path(group)) + "\n")
            self._group = group
            self._explained.clear()
        head = f"  {self._styles[finding.severity](f'{finding.severity:7}')}  {finding.code}"
        self._out.write(f"{head}  {_place(finding)}".rstrip() + "\n")
        self._indented(safe(finding.text))
        self._explained.add(finding.code)
        for line in effects:
            self._indented(line, self._dim)
        self._do = do or self._do

    def _say_what_to_do(self) -> None:
        """Print what to do, once for the findings before that have the same ways out."""
        do, self._do = self._do, ""
        if do:
            self._indented(do, self._dim)

    def _lines(self, finding: Finding) -> int:
        """Return how many lines a finding takes, with the heading of its partition."""
        is_heading = finding.group != self._group
        is_explained = finding.severity == NOTE or (not is_heading and finding.code in self._explained)
        texts = (safe(finding.text), *(() if is_explained else consequences(finding, finding.group)))
        return (3 if is_heading else 1) + sum(len(folded(text, self._width, first=_INDENT)) for text in texts)

    def _indented(self, text: str, style: Style | None = None) -> None:
        for line in folded(text, self._width, first=_INDENT):
            self._out.write((style(line) if style else line) + "\n")

    def end(self, totals: Totals, code: int) -> None:
        """Print the verdict, what was checked, and the next command."""
        self._say_what_to_do()
        if self._group is not None:
            self._out.write("\n")
        self._out.write("".join(f"{line}\n" for line in self._rest()))
        if totals.is_part:
            self._out.write(f"{_pass_words(totals)}\n")
        for line in self._verdict(totals, code):
            self._out.write(f"{line}\n")
        self._out.write(f"Checked: {_checked(totals)}\n")
        if totals.counts[ERROR] or totals.counts[WARNING]:
            self._out.write(f"Next: kdump doctor {asked_paths(self._paths) or 'PATH'}\n")

    def _rest(self) -> Iterator[str]:
        """Say how many findings are not listed, code by code."""
        if not self._unlisted:
            return
        yield "Not listed (-v lists all):"
        width = max(map(len, self._unlisted))
        for code, count in sorted(self._unlisted.items()):
            places = number_words(len(self._unlisted_groups[code]), "place")
            yield f"  {code:<{width}}  {number_words(count, 'more finding')} in {places}"
        yield ""

    def _verdict(self, totals: Totals, code: int) -> Iterator[str]:
        errors, warnings = totals.counts[ERROR], totals.counts[WARNING]
        Screen.current.has_said_incomplete = True
        if totals.unread:
            unread = number_words(totals.unread, "file or directory", "files or directories")
            yield self._styles[WARNING]("INCOMPLETE.") + f" {unread} could not be read."
        elif totals.was_interrupted:
            yield self._styles[WARNING]("INCOMPLETE.") + " Interrupted."
        elif not totals.is_complete:
            yield "The time was up (--max-duration): the exit code is about what was checked."
        said = [number_words(count, noun) for count, noun in ((errors, "error"), (warnings, "warning")) if count]
        where = f"in {_share(len(self._groups), totals.partitions)}"
        if errors or code == exit_codes.FINDINGS:
            yield self._styles[ERROR]("FOUND:") + f" {', '.join(said)} {where}."
        elif warnings:
            yield f"{self._good('OK.') if totals.is_sound else 'So far:'} No errors; {said[0]} {where}."
        elif totals.is_sound:
            yield self._good("OK.") + f" No errors in {number_words(totals.partitions, 'partition')}."


_INDENT = " " * 11


def _place(finding: Finding) -> str:
    """Return the file and the byte, which stand after the partition."""
    name = "" if finding.path == finding.group else safe_path(os.path.basename(finding.path))
    return name if finding.position is None else f"{name}, byte {finding.position}"


def consequences(finding: Finding, group: str) -> Iterator[str]:
    """Yield what a finding means for consumers or for the broker, and what to do.

    The way out is in full where there is one; of several, the first one's command.
    """
    from kdump.findings.explanations import EXPLANATIONS  # long, and for findings alone

    known = EXPLANATIONS[finding.code]
    if finding.effect is not None:
        yield f"The broker {finding.effect}."
    else:
        is_about_answers = finding.kind.effect == BrokerEffect.SERVES_WRONG_DATA
        yield known.of_consumers.of("Consumers") if is_about_answers else known.broker
    remedies = finding.remedies
    if len(remedies) == 1 or (remedies and remedies[0].words(group)):
        yield f"do: {way_out(remedies[0], group)}"
    elif remedies:
        yield f"do: {command_line('kdump', 'doctor', group)} (choose: lossless first)"
    else:
        yield f"do: nothing. More: kdump explain {finding.code}"


def _share(groups: int, partitions: int) -> str:
    if groups > partitions:
        return number_words(groups, "place")
    return f"{count_text(groups)} of {number_words(partitions, 'partition')}"


def _checked(totals: Totals) -> str:
    where = number_words(totals.segments, "segment")
    if totals.skipped:
        where += f" ({count_text(totals.skipped)} more were verified before)"
    took = elapsed(totals.seconds)
    deep = "" if totals.is_deep else "; records not decoded (--deep)"
    return f"{where}, {size_text(totals.bytes)} in {took}{deep}."


def _pass_words(totals: Totals) -> str:
    """Return how far a pass is that may take several runs, with the totals of all of them."""
    whole = totals.whole
    runs = f" in {whole.runs} runs" if whole.runs > 1 else ""
    state = f"Complete pass finished{runs}" if totals.has_reached_end else f"The pass is not complete; so far{runs}"
    counts = (whole.errors, "error"), (whole.warnings, "warning")
    found = [number_words(count, noun) for count, noun in counts if count]
    found += [f"{whole.unread} could not be read"] if whole.unread else []
    looked = f"{number_words(whole.partitions, 'partition')}, {number_words(whole.segments, 'segment')}"
    looked += f" ({whole.skipped} more were verified before)" if whole.skipped else ""
    said = ", ".join(found) or "no error"
    return f"{state}: {said}; {looked}, {size_text(whole.bytes)} in {duration(int(whole.seconds * 1000))}."
