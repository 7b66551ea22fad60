"""Copies of a compacted topic: each broker's cleaner goes by itself, so their batches differ by right, and keys count.

Equivalent copies have the same latest record of every key, at the same offset. Older values may still be there on one
side, and a tombstone may be gone on one side with all that is older (delete.retention.ms). A choice of leader loses the
keys whose latest record its log neither has nor supersedes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.partition import PartitionLog
from kdump.storage.txn_state import TxnState
from kdump.txns.states import TransactionStates

MAX_KEYS = 1_000_000
"""Keys of a copy that are compared; of one with more of them nothing is said."""
MAX_OFFSETS = 100
"""Offsets that are named; all differing keys are counted."""

_DIGEST = 16


class KeyRecord(NamedTuple):
    """A record of a key: its offset (absolute), its leader epoch, and a digest of its value; None for a tombstone."""

    offset: int
    epoch: int
    value: bytes | None


Latest = Mapping[bytes, KeyRecord]
"""Key (its digest) → its latest record."""


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


@dataclass
class CopyKeys:
    """The keys of a copy, read when they are asked for; None for more keys than are compared.

    `log` is None for a broker that has no directory. Records from `log_start` up to `log_end` count; those below
    `common` are the history that all copies have, and below `cleaned` the copy's cleaner has been.
    """

    log: PartitionLog | None
    log_start: int
    log_end: int
    common: int
    cleaned: int = 0

    @cached_property
    def below(self) -> Latest | None:
        """The latest records below `common`. Raises OSError."""
        return self._read(self.log_start, min(self.common, self.log_end))

    @cached_property
    def above(self) -> Latest | None:
        """The latest records from `common` on. Raises OSError."""
        return self._read(max(self.common, self.log_start), self.log_end)

    def _read(self, start: int, stop: int) -> Latest | None:
        return latest_records(self.log, start, stop) if self.log is not None and start < stop else {}


def latest_records(log: PartitionLog, start: int, stop: int) -> Latest | None:
    """Return the latest record of each key between two offsets (absolute); None for more keys than are compared.

    Control records, records of aborted transactions and records without a key count for nothing: the cleaner drops
    them. Raises OSError.
    """
    found: dict[bytes, KeyRecord] = {}
    selection = Selection(start, stop)
    states = TransactionStates(log)
    for segment in selection.segments(log):
        with segment.open_log() as file:
            for event in Sweep(segment, file, selection, selection.start(segment, file)):
                if isinstance(event, Selected) and _counts(event, states):
                    _note(event, found)
                    if len(found) > MAX_KEYS:
                        return None
    return found


def _counts(selected: Selected, states: TransactionStates) -> bool:
    block, row = selected.block, selected.row
    attributes = block.attributes[row] if block.magic[row] >= 2 else 0
    if attributes & CONTROL:
        return False
    is_transactional = bool(attributes & TRANSACTIONAL)
    return not is_transactional or (
        states.state_of(block.producer_id[row], block.last_offset[row]) is not TxnState.ABORTED
    )


def _note(selected: Selected, found: dict[bytes, KeyRecord]) -> None:
    source, epoch = selected.source, selected.block.leader_epoch[selected.row]
    for offset, _, _, key_at, key_size, value_at, value_size, *_ in selected.spans():
        if key_size >= 0:
            value = None if value_size < 0 else _digest(source[value_at : value_at + value_size])
            found[_digest(source[key_at : key_at + key_size])] = KeyRecord(offset, epoch, value)


def compare_keys(first: CopyKeys, second: CopyKeys, history: int) -> KeyComparison:
    """Compare the latest records of two copies in what all copies have; `history` as for lost_keys. Raises OSError."""
    keys: set[bytes] = set()
    differing: dict[bytes, int] = {}
    for one, other in ((first, second), (second, first)):
        shared, later = one.below, one.above
        if shared is None or later is None:
            return KeyComparison(first.common, None)
        keys |= shared.keys()
        for key, record in shared.items():
            if key not in later and _lacks(other, one, key, record, history):
                differing[key] = max(record.offset, differing.get(key, 0))
    return KeyComparison(first.common, len(keys), len(differing), tuple(sorted(differing.values())[:MAX_OFFSETS]))


def lost_keys(
    follower: CopyKeys, leader: CopyKeys, history: int, *, is_cleaned: bool
) -> Iterator[tuple[bytes, KeyRecord]] | None:
    """Yield the latest records of a copy that a leader's log neither has nor supersedes; None for too many keys.

    `history` is the offset up to which both have the same leaders' records, `is_cleaned` tells that below the common
    offset their batches differ all the same. Raises OSError.
    """
    later, others = follower.above, leader.above
    shared: Latest | None = {}
    if is_cleaned or leader.log is None:
        shared = follower.below if leader.below is not None else None
    if later is None or others is None or shared is None:
        return None
    rest = ((key, record) for key, record in shared.items() if key not in later)
    return (each for each in chain(rest, later.items()) if _lacks(leader, follower, *each, history))


def _lacks(leader: CopyKeys, follower: CopyKeys, key: bytes, record: KeyRecord, history: int) -> bool:
    """Return whether a leader's log neither has the latest record that another copy has of a key, nor a later one."""
    if record.offset < leader.log_start:
        return False  # deleted there by right: retention or DeleteRecords
    own = (leader.above or {}).get(key)
    if own is None and record.value is not None and record.offset >= leader.common:
        return True
    if own is None:
        below = leader.below
        if below is None:
            return True  # too many keys for telling what a tombstone deletes
        own = below.get(key)
    is_shared = record.offset < history
    if own is None:
        # A tombstone that the follower never had, and the leader's cleaner has removed, may have deleted the key.
        is_deleted = is_shared and follower.log_end < leader.cleaned
        return record.value is not None and not is_deleted
    if own.value == record.value and (own.offset == record.offset or own.value is None):
        return False
    if is_shared:
        return own.offset <= record.offset
    return (own.epoch, own.offset) <= (record.epoch, record.offset)


def _digest(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
