"""The exit codes of `kdump`; `dump-log` keeps those of Kafka's own tool."""

from __future__ import annotations

OK: int = 0
"""Sound, or done."""

FINDINGS: int = 1
"""Something is wrong with the data: damage was met, errors were found, a plan has work in it."""

USAGE: int = 2
"""The command line is wrong; click's own code."""

INCOMPLETE: int = 3
"""The command could not complete: no such file, no permission, a file that cannot be read."""

REFUSED: int = 4
"""A safety check refused."""

INTERRUPTED: int = 130
"""Ended by Ctrl-C, at a safe boundary."""

TERMINATED: int = 143
"""Ended by SIGTERM, at a safe boundary."""
