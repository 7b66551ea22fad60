"""A partition's log open for appending, by the rules of the broker that leads the partition or follows its leader.

    with LogWriter.create("/tmp/data/orders-0", WritingSettings(segment_bytes=1 << 20)) as log:
        log.append([Message(b"value", b"key", 1700000000000)])        # packed as a producer does: see Packing
        log.append(RecordSource(...), Packing(codec=ZSTD))            # columns: the fast way
        log.append_as_leader(batch_bytes)                             # batches as a producer sends them
        log.append_as_follower(batch_bytes)                           # batches as the leader has them
        log.become_leader(5)
        log.end_transaction(producer_id, producer_epoch, commit=True) # see also sessions.Producer
        log.roll()

What a broker would refuse raises an AppendError, CorruptRecordError or InvalidRecordError with Kafka's reason, and
nothing of it is in the log then.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from kdump.blocks import BatchBlock
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import segment_file_name
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.write.errors import OffsetOutOfRangeError, RecordBatchTooLargeError
from kdump.write.incoming import UNKNOWN_OFFSET, AppendInfo, AppendOrigin, BatchReader, describe
from kdump.write.packing import Packing, pack, pack_marker
from kdump.write.producers import InMemory, ProducerAppends
from kdump.write.record_source import Message, RecordSource
from kdump.write.written_log import WrittenLog

_NOTHING = AppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET)


class LogWriter(WrittenLog):
    """An open log that takes appends."""

    @cached_property
    def producers(self) -> ProducerAppends:
        """What the log's producers may append."""
        return ProducerAppends(self.states, self.partition)

    @cached_property
    def _reader(self) -> BatchReader:
        return BatchReader(self.partition)

    def append(
        self,
        records: Iterable[Message] | RecordSource,
        packing: Packing | None = None,
        *,
        leader_epoch: int | None = None,
    ) -> list[AppendInfo]:
        """Pack records into batches and append each of them as a producer's. Raises as `append_as_leader`.

        Where one is refused those before it stay.
        """
        packing = packing or Packing(self.config.record_version, self.config.codec or 0)
        return [self.append_as_leader(batch, leader_epoch) for batch in pack(records, packing)]

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int | None = None,
        timestamp: int | None = None,
        leader_epoch: int | None = None,
    ) -> AppendInfo:
        """Append the marker that ends a producer's transaction.

        `timestamp` (ms) is now, `coordinator_epoch` that of the producer's last marker (or 0), unless given.
        """
        if coordinator_epoch is None:
            known = self.states.producers.get(producer_id)
            coordinator_epoch = max(0, known.coordinator_epoch) if known else 0
        marker = pack_marker(
            producer_id,
            producer_epoch,
            self.clock() if timestamp is None else timestamp,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
        )
        return self.append_as_leader(marker, leader_epoch, AppendOrigin.COORDINATOR)

    def append_as_leader(
        self, data: bytes | bytearray, leader_epoch: int | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendInfo:
        """Append the batches of a producer (or, by `origin`, a coordinator), giving them offsets and leader epoch.

        Raises AppendError, CorruptRecordError, InvalidRecordError or CodecError where a broker would refuse,
        RefusedError for a producer id that the cluster has still to give out, and OSError; nothing is written then,
        but the segment may have been rolled, as in a broker.
        """
        now = self.clock()
        batches = self._reader.read(data)
        if not batches.length:
            return _NOTHING
        self._check_producer_ids(batches)
        self._reader.check(batches, origin, self.config.max_message_bytes)
        epoch = self._leader_epoch(leader_epoch)
        data = self._assigner.assign(batches, _valid(data, batches), self.end_offset, epoch, origin, now)
        batches = self._reader.read(data)
        self._reader.check(batches, AppendOrigin.COORDINATOR, self.config.max_message_bytes)
        info = describe(batches)._replace(first_offset=self.end_offset)
        return self._append(batches, data, info, origin, now)

    def append_as_follower(self, data: bytes | bytearray) -> AppendInfo:
        """Append batches as they were fetched from the leader, in one append. Raises as `append_as_leader`."""
        batches = self._reader.read(data)
        if not batches.length:
            return _NOTHING
        self._reader.check(batches, AppendOrigin.REPLICATION, None)
        self._check_producer_ids(batches)
        info = describe(batches)
        self._reader.check_offsets(batches, info, self.end_offset, self.log_start_offset)
        return self._append(batches, _valid(data, batches), info, AppendOrigin.REPLICATION, self.clock())

    def _check_producer_ids(self, batches: BatchBlock) -> None:
        """Raise RefusedError for a producer id that the cluster has still to give out."""
        largest = max(batches.producer_id[: batches.length])
        if self.next_producer_id is not None and largest >= self.next_producer_id:
            raise RefusedError(
                f"{self.partition}: the cluster has still to give out producer id {largest} (its next one is"
                f" {self.next_producer_id}): the producer that gets it would fail with OUT_OF_ORDER_SEQUENCE_NUMBER"
            )

    def _append(
        self, batches: BatchBlock, data: bytes | bytearray, info: AppendInfo, origin: AppendOrigin, now: int
    ) -> AppendInfo:
        self._check_usable()
        if not self.end_offset <= info.last_offset < LONG_MAX:
            raise OffsetOutOfRangeError(
                f"{self.partition} ends at offset {self.end_offset}: there are no offsets left for this append"
            )
        if len(data) > self.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"Message batch size is {len(data)} bytes in append to partition {self.partition}, which exceeds the"
                f" maximum configured segment size of {self.config.segment_bytes}."
            )
        self._assign_epochs(batches)
        if self._should_roll(len(data), info, now):
            known = info.first_offset != UNKNOWN_OFFSET
            self.roll(info.first_offset if known else info.last_offset - MAX_RELATIVE_OFFSET)
        if max(batches.producer_id[: batches.length]) < 0:
            self._write(batches, data, info)
        else:
            duplicate = self.producers.find_duplicate(batches) if origin is AppendOrigin.CLIENT else None
            if duplicate:
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, duplicate=True)
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
            self.has_failed |= not isinstance(error, KdumpError)
            with self._changing():
                active.back_to(mark)
            raise

    def _assign_epochs(self, batches: BatchBlock) -> None:
        if self.epochs is not None:
            try:
                self.epochs.assign_all(batches)
            finally:
                self._write_epochs(self.epochs)

    def _should_roll(self, size: int, info: AppendInfo, now: int) -> bool:
        active = self.active
        if active.size > self.config.segment_bytes - size or active.is_full() or not active.fits(info.last_offset):
            return True
        limit = self.config.max_segment_ms - active.jitter
        return active.size > 0 and active.waited(now, info.max_timestamp) > limit


def _valid(data: bytes | bytearray, batches: BatchBlock) -> bytes | bytearray:
    """Return the bytes of the batches alone."""
    last = batches.length - 1
    end = batches.position[last] + batches.size[last]
    return data if end == len(data) else data[:end]
