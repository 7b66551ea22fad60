"""Sequence numbers wrap from 2147483647 to 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.sequences import MAX_SEQUENCE, decrement_sequence, increment_sequence, last_sequence

SEQUENCES = st.integers(0, MAX_SEQUENCE)


@pytest.mark.parametrize(
    ("sequence", "count", "later"),
    [(0, 0, 0), (5, 3, 8), (MAX_SEQUENCE, 0, MAX_SEQUENCE), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 5, 3)],
)
def test_known_sums(sequence: int, count: int, later: int) -> None:
    assert increment_sequence(sequence, count) == later
    assert decrement_sequence(later, count) == sequence


def test_a_negative_count_overflows_as_in_java() -> None:
    """Of a damaged last offset delta; with count below 0, 2147483647 - count is no int any more."""
    assert increment_sequence(10, -5) == -2147483643


@given(SEQUENCES, SEQUENCES)
def test_decrement_undoes_increment(sequence: int, count: int) -> None:
    later = increment_sequence(sequence, count)
    assert later == (sequence + count) % (MAX_SEQUENCE + 1)
    assert decrement_sequence(later, count) == sequence


@given(st.integers(-(2**31), MAX_SEQUENCE), st.integers(-(2**31), MAX_SEQUENCE))
def test_damaged_numbers_stay_within_32_bits(sequence: int, count: int) -> None:
    assert -(2**31) <= increment_sequence(sequence, count) <= MAX_SEQUENCE
    assert -(2**31) <= decrement_sequence(sequence, count) <= MAX_SEQUENCE


def test_last_sequence_of_a_batch() -> None:
    assert last_sequence(10, 4) == 14
    assert last_sequence(MAX_SEQUENCE, 1) == 0
    assert last_sequence(-1, 4) == -1
