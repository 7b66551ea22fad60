"""What `kdump resurrect` is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.cluster.wanted import Wanted


@dataclass(frozen=True, slots=True)
class ResurrectArgs:
    """What the command line asks for; without `into` it is done in place. `now` is the time in ms."""

    wanted: Wanted
    into: str | None
    applies: bool
    now: int
    format: str
