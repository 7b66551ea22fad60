"""A partition's log open for appending, by the rules of the broker that leads the partition or follows its leader."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Self

from kdump.blocks import BatchBlock
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn
from kdump.formats.metadata_files import PartitionMetadata, format_partition_metadata
from kdump.formats.names import segment_file_name
from kdump.recovery.epoch_cache import EpochCache
from kdump.recovery.producer_state import ProducerStates
from kdump.write.assign import OffsetAssigner
from kdump.write.config import LogConfig
from kdump.write.errors import (
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RollError,
    UnexpectedAppendOffsetError,
)
from kdump.write.files import replace_file, sync_directory
from kdump.write.incoming import CLIENT, COORDINATOR, REPLICATION, UNKNOWN_OFFSET, AppendInfo, BatchReader, describe
from kdump.write.packing import Message, Packing, pack, pack_marker
from kdump.write.producers import InMemory, ProducerAppends
from kdump.write.segment import MAX_RELATIVE_OFFSET, ActiveSegment
from kdump.write.snapshots import SnapshotsOnDisk

Clock = Callable[[], int]
Jitter = Callable[[int], int]

_NOTHING = AppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET)


def wall_clock() -> int:
    """The time in ms."""
    return time.time_ns() // 1_000_000


def random_jitter(limit: int) -> int:
    """A number of ms from 0 up to, but without, `limit`."""
    import random

    return random.randrange(limit)


class LogWriter:
    """An open log; make one with `create` (a new log) or `opening.open_log` (one that is there).

    Offsets are absolute. `end_offset` is the one that the next record gets, `log_start_offset` the first that a
    client may read, `recovery_point` the one before which everything is on the disk. `clock` tells the time in ms.
    `durable` has segments, snapshots and checkpoints put on the disk when they are complete. After an I/O error
    nothing can be appended any more, and the log cannot be closed cleanly.
    """

    def __init__(
        self,
        path: str,
        config: LogConfig,
        active: ActiveSegment,
        states: ProducerStates,
        epochs: EpochCache | None,
        end_offset: int,
        log_start_offset: int,
        *,
        clock: Clock = wall_clock,
        jitter: Jitter = random_jitter,
        durable: bool = True,
    ) -> None:
        self.path = path
        self.partition = os.path.basename(path)
        self.config = config
        self.active = active
        self.states = states
        self.epochs = epochs
        self.end_offset = self.recovery_point = end_offset
        self.log_start_offset = log_start_offset
        self.clock = clock
        self.jitter = jitter
        self.durable = durable
        self.producers = ProducerAppends(states, self.partition)
        self.is_open = True
        self._failed = False
        self._reader = BatchReader(self.partition)
        self._assigner = OffsetAssigner(config, self.partition)

    @classmethod
    def create(
        cls,
        path: str,
        config: LogConfig | None = None,
        *,
        start_offset: int = 0,
        topic_id: bytes | None = None,
        clock: Clock = wall_clock,
        jitter: Jitter = random_jitter,
        durable: bool = True,
    ) -> Self:
        """A new log in the directory `path`, which must not have one yet; it starts at `start_offset`.

        With a `topic_id` (16 bytes) it gets a partition.metadata. Raises OSError.
        """
        config = config or LogConfig()
        path = os.path.abspath(path)
        os.makedirs(path, exist_ok=True)
        if any(names.parse_file_name(name).kind in names.SEGMENT_KINDS for name in os.listdir(path)):
            raise FileExistsError(17, "There is a log already", path)
        if topic_id is not None:
            metadata = format_partition_metadata(PartitionMetadata(0, topic_id))
            replace_file(os.path.join(path, names.PARTITION_METADATA), metadata, durable=durable)
        epochs = None
        if config.record_version >= 2:
            epochs = EpochCache(())
            replace_file(os.path.join(path, names.LEADER_EPOCH_CHECKPOINT), b"", durable=durable)
        states = ProducerStates(SnapshotsOnDisk(path, durable=durable))
        states.map_end_offset = states.snapshot_offset = start_offset
        active = ActiveSegment(path, start_offset, config, clock(), draw_jitter(config, jitter))
        return cls(
            path,
            config,
            active,
            states,
            epochs,
            start_offset,
            start_offset,
            clock=clock,
            jitter=jitter,
            durable=durable,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self.is_open:
            self.close(clean=not self._failed)

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log: there is but this one."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open."""
        return min(self.states.open_txns, default=self.end_offset)

    def append(
        self, messages: Iterable[Message], packing: Packing | None = None, *, leader_epoch: int = 0
    ) -> list[AppendInfo]:
        """Pack records into batches and append each of them as a producer's. Raises as `append_as_leader`.

        Where one is refused those before it stay.
        """
        packing = packing or Packing(self.config.record_version, self.config.codec or 0)
        return [self.append_as_leader(batch, leader_epoch) for batch in pack(messages, packing)]

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        timestamp: int | None = None,
        leader_epoch: int = 0,
    ) -> AppendInfo:
        """Append the marker that ends a producer's transaction; `timestamp` (ms) is now unless given."""
        marker = pack_marker(
            producer_id,
            producer_epoch,
            self.clock() if timestamp is None else timestamp,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        return self.append_as_leader(marker, leader_epoch, COORDINATOR)

    def append_as_leader(
        self, data: bytes | bytearray, leader_epoch: int = 0, origin: str = CLIENT
    ) -> AppendInfo:
        """Append the batches of a producer (or, by `origin`, a coordinator), giving them offsets and leader epoch.

        Raises AppendError, CorruptRecordError, InvalidRecordError or CodecError where a broker would refuse, and
        OSError; nothing is written then, but the segment may have been rolled, as in a broker.
        """
        now = self.clock()
        batches = self._reader.read(data)
        if not batches.length:
            return _NOTHING
        self._reader.check(batches, origin, self.config.max_message_bytes)
        data = self._assigner.assign(batches, _valid(data, batches), self.end_offset, leader_epoch, origin, now)
        batches = self._reader.read(data)
        self._reader.check(batches, COORDINATOR, self.config.max_message_bytes)
        info = describe(batches)._replace(first_offset=self.end_offset)
        return self._append(batches, data, info, origin, now)

    def append_as_follower(self, data: bytes | bytearray) -> AppendInfo:
        """Append batches as they were fetched from the leader, in one append. Raises as `append_as_leader`."""
        batches = self._reader.read(data)
        if not batches.length:
            return _NOTHING
        self._reader.check(batches, REPLICATION, None)
        info = describe(batches)
        self._check_offsets(batches, info)
        return self._append(batches, _valid(data, batches), info, REPLICATION, self.clock())

    def roll(self, expected_offset: int = 0) -> int:
        """Begin a new segment at the log end offset (or `expected_offset`, if that is larger); its base offset.

        An empty active segment of that base offset is made anew. Raises RollError, OSError.
        """
        self._check_usable()
        base_offset = max(expected_offset, self.end_offset)
        active = self.active
        if base_offset < active.base_offset or (base_offset == active.base_offset and active.size):
            raise RollError(
                f"Trying to roll a new log segment for topic partition {self.partition} with start offset"
                f" {base_offset}, but the active segment already begins at {active.base_offset}"
            )
        try:
            active.close(durable=self.durable)
            self.active = ActiveSegment(
                self.path, base_offset, self.config, self.clock(), draw_jitter(self.config, self.jitter)
            )
            self.states.map_end_offset = base_offset
            self.states.take_snapshot()
            if self.durable:
                sync_directory(self.path)
        except OSError:
            self._failed = True
            raise
        self.recovery_point = base_offset
        return base_offset

    def advance_log_start(self, offset: int) -> None:
        """Let the log start at `offset` for its readers, as after a DeleteRecords request; segments stay.

        The leader epoch that goes on there begins there then. Raises KdumpError beyond the high watermark, OSError.
        """
        if offset > self.high_watermark:
            raise KdumpError(
                f"Cannot increment the log start offset to {offset} of partition {self.partition} since it is larger"
                f" than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs is not None:
            self.epochs.truncate_from_start(offset)
            self._write_epochs(self.epochs)

    def close(self, *, clean: bool = True) -> None:
        """Close the log: with its last snapshot and trimmed indexes, or as a broker that is killed leaves it.

        Raises OSError, KdumpError for a clean close after an I/O error.
        """
        if clean:
            self._check_usable()
        self.is_open = False
        self.active.close(clean=clean, durable=self.durable)
        if not clean:
            return
        self.states.map_end_offset = self.end_offset
        self.states.take_snapshot()
        self.recovery_point = self.end_offset
        if self.durable:
            sync_directory(self.path)

    def _append(
        self, batches: BatchBlock, data: bytes | bytearray, info: AppendInfo, origin: str, now: int
    ) -> AppendInfo:
        self._check_usable()
        self._assign_epochs(batches)
        if len(data) > self.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"Message batch size is {len(data)} bytes in append to partition {self.partition}, which exceeds the"
                f" maximum configured segment size of {self.config.segment_bytes}."
            )
        if self._should_roll(len(data), info, now):
            self._roll_for(info)
        if max(batches.producer_id[: batches.length]) < 0:
            self._write(batches, data, info)
        else:
            duplicate = self.producers.find_duplicate(batches) if origin == CLIENT else None
            if duplicate:
                return AppendInfo(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, duplicate=True
                )
            active = self.active
            view = InMemory(segment_file_name(active.base_offset, ".log"), active.path(names.LOG))
            pending = self.producers.prepare(batches, origin, view)
            self._write(batches, data, info, self.producers.aborted(pending))
            self.producers.apply(pending)
        self.end_offset = self.states.map_end_offset = info.last_offset + 1
        return info

    def _write(
        self, batches: BatchBlock, data: bytes | bytearray, info: AppendInfo, aborted: list[AbortedTxn] | None = None
    ) -> None:
        active = self.active
        mark = active.mark()
        try:
            active.append(data, batches, info.max_timestamp, info.offset_of_max)
            if aborted:
                active.append_aborted(aborted)
        except BaseException as error:
            self._failed |= isinstance(error, OSError)
            active.back_to(mark)
            raise

    def _check_usable(self) -> None:
        if not self.is_open:
            raise KdumpError(f"{self.path}: the log is closed")
        if self._failed:
            raise KdumpError(f"{self.path}: the log failed in an earlier write and cannot be used any more")

    def _check_offsets(self, batches: BatchBlock, info: AppendInfo) -> None:
        offsets = batches.last_offset[: batches.length]
        if any(second <= first for first, second in zip([-1, *offsets], offsets, strict=False)):
            raise OffsetsOutOfOrderError(
                f"Out of order offsets found in append to {self.partition}: {', '.join(map(str, offsets))}"
            )
        known = info.first_offset != UNKNOWN_OFFSET
        first = info.first_offset if known else offsets[0]
        if first < self.end_offset:
            raise UnexpectedAppendOffsetError(
                f"Unexpected offset in append to {self.partition}."
                f" {'First offset' if known else 'last offset of the first batch'} {first} is less than the next offset"
                f" {self.end_offset}. First 10 offsets in append: {', '.join(map(str, offsets[:10]))}, last offset in"
                f" append: {info.last_offset}. Log start offset = {self.log_start_offset}"
            )

    def _assign_epochs(self, batches: BatchBlock) -> None:
        epochs = self.epochs
        if epochs is None:
            return
        for row in range(batches.length):
            if batches.magic[row] >= 2:
                epochs.assign(batches.leader_epoch[row], batches.base_offset[row], names.LEADER_EPOCH_CHECKPOINT)
            elif epochs.entries:
                epochs.clear()
        self._write_epochs(epochs)

    def _write_epochs(self, epochs: EpochCache) -> None:
        if epochs.is_written:
            path = os.path.join(self.path, names.LEADER_EPOCH_CHECKPOINT)
            replace_file(path, epochs.content(), durable=self.durable)
            epochs.is_written = False

    def _should_roll(self, size: int, info: AppendInfo, now: int) -> bool:
        active = self.active
        if active.size > self.config.segment_bytes - size or active.is_full() or not active.fits(info.last_offset):
            return True
        limit = self.config.max_segment_ms - active.jitter
        return active.size > 0 and active.waited(now, info.max_timestamp) > limit

    def _roll_for(self, info: AppendInfo) -> None:
        known = info.first_offset != UNKNOWN_OFFSET
        expected = info.first_offset if known else info.last_offset - MAX_RELATIVE_OFFSET
        self.roll(expected)


def draw_jitter(config: LogConfig, jitter: Jitter) -> int:
    """How much earlier (ms) than segment.ms a new segment is rolled."""
    limit = min(config.segment_jitter_ms, config.segment_ms)
    return jitter(limit) if limit else 0


def _valid(data: bytes | bytearray, batches: BatchBlock) -> bytes | bytearray:
    """The bytes of the batches alone."""
    last = batches.length - 1
    end = batches.position[last] + batches.size[last]
    return data if end == len(data) else data[:end]
