"""Entries that are out of order are told with the one that they contradict."""

from __future__ import annotations

from array import array

import pytest

from kdump.check.entries import Entries, order_text


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([139, 79, 179], "out of order: entry 0 is offset 139, entry 1 is offset 79"),
        ([19, 79, 39, 99], "out of order: entry 1 is offset 79, entry 2 is offset 39"),
        ([19, 39, 10, 59], "out of order: entry 1 is offset 39, entry 2 is offset 10"),
        ([5, 19], "out of order: entry 0 is offset 5, the segment begins at offset 10"),
    ],
)
def test_both_entries_are_named(offsets: list[int], said: str) -> None:
    entries = Entries((9, -1))
    broken = entries.fill(0, array("q", offsets), array("q", range(len(offsets))))
    assert [order_text(one, other, lambda entry: f"offset {entry[1]}", 10) for one, other in broken] == [said]


def test_an_entry_may_contradict_one_of_the_stretch_before() -> None:
    entries = Entries((-1, -1))
    assert entries.fill(0, array("q", [19, 39]), array("q", [0, 100])) == []
    assert entries.fill(2, array("q", [10, 59]), array("q", [200, 300])) == [((2, 10, 200), (0, 19, 0))]
