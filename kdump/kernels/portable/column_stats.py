"""One pass over columns for what checks ask of them."""

from __future__ import annotations

from array import array
from operator import eq, gt, sub

ColumnStats = tuple[int, int, int, int, int]
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1


def column_stats(column: array[int]) -> ColumnStats:
    """Return the lowest and the largest number, how the order falls, and how many equal the one before.

    How it falls: how many are lower than the one before, and the index of the first of these (-1: none).

    Raises ValueError where the column is empty.
    """
    if not column:
        raise ValueError("the column is empty")
    following = column[1:]
    falls = list(map(gt, column, following))
    count = sum(falls)
    first_fall = falls.index(True) + 1 if count else -1
    return min(column), max(column), count, first_fall, sum(map(eq, column, following))


def differences(lower: array[int], upper: array[int]) -> tuple[int, int]:
    """Return the lowest and the largest of what the numbers of `upper` are above those of `lower`, cut to 64 bits.

    Raises ValueError where the columns are empty or not of the same length.
    """
    if not lower or len(lower) != len(upper):
        raise ValueError("the columns are empty, or not of the same length")
    found = list(map(sub, upper, lower))
    return max(min(min(found), MAX_INT64), MIN_INT64), max(min(max(found), MAX_INT64), MIN_INT64)
