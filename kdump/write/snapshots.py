"""The producer snapshots of an open log, written to the disk as they fall due."""

from __future__ import annotations

import os

from kdump.disk.durable import remove_file, replace_file
from kdump.disk.reading import list_directory, read_small
from kdump.formats import names
from kdump.formats.names import parse_file_name, segment_file_name
from kdump.formats.producer_snapshot import MAX_SNAPSHOT_BYTES
from kdump.recovery.snapshots import SnapshotFiles


class SnapshotsOnDisk(SnapshotFiles):
    """The snapshots in a partition directory; see SnapshotFiles. `durable`: each is on the disk once it is written.

    New ones get the owner and mode of `like`.
    """

    def __init__(self, folder: str, *, durable: bool, like: os.stat_result | None = None) -> None:
        """List the snapshots. Raises OSError."""
        self.folder = folder
        self.durable = durable
        self.like = like
        self.by_offset = names.producer_snapshots({name: parse_file_name(name) for name in list_directory(folder)[1]})

    def read(self, offset: int) -> bytes:
        """Return the content of a snapshot. Raises OSError."""
        return read_small(os.path.join(self.folder, self.by_offset[offset]), MAX_SNAPSHOT_BYTES)

    def write(self, offset: int, data: bytes) -> None:
        """Write a snapshot. Raises OSError."""
        name = segment_file_name(offset, f".{names.PRODUCER_SNAPSHOT}")
        replace_file(os.path.join(self.folder, name), data, durable=self.durable, like=self.like)
        self.by_offset[offset] = name

    def delete(self, offset: int, _why: str) -> None:
        """Delete a snapshot if it is on the list. Raises OSError."""
        name = self.by_offset.pop(offset, None)
        if name:
            remove_file(os.path.join(self.folder, name))
