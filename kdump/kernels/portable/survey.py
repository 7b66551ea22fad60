"""One pass over a column for what checks ask of it."""

from __future__ import annotations

from array import array
from operator import eq, gt

Survey = tuple[int, int, int, int, int]


def survey(column: array[int]) -> Survey:
    """The lowest and the largest number, how many are lower than the one before and the index of the first of these
    (-1: none), and how many equal the one before.

    Raises ValueError where the column is empty.
    """
    if not column:
        raise ValueError("the column is empty")
    following = column[1:]
    falls = list(map(gt, column, following))
    count = sum(falls)
    first_fall = falls.index(True) + 1 if count else -1
    return min(column), max(column), count, first_fall, sum(map(eq, column, following))
