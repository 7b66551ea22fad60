"""SIGTERM ends a command as Ctrl-C does, at a safe boundary."""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


def end_on_sigterm() -> None:
    """Raise Terminated where the main thread is when SIGTERM comes. Of another thread nothing is done."""
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated
