"""Which keys of a compacted topic a choice of leader loses: each counts once, for the copy with its latest record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdump.replication.compacted import CopyKeys, KeyComparison, KeyRecord, compare_keys, lost_keys
from kdump.replication.compare import Compared, Comparison, Relation
from kdump.replication.front import LostFront
from kdump.replication.truncation import LoadedLog, follow
from kdump.storage.partition import PartitionLog

NO_KEYS = CopyKeys(None, 0, 0, 0)
"""The keys of a broker that has no directory of a partition."""


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of all copies, by the copies' numbers.

    `histories` are the offsets up to which two copies have the same leaders' records, by their numbers in either order.
    `is_cleaned`: cleaners have been at the copies, so that batches may differ by right.
    """

    copies: Sequence[CopyKeys]
    histories: Mapping[tuple[int, int], int]
    is_cleaned: bool

    def history(self, first: int, second: int) -> int:
        """Return the offset up to which two copies have the same leaders' records."""
        return self.histories[min(first, second), max(first, second)]

    def lost(self, leader: int | None, followers: Sequence[int]) -> Mapping[int, list[KeyRecord]] | None:
        """Return the latest records that a leader's log lacks, by the number of the copy that has them; by offset.

        `leader` is None for a broker that has no log. Of a record that several copies have the first of the
        `followers` has it. None where there are too many keys. Raises OSError.
        """
        log = NO_KEYS if leader is None else self.copies[leader]
        latest: dict[bytes, tuple[KeyRecord, int]] = {}
        for number in followers:
            history = 0 if leader is None else self.history(leader, number)
            found = lost_keys(self.copies[number], log, history, is_cleaned=self.is_cleaned)
            if found is None:
                return None
            for key, record in found:
                known = latest.get(key)
                if known is None or (known[0].epoch, known[0].offset) < (record.epoch, record.offset):
                    latest[key] = record, number
        lost: dict[int, list[KeyRecord]] = {number: [] for number in followers}
        for record, number in latest.values():
            lost[number].append(record)
        for records in lost.values():
            records.sort(key=lambda record: record.offset)
        return lost


def partition_keys(
    logs: Sequence[PartitionLog],
    loaded: Sequence[LoadedLog | None],
    compared: Compared,
    cleaned: Sequence[int],
    fronts: Sequence[LostFront | None],
) -> PartitionKeys:
    """Return the keys of copies that were compared, by their numbers: what they come to once they are `loaded`.

    `cleaned` are the offsets up to which a cleaner has been at each, `fronts` what was lost before their first
    segments. Nothing is read before it is asked for.
    """
    ends = [
        min(contents.end_offset, log.log_end) if log is not None else contents.end_offset
        for contents, log in zip(compared.contents, loaded, strict=True)
    ]
    histories = {(pair.first, pair.second): _history(pair, ends, loaded) for pair in compared.pairs}
    is_cleaned = any(cleaned) or any(fronts) or any(pair.relation is Relation.BYTES for pair in compared.pairs)
    common = min([*ends, *histories.values()], default=0)
    if not is_cleaned:
        common = min([common, *(pair.same_up_to for pair in compared.pairs)])
    starts = [
        front.start if front else log.log_start if log else 0 for front, log in zip(fronts, loaded, strict=True)
    ]
    copies = [
        CopyKeys(log, start, end, common, up_to)
        for log, start, end, up_to in zip(logs, starts, ends, cleaned, strict=True)
    ]
    return PartitionKeys(copies, histories, is_cleaned)


def _history(pair: Comparison, ends: Sequence[int], loaded: Sequence[LoadedLog | None]) -> int:
    """Return up to which offset two copies have the same leaders' records, by their batches and by leader epochs."""
    found = [ends[pair.first], ends[pair.second]]
    if pair.relation is Relation.EPOCH:
        found.append(pair.same_up_to)
    first, second = loaded[pair.first], loaded[pair.second]
    if first is not None and second is not None:
        cuts = (follow(first, second).offset, follow(second, first).offset)
        found += [cut for cut in cuts if cut is not None]
    return min(found)


def key_comparisons(keys: PartitionKeys, compared: Compared) -> dict[tuple[int, int], KeyComparison]:
    """Compare every two copies by keys, up to where all of them have the same history. Raises OSError.

    A cleaner's checkpoint may be older than what it has done: batches above it may differ by right too.
    """
    return {
        (pair.first, pair.second): compare_keys(
            keys.copies[pair.first], keys.copies[pair.second], keys.history(pair.first, pair.second)
        )
        for pair in compared.pairs
    }
