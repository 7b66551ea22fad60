"""The exit codes of `kdump`; `dump-log` keeps those of Kafka's own tool."""

from __future__ import annotations

OK = 0
"""Sound, or done."""

FINDINGS = 1
"""Something is wrong with the data: damage was met, errors were found, a plan has work in it."""

USAGE = 2
"""The command line is wrong; click's own code."""

INCOMPLETE = 3
"""The command could not complete: no such file, no permission, a file that cannot be read."""

REFUSED = 4
"""A safety rail refused."""

INTERRUPTED = 130
"""Ended by Ctrl-C, at a safe boundary."""
