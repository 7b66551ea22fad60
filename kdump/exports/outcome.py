"""What becomes of a unit of an export."""

from __future__ import annotations

import os
from typing import NamedTuple

from kdump.errors import Problem
from kdump.exports.journal import Failure, Lost, Result
from kdump.exports.plan import Unit


class Exported(NamedTuple):
    """A unit, and what it became or why there is nothing; `is_resumed`: a run before this one has written it."""

    unit: Unit
    outcome: Result | Failure
    is_resumed: bool = False

    @property
    def result(self) -> Result | None:
        """What it became."""
        return self.outcome if isinstance(self.outcome, Result) else None

    @property
    def damage(self) -> tuple[Lost, ...]:
        """What could not be read of it, with the paths that it has for its logs."""
        given = {os.path.abspath(each.path): each.path for each in self.unit.all}
        lost = self.result.damage if self.result else ()
        return tuple(each._replace(path=given.get(each.path, each.path)) for each in lost)

    @property
    def failure(self) -> Problem | None:
        """Why there is nothing."""
        if isinstance(self.outcome, Result):
            return None
        return Problem.unreadable(self.unit.path, self.outcome)
