"""The directory around a path, spelled as the path is: what is said of it is then as the command line has it."""

from __future__ import annotations

import os


def directory_around(path: str) -> str:
    """Return the directory that a file or directory is in; the absolute path where the path ends in no name."""
    named = path.rstrip(os.sep)
    if os.path.basename(named) in ("", os.curdir, os.pardir):
        return os.path.dirname(os.path.abspath(path))
    return os.path.dirname(named) or os.curdir
