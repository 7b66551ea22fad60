"""A partition directory: its segments in order, and the files beside them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.disk.reading import is_named, is_there, list_directory, read_small
from kdump.errors import CheckpointError, NameFormatError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs
from kdump.formats.names import FileName, PartitionDirName, parse_file_name, parse_partition_dir
from kdump.storage.checkpoint_files import read_checkpoint
from kdump.storage.segment import Contents, Segment
from kdump.storage.swaps import Replacement, replacement, segments_after
from kdump.storage.walked import WalkedLogs

if TYPE_CHECKING:
    from kdump.formats.metadata_files import PartitionMetadata
    from kdump.storage.damage import Damage
    from kdump.storage.decoded import BadBatch
    from kdump.storage.records import Batch, Record


class PartitionLog(Contents):
    """One replica of a partition on disk.

    `name` is what the directory's name says (None where it is not one that Kafka gives). `files` maps every file
    name to what it says, `directories` are the names of what is no file; `segments` are those a broker would serve, by
    base offset: where it was killed while it replaced segments, those that it has after it has finished that.
    `is_replacing` tells of that, and `replaced` are the names of the files that it removes then. `walked` is what a
    walk over its logs has kept of them, None without one; `contents` are small files that were read whole, by name.
    """

    def __init__(self, path: str, *, may_be_absent: bool = False, as_named: bool = False) -> None:
        """Look into a partition directory; one that `may_be_absent` and is, is like an empty one. Raises OSError.

        With `as_named` the segments are those that have their names now, whatever waits to replace them: what is
        checked and repaired is the files.
        """
        self.path = path
        self.walked: WalkedLogs | None = None
        self.contents: dict[str, bytes] = {}
        try:
            self.name: PartitionDirName | None = parse_partition_dir(os.path.basename(os.path.abspath(path)), path)
        except NameFormatError:
            self.name = None
        is_absent = may_be_absent and not is_named(path)
        directories, files = ([], []) if is_absent else list_directory(path)
        self.directories: frozenset[str] = frozenset(directories)
        self.files: dict[str, FileName] = {name: parse_file_name(name) for name in files}
        found = Replacement() if as_named else replacement(path, self.files)
        self.replaced = found.replaced
        self.is_replacing = bool(found.complete)
        self.segments = sorted(segments_after(path, self.files, found), key=lambda segment: segment.base_offset)

    def __repr__(self) -> str:
        return f"PartitionLog({self.path!r})"

    def orphans(self) -> Iterator[str]:
        """Yield index files without their .log, which a broker deletes at start."""
        bases = {parsed.offset for parsed in self.files.values() if parsed.is_live_log} - {None}
        for name, parsed in self.files.items():
            if parsed.kind in names.INDEX_KINDS and parsed.state == names.LIVE and parsed.offset not in bases:
                yield name

    def in_state(self, state: str) -> list[str]:
        """Return the files with a suffix of their own: names.DELETED, CLEANED, SWAP, TMP or PART."""
        return [name for name, parsed in self.files.items() if parsed.state == state]

    @cached_property
    def leader_epochs(self) -> list[EpochEntry]:
        """The entries of leader-epoch-checkpoint; none without the file. Raises OSError, CheckpointError."""
        if names.LEADER_EPOCH_CHECKPOINT not in self.files:
            return []
        path = os.path.join(self.path, names.LEADER_EPOCH_CHECKPOINT)
        self.contents[names.LEADER_EPOCH_CHECKPOINT] = data = read_checkpoint(path)
        return parse_leader_epochs(data, path)

    @property
    def known_epochs(self) -> list[EpochEntry]:
        """The same; none either where the file cannot be read or parsed."""
        try:
            return self.leader_epochs
        except (CheckpointError, OSError):
            return []

    @cached_property
    def metadata(self) -> PartitionMetadata | None:
        """What partition.metadata says; None without the file. Raises OSError, CheckpointError."""
        from kdump.formats.metadata_files import parse_partition_metadata

        if names.PARTITION_METADATA not in self.files:
            return None
        path = os.path.join(self.path, names.PARTITION_METADATA)
        return parse_partition_metadata(read_small(path), path)

    def segments_from(self, offset: int) -> list[Segment]:
        """Return the segments from the one on that absolute `offset` belongs to."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return self.segments[max(0, at - 1) :]

    @property
    def is_cluster_metadata(self) -> bool:
        """Whether it is the log of the cluster's metadata: every start opens it as after a crash (KafkaMetadataLog)."""
        return self.name is not None and self.name.topic == names.CLUSTER_METADATA_TOPIC

    @property
    def closed_cleanly(self) -> bool:
        """Whether the log directory around it says that all its logs were closed cleanly."""
        return is_there(os.path.join(os.path.dirname(os.path.abspath(self.path)), names.CLEAN_SHUTDOWN))

    def _batches(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Batch | Damage]:
        for segment in self._reaching(start_offset, stop_offset):
            yield from segment.batches(start_offset, stop_offset)

    def _records(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Record | BadBatch | Damage]:
        for segment in self._reaching(start_offset, stop_offset):
            yield from segment.records(start_offset, stop_offset)

    def _reaching(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Segment]:
        """Yield the segments with something in [start_offset, stop_offset)."""
        for segment in self.segments if start_offset is None else self.segments_from(start_offset):
            if stop_offset is not None and segment.base_offset >= stop_offset:
                return
            yield segment


def base_offsets(files: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments among the files of a partition directory, ascending."""
    return sorted(parsed.offset or 0 for parsed in map(parse_file_name, files) if parsed.is_live_log)
