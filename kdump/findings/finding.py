"""One thing that is wrong, odd or worth knowing, and where."""

from __future__ import annotations

import os

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.kind import BrokerEffect, FindingKind, Remedy, in_one_line
from kdump.formats import names
from kdump.formats.names import is_partition_dir
from kdump.named_tuples import NamedTuple


class Finding(NamedTuple):
    """Something that is wrong, odd or worth knowing, and where.

    `position` is a byte position in the file at `path`, `offset` an absolute offset; None where there is none. `effect`
    is what a broker does about it where that is not what it does about most findings of the code, `ways` are the ways
    out where they are not those of the code.
    """

    code: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    message: str
    effect: BrokerEffect | None = None
    ways: tuple[Remedy, ...] | None = None

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
    def group(self) -> str:
        """The partition directory that it is about, also in a checkpoint file; else the log directory."""
        if is_partition_dir(os.path.basename(self.path)):
            return self.path
        folder, name = os.path.split(self.path)
        if name in names.OFFSET_CHECKPOINTS:  # its lines are about partitions, which the message names first
            partition = self.message.partition(": ")[0]
            if is_partition_dir(partition):
                return partition if folder == os.curdir else os.path.join(folder, partition)
        return folder or "."

    @property
    def repair(self) -> str:
        """The ways out in one line."""
        return in_one_line(self.remedies)


def found(
    code: str,
    path: str,
    message: str,
    position: int | None = None,
    offset: int | None = None,
    *,
    severity: str = "",
    effect: BrokerEffect | None = None,
) -> Finding:
    """Return a finding with its code's own severity and effect, unless another one fits what was met."""
    return Finding(code, severity or CATALOGUE[code].severity, path, position, offset, message, effect)
