"""One thing that is wrong, odd or worth knowing, and where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from kdump.errors import InternalError
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.kind import IGNORES, BrokerEffect, FindingKind, Remedy, in_one_line
from kdump.formats.names import is_partition_dir

UNREAD = "KD-READ"
"""The code of what the system does not give."""

Offsets = tuple[int | None, int | None]
"""The first and the last one of a range, each None where it is not known."""


class Finding(NamedTuple):
    """Something that is wrong, odd or worth knowing, and where.

    `position` is a byte position in the file at `path`, `offset` an absolute offset; None where there is none. `effect`
    is what a broker does about it where that is not what it does about most findings of the code, `ways` are the ways
    out where they are not those of the code. `length` is how many bytes from `position` on it is about, `offsets` which
    ones where that is not `offset` alone, `details` are the figures in the message, by their names in JSON.
    `partition` is the directory whose line in a checkpoint file it is about. `text` is what was found there.
    """

    code: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    text: str
    effect: BrokerEffect | None = None
    ways: tuple[Remedy, ...] | None = None
    length: int | None = None
    offsets: Offsets | None = None
    details: Mapping[str, int | None] | None = None
    partition: str | None = None

    @property
    def message(self) -> str:
        """What was found, after the name of the partition whose line in a checkpoint file it is about."""
        return self.text if self.partition is None else f"{self.partition}: {self.text}"

    @property
    def kind(self) -> FindingKind:
        """What the code stands for."""
        return CATALOGUE[self.code]

    @property
    def meaning(self) -> str:
        """What findings of this code mean, in one sentence."""
        return self.kind.meaning

    @property
    def broker(self) -> str:
        """What a broker does: one of BrokerEffect."""
        return (self.effect or self.kind.effect).value

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The ways out, the first to try first."""
        return self.kind.remedies if self.ways is None else self.ways

    @property
    def first_offset(self) -> int | None:
        """The first offset that it is about; None where there is none, or none is known."""
        return self.offset if self.offsets is None else self.offsets[0]

    @property
    def last_offset(self) -> int | None:
        """The last offset that it is about; None where there is none, or none is known."""
        return self.offset if self.offsets is None else self.offsets[1]

    @property
    def group(self) -> str:
        """The partition directory that it is about, also in a checkpoint file; else the log directory."""
        if is_partition_dir(os.path.basename(self.path)):
            return self.path
        folder = os.path.dirname(self.path)
        if self.partition is not None:
            return self.partition if folder == os.curdir else os.path.join(folder, self.partition)
        return folder or "."

    @property
    def repair(self) -> str:
        """The ways out in one line."""
        return in_one_line(self.remedies)


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding for what the system does not give, or what kdump itself fails to look at."""
    if isinstance(error, InternalError):  # which says nothing of the broker
        return found(UNREAD, path, str(error.strerror), effect=IGNORES)._replace(ways=())
    return found(UNREAD, path, error.strerror or str(error))


def found(  # noqa: PLR0913 - the fields of a finding
    code: str,
    path: str,
    text: str,
    position: int | None = None,
    offset: int | None = None,
    *,
    severity: str = "",
    effect: BrokerEffect | None = None,
    length: int | None = None,
    offsets: Offsets | None = None,
    details: Mapping[str, int | None] | None = None,
    partition: str | None = None,
) -> Finding:
    """Return a finding with its code's own severity and effect, unless another one fits what was met."""
    severity = severity or CATALOGUE[code].severity
    return Finding(code, severity, path, position, offset, text, effect, None, length, offsets, details, partition)
