"""Log directories on which a broker runs, as far as its lock tells; and what this process holds open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdump.formats import names


@contextmanager
def broker_on(data: Path) -> Iterator[None]:
    """A log directory whose lock a broker holds; a process has its own locks, so it is another one."""
    program = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'w')\nfcntl.lockf(file, fcntl.LOCK_EX)\nprint(flush=True)\ninput()"
    )
    words = [sys.executable, "-c", program, str(data / names.LOCK)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        try:
            yield
        finally:
            broker.kill()


def open_files() -> list[str]:
    """Return the paths of the files that this process has open."""
    return [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
