"""What compaction makes of a record: numbers that the kernels give, odd where the record stays."""

from __future__ import annotations

SUPERSEDED = 0  # its key has a later value
RETAINED = 1
EXPIRED = 2  # a tombstone whose time is over
RETAINED_TOMBSTONE = 3
KEYLESS = 4  # it has no key, so that no value could ever supersede it: the cleaner drops it
DISCARDED = 6  # it goes with its whole batch, whatever its key; no kernel gives this
