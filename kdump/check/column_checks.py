"""Questions about whole columns, answered at the speed of C."""

from __future__ import annotations

from array import array

from kdump import kernels


def is_uniform(column: array[int], value: int) -> bool:
    """Return whether all of a column is `value`."""
    return column == array("q", (value,)) * len(column)


def increases(column: array[int]) -> bool:
    """Return whether each number is larger than the one before."""
    if len(column) < 2:
        return True
    _, _, falls, _, repeats = kernels.column_stats(column)
    return not (falls or repeats)


def is_sorted(column: array[int]) -> bool:
    """Return whether no number is smaller than the one before."""
    return len(column) < 2 or not kernels.column_stats(column)[2]
