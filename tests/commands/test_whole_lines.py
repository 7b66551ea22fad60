"""Large pieces of text, and what is left of them after an interrupt."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import BinaryIO

import pytest

from kdump.commands.shell import whole_lines
from kdump.commands.shell.whole_lines import write_lines

LINES = b"".join(b"%06d" % number + b"." * (number % 90) + b"\n" for number in range(20_000))


@pytest.fixture
def pipe() -> Iterator[tuple[int, BinaryIO]]:
    """The end of a pipe to read from, and the one to write to."""
    source, target = os.pipe()
    with open(target, "wb") as stream:
        yield source, stream
        os.close(source)


@pytest.fixture
def _interrupted() -> Iterator[None]:
    """Ctrl-C in a moment."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def reading(source: int, after: float, into: list[bytes]) -> threading.Thread:
    """Whoever reads on after some seconds, until nothing has come for a while."""

    def read() -> None:
        time.sleep(after)
        os.set_blocking(source, False)
        for _ in range(50):
            try:
                while piece := os.read(source, 1000):
                    into.append(piece)
            except BlockingIOError:
                time.sleep(0.01)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_all_is_written_in_order(pipe: tuple[int, BinaryIO]) -> None:
    source, stream = pipe
    got: list[bytes] = []
    thread = reading(source, 0, got)
    stream.write(b"first\n")
    write_lines(stream, memoryview(LINES))
    thread.join()
    assert b"".join(got) == b"first\n" + LINES


def test_what_is_not_a_file_is_written_to() -> None:
    stream = io.BytesIO()
    write_lines(stream, LINES)
    assert stream.getvalue() == LINES


@pytest.mark.usefixtures("_interrupted")
def test_an_interrupt_waits_for_the_end_of_the_line(pipe: tuple[int, BinaryIO]) -> None:
    source, stream = pipe
    got: list[bytes] = []
    thread = reading(source, 0.5, got)
    with pytest.raises(KeyboardInterrupt):
        write_lines(stream, LINES)
    thread.join()
    text = b"".join(got)
    assert LINES.startswith(text)
    assert text.endswith(b"\n")
    assert len(text) < len(LINES)


@pytest.mark.usefixtures("_interrupted")
def test_an_interrupt_does_not_wait_for_ever(pipe: tuple[int, BinaryIO], monkeypatch: pytest.MonkeyPatch) -> None:
    source, stream = pipe
    monkeypatch.setattr(whole_lines, "PATIENCE_MS", 10)
    with pytest.raises(KeyboardInterrupt):
        write_lines(stream, LINES)
    assert LINES.startswith(os.read(source, 1 << 20))
