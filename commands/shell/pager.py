"""A pager for text that is longer than the terminal: $KDUMP_PAGER, $PAGER, or less."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO, cast

from .screen import Screen

if TYPE_CHECKING:
    import subprocess

DEFAULT = "less -FRX"


def pager_words() -> list[str]:
    """Return the program and its arguments; none where no pager is wanted."""
    import shlex

    text = next((os.environ[name] for name in ("KDUMP_PAGER", "PAGER") if name in os.environ), DEFAULT)
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    return [] if words[:1] == ["cat"] else words


def may_page() -> bool:
    """Return whether text goes through a pager if it is long: on a terminal, which is not a test's file."""
    try:
        is_wanted = Screen.current.has_pager and os.environ.get("TERM") != "dumb"
        return is_wanted and sys.stdout.isatty() and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):
        return False


def begin_pager() -> subprocess.Popen[bytes] | None:
    """Start the pager; None where there is none. Progress is not shown beside it."""
    words = pager_words()
    if not words:
        return None
    import subprocess

    try:
        # the pager has the keyboard: Ctrl-C is its own, as a process in front of the terminal
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})
    except OSError:
        return None
    Screen.current.has_progress = False
    return pager


def stream_of(pager: subprocess.Popen[bytes]) -> BinaryIO:
    """Return where the pager reads."""
    assert pager.stdin is not None
    return cast("BinaryIO", pager.stdin)
