"""How the present run prints: how much, how wide, in which colours and times. The options that all have set it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TextIO

if TYPE_CHECKING:
    from os import terminal_size

DEFAULT_WIDTH = 80
DEFAULT_HEIGHT = 24
MAX_COLUMNS = 10_000


def _terminal_size() -> terminal_size:
    import shutil

    return shutil.get_terminal_size((DEFAULT_WIDTH, DEFAULT_HEIGHT))


def all_partitions(_number: int) -> bool:
    """Return the choice of partitions where --partition is not given."""
    return True


class FailOn(StrEnum):
    """From which findings on a command exits with 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


class Screen:
    """What the options that every command has ask for."""

    is_quiet: bool = False
    verbosity: int = 0
    is_wide: bool = False
    color: str = "auto"
    has_pager: bool = True
    has_progress: bool = True
    times_in_ms: bool = False
    min_severity: str | None = None
    fail_on: FailOn | None = None
    words: tuple[str, ...] = ()
    """The command line after `kdump`."""
    asked: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    is_in_vain: bool = False
    """Whether none of the PATHs that were given exists."""
    drops_if_ok: bool = False
    shows_all_options: bool = False
    has_findings: bool = False
    has_said_incomplete: bool = False
    has_said_interrupted: bool = False
    """Whether the command has said what its interruption comes to, or it comes to nothing."""

    complaint_count: int = 0
    lists_complaints: bool = False

    current: ClassVar[Screen]

    def __init__(self) -> None:
        self.has_partition: Callable[[int], bool] = all_partitions
        self.held: list[str] = []
        self.complaints: set[str] = set()

    def hold(self, texts: list[str]) -> None:
        """Keep what is printed only if the run finds something (-q)."""
        self.held += texts
        texts.clear()

    @property
    def width(self) -> int | None:
        """Columns that a line may have: COLUMNS, else those of the terminal; None in a pipe and with --wide."""
        return self._width_of(sys.stdout)

    @property
    def error_width(self) -> int | None:
        """The same for stderr, which may go elsewhere."""
        return self._width_of(sys.stderr)

    def _width_of(self, stream: TextIO) -> int | None:
        if self.is_wide:
            return None
        text = os.environ.get("COLUMNS", "")
        if text.isdecimal() and 0 < int(text) <= MAX_COLUMNS:
            return int(text)
        return _terminal_size().columns if stream.isatty() else None

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        return _terminal_size().lines

    @property
    def is_colored(self) -> bool:
        """Whether text gets colours: by itself on a terminal only, unless NO_COLOR is set."""
        if self.color != "auto":
            return self.color == "always"
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


Screen.current = Screen()


def begin_screen() -> Screen:
    """Forget what the run before was asked for."""
    Screen.current = Screen()
    return Screen.current
