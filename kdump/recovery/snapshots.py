"""The producer snapshots of a partition directory, as one producer state manager of the broker knows them."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import NUMBER_FORMAT, LoadError
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.producer_snapshot import stray_offsets
from kdump.recovery.segments import file_name
from kdump.storage.planned import PlannedPartition

STRAY = "no segment begins at its offset"


class SnapshotFiles:
    """The snapshots by offset (absolute: the state is that before it).

    The broker lists them once and then trusts its list: several managers live side by side while it recovers, and
    each may delete a file that another one has written.
    """

    def __init__(self, directory: PlannedPartition) -> None:
        """List the snapshots. Raises LoadError for a name without an offset."""
        self.directory = directory
        self.by_offset: dict[int, str] = {}
        for name in directory.names():
            parsed = parse_file_name(name)
            if parsed.kind != names.PRODUCER_SNAPSHOT or parsed.state != names.LIVE:
                continue
            if parsed.offset is None:
                raise LoadError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"', name)
            self.by_offset[parsed.offset] = name

    def latest(self) -> int | None:
        """Return the highest offset of a snapshot; None without any."""
        return max(self.by_offset, default=None)

    def read(self, offset: int) -> bytes:
        """Return the content of a snapshot."""
        return self.directory.read(self.by_offset[offset])

    def write(self, offset: int, data: bytes) -> None:
        """Write a snapshot. A longer file of its name keeps its tail, as the broker does not truncate it."""
        name = file_name(offset, names.PRODUCER_SNAPSHOT)
        if self.directory.size(name) > len(data):
            data += self.directory.read(name, len(data))
        self.directory.write(name, data)
        self.by_offset[offset] = name

    def delete(self, offset: int, why: str) -> None:
        """Delete a snapshot if it is on the list."""
        name = self.by_offset.pop(offset, None)
        if name:
            self.directory.delete(name, why)

    def delete_outside(self, log_start_offset: int, end_offset: int) -> None:
        """Delete the snapshots that are of no use for the state between the two offsets."""
        for offset in sorted(self.by_offset):
            if offset > end_offset:
                self.delete(offset, f"it is above offset {end_offset}, to which the producer state is taken back")
            elif offset <= log_start_offset:
                self.delete(offset, f"its offset is not beyond the log start offset {log_start_offset}")

    def remove_stray(self, bases: Iterable[int]) -> None:
        """List the snapshots again; delete those at which no segment begins, except the last if none is behind it."""
        self.by_offset = SnapshotFiles(self.directory).by_offset
        for offset in stray_offsets(self.by_offset, bases):
            self.delete(offset, STRAY)
