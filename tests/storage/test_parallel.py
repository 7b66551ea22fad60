"""Tasks done by several threads come in order, with what each of them raised."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from kdump.storage import parallel
from kdump.storage.parallel import ordered, processors


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_order_with_what_was_raised(jobs: int) -> None:
    def work(task: int) -> int:
        if task % 7 == 3:
            raise ValueError(task)
        return task * task

    found = list(ordered(range(50), work, lambda task: task % 5 > 0, jobs))
    assert [task for task, _ in found] == list(range(50))
    for task, result in found:
        if jobs > 1 and not task % 5:
            assert result is None  # it is left to the caller
        else:
            assert str(task) == str(result) if task % 7 == 3 else result == task * task


@pytest.mark.parametrize(("takes", "found"), [(True, [(7, 49)]), (False, [(7, None)])])
def test_for_one_task_no_thread_is_begun(takes: bool, found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("a thread was begun"))
    assert list(ordered([7], lambda task: task * task, lambda _: takes, 4)) == found


def test_the_caller_works_too_and_tasks_are_not_laid_out_without_end() -> None:
    laid_out: list[int] = []
    threads: set[str] = set()

    def tasks() -> Iterator[int]:
        for task in range(100):
            laid_out.append(task)
            yield task

    def work(task: int) -> None:
        threads.add(threading.current_thread().name)

    results = ordered(tasks(), work, lambda _: True, 3)
    assert isinstance(results, Generator)
    next(results)
    assert len(laid_out) <= 7
    results.close()
    assert all(name.startswith(("kdump", threading.current_thread().name)) for name in threads)


def test_a_caller_that_only_waits_does_no_task() -> None:
    def working(task: int) -> str:
        return threading.current_thread().name

    names = {result for _, result in ordered(range(50), working, lambda _: True, 2, caller_works=False)}
    assert names
    assert threading.current_thread().name not in names


def test_how_many_processors_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processors() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors() == 1


def test_a_thread_that_ends_for_want_of_memory_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has taken a task, and dies before it begins it: as where there is no memory to call a function."""
    monkeypatch.setattr(parallel, "_LOOKS_EVERY", 0.01)
    monkeypatch.setattr(threading, "excepthook", lambda end: None)
    taken = threading.Event()

    def run(item: Any, *_: object) -> None:
        item.future.set_running_or_notify_cancel()
        taken.set()
        raise MemoryError

    monkeypatch.setattr("concurrent.futures.thread._WorkItem.run", run)

    def takes(task: int) -> bool:
        return task == 0

    def tasks() -> Iterator[int]:
        yield 0
        yield 1
        taken.wait()

    with pytest.raises(MemoryError):
        list(ordered(tasks(), lambda task: task, takes, 2))


@pytest.mark.parametrize("started", [0, 1])
def test_without_threads_the_caller_does_it_all(started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as the system gives, then none: no task is left out, and none comes out of order."""
    start, left = threading.Thread.start, [started]

    def refused(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    found = list(ordered(range(50), lambda task: task * task, lambda task: task % 5 > 0, 4))
    assert found == [(task, task * task if task % 5 else None) for task in range(50)]
