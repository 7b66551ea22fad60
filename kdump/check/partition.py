"""One partition directory: all its checks, fed with the parts of its log as they are walked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.check.batch_rows import Part
from kdump.check.checkpoints import check_partition
from kdump.check.directory import KnownPartitions, directory_state, partition_files, special_files
from kdump.check.entries import preallocated
from kdump.check.epochs import EpochCheck
from kdump.check.log import LogCheck
from kdump.check.offset_index import OffsetIndexCheck
from kdump.check.options import Options
from kdump.check.producers import Coordinator, ProducerCheck
from kdump.check.time_index import TimeIndexCheck
from kdump.check.timestamps import TimestampCheck, checks_times
from kdump.check.txn import check_txn_index
from kdump.check.work import Before, PartitionTask
from kdump.disk.reading import read_small, status_of
from kdump.errors import CorruptIndexError, CorruptRecordError, CorruptSnapshotError
from kdump.findings import remedies as ways
from kdump.findings.finding import UNREAD, Finding, found, unreadable
from kdump.findings.kind import BLOCKS_COMPACTION, ERROR, NOTE, REFUSES, SERVES_WRONG_DATA, TRUNCATES
from kdump.formats import names
from kdump.formats.producer_snapshot import MAX_SNAPSHOT_BYTES, ProducerEntry, decode_producer_snapshot, stray_offsets
from kdump.release_tables import MAX_ARRAY_LENGTH
from kdump.settings.retention import RetentionSettings
from kdump.storage.damage import Damage
from kdump.storage.segment import Segment, segment_end_offset
from kdump.txns.producers import Producer

if TYPE_CHECKING:
    from kdump.check.broker_load import BrokerLoad
    from kdump.query.inventory import Placing

_SERVES = (SERVES_WRONG_DATA, BLOCKS_COMPACTION)
"""The effects of what a broker serves, unless its start fails over it."""

_LOADED = (*_SERVES, TRUNCATES)
"""Those, and that of damage that a broker which stopped in order does not look for."""


class PartitionCheck:
    """The checks of one partition. The caller opens segment after segment and hands in the parts of each."""

    def __init__(
        self,
        task: PartitionTask,
        place: KnownPartitions,
        options: Options,
        now: int,
        *,
        placing: Placing | None,
        coordinator: Coordinator,
        retention: RetentionSettings,
    ) -> None:
        """Take what there is to check, at the time `now` (ms).

        `placing` tells what the cluster's metadata says of partitions, where that is at hand, `coordinator` what the
        coordinators at hand say of transactions, `retention` which segments the broker deletes and how it loads them.

        `position` is how far into the log of the segment at hand the parts have led, `last_good` where the last valid
        batch begins, in bytes, and `_walked_end` the offset behind that batch.
        """
        self.log = log = task.log
        self.position = self.last_good = self._walked_end = 0
        self._segments = task.segments
        self._checkpoints, self._owner = task.around.checkpoints, task.around.owner
        self._directory = task.around.directory
        self._was_closed = task.was_closed
        self._place = place
        self._options = options
        self._now = now
        self._placing = placing
        self._coordinator = coordinator
        self._loading = retention.loading
        self._checks_times = checks_times(options.filter)
        before = task.before or Before()
        is_metadata = log.name is None or log.name.topic == names.CLUSTER_METADATA_TOPIC
        self._logs = LogCheck(before.last_offset, holds_metadata=is_metadata)
        self._epochs = EpochCheck(log, self._log_start(), before.leader_epoch)
        self._producers = ProducerCheck(now, log.name.topic if log.name else "", options.longest_transaction_ms)
        self._times = TimestampCheck(now, retention)
        self._indexes: tuple[OffsetIndexCheck | TimeIndexCheck, ...] = ()
        self._number = -1
        self._has_lost = self._has_unread = self._has_log_fault = False

    def _log_start(self) -> int:
        """Return the checkpoint's log start offset; 0 where the log ends before it, as nobody can go by it then."""
        start = self._checkpoints.of(self.log.name).log_start or 0
        if not start or not self.log.segments:
            return start
        try:
            return start if start <= segment_end_offset(self.log.segments[-1]) else 0
        except (OSError, CorruptRecordError):  # which the walk tells
            return start

    @property
    def before_next(self) -> Before:
        """What the next segment's check has to know of the log before it."""
        return Before(self._logs.last_offset, self._epochs.epoch)

    def start(self) -> Iterator[Finding]:
        """Yield what can be said before the log is walked."""
        yield from directory_state(self.log)
        yield from self._guarded(self.log.path, special_files(self.log.path))
        if self.log.name is not None:
            yield from self._place.partition(self.log.path, self.log.name, self._owner)
        metadata = os.path.join(self.log.path, names.PARTITION_METADATA)
        if self._place.judges_ids:
            ids = self._place.topic_id(self.log, self._owner, self._placing, self._directory)
            yield from self._guarded(metadata, ids)
        if self._placing is not None:
            from kdump.check.cluster import check_placement

            yield from self._guarded(metadata, check_placement(self.log, self._placing, self._place.ids))
        yield from partition_files(self.log, was_closed=self._was_closed)
        yield from self._guarded(self._epochs.path, self._epochs.read())
        yield from self._stray_snapshots()

    def _guarded(self, path: str, checks: Iterator[Finding]) -> Iterator[Finding]:
        try:
            yield from checks
        except OSError as error:
            yield unread(path, error)
        except CorruptIndexError as error:  # the file has shrunk since it was opened
            yield found(UNREAD, path, str(error))

    def _stray_snapshots(self) -> Iterator[Finding]:
        bases = {segment.base_offset for segment in self.log.segments}
        snapshots = names.producer_snapshots(self.log.files)
        strays = set(stray_offsets(snapshots, bases))
        for offset in sorted(strays):
            path = os.path.join(self.log.path, snapshots[offset])
            text = "there is no segment with this base offset"
            yield found("KD-SNAP-STRAY", path, text, offset=offset)
        self._snapshots = snapshots
        for offset in sorted(set(snapshots) - bases):
            if not self._segments or offset < self._segments[0].base_offset:
                yield from self._snapshot(offset, compares=False)

    def _snapshot(self, offset: int, *, compares: bool) -> Iterator[Finding]:
        path = os.path.join(self.log.path, self._snapshots.pop(offset))
        try:
            data = read_small(path, MAX_SNAPSHOT_BYTES)
        except OSError as error:
            yield unread(path, error)
            return
        if not (data or self._snapshots or self._was_closed):
            text = "it is empty: a broker that is killed while it makes its newest snapshot leaves it so"
            yield found("KD-SNAP-CORRUPT", path, text, severity=NOTE)
            return
        known = self._producers if compares and not self._has_lost else None
        yield from check_snapshot(path, data, offset, known)

    def open_segment(self, segment: Segment) -> Iterator[Finding]:
        """Go on with this segment, the next one."""
        self._segment: Segment = segment
        self._number += 1
        following = self._segments[self._number + 1 :]
        next_base = following[0].base_offset if following else None
        base = segment.base_offset
        for offset in sorted(offset for offset in self._snapshots if offset <= base):
            yield from self._snapshot(offset, compares=offset == base)
        self.position = self.last_good = 0
        self._walked_end = base
        path = segment.log_path
        self._logs.open_segment(path, base, next_base, was_closed=self._was_closed)
        self._epochs.open_segment(path)
        self._producers.open_segment(path)
        self._times.open_segment(path)
        is_open = self._is_open
        excused = preallocated(segment) if is_open else ()
        self._offset_index = OffsetIndexCheck(
            segment, excused=names.OFFSET_INDEX in excused, is_last=next_base is None, is_open=is_open
        )
        self._time_index = TimeIndexCheck(segment, excused=names.TIME_INDEX in excused, is_open=is_open)
        self._indexes = self._offset_index, self._time_index
        for check in self._indexes:
            yield from self._guarded(check.path, check.open())

    def close(self) -> None:
        """Close the files of the segment at hand, where the run ends within it."""
        for check in self._indexes:
            check.close()

    def advised(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Yield the findings; a file that is built from a log is not to be built from one that is wrong itself."""
        for finding in findings:
            is_index = finding.severity == ERROR and finding.path.endswith(f".{names.OFFSET_INDEX}")
            if is_index and self._logs.is_opened_as_it_is:
                finding = finding._replace(effect=self._load.opening.effect or finding.effect)
            elif finding.severity == ERROR and finding.broker in (_LOADED if self._was_closed else _SERVES):
                finding = finding._replace(effect=self._load.effect_of(finding) or finding.effect)
            elif finding.broker == REFUSES and self._is_cut_before and finding.path.endswith(f".{names.LOG}"):
                finding = finding._replace(effect=TRUNCATES)
            is_derived = finding.remedies in (ways.INDEX, ways.REPAIRED)
            if is_derived and (self._has_log_fault or self._logs.overflows):
                yield finding._replace(ways=ways.AFTER_LOG)
                continue
            if not is_derived and finding.severity == ERROR and finding.path.endswith(f".{names.LOG}"):
                self._has_log_fault = True
            yield finding

    @property
    def _is_open(self) -> bool:
        """Whether the segment at hand was neither rolled nor closed."""
        return self._number == len(self._segments) - 1 and not self._was_closed

    @cached_property
    def _load(self) -> BrokerLoad:
        from kdump.check.broker_load import BrokerLoad
        from kdump.recovery.startup import Startup

        parsed = self._checkpoints.of(self.log.name)
        points = parsed.recovery_point or 0, parsed.log_start or 0
        return BrokerLoad(self.log, self._segments, Startup(self._now, self._was_closed, *points, self._loading))

    @property
    def _is_cut_before(self) -> bool:
        """Whether recovery ends at damage before the place at hand, so that a broker does not meet what is there."""
        return self._has_lost and not self._was_closed and self._load.failure is None

    def part(self, part: Part) -> Iterator[Finding]:
        """Yield the next part of the segment's log."""
        if isinstance(part, Damage):
            self.position = part.resumed
            yield from self._logs.bad_bytes(part, self._load.effect_on(part) if self._logs.is_opened_as_it_is else None)
            self._has_lost = self._has_lost or self._logs.is_damaged
            yield from self._guarded(self._offset_index.path, self._offset_index.bad_bytes(part))
            self._time_index.bad_bytes()
            return
        self.position, self.last_good = part.end, part.position[-1]
        self._walked_end = max(self._segment.base_offset, part.last_offset[-1] + 1)
        yield from self._logs.take(part)
        yield from self._epochs.take(part)
        yield from self._producers.take(part)
        if self._checks_times:
            self._times.take(part)
        yield from self._guarded(self._offset_index.path, self._offset_index.take(part))
        covered = self._offset_index.covered(part)
        yield from self._guarded(self._time_index.path, self._time_index.take(part, covered))

    def unread(self, error: OSError) -> Iterator[Finding]:
        """Yield the segment's log could not be read, or not to its end."""
        self._has_lost = self._has_unread = True
        yield unread(self._segment.log_path, error)

    def close_segment(self, *, was_read: bool) -> Iterator[Finding]:
        """Yield the segment's log is over; what follows from the whole of it is said unless it could not be read."""
        try:
            if was_read:
                yield from self._closing(self._segment)
        finally:
            self.close()
            for check in self._indexes:
                if self.log.walked is not None and check.content:
                    self.log.contents[os.path.basename(check.path)] = check.content

    def _closing(self, segment: Segment) -> Iterator[Finding]:
        offset_index, time_index = self._offset_index, self._time_index
        try:
            status = status_of(segment.log_path)
        except OSError as error:
            yield unread(segment.log_path, error)
            return
        yield from self._logs.close_segment(status.size, len(self._segments) - self._number - 1)
        yield from self._guarded(segment.log_path, self._held(segment, status.modified_ns // 1_000_000))
        yield from self._guarded(offset_index.path, offset_index.finish())
        has_batches = not self._logs.is_empty
        is_misled = offset_index.leftovers.are_there
        closing = time_index.finish(has_batches=has_batches, is_damaged=self._logs.is_damaged, is_misled=is_misled)
        yield from self._guarded(time_index.path, closing)
        index = segment.path(names.TXN_INDEX)
        checks = check_txn_index(
            segment,
            self._producers,
            knows_log=not self._logs.is_damaged,
            has_lost=self._has_lost,
            is_open=self._is_open,
            is_int16=self._loading.txn_version_int16,
        )
        yield from self._guarded(index, checks)

    def _held(self, segment: Segment, modified: int) -> Iterator[Finding]:
        if not self._checks_times:
            return
        blocking = self._times.blocking
        limit = self._options.limit if self._options.deep else None
        record = blocking.record(segment, limit) if blocking else None
        yield from self._times.close_segment(modified, record)

    def finish(self) -> Iterator[Finding]:
        """Yield the last segment is over."""
        for offset in sorted(self._snapshots):
            yield from self._snapshot(offset, compares=offset == self._logs.end_offset)
        if not self._has_lost:
            yield from self._producers.finish(self._coordinator)
        end_offset = self._end_offset()
        yield from self._epochs.finish(end_offset)
        name = self.log.name
        start_offset = self.log.segments[0].base_offset if self.log.segments else self._log_start()
        if not self.log.segments:
            end_offset = start_offset  # the broker begins the log there, whatever it had
        if name is not None and not name.state and end_offset is not None:
            yield from check_partition(self._checkpoints, name, start_offset, end_offset, was_closed=self._was_closed)

    def _end_offset(self) -> int | None:
        """Return the log end offset that a broker finds by the last segment's index; None where it cannot be known."""
        if not self._segments or self._has_unread:
            return None
        last = self._segments[-1]
        if not self._logs.is_damaged and not last.has(names.OFFSET_INDEX):
            return self._walked_end  # without an index a broker walks the log as it has just been walked
        try:
            return segment_end_offset(last)
        except (OSError, CorruptRecordError):  # the log has changed since it was read
            return self._logs.end_offset


def unread(path: str, error: OSError) -> Finding:
    """Return the finding for what could not be read, and was there when it was listed."""
    if isinstance(error, FileNotFoundError):
        return found(UNREAD, path, "vanished while it was being checked")
    return unreadable(path, error)


def check_snapshot(path: str, data: bytes, offset: int, known: ProducerCheck | None) -> Iterator[Finding]:
    """Compare a snapshot with what the log before its `offset` (absolute) says of its producers, if that is known."""
    try:
        entries = decode_producer_snapshot(data)
    except CorruptSnapshotError as error:
        yield found("KD-SNAP-CORRUPT", path, str(error))
        return
    if len(entries) > MAX_ARRAY_LENGTH:
        limit = f"Kafka 4.2.2, 4.4 and later read {MAX_ARRAY_LENGTH:,}, and delete the file at a start"
        text = f"{len(entries):,} producers: {limit}"
        yield found("KD-SNAP-LARGE", path, text, offset=offset, details={"producers": len(entries)})
    if known is None:
        return
    for entry in entries:
        producer = known.producers.get(entry.producer_id)
        if producer and (text := _disagreement(entry, producer)):
            yield found("KD-SNAP-STATE", path, f"producer {entry.producer_id}: {text}", offset=entry.last_offset,
                        details={"producerId": entry.producer_id})  # fmt: skip
    known.settle(entries, offset)


def _disagreement(entry: ProducerEntry, producer: Producer) -> str:
    """Return how a snapshot's entry contradicts what the log says; empty where it does not.

    Of a compacted log a producer's later batches may be gone, so the snapshot may know more than the log.
    """
    if producer.last_offset >= 0 and entry.last_offset >= 0:
        if entry.last_offset < producer.last_offset:
            return f"its last batch ends at offset {producer.last_offset}, the snapshot says {entry.last_offset}"
        if entry.last_offset == producer.last_offset and entry.last_sequence != producer.last_sequence:
            return f"its last sequence is {producer.last_sequence}, the snapshot says {entry.last_sequence}"
    if entry.producer_epoch < producer.epoch:
        return f"its epoch is {producer.epoch}, the snapshot says {entry.producer_epoch}"
    return ""
