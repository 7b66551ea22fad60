"""From what the cleaner wrote to the changes that put it in place, step by step as Kafka's cleaner makes them.

Group by group: the new segment's files come as .cleaned, are renamed to .swap, the old segments go, and the .swap files
get their names. A broker that starts in between finishes the group or undoes it; kdump finishes all of them. The
checkpoint follows last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, Operation, Plan
from kdump.clean.cleaning import Cleaning, Group
from kdump.disk.reading import is_named
from kdump.formats import names
from kdump.formats.names import segment_file_name

CLEANED, SWAP = f".{names.CLEANED}", f".{names.SWAP}"


def cleaning_plan(cleaning: Cleaning, new: Callable[[str], str]) -> Plan:
    """Return the changes to the partition directory; `new` gives the path of a new file by its name. Raises OSError."""
    path = os.path.abspath(cleaning.state.log.path)
    operations = [operation for group in cleaning.groups for operation in _replacement(path, group, new)]
    return Plan(path, (*operations, *_checkpoint(cleaning)), {})


def _checkpoint(cleaning: Cleaning) -> Iterator[Operation]:
    """Yield the new checkpoint, if it is another one; so it is where the old one does not count."""
    state = cleaning.state
    if cleaning.end_offset != state.checkpoint and state.log.name is not None:
        old = -1 if state.checkpoint is None else state.checkpoint
        why = "up to there the log is clean"
        yield Operation(CHECKPOINT, names.CLEANER_CHECKPOINT, cleaning.end_offset, old_size=old, why=why)


def _replacement(path: str, group: Group, new: Callable[[str], str]) -> Iterator[Operation]:
    written = [segment_file_name(group.base_offset, f".{file.kind}") for file in group.files]
    inodes = {name: os.stat(new(name + CLEANED)).st_ino for name in written}
    sizes = {name: file.size for name, file in zip(written, group.files, strict=True)}
    for name in written:
        why = "what the cleaner makes of these segments"
        yield Operation(REPLACE, name + CLEANED, sizes[name], why=why)
    for name in written:
        why = "the new segment is complete"
        yield Operation(RENAME, name + SWAP, sizes[name], inodes[name], source=name + CLEANED, why=why)
    for facts in group.segments:
        for name in _old_files(path, group, facts.base_offset):
            info = os.stat(os.path.join(path, name), follow_symlinks=False)
            yield Operation(REMOVE, name, 0, info.st_ino, info.st_size, why="the new segment takes its place")
    for name in written:
        yield Operation(RENAME, name, sizes[name], inodes[name], source=name + SWAP, why="the old segments are gone")


def _old_files(path: str, group: Group, base_offset: int) -> Iterator[str]:
    """Yield the files of a segment that goes; with its base offset goes its producer snapshot."""
    for kind in names.SEGMENT_KINDS:
        if kind == names.PRODUCER_SNAPSHOT and base_offset == group.base_offset:
            continue
        name = segment_file_name(base_offset, f".{kind}")
        if is_named(os.path.join(path, name)):
            yield name
