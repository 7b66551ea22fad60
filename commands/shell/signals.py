"""Signals: SIGTERM ends a command as Ctrl-C does, at a safe boundary; SIGUSR1 asks how far it has got."""

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


def tell_on_sigusr1() -> None:
    """Print on stderr how far the run has got when SIGUSR1 comes, of which a process would die otherwise."""
    if hasattr(signal, "SIGUSR1"):
        with suppress(ValueError):
            signal.signal(signal.SIGUSR1, _tell)


def _tell(_number: int, _frame: FrameType | None) -> None:
    from .progress import tell_progress

    tell_progress()


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
