"""Write large pieces of text so that Ctrl-C leaves no half line, wherever somebody reads on."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO

PATIENCE_MS = 1000
"""How long the reader may take to make room for more of the line that is being finished."""


def write_lines(stream: BinaryIO, text: bytes | memoryview) -> None:
    """Write whole lines to `stream`, past its buffer; an interrupt comes after the line it falls in. Raises OSError."""
    try:
        target = stream.fileno()
    except OSError:  # it is not a file
        stream.write(text)
        return
    stream.flush()
    view = memoryview(text)
    counts: list[int] = []
    try:
        while (done := sum(counts)) < len(view):
            # the list takes the count before the interpreter looks for an interrupt, which would lose it otherwise
            counts.extend(map(os.write, (target,), (view[done:],)))
    except KeyboardInterrupt:
        with suppress(OSError):
            _finish_line(target, view, sum(counts))
        raise


def _finish_line(target: int, view: memoryview, done: int) -> None:
    """Write the rest of the line of which only what lies before `done` was written, unless nobody takes it."""
    import select

    if done == 0 or view[done - 1] == ord("\n"):
        return
    rest = view[done : done + bytes(view[done:]).find(b"\n") + 1]
    poll = select.poll()
    poll.register(target, select.POLLOUT)
    while rest and poll.poll(PATIENCE_MS):
        rest = rest[os.write(target, rest[: select.PIPE_BUF]) :]  # for as much there is room now
