"""What kafka-dump-log prints for the files beside a log: indexes and producer snapshots."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.disk.reading import ReadOnlyFile
from kdump.dump_log_segments.java import base_offset_of, check_size, java_fault, slice_end
from kdump.dump_log_segments.options import INT_MAX, DumpLogOptions
from kdump.dump_log_segments.payload_errors import java_codec_error, java_record_fault
from kdump.dump_log_segments.report import Report
from kdump.errors import ILLEGAL_ARGUMENT, NO_SUCH_ELEMENT, CorruptRecordError, CorruptSnapshotError, JavaError
from kdump.formats.faults import BLOCK_FULL, UNDERSIZED, undersized_error
from kdump.formats.index_entries import check_aborted_txn_version
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, schema_fault
from kdump.kernels.portable.records import largest_message_timestamp
from kdump.release_tables import MAX_ARRAY_LENGTH
from kdump.releases import GENERATED_SNAPSHOT_SCHEMA, LIMITED_ARRAYS, TXN_VERSION_INT16
from kdump.storage.indexes import OffsetIndex, TimeIndex, TxnIndex
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate


def _index(asked: DumpLogOptions, report: Report, path: str) -> Iterator[str]:
    asked.need("max-message-size")
    base_offset = base_offset_of(path)
    with LogFile(_sibling(path, ".log")) as log, OffsetIndex(os.path.abspath(path), base_offset) as index:
        check_size(log)
        if index.entries == 0:
            yield f"{path} is empty."
        elif asked.index_sanity_check:
            index.check()
            yield f"{path} passed sanity check."
        else:
            yield from _index_entries(asked, report, path, log, index)


def _index_entries(
    asked: DumpLogOptions, report: Report, path: str, log: LogFile, index: OffsetIndex
) -> Iterator[str]:
    for number, entry in enumerate(index):
        if number and entry.offset == index.base_offset:
            return
        batch = log.entry_at(entry.position, slice_end(log, entry.position, asked.max_message_size))
        if batch.status == UNDERSIZED:
            raise undersized_error(batch.size, log.path)
        if batch.status != BLOCK_FULL:
            raise JavaError(NO_SUCH_ELEMENT)
        if batch.last_offset != entry.offset:
            report.mismatches.add(path, entry.offset, batch.last_offset)
        if not asked.verify_index_only:
            yield f"offset: {entry.offset} position: {entry.position}"


def _time_index(asked: DumpLogOptions, report: Report, path: str) -> Iterator[str]:
    base_offset = base_offset_of(path)
    index_path = _sibling(path, ".index")
    with LogFile(_sibling(path, ".log")) as log:
        check_size(log)
        if not os.path.exists(index_path):
            # Kafka's tool creates the file, then fails so; reading must not create anything
            raise JavaError(ILLEGAL_ARGUMENT, "Invalid max index size: -1")
        with OffsetIndex(index_path, base_offset) as index, TimeIndex(os.path.abspath(path), base_offset) as times:
            if asked.index_sanity_check:
                times.check()
                yield f"{path} passed sanity check."
            else:
                yield from _time_entries(asked, report, path, log, index, times)


def _time_entries(
    asked: DumpLogOptions, report: Report, path: str, log: LogFile, index: OffsetIndex, times: TimeIndex
) -> Iterator[str]:
    previous = -1
    tail = _Tail(log) if asked.is_java else None
    for number, entry in enumerate(times):
        if number and entry.offset == times.base_offset:
            return
        start = index.lookup(entry.offset).position
        slice_end(log, start, INT_MAX)
        if tail is not None:
            tail.read(start)
        found, largest = _largest_timestamp(log, start, entry.offset)
        if found != entry.offset:
            report.not_found.add(path, entry.offset, found)
        else:
            if largest != entry.timestamp:
                report.time_mismatches.add(path, entry.timestamp, largest)
            if previous >= entry.timestamp:
                report.out_of_order.add(path, entry.timestamp, previous)
        if not asked.verify_index_only:
            yield f"timestamp: {entry.timestamp} offset: {entry.offset}"
        previous = entry.timestamp


class _Tail:
    """The batches of a log from any byte on to its end, where the tool of Kafka 4.3 dies of a bad one.

    Kafka reads them again for each entry of a time index. Here a batch is read once, however many entries lead to it.
    """

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self._positions = array("q")
        self._error: CorruptRecordError | None = None

    def read(self, start: int) -> None:
        """Read from byte `start` to the end. Raises CorruptRecordError."""
        if not self._is_known(start):
            self._walk(start)
        if self._error is not None:
            raise self._error

    def _is_known(self, position: int) -> bool:
        at = bisect_left(self._positions, position)
        return at < len(self._positions) and self._positions[at] == position

    def _walk(self, start: int) -> None:
        """Read up to a batch that is known to lead to the end, or to the end itself."""
        positions = array("q")
        for block in self._log.blocks(start, whole=False):
            found = block.position[: block.length]
            known = next((at for at, position in enumerate(found) if self._is_known(position)), None)
            if known is not None:
                positions.extend(found[:known])
                if positions and positions[-1] < self._positions[0]:
                    self._positions = positions + self._positions
                return
            positions.extend(found)
        self._positions = positions
        self._error = undersized_error(block.bad_size, self._log.path) if block.status == UNDERSIZED else None


def _largest_timestamp(log: LogFile, start: int, offset: int) -> tuple[int, int]:
    """Return the last offset of the first batch from byte `start` on that reaches `offset`, and its largest timestamp.

    The timestamp (ms) is that of its records, and only looked at when the batch ends at `offset`; offset -1: no batch.
    """
    position = start
    while True:
        batch = log.entry_at(position, log.size)
        if batch.status == UNDERSIZED:
            raise undersized_error(batch.size, log.path)
        if batch.status != BLOCK_FULL:
            return -1, -1
        if batch.last_offset >= offset:
            break
        position += batch.size
    if batch.last_offset != offset:
        return batch.last_offset, -1
    return batch.last_offset, _largest_in_batch(log.batch_at(position, batch.size))


def _largest_in_batch(block: BatchBlock) -> int:
    """Return the largest timestamp (ms) of the records of a one-batch block, at least -1."""
    inflated = inflate(block, 0)
    if inflated.error and not inflated.fault:
        raise java_codec_error(block, 0, inflated.error)
    fault = inflated.fault
    largest = -1
    if fault is None and block.magic[0] < 2:
        largest, fault = largest_message_timestamp(block, 0, inflated.payloads[0])
    elif fault is None:
        records = RecordBlock()
        more = True
        while more:
            more = kernels.decode(block, records, 0, 1, inflated.payloads)
            largest = max((largest, *records.timestamp[: records.length]))
        if records.fault:
            raise java_record_fault(records.fault, block, inflated)
    if fault:
        raise java_fault(fault)
    return largest


def _txn_index(asked: DumpLogOptions, _report: Report, path: str) -> Iterator[str]:
    base_offset_of(path)
    if not os.path.exists(path):
        return
    with TxnIndex(path) as index:
        txns = list(index)
    is_int16 = asked.release.has(TXN_VERSION_INT16)
    for txn in txns:
        check_aborted_txn_version(txn, os.path.abspath(path), is_int16=is_int16)
    for txn in txns:
        yield (
            f"version: {txn.version_seen} producerId: {txn.producer_id} firstOffset: {txn.first_offset}"
            f" lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
        )


def _snapshot(asked: DumpLogOptions, report: Report, path: str) -> Iterator[str]:
    with ReadOnlyFile(path) as file:
        data = file.read(0, file.size)
    try:
        limit = MAX_ARRAY_LENGTH if asked.release.has(LIMITED_ARRAYS) else None
        producers = decode_producer_snapshot(data, max_producers=limit)
    except CorruptSnapshotError as error:
        text = None if asked.release.has(GENERATED_SNAPSHOT_SCHEMA) else schema_fault(data)
        report.notes.append(text or str(getattr(error, "kafka_text", error)))
        return
    for producer in producers:
        line = _producer_line(producer)
        yield line.rstrip() if asked.is_java else line


def _producer_line(producer: ProducerEntry) -> str:
    open_txn = f"[{producer.current_txn_first_offset}]" if producer.has_open_txn else ".empty"
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch}"
        f" coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: OptionalLong{open_txn}"
        f" lastTimestamp: {producer.timestamp} "
    )
    if not producer.has_batch:
        return line
    return line + (
        f"firstSequence: {producer.first_sequence} lastSequence: {producer.last_sequence}"
        f" lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _sibling(path: str, suffix: str) -> str:
    """Return the file of the same segment with another suffix, as an absolute path."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, name.partition(".")[0] + suffix)


PRINTERS: dict[str, Callable[[DumpLogOptions, Report, str], Iterator[str]]] = {
    ".index": _index,
    ".timeindex": _time_index,
    ".txnindex": _txn_index,
    ".snapshot": _snapshot,
}
