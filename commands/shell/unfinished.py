"""Tell of changes that were interrupted: what a command says of their partitions is said of half a change."""

from __future__ import annotations

import os

from kdump.change.unfinished import unfinished_in
from kdump.formats.printable import safe, safe_path
from kdump.storage.directory import LogDirectory
from kdump.storage.live import tally
from kdump.storage.partition import PartitionLog

from .output import note, os_error_text


def note_unfinished(place: LogDirectory | PartitionLog) -> None:
    """Say on stderr which changes of a log directory's partitions, or of one partition, were interrupted."""
    if isinstance(place, LogDirectory):
        log_directory = place.path
        partitions = [os.path.join(place.path, name) for name in place.partition_names]
    else:
        log_directory, partitions = os.path.dirname(os.path.abspath(place.path)), [place.path]
    _note(log_directory, partitions)


def note_untold() -> None:
    """Say the same of the partitions that were read, and of which nothing has asked for changes."""
    by_directory: dict[str, list[str]] = {}
    for path in sorted(tally.partitions - tally.changes_told):
        by_directory.setdefault(os.path.dirname(path), []).append(tally.named.get(path, path))
    for log_directory, partitions in by_directory.items():
        _note(log_directory, partitions)


def _note(log_directory: str, partitions: list[str]) -> None:
    try:
        for path, text in unfinished_in(log_directory, partitions):
            note(f"{safe_path(path)}: {safe(text)}: kdump undo {safe_path(path)} shows the ways out")
    except OSError as error:
        note(os_error_text(error, log_directory))
