"""What the broker knows of the producers of a partition, between its snapshots and the log."""

from __future__ import annotations

from kdump.errors import ILLEGAL_ARGUMENT, CorruptSnapshotError, LoadError
from kdump.formats.batch import wrap64
from kdump.formats.producer_snapshot import decode_producer_snapshot, encode_producer_snapshot
from kdump.recovery.snapshots import SnapshotFiles
from kdump.txns.producers import CompletedTxn, ProducerTable


class ProducerStates(ProducerTable):
    """The producers up to `map_end_offset` (absolute, exclusive); `snapshot_offset` is that of the newest snapshot."""

    def __init__(
        self, snapshots: SnapshotFiles, *, short_markers_end: bool = False, max_producers: int | None = None
    ) -> None:
        """`short_markers_end`, `max_producers`: as LoadingSettings say of the release."""
        super().__init__()
        self.snapshots = snapshots
        self.short_markers_end = short_markers_end
        self._max_producers = max_producers
        self.map_end_offset = 0
        self.snapshot_offset = 0

    def truncate_and_reload(self, log_start_offset: int, end_offset: int, now: int, expiration_ms: int) -> None:
        """Go back to the newest snapshot between the two offsets; `now` and `expiration_ms` decide who has expired."""
        self.snapshots.delete_outside(log_start_offset, end_offset)
        if end_offset != self.map_end_offset:
            self.clear()
            self._load(log_start_offset, now, expiration_ms)
            return
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest()
        self.snapshot_offset = log_start_offset if latest is None else latest

    def truncate_fully(self, offset: int) -> None:
        """Forget everything and start at `offset`."""
        self.clear()
        for snapshot in list(self.snapshots.by_offset):
            self.snapshots.delete(snapshot, f"all segments are removed and the log starts again at offset {offset}")
        self.snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self) -> None:
        """Write a snapshot unless there is one that is as new."""
        if self.map_end_offset <= self.snapshot_offset:
            return
        self.snapshots.write(self.map_end_offset, encode_producer_snapshot(self.entries(), java_order=True))
        self.snapshot_offset = self.map_end_offset

    def _load(self, log_start_offset: int, now: int, expiration_ms: int) -> None:
        offset = self.snapshots.latest()
        while offset is not None:
            try:
                data = self.snapshots.read(offset)
                entries = decode_producer_snapshot(data, max_producers=self._max_producers)
            except CorruptSnapshotError as error:
                self.snapshots.delete(offset, str(error))
                offset = self.snapshots.latest()
                continue
            self.load(e for e in entries if e.has_open_txn or wrap64(now - e.timestamp) < expiration_ms)
            break
        self.map_end_offset = self.snapshot_offset = log_start_offset if offset is None else offset


def never_started(txn: CompletedTxn, partition: str, file: str) -> LoadError:
    """Return what the broker says of a transaction that ends and was not open; `file` is the .log with the marker."""
    text = f"Attempted to complete transaction {txn} on partition {partition} which was not started"
    return LoadError(ILLEGAL_ARGUMENT, text, file)
