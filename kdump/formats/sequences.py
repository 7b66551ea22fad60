"""Arithmetic of producer sequence numbers: int32, never negative, 2147483647 is followed by 0.

Only numbers from damaged bytes go over the edge, and Kafka's own wrap silently.
"""

from __future__ import annotations

from kdump.formats.batch import wrap32

MAX_SEQUENCE = (1 << 31) - 1
NO_SEQUENCE = -1


def increment_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` records after `sequence`."""
    if sequence > wrap32(MAX_SEQUENCE - count):
        return wrap32(count - (MAX_SEQUENCE - sequence) - 1)
    return wrap32(sequence + count)


def decrement_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` records before `sequence`."""
    if sequence < count:
        return wrap32(MAX_SEQUENCE - (count - sequence) + 1)
    return wrap32(sequence - count)


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return a batch's last sequence number; -1 for a batch without sequence numbers.

    It is `last_offset_delta` that counts, not the number of records, which compaction may have lowered.
    """
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)
