"""One entry of a broker's log.dirs: partition directories and the checkpoints beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.disk.reading import is_directory, list_directory, read_small
from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.names import by_topic_and_number, is_partition_dir, parse_partition_dir
from kdump.storage.partition import PartitionLog

if TYPE_CHECKING:
    from kdump.formats.metadata_files import CleanShutdown, MetaProperties


class LogDirectory:
    """A log directory; nothing but its list of names is read until it is asked for."""

    def __init__(self, path: str) -> None:
        """Look into a log directory. Raises OSError."""
        self.path = path
        self.directories, self.files = list_directory(path)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    @property
    def partition_names(self) -> list[str]:
        """The names of the partition directories, those of other states (-delete, -future, -stray) included.

        They are sorted by topic, then by number.
        """
        return sorted(filter(is_partition_dir, self.directories), key=by_topic_and_number)

    def bad_names(self) -> Iterator[tuple[str, NameFormatError]]:
        """Yield the directories that are no partition's, with whose names a broker does not start, and why."""
        for name in self.directories:
            if name != names.REMOTE_LOG_INDEX_CACHE_DIR:
                try:
                    parse_partition_dir(name, self._path(name))
                except NameFormatError as error:
                    yield name, error

    def checkpointed(self) -> set[tuple[str, int]]:
        """Return the partitions that checkpoints may have lines for: live ones, and those on their way here."""
        found = map(parse_partition_dir, filter(is_partition_dir, self.directories))
        return {(name.topic, name.partition) for name in found if name.state in (names.LIVE, names.FUTURE)}

    def partitions(self) -> Iterator[PartitionLog]:
        """Yield the partitions, by topic and number. Raises OSError."""
        for name in self.partition_names:
            yield PartitionLog(os.path.join(self.path, name))

    @property
    def clean_shutdown(self) -> bool:
        """Whether the broker closed all logs in order when it last stopped."""
        return names.CLEAN_SHUTDOWN in self.files

    @property
    def never_started(self) -> bool:
        """Whether kafka-storage has formatted it and no broker or controller has run on it.

        A start makes a lock file, checkpoints and the log of the cluster's metadata.
        """
        if names.META_PROPERTIES not in self.files or not _OF_A_START.isdisjoint(self.files):
            return False
        if set(self.directories) - {names.CLUSTER_METADATA_DIR}:
            return False
        with suppress(OSError):
            return not any(PartitionLog(self._path(name)).segments for name in self.directories)
        return False

    def clean_shutdown_file(self) -> CleanShutdown | None:
        """Return what .kafka_cleanshutdown says; None without the file. Raises OSError, CheckpointError."""
        from kdump.formats.metadata_files import parse_clean_shutdown

        data = self._content(names.CLEAN_SHUTDOWN)
        return None if data is None else parse_clean_shutdown(data, self._path(names.CLEAN_SHUTDOWN))

    def meta_properties(self) -> MetaProperties | None:
        """Return what meta.properties says; None without the file. Raises OSError, CheckpointError."""
        from kdump.formats.metadata_files import parse_meta_properties

        data = self._content(names.META_PROPERTIES)
        return None if data is None else parse_meta_properties(data, self._path(names.META_PROPERTIES))

    def checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Return an offset checkpoint (names.RECOVERY_POINT_CHECKPOINT, …): (topic, partition) to absolute offset.

        Empty without the file. Raises OSError, CheckpointError.
        """
        from kdump.storage.checkpoints import read_offsets

        return read_offsets(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _content(self, name: str) -> bytes | None:
        return read_small(self._path(name), 1 << 26) if name in self.files else None


_OF_A_START = frozenset((names.LOCK, names.CLEAN_SHUTDOWN, *names.OFFSET_CHECKPOINTS))


def holds_metadata_log(path: str) -> bool:
    """Return whether the cluster's metadata log is in a log directory, without which a broker of KRaft does not go on.

    It is the one of metadata.log.dir, by default the first of log.dirs. A directory that may not be entered counts as
    one without it: who reads it says so. Raises OSError where the system cannot say.
    """
    with suppress(PermissionError):
        return is_directory(os.path.join(path, names.CLUSTER_METADATA_DIR))
    return False
