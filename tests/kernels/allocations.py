"""Let every allocation of the compiled kernel fail in turn: a MemoryError comes of it, or the same result, no crash.

`python -m tests.kernels.allocations SHIM [--seed N] [--cases N]`, where SHIM is failing_malloc.c as a library, which
LD_PRELOAD has to name too, with PYTHONMALLOC=malloc so that Python's own allocations in the kernel are among them.
"""

from __future__ import annotations

import argparse
import ctypes
import inspect
from collections.abc import Callable
from itertools import count, islice
from types import ModuleType
from typing import Any

from kdump.kernels import _native as native
from tests.kernels.fuzz import Campaign
from tests.kernels.observe import Case, Observation, observe

FAILED = ("raised", "MemoryError: ")


class Failing:
    """The kernel, or an object of it; the allocation with the number `left`, of those in its calls, fails.

    To arm and disarm allocates nothing.
    """

    left: ctypes.c_long
    armed: ctypes.c_int

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return _failing(found) if callable(found) else found


def _failing(real: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        arguments = tuple(each._real if isinstance(each, Failing) else each for each in arguments)
        Failing.armed.value = Failing.left.value > 0
        try:
            found = real(*arguments, **named)
        finally:
            Failing.armed.value = 0
        return Failing(found) if inspect.isclass(real) else found

    return called


def observed(case: Case, kernel: Any, number: int) -> tuple[list[Observation], bool]:
    """What the kernel says of a case while that allocation fails; and whether there was one."""
    Failing.left.value = number
    found = list(observe(case, kernel))
    return found, Failing.left.value == 0


def check(case: Case, kernel: ModuleType) -> tuple[int, int]:
    """How many allocations failed, and how many of these ended in a MemoryError. Raises AssertionError."""
    expected = list(observe(case, kernel))
    errors = 0
    for number in count(1):
        found, has_failed = observed(case, Failing(kernel), number)
        if not has_failed:
            assert found == expected
            return number - 1, errors
        if found != expected:
            assert found[-1] == FAILED, (case, number, found[-1])
            assert found[:-1] == expected[: len(found) - 1], (case, number)
            errors += 1
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=20)
    asked = parser.parse_args()
    shim = ctypes.CDLL(asked.shim)
    Failing.left, Failing.armed = ctypes.c_long.in_dll(shim, "kdump_left"), ctypes.c_int.in_dll(shim, "kdump_armed")
    failed = errors = 0
    for case in islice(Campaign(asked.seed, native)._cases(), asked.cases):
        found = check(case, native)
        failed, errors = failed + found[0], errors + found[1]
    print(
        f"{asked.cases} cases: {failed} allocations failed, {errors} ended in a MemoryError, the others in the result"
    )


if __name__ == "__main__":
    main()
