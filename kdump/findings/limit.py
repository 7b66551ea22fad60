"""Findings that are all alike: the first ones of each code in each file, and then how many more there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.findings.finding import Finding, found

MAX_PER_CODE = 100
"""Findings of one code in one file that are given one by one unless another number is asked for."""


class FindingLimit:
    """Counts the findings of a partition; a broken index of a million entries is one thing to know, not a million."""

    def __init__(self, most: int) -> None:
        """Up to `most` are passed on one by one; all where it is 0."""
        self._most = most
        self._counts: dict[tuple[str, str], int] = {}

    def first(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield those of the findings that are not one too many."""
        if not self._most:
            yield from findings
            return
        counts, most = self._counts, self._most
        for finding in findings:
            key = finding.path, finding.code
            count = counts[key] = counts.get(key, 0) + 1
            if count <= most:
                yield finding

    def rest(self) -> Iterator[Finding]:
        """Yield what was left out so far, one finding for each code and file; counting starts over."""
        counts, self._counts = self._counts, {}
        for (path, code), count in counts.items():
            if count > self._most:
                yield found(code, path, f"{count - self._most} more like those before")
