"""The latest offset of each key, keys kept as they are: no two of them can be taken for one."""

from __future__ import annotations

from kdump.kernels.portable.compaction import KeyOffsets

ENTRY_BYTES = 160
"""What an entry takes in memory besides the bytes of its key, about."""


class ExactKeys(KeyOffsets):
    """Keys and offsets in a dictionary of at most `memory` bytes."""

    def __init__(self, memory: int) -> None:
        self._left = memory
        self._offsets: dict[bytes, int] = {}

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of different keys."""
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` has `offset`; False where there is no room for another key."""
        if key not in self._offsets:
            needed = ENTRY_BYTES + len(key)
            if needed > self._left and self._offsets:
                return False
            self._left -= needed
        self._offsets[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the offset noted for `key`; -1 where there is none."""
        return self._offsets.get(key, -1)
