"""What a verification is asked to do, and how its findings are weighed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kdump.findings.catalogue import CATALOGUE, SEVERITIES, Finding
from kdump.findings.limit import MOST_ALIKE
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.verify.timestamps import RETENTION_MS


@dataclass(frozen=True, slots=True)
class Options:
    """How to verify.

    deep                decompress and decode every record
    jobs                threads that read; 0: one for each core
    now                 the clock (ms); None: this machine's
    retention_ms        what to reckon the retention of segments with
    since_checkpoint    only segments that reach past the recovery point, as recovery would
    drops_pages         give the pages read back to the system
    limit               bytes that one batch may decompress to
    select, ignore      code patterns (KD-LOG-*): what to report, and what not; what could not be read is always chosen
    severities          (code pattern, severity), the last one that fits counts
    most_alike          findings of one code in one file that are given one by one; 0: all
    deadline            moment of time.monotonic() after which no further segment is begun
    max_rate            bytes that are read in a second, at most; None: as many as can be
    progress            told of every path and how many bytes of it have been read since it was last told
    """

    deep: bool = False
    jobs: int = 1
    now: int | None = None
    retention_ms: int = RETENTION_MS
    since_checkpoint: bool = False
    drops_pages: bool = False
    limit: int = DEFAULT_LIMIT
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: tuple[tuple[str, str], ...] = ()
    most_alike: int = MOST_ALIKE
    deadline: float | None = None
    max_rate: int | None = None
    progress: Callable[[str, int], object] | None = None

    def check(self) -> None:
        """Raises ValueError for a severity or a pattern that nothing can have."""
        for pattern, severity in self.severities:
            if severity not in SEVERITIES:
                raise ValueError(f"{severity!r} is no severity: expected {', '.join(SEVERITIES)}")
            _check_pattern(pattern)
        for pattern in (*self.select, *self.ignore):
            _check_pattern(pattern)

    def weigh(self, finding: Finding) -> Finding | None:
        """The finding with the severity asked for; None where it is not wanted."""
        code = finding.code
        is_chosen = not self.select or code == "KD-READ" or any(fnmatchcase(code, each) for each in self.select)
        if not is_chosen:
            return None
        if any(fnmatchcase(code, pattern) for pattern in self.ignore):
            return None
        for pattern, severity in reversed(self.severities):
            if fnmatchcase(code, pattern):
                return finding._replace(severity=severity)
        return finding

    @property
    def weighs(self) -> bool:
        """Whether `weigh` can change anything."""
        return bool(self.select or self.ignore or self.severities)


def _check_pattern(pattern: str) -> None:
    if not any(fnmatchcase(code, pattern) for code in CATALOGUE):
        from difflib import get_close_matches

        close = get_close_matches(pattern, CATALOGUE, 1, 0.5)
        hint = f": did you mean {close[0]}?" if close else ""
        raise ValueError(f"no code matches {pattern!r}{hint}")
