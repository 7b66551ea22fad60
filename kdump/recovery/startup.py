"""The circumstances in which a broker loads its logs."""

from __future__ import annotations

from typing import NamedTuple

from kdump.settings.loading import LoadingSettings
from kdump.storage.checkpoints import Checkpoints


class LastShutdown(NamedTuple):
    """Whether a log counts as closed cleanly, its recovery point and its log start offset (absolute)."""

    clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0


class Startup(NamedTuple):
    """The circumstances of one start of a broker: its clock (ms), how it stopped before, and the checkpoints.

    `recovery_point` and `log_start_offset` are absolute offsets, 0 where the checkpoint does not name the partition.
    `checkpoints` are all of them, as they were read for the log directory; None where nobody has read them yet.
    """

    now: int
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    config: LoadingSettings = LoadingSettings()
    checkpoints: Checkpoints | None = None
