"""Changes by kdump that were interrupted: until they are finished or undone, some files are old and some are new."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.change.unfinished import unfinished_in
from kdump.findings.finding import Finding, found


def check_changes(log_directory: str, partitions: Iterable[str]) -> Iterator[Finding]:
    """Yield the interrupted changes of partition directories of one log directory. Raises OSError."""
    for path, text in unfinished_in(log_directory, partitions):
        yield found("KD-CHANGE-UNFINISHED", path, f"{text}: kdump undo {os.path.join(path)} shows the ways out")
