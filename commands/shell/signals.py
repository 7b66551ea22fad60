"""Signals: SIGTERM ends a command as Ctrl-C does, at a safe boundary."""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType
from typing import Self


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


def end_on_sigterm() -> None:
    """Raise Terminated where the main thread is when SIGTERM comes. Of another thread nothing is done."""
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, _raise)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


class Interrupts:
    """Lets Ctrl-C (`came`) end the reading of input, and never the writing of a batch."""

    def __init__(self) -> None:
        self.came = False
        self._waits = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def waiting(self, waits: bool) -> None:
        """Say whether a line is waited for. Raises KeyboardInterrupt if Ctrl-C came before."""
        self._waits = waits
        if self.came:
            raise KeyboardInterrupt

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
        if self._waits:
            raise KeyboardInterrupt
