"""A column_stats of a column: its smallest and largest number, where it falls, and what stands in it twice in a row."""

from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.kernels.portable import kernels as portable
from tests.kernels.reading import KERNELS, NATIVE, only_native

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([7], (7, 7, 0, -1, 0)),
        ([1, 2, 3], (1, 3, 0, -1, 0)),
        ([1, 1, 2, 2], (1, 2, 0, -1, 2)),
        ([5, 3, 4, 4, -9], (-9, 5, 2, 1, 1)),
        ([-(1 << 63), (1 << 63) - 1], (-(1 << 63), (1 << 63) - 1, 0, -1, 0)),
        ([(1 << 63) - 1, -(1 << 63)], (-(1 << 63), (1 << 63) - 1, 1, 1, 0)),
    ],
)
def test_a_column(kernel: ModuleType, numbers: list[int], expected: tuple[int, ...]) -> None:
    assert kernel.column_stats(array("q", numbers)) == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_empty_column(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="the column is empty"):
        kernel.column_stats(array("q"))


@only_native
@given(numbers=st.lists(st.one_of(INT64, st.integers(0, 3)), min_size=1))
def test_both_kernels_say_the_same(numbers: list[int]) -> None:
    assert NATIVE is not None
    column = array("q", numbers)
    assert NATIVE.column_stats(column) == portable.column_stats(column)


@only_native
def test_a_column_of_other_numbers_is_refused() -> None:
    assert NATIVE is not None
    with pytest.raises(ValueError, match="64-bit"):
        NATIVE.column_stats(array("b", [1]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ([1], [1], (0, 0)),
        ([1, 5, 9], [4, 5, 8], (-1, 3)),
        ([-(1 << 63)], [(1 << 63) - 1], ((1 << 63) - 1, (1 << 63) - 1)),
        ([(1 << 63) - 1, 0], [-(1 << 63), 0], (-(1 << 63), 0)),
        ([-1], [(1 << 63) - 1], ((1 << 63) - 1, (1 << 63) - 1)),
        ([1], [-(1 << 63)], (-(1 << 63), -(1 << 63))),
    ],
)
def test_differences(kernel: ModuleType, lower: list[int], upper: list[int], expected: tuple[int, int]) -> None:
    assert kernel.differences(array("q", lower), array("q", upper)) == expected


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("lower", "upper"), [([], []), ([1], []), ([1], [1, 2])])
def test_columns_that_do_not_go_together(kernel: ModuleType, lower: list[int], upper: list[int]) -> None:
    with pytest.raises(ValueError, match="empty, or not of the same length"):
        kernel.differences(array("q", lower), array("q", upper))


@only_native
@given(pairs=st.lists(st.tuples(INT64, INT64), min_size=1))
def test_both_kernels_find_the_same_differences(pairs: list[tuple[int, int]]) -> None:
    assert NATIVE is not None
    lower, upper = (array("q", column) for column in zip(*pairs, strict=True))
    assert NATIVE.differences(lower, upper) == portable.differences(lower, upper)
