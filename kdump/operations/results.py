"""What operations tell besides their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kdump.change.change import Change


class Note(NamedTuple):
    """A remark, which is no finding."""

    text: str


class Interrupted(NamedTuple):
    """A change of a partition directory that was interrupted, and is finished now if `is_finished`."""

    path: str
    change: Change
    is_finished: bool


class Failed(NamedTuple):
    """A partition or log directory that was left alone, and why."""

    path: str
    error: Exception
