"""Troubles that the core reports, as lines on stderr, and the exit code that they come to."""

from __future__ import annotations

import click

from kdump.errors import BrokerRunsError, Problem, RefusedError

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


def tell_refused(error: RefusedError) -> None:
    """Say on stderr what a safety rail refused, and that nothing was changed where a broker is the reason."""
    click.echo(f"Refused: {safe(str(error))}", err=True)
    if isinstance(error, BrokerRunsError):
        click.echo("  Nothing was changed. Stop the broker, then run this again.", err=True)
