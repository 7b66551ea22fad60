"""Read gently beside others: no faster than a rate, and behind everybody else for the processor and the disk."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from contextlib import suppress

NICE = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_IDLE = 3 << 13


class Pace:
    """Lets threads together do so many bytes in a second."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free_from = time.monotonic()

    def take(self, size: int) -> None:
        """Wait until it is the turn of so many more bytes."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free_from)
            self._free_from = begin + size / self._rate
        time.sleep(max(0.0, begin - now))


def lower_priority() -> list[str]:
    """Let this thread, and those that it starts, come after others; what could be had of that, in words."""
    gained = []
    if hasattr(os, "nice"):
        with suppress(OSError):
            gained.append(f"nice {os.nice(NICE)}")
    if sys.platform == "linux" and _sets_idle_io():
        gained.append("I/O class idle")
    return gained


def _sets_idle_io() -> bool:
    """Ask Linux for the I/O class idle, for which Python has no function (ioprio_set(2))."""
    number = _IOPRIO_SET.get(platform.machine())
    if number is None:
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE) == 0)
