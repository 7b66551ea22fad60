"""Runs `kdump` on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys


def on_terminal(*arguments: object, **environment: str) -> str:
    """What `kdump` writes to a terminal, without a pager unless the environment names one."""
    control, terminal = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-m", "kdump", *map(str, arguments)],
        stdout=terminal,
        stderr=terminal,
        env=env | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8", "KDUMP_PAGER": "cat", "COLUMNS": "200", **environment},
    ):
        os.close(terminal)
        written = b""
        while True:
            try:
                piece = os.read(control, 65536)
            except OSError:  # what Linux says when the other end is closed
                break
            if not piece:
                break
            written += piece
    os.close(control)
    return written.decode()
