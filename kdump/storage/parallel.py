"""Tasks done by several threads, their results in the tasks' order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:  # what one job has no use for takes longer to import than most of what reads a log
    from concurrent.futures import Future, ThreadPoolExecutor
    from threading import Thread

Task = TypeVar("Task")
Result = TypeVar("Result")

AHEAD = 2
"""How many tasks are laid out for each thread."""
_LOOKS_EVERY = 1.0
"""Seconds after which whoever waits for a thread looks whether it lives."""


def processors() -> int:
    """Return how many processors this process may run on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Begun(Generic[Task, Result]):
    """A task that is laid out; `future` is the thread's promise where a thread is to do it."""

    __slots__ = ("future", "result", "task")

    def __init__(self, task: Task, future: Future[Result] | None) -> None:
        self.task = task
        self.future = future
        self.result: Result | None = None


def ordered(
    tasks: Iterable[Task],
    work: Callable[[Task], Result | None],
    takes: Callable[[Task], bool],
    jobs: int,
    *,
    caller_works: bool = True,
) -> Iterator[tuple[Task, Result | BaseException | None]]:
    """Yield each task with what `work` made of it, or the exception that it raised, in the tasks' order.

    With several `jobs`, those tasks that threads should take are laid out before they are asked for: two for each
    thread; the others come without a result. The calling thread is one of them: rather than wait it does a task that
    no other has begun. Unless `caller_works`: then it only waits, and Ctrl-C, which comes to it, breaks off no task.
    Raises MemoryError where a thread has ended for want of memory.
    """

    def tried(task: Task) -> Result | BaseException | None:
        try:
            return work(task)
        except Exception as error:
            return error

    if jobs > 1:
        return _by_threads(tasks, tried, takes, jobs, caller_works)
    return ((task, tried(task)) for task in tasks)


def _by_threads(
    tasks: Iterable[Task],
    tried: Callable[[Task], Result | BaseException | None],
    takes: Callable[[Task], bool],
    jobs: int,
    caller_works: bool,
) -> Iterator[tuple[Task, Result | BaseException | None]]:
    tasks = iter(tasks)
    head: list[Task] = []
    for task in tasks:
        if takes(task):
            head = [task, *islice(tasks, 1)]
            break
        yield task, None
    if len(head) < 2:
        yield from ((task, tried(task)) for task in head)
    else:
        yield from _laid_out(chain(head, tasks), tried, takes, jobs, caller_works)


def _laid_out(
    tasks: Iterable[Task],
    tried: Callable[[Task], Result | BaseException | None],
    takes: Callable[[Task], bool],
    jobs: int,
    caller_works: bool,
) -> Iterator[tuple[Task, Result | BaseException | None]]:
    """Yield the tasks with their results; threads are begun for them."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import current_thread

    threads: list[Thread] = []
    begun: deque[_Begun[Task, Result | BaseException | None]] = deque()

    def result_of(first: _Begun[Task, Result | BaseException | None]) -> Result | BaseException | None:
        while caller_works and first.future is not None and not first.future.done():
            mine = next((each for each in (first, *begun) if each.future is not None and each.future.cancel()), None)
            if mine is None:
                break
            mine.future, mine.result = None, tried(mine.task)
        return first.result if first.future is None else _waited_for(first.future, threads)

    free = AHEAD * jobs  # how many more may be laid out
    with ThreadPoolExecutor(jobs - caller_works, "kdump", lambda: threads.append(current_thread())) as pool:
        try:
            for task in tasks:
                is_taken = takes(task)
                begun.append(_begin(pool, tried, task) if is_taken else _Begun(task, None))
                free -= is_taken
                while begun and not free:
                    first = begun.popleft()
                    free += takes(first.task)
                    yield first.task, result_of(first)
            while begun:
                first = begun.popleft()
                yield first.task, result_of(first)
        finally:
            for each in begun:
                if each.future is not None:
                    each.future.cancel()


def _begin(pool: ThreadPoolExecutor, tried: Callable[[Task], Result], task: Task) -> _Begun[Task, Result]:
    try:
        return _Begun(task, pool.submit(tried, task))
    except RuntimeError:  # the system gives no thread more
        mine = _Begun[Task, Result](task, None)
        mine.result = tried(task)
        return mine


def _waited_for(future: Future[Result], threads: Sequence[Thread]) -> Result:
    """Return the result that one of these threads promised.

    Raises MemoryError where one of them has died: with memory they live until nobody has tasks any more, and without it
    one may die between taking a task and beginning it.
    """
    while True:
        try:
            return future.result(_LOOKS_EVERY)
        except TimeoutError:
            if not all(thread.is_alive() for thread in threads):
                raise MemoryError from None
