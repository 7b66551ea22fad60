"""Which batches stay where offsets are in dispute, on parts of a log that stand for no bytes."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.mend import offset_choice
from kdump.mend.offset_choice import increasing, joined
from kdump.mend.ranges import ByteRange, LeftOut, Orderly
from kdump.storage.scan import MAX_RELATIVE_OFFSET

SIZE = 10
HIGHEST = 10**12
Part = ByteRange | Orderly | LeftOut
Offsets = tuple[int, int]


def at(number: int, first: int, last: int | None = None, *, is_dense: bool = True) -> ByteRange:
    """The batch that stands at place `number` of a log, of ten bytes."""
    last = first if last is None else last
    records = last - first + 1 if is_dense else 1
    return ByteRange(SIZE * number, SIZE * number + SIZE, first, last, 1, is_dense, records=records)


def log_of(*offsets: int | Offsets | None) -> list[ByteRange | LeftOut]:
    """A log of batches with these first and last offsets, or of one offset; None for damage."""
    return [
        LeftOut(SIZE * number, SIZE * number + SIZE, "damage")
        if each is None
        else at(number, *(each if isinstance(each, tuple) else (each,)))
        for number, each in enumerate(offsets)
    ]


def orderly(number: int, *offsets: int) -> Orderly:
    """Batches of two offsets each from place `number` on, the last one of which has one record only."""
    starts = [SIZE * (number + n) for n in range(len(offsets))]
    lasts = [offset + 1 for offset in offsets]
    records = [2] * (len(offsets) - 1) + [1]
    return Orderly(
        array("q", starts),
        array("q", [SIZE] * len(offsets)),
        array("q", offsets),
        array("q", lasts),
        array("q", records),
        array("i", [0] * len(offsets)),
        array("I", [0] * len(offsets)),
    )


def chosen(parts: Iterable[Part], lowest: int = 0, highest: int = HIGHEST) -> list[str]:
    """What becomes of the parts, in words: offsets that are kept, `>` before those that move, `-` before the others."""
    return [words(part) for part in increasing(parts, lowest, highest)]


def words(part: ByteRange | LeftOut) -> str:
    if isinstance(part, LeftOut):
        return f"-{part.valid.first_offset}" if part.valid else "damage"
    offsets = f"{part.first_offset}" if part.batches == 1 else f"{part.first_offset}..{part.last_offset}"
    return f">{offsets}" if part.is_moved else offsets


def traced(window: int, parts: Iterable[Part]) -> str:
    """What becomes of the parts with a window of this many, and a plus where each of them is read."""
    events: list[str] = []

    def read() -> Iterator[Part]:
        for part in parts:
            events.append("+")
            yield part

    with mock.patch.object(offset_choice, "WINDOW", window):
        for part in increasing(read(), 0, HIGHEST):
            events.append(words(part))
    return " ".join(events)


@pytest.mark.parametrize(
    ("window", "parts", "expected"),
    [
        # as many as the window has are held, and half of them are decided about at a time
        (4, log_of(*range(9)), "+ + + + 0 1 + + 2 3 + + 4 5 + 6 7 8"),
        (5, log_of(*range(7)), "+ + + + + 0 1 + + 2 3 4 5 6"),
        (4, log_of(None, 0, None, 1, 2), "+ + + + damage 0 + damage 1 2"),
        # batches that belong together are not parted for it
        (
            4,
            [
                *log_of(0), orderly(1, 2, 4, 6, 8, 10), at(6, 12), at(7, 14), orderly(8, 20, 22),
                *map(at, (10, 11), (30, 31)),
            ],
            "+ + 0 2..11 + + + 12 14 + + 20..23 30 31",
        ),
        # weighed against each other are those that are held at the time
        (4, log_of(0, 1, None, 3, 2, 5, 4, 6, 7, 8), "+ + + + 0 1 + + damage -3 + + 2 5 + + -4 6 7 8"),
        (4, log_of(0, 1, 2, 9, 3, 4, 5, 6), "+ + + + 0 1 + + 2 -9 + + 3 4 5 6"),
        (4, log_of(0, 3, 2, 4, 1, 5), "+ + + + 0 3 + + -2 4 -1 5"),
        (4, [*log_of(0, 9), orderly(2, 1, 3, 5, 7), at(6, 9)], "+ + + 0 -9 + 1 3 5 7 9"),
        # a batch that moves goes where it belongs, and those before that are decided about with it
        (4, log_of(1, 0, 2, 3, 4, 5), "+ + + + 0 >1 2 + + 3 4 5"),
        (6, log_of(0, 3, 1, 2, 4, 5, 6, 7), "+ + + + + + 0 1 2 >3 4 + + 5 6 7"),
        (2, log_of(1, 0, 2, 1, 4, 3), "+ + -1 + 0 + -2 + 1 + 2 3"),
    ],
)  # fmt: skip
def test_no_more_than_a_window_is_weighed_at_a_time(window: int, parts: list[Part], expected: str) -> None:
    assert traced(window, parts) == expected


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([], ""),
        ([None], "damage"),
        # one batch, or several together, that fill a hole exactly: inside, in front and at the end
        ([0, 2, 1, 3], "0 1 >2 3"),
        ([0, 3, 4, 2, 1, 5], "0 >1 >2 3 4 5"),
        ([0, 5, 6, 7, (1, 2), (3, 4)], "0 >1 >3 5 6 7"),
        ([5, 6, 4, 3, 2, 1, 0], ">0 >1 >2 >3 >4 5 6"),
        ([8, 9, 5, 6, 7, 3], "5 6 7 -3 >8 >9"),
        ([0, 7, 8, 9, 3, 1, 2, 5, 6, 4], "0 1 2 >3 >4 5 6 >7 >8 >9"),
        # not so exactly
        ([0, 3, 4, 1, 5], "0 3 4 -1 5"),
        ([0, 5, 6, 7, (1, 2), 4], "0 5 6 7 -1 -4"),
        ([0, (1, 4), (2, 3), 5], "0 1 -2 5"),
        ([7, 8, 9, 10, None, 5, 6, 0], "7 8 9 10 damage -5 -6 -0"),
        # the same offsets again
        ([1, 1], "1 -1"),
        ([(0, 1), (2, 3), (1, 2), (4, 5)], "0 2 -1 4"),
        ([1, 1, 2, 0], ">0 1 -1 2"),
        ([0, 10, 11, 12, 4, 5, 6], "0 -10 -11 -12 4 5 6"),
    ],
)
def test_what_stays_and_where(offsets: list[int | Offsets | None], expected: str) -> None:
    assert " ".join(chosen(log_of(*offsets))) == expected


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        # first counts how many records go, then how many batches stay, then how many of them have a record for each
        # offset, then how many follow without a gap
        ([at(0, 0), at(1, 1, 4), at(2, 2), at(3, 4)], [0, 1]),
        ([at(0, 0), at(1, 1, 4, is_dense=False), at(2, 2), at(3, 4)], [0, 2, 3]),
        ([at(0, 0), at(1, 1, 4, is_dense=False), at(2, 3, 4)], [0, 2]),
        ([at(0, 0), at(1, 3, 4), at(2, 1, 4, is_dense=False)], [0, 1]),
        ([at(0, 0), at(1, 3, 4), at(2, 1, 4)], [0, 2]),
        ([at(0, 0), at(1, 1, 4), at(2, 3, 4)], [0, 1]),
        # of two that are worth the same
        ([at(0, 1), at(1, 1)], [0]),
        ([at(0, 0), at(1, 1), at(2, 1), at(3, 2)], [0, 1, 3]),
        ([at(0, 0), at(1, 5, 6), at(2, 5, 6), at(3, 9)], [0, 1, 3]),
    ],
)
def test_of_two_ways_the_better_one(parts: list[ByteRange], kept: list[int]) -> None:
    found = increasing(parts, 0, HIGHEST)
    assert [part.start // SIZE for part in found if isinstance(part, ByteRange) and not part.is_moved] == kept


LOWEST = 100
FAR = LOWEST + MAX_RELATIVE_OFFSET


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("first", "last", "highest", "stays"),
    [
        (LOWEST - 1, LOWEST, HIGHEST, False),
        (LOWEST, LOWEST + 1, HIGHEST, True),
        (LOWEST + 5, LOWEST + 4, HIGHEST, False),
        (LOWEST + 5, LOWEST + 5, HIGHEST, True),
        (LOWEST, FAR, HIGHEST, True),
        (LOWEST, FAR + 1, HIGHEST, False),
        (LOWEST + 5, LOWEST + 9, LOWEST + 9, True),
        (LOWEST + 5, LOWEST + 10, LOWEST + 9, False),
    ],
)
def test_a_batch_belongs_to_its_segment(first: int, last: int, highest: int, *, stays: bool, together: bool) -> None:
    parts: list[Part] = [at(0, first, last), at(1, highest + 1)]
    if together:
        starts, firsts, lasts = array("q", (0, SIZE)), array("q", (first, highest + 1)), array("q", (last, highest + 1))
        parts = [Orderly(starts, array("q", (SIZE, SIZE)), firsts, lasts, firsts, firsts, firsts)]
    found = list(increasing(parts, LOWEST, highest))
    assert [isinstance(part, ByteRange) for part in found] == [stays, False]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([LOWEST, FAR], "100 2147483747"),
        ([LOWEST, FAR + 1], "100 -2147483748"),
        ([FAR + 1], "-2147483748"),
        ([FAR, FAR + 1], "2147483747 2147483748"),
        ([FAR - 1, FAR + 1], "2147483746 -2147483748"),
        ([LOWEST, FAR + 1, FAR + 2], "100 2147483748 2147483749"),
        ([LOWEST, FAR + 5, FAR + 6, FAR + 3, FAR + 4], "100 2147483750 2147483751 >2147483752 >2147483753"),
    ],
)
def test_a_last_batch_far_away_has_to_follow_another(offsets: list[int], expected: str) -> None:
    assert " ".join(chosen(log_of(*offsets), LOWEST)) == expected


def records(parts: Iterable[ByteRange]) -> int:
    return sum(part.records for part in parts)


def increases(chain: Sequence[ByteRange]) -> bool:
    return all(one.last_offset < two.first_offset for one, two in itertools.pairwise(chain))


BATCHES = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from((0, 0, 0, 1, 3)), st.booleans()).map(
        lambda each: at(0, each[0], each[0] + each[1], is_dense=each[2])
    ),
    max_size=7,
)


@given(BATCHES)
def test_no_other_way_keeps_more_records(batches: list[ByteRange]) -> None:
    parts = [part._replace(start=SIZE * n, stop=SIZE * n + SIZE) for n, part in enumerate(batches)]
    found = list(increasing(parts, 0, HIGHEST))
    assert sorted(part.start for part in found) == [part.start for part in parts]
    kept = [part for part in found if isinstance(part, ByteRange)]
    assert increases(kept)
    in_place = [part for part in kept if not part.is_moved]
    assert [part.start for part in in_place] == sorted(part.start for part in in_place)
    ways = (way for count in range(len(parts) + 1) for way in itertools.combinations(parts, count))
    assert records(kept) >= max(records(way) for way in ways if increases(way))


@given(st.lists(st.integers(0, 12), max_size=12), st.sampled_from((2, 3, 4, 6, 4096)))
def test_no_hole_stays_that_batches_at_hand_would_fill(offsets: list[int], window: int) -> None:
    with mock.patch.object(offset_choice, "WINDOW", window):
        found = list(increasing(log_of(*offsets), 0, HIGHEST))
    assert sorted(part.start for part in found) == [SIZE * number for number in range(len(offsets))]
    kept = [part.first_offset for part in found if isinstance(part, ByteRange)]
    assert kept == sorted(set(kept))
    if window > len(offsets):
        dropped = {part.valid.first_offset for part in found if isinstance(part, LeftOut) and part.valid}
        for end, first in itertools.pairwise((-1, *kept)):
            assert first == end + 1 or not dropped.issuperset(range(end + 1, first))
        assert max(kept, default=-1) + 1 not in dropped


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([at(0, 0, 4)], [at(0, 0, 4)]),
        ([at(0, 0, 4), at(1, 7), at(2, 9)], [ByteRange(0, 30, 0, 9, 3, False)]),
        ([at(0, 0), at(2, 7)], [at(0, 0), at(2, 7)]),
        ([LeftOut(0, 5, "a"), LeftOut(5, 9, "b")], [LeftOut(0, 5, "a"), LeftOut(5, 9, "b")]),
        (
            [at(0, 0), LeftOut(10, 20, "a"), at(2, 1), at(3, 2), LeftOut(40, 41, "b")],
            [at(0, 0), LeftOut(10, 20, "a"), ByteRange(20, 40, 1, 2, 2, False), LeftOut(40, 41, "b")],
        ),
        ([at(0, 0), at(1, 1)._replace(is_moved=True)], [at(0, 0), at(1, 1)._replace(is_moved=True)]),
        ([at(0, 0)._replace(is_moved=True), at(1, 1)], [at(0, 0)._replace(is_moved=True), at(1, 1)]),
    ],
)
def test_neighbours_are_one_stretch(parts: list[ByteRange | LeftOut], expected: list[ByteRange | LeftOut]) -> None:
    assert list(joined(iter(parts))) == expected
