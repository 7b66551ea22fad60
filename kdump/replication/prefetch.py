"""Let a thread produce what a loop takes, a few items ahead of it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")

AHEAD = 4
"""How many items are made before they are asked for."""


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield what `items` yields, made by a thread; what it raises is raised here. Close it to end the thread."""
    queue: Queue[tuple[Item | None, BaseException | None]] = Queue(AHEAD)
    is_over = Event()

    def make() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                queue.put((item, None))
                if is_over.is_set():
                    return
        except BaseException as raised:  # it belongs to whoever takes the items
            error = raised
        queue.put((None, error))

    thread = Thread(target=make, name="kdump-replicas", daemon=True)
    thread.start()
    try:
        while True:
            item, error = queue.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        is_over.set()
        with suppress(Empty):  # the thread may wait for room, and puts one more at most
            while True:
                queue.get_nowait()
        thread.join()
