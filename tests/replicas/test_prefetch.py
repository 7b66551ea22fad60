"""A thread that makes items ahead of whoever takes them: all of them, in order, and it ends in any case."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, active_count

import pytest

from kdump.replication import prefetch
from kdump.replication.prefetch import prefetched


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = active_count()
    yield
    assert active_count() == before


@pytest.mark.parametrize("count", [0, 1, prefetch.AHEAD, 50])
def test_all_items_come_in_order(count: int) -> None:
    assert list(prefetched(iter(range(count)))) == list(range(count))


def test_what_making_them_raises_comes_after_the_items_before() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("broken")

    taken = prefetched(items())
    assert [next(taken), next(taken)] == [1, 2]
    with pytest.raises(OSError, match="broken"):
        next(taken)


def test_no_more_is_made_than_a_few_items_ahead() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    taken = prefetched(items())
    assert next(taken) == 0
    taken.close()
    assert len(made) <= prefetch.AHEAD + 3


def test_a_slow_taker_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where as many as may be have been made for a while."""
    monkeypatch.setattr(prefetch, "AHEAD", 1)
    is_full = Event()

    def items() -> Iterator[int]:
        for number in range(5):
            if number == 3:
                is_full.set()
            yield number

    taken = prefetched(items())
    found = [next(taken)]
    is_full.wait(0.05)
    assert [*found, *taken] == list(range(5))
