"""A log in outline: which of its sections are clean, dirty or deleted, and the offsets that matter."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class SectionKind(StrEnum):
    """What a part of a log is.

    DELETED is before the log start, HELD is dirty and may not be cleaned yet, CLOSED are segments that no cleaner is
    known to care for.
    """

    DELETED = "deleted"
    CLEAN = "clean"
    DIRTY = "dirty"
    HELD = "held"
    CLOSED = "closed"
    ACTIVE = "active"


class Section(NamedTuple):
    """A part of a log, up to the offset `stop` (absolute, not included)."""

    kind: SectionKind
    stop: int


class Mark(NamedTuple):
    """An offset (absolute) of a log that matters; `reason` says why it is there, where there are several."""

    offset: int
    name: str
    reason: str = ""


class Outline(NamedTuple):
    """A log from its first segment on: its sections, one after the other, and the offsets that matter.

    `end` (absolute) is the log's end; of an active segment that cannot be read its base offset.
    """

    sections: tuple[Section, ...]
    marks: tuple[Mark, ...]
    end: int
