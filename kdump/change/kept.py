"""What changes took out of the logs of partitions and keep: pieces that salvage cut, ends, whole segments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.plan import REMOVE, TRUNCATE
from kdump.disk.reading import is_file
from kdump.formats import names
from kdump.storage.segment import Segment

if TYPE_CHECKING:
    from kdump.change.change import Change


class KeptPiece(NamedTuple):
    """Bytes that a change took out of a log, in a file of their own.

    `start` and `stop` are where they were in the file `file` of the partition directory `partition`, which need not
    exist any more. The change is `id`, made by `command`.
    """

    path: str
    partition: str
    file: str
    start: int
    stop: int
    id: str
    command: str

    @property
    def base_offset(self) -> int:
        """The base offset (absolute) of the segment that the bytes are of."""
        return names.parse_file_name(self.file).offset or 0

    def segment(self) -> Segment:
        """Return the piece as a log of its own, without indexes; positions are those in it."""
        return Segment(self.path, base_offset=self.base_offset)


def kept_pieces(change: Change) -> Iterator[KeptPiece]:
    """Yield what a change took out of the partition's logs, by file and position; what is no longer kept is left out.

    A log that was replaced whole is no piece: what it has lost is cut out beside it. What was taken back is kept no
    more.
    """
    if change.is_undone:
        return
    found = {(kept.cut.file, kept.cut.start, kept.cut.stop): kept.file for kept in change.cuts}
    for step in change.steps:
        operation = step.operation
        if step.kept and operation.action in (TRUNCATE, REMOVE):
            start = operation.size if operation.action == TRUNCATE else 0
            found.setdefault((operation.name, start, operation.old_size), step.kept)
    for (file, start, stop), name in sorted(found.items()):
        parsed = names.parse_file_name(file)
        path = change.file(name)
        if parsed.kind == names.LOG and parsed.offset is not None and is_file(path) and os.path.getsize(path):
            yield KeptPiece(path, change.path, file, start, stop, change.id, change.command)
