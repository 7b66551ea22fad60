"""Open files that are in no directory."""

from __future__ import annotations

import os


def lead_nowhere(descriptor: int) -> None:
    """Let a descriptor, be it open or not, have nothing to read and take everything. Raises OSError."""
    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
