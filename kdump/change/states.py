"""What the files of a partition are at one moment, and how they differ from what they should be."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from kdump.change.checkpoint_lines import offset_in
from kdump.change.place import is_change_file
from kdump.disk.reading import ReadOnlyFile, is_named
from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.names import OFFSET_CHECKPOINTS, parse_partition_dir

ANY_TIME = -1
UNREAD = -2
"""In the place of an offset: the checkpoint could not be read, so that nobody knows what it says."""


class FileState(NamedTuple):
    """Size in bytes and modification time (ns, ANY_TIME: not known beforehand) of a file."""

    size: int
    modified: int

    def is_as(self, wanted: FileState) -> bool:
        """Return whether a file with this state can be the wanted one."""
        return self.size == wanted.size and wanted.modified in (ANY_TIME, self.modified)


class PartitionState(NamedTuple):
    """A partition at one moment: its files, its offsets (absolute) in the checkpoints of its log directory.

    `was_clean`: the mark of a clean shutdown was there.
    """

    files: Mapping[str, FileState]
    offsets: Mapping[str, int]
    was_clean: bool


def state_of(partition_directory: str) -> PartitionState:
    """Return what a partition is now. Raises OSError."""
    path = os.path.abspath(partition_directory)
    log_directory = os.path.dirname(path)
    return PartitionState(files_of(path), offsets_of(path), is_named(os.path.join(log_directory, names.CLEAN_SHUTDOWN)))


def files_of(path: str) -> dict[str, FileState]:
    """Return the files of a directory, but for the lock of a log directory and the files of changes. Raises OSError."""
    found = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name == names.LOCK or is_change_file(entry.name):
                continue
            if not entry.is_dir(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                found[entry.name] = FileState(info.st_size, info.st_mtime_ns)
    return found


def offsets_of(path: str) -> dict[str, int]:
    """Return what the checkpoints of the log directory say of a partition; UNREAD for one that cannot be read.

    Those that say nothing are left out.
    """
    log_directory, name = os.path.split(path)
    try:
        partition = parse_partition_dir(name, path)
    except NameFormatError:
        return {}
    if partition.state != names.LIVE:
        return {}
    found: dict[str, int] = {}
    for each in OFFSET_CHECKPOINTS:
        offset = None
        with suppress(OSError):
            offset = offset_in(os.path.join(log_directory, each), partition.topic, partition.partition)
        found[each] = UNREAD if offset is None else offset
    return {each: offset for each, offset in found.items() if offset >= 0 or offset == UNREAD}


def offset_difference(name: str, now: int, allowed: Collection[int]) -> str:
    """Return how a checkpoint's offset of a partition differs from those that it may be, in words.

    It is "" where it does not, or where nobody could read it then.
    """
    if now in allowed or UNREAD in allowed:
        return ""
    had = " or ".join(map(_offset_word, sorted(allowed)))
    return f"{name} had {had} for it, it {'cannot be read' if now == UNREAD else 'has ' + _offset_word(now)} now"


def _offset_word(offset: int) -> str:
    return str(offset) if offset >= 0 else "none"


def digest_of(path: str) -> str:
    """Return a digest of a file's content. Raises OSError."""
    from hashlib import blake2b  # OpenSSL costs more to load than all else that most commands read

    digest = blake2b(digest_size=16)
    with ReadOnlyFile(path) as file:
        for piece in file.pieces():
            digest.update(piece)
    return digest.hexdigest()


def file_differences(now: Mapping[str, FileState], wanted: Mapping[str, Collection[FileState | None]]) -> Iterator[str]:
    """Yield how files differ from what they may be (None: there is no such file), in words."""
    for name in sorted({*now, *wanted}):
        there, allowed = now.get(name), wanted.get(name, (None,))
        if any(there is None if each is None else there is not None and there.is_as(each) for each in allowed):
            continue
        known = [each for each in allowed if each is not None]
        if there is None:
            yield f"{name} is gone"
        elif not known:
            yield f"{name} is new ({there.size} bytes)"
        elif all(each.size != there.size for each in known):
            sizes = " or ".join(str(size) for size in sorted({each.size for each in known}))
            yield f"{name} had {sizes} bytes, it has {there.size} now"
        else:
            yield f"{name} was written since"
