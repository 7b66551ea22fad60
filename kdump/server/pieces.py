"""The bytes that a fetch gets, and what becomes of those that are damaged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kdump.server.open_files import KeptFile
from kdump.storage.damage import Damage


class OnDamage(StrEnum):
    """What becomes of bytes that fail their CRC."""

    STOP = "stop"
    SKIP = "skip"
    SERVE = "serve"


CONSEQUENCES = {
    OnDamage.STOP: "the partition ends at offset",
    OnDamage.SKIP: "skipped, at offset",
    OnDamage.SERVE: "served as it is, at offset",
}


class FileRange(NamedTuple):
    """Bytes of a file to send."""

    file: KeptFile
    start: int
    size: int


Parts = list[bytes | FileRange]
"""An answer, to be sent one part after the other."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch gets: the ranges to send, and the absolute offset behind the last one of them."""

    ranges: tuple[FileRange, ...]
    next_offset: int

    @property
    def size(self) -> int:
        """How many bytes they are."""
        return sum(each.size for each in self.ranges)


def damage_text(path: str, damage: Damage) -> str:
    """Return a line about damage, with the place."""
    return f"{os.path.basename(os.path.dirname(path))}/{os.path.basename(path)}: byte {damage.position}: {damage.text}"
