"""Progress on a terminal, for runs that last: one line, by bytes read or by partitions."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import click

from kdump.disk.reading import watched_by
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, duration, number_words, size_text

from .screen import DEFAULT_WIDTH, Screen

PATIENCE = 1.0
"""Seconds before anything is shown."""
INTERVAL = 0.1
"""Seconds between two updates."""


def shows_progress() -> bool:
    """Return whether progress is shown: on a terminal, unless -q or --progress never."""
    screen = Screen.current
    return screen.has_progress and not screen.is_quiet and sys.stderr.isatty()


class Progress:
    """How far a run has got: a line on stderr, written over and over once the run lasts, if that is a terminal."""

    current: Progress | None = None

    def __init__(self) -> None:
        context = click.get_current_context(silent=True)
        self._command = context.info_name if context is not None else None
        self._start = time.monotonic()
        self._next = self._start + PATIENCE
        self._is_shown = shows_progress()
        self._is_written = False
        self._done = 0
        Progress.current = self

    def line(self) -> str:
        """Say in one line how far it has got."""
        raise NotImplementedError

    def hide(self) -> None:
        """Take the line away, so that something can be printed; it comes back."""
        if self._is_written:
            self._is_written = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self) -> None:
        """Write the line again if it is time for that, never longer than the terminal is wide."""
        if not self._is_shown or not Screen.current.has_progress or (now := time.monotonic()) < self._next:
            return
        self._next = now + INTERVAL
        said = f"{self._command}  {self.line()}" if self._command else self.line()
        sys.stderr.write(f"\r\x1b[K{safe(said)[: _columns() - 1]}")
        sys.stderr.flush()
        self._is_written = True


def hide_progress() -> None:
    """Take away the progress that is shown, so that something can be printed; it comes back."""
    if Progress.current is not None:
        Progress.current.hide()


def _columns() -> int:
    """Return how wide the terminal is that stderr goes to; stdout may go elsewhere."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return Screen.current.width or DEFAULT_WIDTH


class ProgressBar(Progress):
    """A line about the bytes that are read of the logs at some paths."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._name = ""
        self._total: int | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc: object) -> None:
        self.hide()

    def add(self, path: str, size: int) -> None:
        """Count so many more bytes that have been read of the log at `path`."""
        self._done += size
        self._name = path
        self._show()

    def line(self) -> str:
        """Say how many bytes were read, at which rate, how long the rest may take, and where it is."""
        if self._total is None:
            self._total = total_size(self._paths)
        total = max(self._total, self._done)
        rate = self._done / max(time.monotonic() - self._start, 0.001)
        if not self._done:
            return f"nothing is read yet of {size_text(total)}"
        percent, left = 100 * self._done // total, 1000 * round((total - self._done) / rate)
        said = [f"{percent} %" if percent else "<1 %", f"{size_text(self._done)} of {size_text(total)}"]
        said += [f"{size_text(round(rate))}/s", f"{duration(left) if left else '<1 s'} left"]
        return "  ".join([*said, safe_path(os.path.basename(os.path.dirname(self._name)))])


class ReadingBar(ProgressBar):
    """The same about what is read by whatever reads them: each byte of a log counts once."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(paths)
        self._reached: dict[str, int] = {}

    def __enter__(self) -> ReadingBar:
        self._watch = watched_by(self._read)
        self._watch.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._watch.__exit__(None, None, None)
        super().__exit__(*exc)

    def _read(self, path: str, position: int) -> None:
        reached = self._reached.get(path, 0)
        if path.endswith((".log", ".checkpoint")) and position > reached:
            self._reached[path] = position
            self.add(path, position - reached)


def total_size(paths: Iterable[str]) -> int:
    """Return bytes of all logs at `paths`, as far as they can be seen."""
    total = 0
    for path in paths:
        for folder, directories, files in os.walk(path):
            if os.path.dirname(folder) not in (path, os.path.dirname(path)):
                directories.clear()
            for name in files:
                if name.endswith(".log"):
                    with suppress(OSError):
                        total += os.path.getsize(os.path.join(folder, name))
        if os.path.isfile(path):
            total += os.path.getsize(path)
    return total


Item = TypeVar("Item")


class PathCounter(Progress):
    """A line about how many things were looked at, which goes when the work is done."""

    def __init__(self, noun: str = "partition") -> None:
        """`noun` is what is counted."""
        super().__init__()
        self._noun = noun
        self._total = 0

    def over(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the items, such as paths, one after the other."""
        self._total = len(items)
        for self._done, item in enumerate(items):
            self._show()
            yield item
        self.hide()

    def line(self) -> str:
        """Say how many were looked at."""
        return f"{count_text(self._done)} of {number_words(self._total, self._noun)}"
