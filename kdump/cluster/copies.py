"""Copies of partitions, each with its verified end: every batch is read, and its CRC.

The end that counts is that of the last batch before the first one that is damaged: a broker that starts on the copy
cuts the rest, and followers cut what their leader lacks. leader-epoch-checkpoint does not count for it, as it may name
an epoch of which no record was written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kdump.cluster.disks import Disk
from kdump.disk.reading import read_small
from kdump.errors import CheckpointError, CorruptSnapshotError, Problem, Report
from kdump.formats import names
from kdump.formats.names import PartitionDirName, parse_partition_dir
from kdump.formats.producer_snapshot import MAX_SNAPSHOT_BYTES, decode_producer_snapshot
from kdump.formats.schemas.transaction_state import TransactionState
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica
from kdump.storage.scan import Run, scan
from kdump.storage.segment import Segment
from kdump.topics.transaction_ids import ENDING, transactional_ids


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """The largest timestamp (ms) of a segment's batches, -1 without one, and its bytes, as retention goes by them."""

    largest_timestamp: int
    size: int
    records: int


@dataclass(slots=True, eq=False)
class Copy:
    """One replica of a partition in a log directory. Offsets are absolute.

    `valid_end` is the offset after the last valid batch before any damage and `last_epoch` that batch's leader epoch;
    `end` is the offset after the last valid batch anywhere. `highest_epoch` is the highest of all batches and of
    leader-epoch-checkpoint, `highest_producer_id` of all batches and producer snapshots; -1 without any.
    `records_after` counts the records of valid batches after the first damage, `ages` the segments before it.
    """

    disk: Disk
    path: str
    name: PartitionDirName
    topic_id: bytes | None = None
    first_offset: int = 0
    valid_end: int = 0
    last_epoch: int = -1
    end: int = 0
    highest_epoch: int = -1
    highest_producer_id: int = -1
    records: int = 0
    records_after: int = 0
    size: int = 0
    damage: Damage | None = None
    ages: list[SegmentAge] = field(default_factory=list)
    open_transactions: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.name.topic, self.name.partition

    @property
    def rank(self) -> tuple[int, int, bool]:
        """What the best copy has most of: the last epoch, the valid end, and no damage."""
        return self.last_epoch, self.valid_end, self.damage is None

    @property
    def start_line(self) -> int | None:
        """The log start offset of the checkpoint file, None without a line or with one beyond the valid end."""
        line = self.line(names.LOG_START_CHECKPOINT)
        return line if line is not None and line <= self.valid_end else None

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return max(self.first_offset, self.start_line or 0)

    def line(self, name: str) -> int | None:
        """Return the offset that one of the log directory's checkpoint files has for the partition."""
        return self.disk.lines.get(name, {}).get(self.key)


def partition_directories(disk: Disk) -> Iterator[tuple[str, PartitionDirName]]:
    """Yield the partition directories of a log directory, the metadata log's own left out."""
    for name in disk.directory.partition_names:
        parsed = parse_partition_dir(name)
        if parsed.topic != names.CLUSTER_METADATA_TOPIC:
            yield os.path.join(disk.path, name), parsed


def read_copy(disk: Disk, path: str, name: PartitionDirName, report: Report) -> Copy:
    """Read a copy, every batch of it; what cannot be parsed is reported. Raises OSError."""
    log = PartitionLog(path)
    copy = Copy(disk, path, name)
    try:
        copy.topic_id = log.metadata.topic_id if log.metadata else None
    except CheckpointError as error:
        report(Problem(os.path.join(path, names.PARTITION_METADATA), None, str(error)))
    if log.segments:
        copy.first_offset = copy.valid_end = copy.end = log.segments[0].base_offset
    for segment in log.segments:
        _read_segment(copy, segment)
    start = copy.line(names.LOG_START_CHECKPOINT)
    if not copy.records and start is not None and start > copy.valid_end and not copy.damage:
        copy.valid_end = copy.end = start
    _read_epochs(copy, log, report)
    _read_snapshots(copy, log)
    if name.topic == names.TRANSACTION_STATE_TOPIC:
        _read_transactional_ids(copy, log, report)
    return copy


def _read_segment(copy: Copy, segment: Segment) -> None:
    records, largest, size = copy.records, -1, 0
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                is_cut_short = part.resumed >= log.size  # nothing valid follows in this segment
                if not is_zero_tail(part, log):
                    copy.damage = copy.damage or part
                elif is_cut_short:
                    size = part.position
                continue
            largest = max(largest, _take(copy, part))
            size = part.block.position[part.stop - 1] + part.block.size[part.stop - 1]
    copy.size += size
    if copy.damage is None:
        copy.ages.append(SegmentAge(largest, size, copy.records - records))


def _take(copy: Copy, run: Run) -> int:
    """Count batches in; the largest timestamp of them (ms)."""
    block, first, stop = run
    copy.highest_epoch = max(copy.highest_epoch, max(block.leader_epoch[first:stop]))
    copy.highest_producer_id = max(copy.highest_producer_id, max(block.producer_id[first:stop]))
    count = sum(max(1, each) for each in block.count[first:stop])
    end = block.last_offset[stop - 1] + 1
    copy.end = max(copy.end, end)
    if copy.damage is not None:
        copy.records_after += count
    else:
        copy.records += count
        copy.valid_end = max(copy.valid_end, end)
        copy.last_epoch = block.leader_epoch[stop - 1]
    return max(block.max_timestamp[first:stop])


def _read_epochs(copy: Copy, log: PartitionLog, report: Report) -> None:
    try:
        entries = log.leader_epochs
    except CheckpointError as error:
        report(Problem(os.path.join(log.path, names.LEADER_EPOCH_CHECKPOINT), None, str(error)))
        return
    copy.highest_epoch = max([copy.highest_epoch, *(entry.epoch for entry in entries)])
    if not copy.records and copy.first_offset:  # retention has deleted all that there was
        copy.last_epoch = max([-1, *(entry.epoch for entry in entries if entry.start_offset <= copy.first_offset)])


def _read_snapshots(copy: Copy, log: PartitionLog) -> None:
    """Take the producer ids of the snapshots in; one that is damaged is rebuilt by the broker and says nothing."""
    for name, parsed in log.files.items():
        if parsed.kind == names.PRODUCER_SNAPSHOT and not parsed.state:
            try:
                entries = decode_producer_snapshot(read_small(os.path.join(log.path, name), MAX_SNAPSHOT_BYTES))
            except CorruptSnapshotError:
                continue
            copy.highest_producer_id = max([copy.highest_producer_id, *(each.producer_id for each in entries)])


def _read_transactional_ids(copy: Copy, log: PartitionLog, report: Report) -> None:
    for found in transactional_ids(Replica(log, copy.log_start_offset, None), report):
        ids = (found.producer_id, found.previous_producer_id, found.next_producer_id)
        copy.highest_producer_id = max(copy.highest_producer_id, *ids)
        if found.state in (TransactionState.ONGOING, *ENDING):
            copy.open_transactions.append(found.transactional_id)
