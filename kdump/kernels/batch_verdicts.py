"""What compaction makes of a batch: numbers that the kernels give."""

from __future__ import annotations

COPIED = 0  # all of it stays as it is
REBUILT = 1  # a part of it stays, or it gets a delete horizon
GONE = 2  # none of its records stays
OTHER = 3  # not for the kernel to decide
