"""Other bytes in the place of stretches of a file on paper."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kdump.change.splice import spliced
from kdump.storage.recipe import NewContent, Recipe, SourceBytes, joined, parts_of

SOURCE = bytes(range(100))


def content(recipe: Recipe) -> bytes:
    return b"".join(
        SOURCE[part.start : part.start + part.size] if isinstance(part, SourceBytes) else part.data
        for part in parts_of(recipe)
    )


@given(
    st.lists(st.integers(0, 90), max_size=12).map(sorted),
    st.lists(st.binary(max_size=3), min_size=6, max_size=6),
    st.booleans(),
)
def test_as_with_bytes(places: list[int], texts: list[bytes], in_parts: bool) -> None:
    recipe: Recipe = SourceBytes("f", 0, 90)
    if in_parts:
        recipe = joined((SourceBytes("f", 5, 40), NewContent(b"new", 3), SourceBytes("f", 50, 47)))
    changes = list(zip(places[::2], places[1::2], texts, strict=False))
    expected = content(recipe)
    for start, stop, data in reversed(changes):
        expected = expected[:start] + data + expected[stop:]
    found = spliced(recipe, changes)
    assert (content(found), found.size) == (expected, len(expected))


def test_several_at_one_place_stay_in_order_and_nothing_changes_without_any() -> None:
    recipe = SourceBytes("f", 10, 20)
    assert spliced(recipe, ()) == recipe
    found = spliced(recipe, [(20, 20, b"a"), (20, 20, b"b")])
    assert content(found) == SOURCE[10:30] + b"ab"
