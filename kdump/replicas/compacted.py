"""Whether copies of a compacted topic are equivalent: each broker's cleaner goes by itself, so batches differ by right.

Equivalent copies have the same latest record of every key, at the same offset. Older values may still be there on one
side, and a tombstone may be gone on one side with all that is older (delete.retention.ms).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kdump.formats.batch import CONTROL
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.partition import PartitionLog

MAX_KEYS = 1_000_000
"""Keys that are compared; of a log with more of them nothing is said."""
MAX_OFFSETS = 100
"""Offsets that are named; all differing keys are counted."""

_DIGEST = 16


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """Two copies by keys, up to the offset (absolute) that both reach.

    `keys` are all of them, None where there are too many to compare. `differing` have another latest record; `offsets`
    are the first of those records.
    """

    end: int
    keys: int | None
    differing: int = 0
    offsets: tuple[int, ...] = ()

    @property
    def is_equivalent(self) -> bool | None:
        """Whether the copies say the same; None where that is not known."""
        return None if self.keys is None else self.differing == 0


Latest = Mapping[bytes, tuple[int, bytes | None]]
"""Key (its digest) → offset of its latest record, and the digest of that record's value; None for a tombstone."""


def latest_records(log: PartitionLog, end: int) -> Latest | None:
    """Return the latest record of each key below an offset (absolute); None for more keys than are compared.

    Control records and records without a key count for nothing. Raises OSError.
    """
    found: dict[bytes, tuple[int, bytes | None]] = {}
    selection = Selection(None, end)
    for segment in selection.segments(log):
        with segment.open_log() as file:
            for event in Sweep(segment, file, selection, selection.start(segment, file)):
                if isinstance(event, Selected) and not event.block.attributes[event.row] & CONTROL:
                    _note(event, found)
                    if len(found) > MAX_KEYS:
                        return None
    return found


def _note(selected: Selected, found: dict[bytes, tuple[int, bytes | None]]) -> None:
    source = selected.source
    for offset, _, _, key_at, key_size, value_at, value_size, *_ in selected.spans():
        if key_size >= 0:
            value = None if value_size < 0 else _digest(source[value_at : value_at + value_size])
            found[_digest(source[key_at : key_at + key_size])] = offset, value


def compare_keys(first: Latest | None, second: Latest | None, end: int) -> KeyComparison:
    """Compare the latest records of two copies below an offset."""
    if first is None or second is None:
        return KeyComparison(end, None)
    offsets: list[int] = []
    for key in first.keys() | second.keys():
        one, other = first.get(key), second.get(key)
        if one != other and not _is_removed_tombstone(one, other):
            offsets.append(max(each[0] for each in (one, other) if each is not None))
    offsets.sort()
    return KeyComparison(end, len(first.keys() | second.keys()), len(offsets), tuple(offsets[:MAX_OFFSETS]))


def _is_removed_tombstone(one: tuple[int, bytes | None] | None, other: tuple[int, bytes | None] | None) -> bool:
    """Return whether the key was deleted, and one side has already removed the tombstone too."""
    left = one if other is None else other
    return (one is None or other is None) and left is not None and left[1] is None


def _digest(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
