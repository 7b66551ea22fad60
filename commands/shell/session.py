"""Troubles that the core reports, as lines on stderr, and the exit code that they come to."""

from __future__ import annotations

from kdump.errors import Problem

from . import exit_codes
from .output import complain, safe, safe_path


class Troubles:
    """Prints what is reported to it; `code` is the exit code so far."""

    def __init__(self) -> None:
        self.code = exit_codes.OK

    def __call__(self, trouble: Problem) -> None:
        """Tell of one."""
        place = "" if trouble.position is None else f"byte {trouble.position}: "
        complain(f"{safe_path(trouble.path)}: {place}{safe(trouble.text)}")
        self.worsen(exit_codes.INCOMPLETE if trouble.is_unreadable else exit_codes.FINDINGS)

    def worsen(self, code: int) -> None:
        """Exit with `code`, unless something worse is known."""
        self.code = max(self.code, code)
