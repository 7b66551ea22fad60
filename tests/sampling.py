"""Which of many cases of one kind each run of the tests has; the slow run has the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

_Parameters = type(pytest.param())


def sampled(cases: Iterable[Any], count: int, always: Collection[Any] = ()) -> list[Any]:
    """Return the cases as parameters, all slow but `count` of them, evenly spread, and those of `always`."""
    cases = list(cases)
    quick = {number * len(cases) // count for number in range(count)}
    return [case if number in quick or case in always else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if isinstance(case, _Parameters):
        return pytest.param(*case.values, marks=(*case.marks, pytest.mark.slow), id=case.id)
    values = case if type(case) is tuple else (case,)  # a named tuple is one value
    return pytest.param(*values, marks=pytest.mark.slow)
