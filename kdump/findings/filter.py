"""Which findings are wanted, and how severe they are to be."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.finding import UNREAD, Finding
from kdump.findings.kind import SEVERITIES


class FindingFilter(NamedTuple):
    """Code patterns (KD-LOG-*) to select and to ignore, and (pattern, severity), of which the last that fits counts.

    What could not be read (KD-READ) is always selected.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raise ValueError for a severity or a pattern that nothing can have."""
        for pattern, severity in self.severities:
            if severity not in SEVERITIES:
                raise ValueError(f"{severity!r} is not a severity: expected {', '.join(SEVERITIES)}")
            _check_pattern(pattern)
        for pattern in (*self.select, *self.ignore):
            _check_pattern(pattern)

    def apply(self, finding: Finding) -> Finding | None:
        """Return the finding with the severity asked for; None where it is not wanted."""
        code = finding.code
        if not self.wants(code):
            return None
        for pattern, severity in reversed(self.severities):
            if fnmatchcase(code, pattern):
                return finding._replace(severity=severity)
        return finding

    def wants(self, code: str) -> bool:
        """Return whether findings of a code are wanted."""
        is_selected = not self.select or code == UNREAD or any(fnmatchcase(code, each) for each in self.select)
        return is_selected and not any(fnmatchcase(code, pattern) for pattern in self.ignore)


def _check_pattern(pattern: str) -> None:
    from kdump.formats.close_names import closest

    if not any(fnmatchcase(code, pattern) for code in CATALOGUE):
        close = closest(pattern, CATALOGUE, 0.75)
        hint = f". Did you mean '{close}'?" if close else ""
        raise ValueError(f"no code matches {pattern!r}{hint}")
