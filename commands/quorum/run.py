"""What `kdump quorum` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kdump.cluster.set_voters import VoterAt, plan_voters
from kdump.errors import RefusedError
from kdump.operations.quorum import apply_voters, quorum_at

from ..shell import exit_codes
from ..shell.output import Output
from ..shell.paths import matches
from ..shell.rows import output_for
from ..shell.session import Diagnostics, tell_refused

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@dataclass(frozen=True, slots=True)
class SetVoters:
    """What the command line asks for; `now` is the time in ms."""

    voters: Sequence[VoterAt]
    others_are_gone: bool
    accepts_loss: bool
    applies: bool
    now: int


def show(paths: Sequence[str], format_: str) -> int:
    """Show a quorum; the exit code."""
    troubles = Diagnostics()
    with output_for(format_) as out:
        quorum = quorum_at([each for path in paths for each in matches(path)], troubles)
        _printer(out, format_, paths).quorum(quorum)
    if not all(copy.is_sound for copy in quorum.copies):
        troubles.worsen(exit_codes.FINDINGS)
    return troubles.code


def set_voters(paths: Sequence[str], asked: SetVoters, format_: str) -> int:
    """Plan other voters and, if that was asked for, write the record; the exit code."""
    troubles = Diagnostics()
    with output_for(format_) as out:
        quorum = quorum_at([each for path in paths for each in matches(path)], troubles)
        plan = plan_voters(quorum, asked.voters, others_are_gone=asked.others_are_gone, accepts_loss=asked.accepts_loss)
        printer = _printer(out, format_, paths)
        printer.quorum(quorum)
        printer.plan(plan)
        if plan.is_done or plan.refusals or not asked.applies:
            printer.end(plan, None)
            if plan.is_done:
                return exit_codes.OK
            return exit_codes.REFUSED if plan.refusals else exit_codes.FINDINGS
        try:
            printer.end(plan, apply_voters(plan, asked.now))
        except RefusedError as error:
            out.flush()
            tell_refused(error)
            return exit_codes.REFUSED
        return exit_codes.OK


def _printer(out: Output, format_: str, paths: Sequence[str]) -> Printer:
    if format_ == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(out.write)
    from .text import Text

    return Text(out.write, paths)
