"""Which producer id, producer epoch and base sequence may stand together."""

from __future__ import annotations

import pytest

from kdump.formats.producer_fields import has_running_sequences, producer_fault


@pytest.mark.parametrize(
    ("fields", "writer"),
    [
        ((-1, -1, -1), "the Java producer without idempotence"),
        ((-1, -1, 0), "group, share and transaction coordinators"),
        ((-1, 0, 0), "kafkajs without idempotence"),
        ((0, 0, 0), "a first idempotent batch, or a transactional offset commit"),
        ((4000, 32767, 2147483647), "the largest values"),
    ],
)
def test_what_is_really_written_is_legal(fields: tuple[int, int, int], writer: str) -> None:
    assert producer_fault(*fields, is_control=False) == "", writer


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ((7, -1, -1), "there is no producer epoch"),
        ((7, 0, -1), "there is no sequence"),
        ((-2, -1, -1), "one of them is below -1"),
        ((-1, -2, 0), "one of them is below -1"),
        ((7, 0, -2), "one of them is below -1"),
    ],
)
def test_what_nobody_writes(fields: tuple[int, int, int], fault: str) -> None:
    assert producer_fault(*fields, is_control=False) == fault


def test_a_marker_has_a_producer_but_no_sequence() -> None:
    assert producer_fault(7, 0, -1, is_control=True) == ""


def test_sequences_do_not_run_where_coordinators_write() -> None:
    assert not has_running_sequences("__consumer_offsets")
    assert not has_running_sequences("__share_group_state")
    assert has_running_sequences("orders")
