"""What kafka-dump-log prints for each kind of file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.commands.dump_log_contents import contents_printer, control_text
from kdump.commands.dump_log_java import JavaError, java_codec_error, java_fault
from kdump.commands.dump_log_options import INT_MAX, Options
from kdump.errors import CorruptRecordError, CorruptSnapshotError, NameFormatError
from kdump.formats import names
from kdump.formats.faults import BLOCK_FULL, SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.formats.index_entries import check_aborted_txn_version
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.kernels.portable.records import largest_message_timestamp
from kdump.kernels.portable.text import LogText as PortableLogText
from kdump.payloads import inflate
from kdump.storage.files import ReadOnlyFile
from kdump.storage.index_files import OffsetIndex, TimeIndex, TxnIndex
from kdump.storage.log_file import LogFile

ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
MAX_SEGMENT_SIZE = INT_MAX

Write = Callable[[bytes | memoryview], object]


class Dump:
    """One run of the tool: prints file by file and remembers what is reported at the end."""

    def __init__(self, options: Options, write: Write) -> None:
        self._options = options
        self._write = write
        self._contents = contents_printer(options)
        self._index_mismatches: dict[str, list[tuple[int, int]]] = {}
        self._time_mismatches: dict[str, list[tuple[int, int]]] = {}
        self._out_of_order: dict[str, list[tuple[int, int]]] = {}
        self._not_found: dict[str, list[tuple[int, int]]] = {}
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._notes: list[str] = []

    def file(self, path: str) -> None:
        """Print one file. Raises what Kafka's tool would die of."""
        self._line(f"Dumping {path}")
        name = os.path.basename(path)
        dot = name.rfind(".")
        if dot < 0:
            raise JavaError(
                "java.lang.StringIndexOutOfBoundsException", f"begin -1, end {len(name)}, length {len(name)}"
            )
        printers = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._index,
            ".timeindex": self._time_index,
            ".snapshot": self._snapshot,
            ".txnindex": self._txn_index,
        }
        printer = printers.get(name[dot:])
        if printer is None:
            self._notes.append(f"Ignoring unknown file {path}")
        else:
            printer(path)

    def errors(self) -> Iterator[str]:
        """What goes to stderr when all files are printed."""
        yield from self._notes
        for path, pairs in self._index_mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(pairs))
        for path, pairs in self._time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs)
        for pairs in self._not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for path, pairs in self._gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {a} is followed by {b}" for a, b in reversed(pairs))

    def _line(self, text: str) -> None:
        self._write(os.fsencode(text) + b"\n")

    # --- .log and .checkpoint

    def _log(self, path: str) -> None:
        name = os.path.basename(path)
        if name.endswith(".log"):
            self._line(f"Log starting offset: {_base_offset(path)}")
        elif name == names.BOOTSTRAP_CHECKPOINT:
            self._line("KRaft bootstrap snapshot")
        else:
            snapshot = names.parse_file_name(name)
            if snapshot.kind != names.KRAFT_SNAPSHOT:
                raise JavaError("java.util.NoSuchElementException", "No value present")
            self._line(f"Snapshot end offset: {snapshot.offset}, epoch: {snapshot.epoch}")
        with LogFile(path) as log:
            _check_size(log)
            stop = _slice_end(log, path, 0, self._options.max_bytes)
            position = self._batches(path, log, stop)
            if position < stop and self._options.max_bytes == INT_MAX:
                self._line(f"Found {stop - position} invalid bytes at the end of {name}")

    def _batches(self, path: str, log: LogFile, stop: int) -> int:
        """Print the batches before byte `stop`; the position at which they end."""
        options = self._options
        printing = (options.deep, options.print_data, options.skip_record_metadata, control_text)
        text = (
            PortableLogText(*printing, contents=self._contents) if self._contents else kernels.LogText(*printing)
        )
        status = position = 0
        try:
            for block in log.blocks(0, stop, whole=options.deep):
                self._block(text, block)
                status, position = block.status, block.next_position
        finally:
            if text.gaps:
                gaps = iter(text.gaps)
                self._gaps.setdefault(os.path.abspath(path), []).extend(zip(gaps, gaps, strict=True))
        _check_end(status, block, path)
        return position

    def _block(self, text: kernels.LogText, block: BatchBlock) -> None:
        row = 0
        while row < block.length:
            if not self._options.deep:
                fault = text.render(block, row, block.length, (), self._write)
                row = block.length
                error = None
            else:
                stretch = inflate(block, row)
                fault = text.render(block, row, stretch.stop, stretch.payloads, self._write) or stretch.fault
                error = stretch.error
                row = stretch.stop
            if fault:
                raise java_fault(fault)
            if error:
                raise java_codec_error(block, row - 1, error)

    # --- .index and .timeindex

    def _index(self, path: str) -> None:
        base_offset = _base_offset(path)
        log_path = _sibling(path, ".log")
        with LogFile(log_path) as log, OffsetIndex(os.path.abspath(path), base_offset) as index:
            _check_size(log)
            if index.entries == 0:
                self._line(f"{path} is empty.")
            elif self._options.index_sanity_check:
                index.check()
                self._line(f"{path} passed sanity check.")
            else:
                self._index_entries(path, log, index)

    def _index_entries(self, path: str, log: LogFile, index: OffsetIndex) -> None:
        for number, entry in enumerate(index):
            if number and entry.offset == index.base_offset:
                return
            stop = _slice_end(log, log.path, entry.position, self._options.max_message_size)
            batch = log.entry_at(entry.position, stop)
            if batch.status == UNDERSIZED:
                raise undersized_error(batch.size, log.path)
            if batch.status != BLOCK_FULL:
                raise JavaError("java.util.NoSuchElementException")
            if batch.last_offset != entry.offset:
                pair = (entry.offset, batch.last_offset)
                self._index_mismatches.setdefault(os.path.abspath(path), []).append(pair)
            if not self._options.verify_index_only:
                self._line(f"offset: {entry.offset} position: {entry.position}")

    def _time_index(self, path: str) -> None:
        base_offset = _base_offset(path)
        with LogFile(_sibling(path, ".log")) as log:
            _check_size(log)
            if not os.path.exists(_sibling(path, ".index")):
                # Kafka's tool creates the file, then fails so; reading must not create anything
                raise JavaError(ILLEGAL_ARGUMENT, "Invalid max index size: -1")
            with OffsetIndex(_sibling(path, ".index"), base_offset) as index, TimeIndex(os.path.abspath(path), base_offset) as times:
                if self._options.index_sanity_check:
                    times.check()
                    self._line(f"{path} passed sanity check.")
                else:
                    self._time_entries(path, log, index, times)

    def _time_entries(self, path: str, log: LogFile, index: OffsetIndex, times: TimeIndex) -> None:
        absolute = os.path.abspath(path)
        previous = -1
        for number, entry in enumerate(times):
            if number and entry.offset == times.base_offset:
                return
            start = index.lookup(entry.offset).position
            _slice_end(log, log.path, start, INT_MAX)
            found, largest = _largest_timestamp(log, start, entry.offset)
            if found != entry.offset:
                self._not_found.setdefault(absolute, []).append((entry.offset, found))
            else:
                if largest != entry.timestamp:
                    self._time_mismatches.setdefault(absolute, []).append((entry.timestamp, largest))
                if previous >= entry.timestamp:
                    self._out_of_order.setdefault(absolute, []).append((entry.timestamp, previous))
            if not self._options.verify_index_only:
                self._line(f"timestamp: {entry.timestamp} offset: {entry.offset}")
            previous = entry.timestamp

    # --- .txnindex and .snapshot

    def _txn_index(self, path: str) -> None:
        _base_offset(path)
        if not os.path.exists(path):
            return
        with TxnIndex(path) as index:
            txns = list(index)
        for txn in txns:
            check_aborted_txn_version(txn, os.path.abspath(path))
        for txn in txns:
            self._line(
                f"version: {txn.version_seen} producerId: {txn.producer_id} firstOffset: {txn.first_offset}"
                f" lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
            )

    def _snapshot(self, path: str) -> None:
        with ReadOnlyFile(path) as file:
            data = file.read(0, file.size)
        try:
            producers = decode_producer_snapshot(data)
        except CorruptSnapshotError as error:
            self._notes.append(getattr(error, "kafka_text", str(error)))
            return
        for producer in producers:
            self._line(_producer_line(producer))


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


def _base_offset(path: str) -> int:
    name = os.path.basename(path)
    offset = names.offset_in_name(name)
    if offset is None:
        raise NameFormatError(f'For input string: "{name.partition(".")[0]}"')
    return offset


def _sibling(path: str, suffix: str) -> str:
    """The file of the same segment with another suffix, as an absolute path."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, name.partition(".")[0] + suffix)


def _file_records(log: LogFile, path: str) -> str:
    return f"FileRecords(size={log.size}, file={path}, start=0, end={INT_MAX})"


def _check_size(log: LogFile) -> None:
    if log.size > MAX_SEGMENT_SIZE:
        raise JavaError(
            "org.apache.kafka.common.KafkaException",
            f"The size of segment {log.path} ({log.size}) is larger than the maximum allowed segment size of"
            f" {MAX_SEGMENT_SIZE}",
        )


def _slice_end(log: LogFile, path: str, position: int, size: int) -> int:
    """Where a slice of `size` bytes from `position` ends, with Kafka's objections to either."""
    if position < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid position: {position} in read from {_file_records(log, path)}")
    if position > log.size:
        raise JavaError(
            ILLEGAL_ARGUMENT, f"Slice from position {position} exceeds end position of {_file_records(log, path)}"
        )
    if size < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid size: {size} in read from {_file_records(log, path)}")
    return min(position + size, log.size)


def _check_end(status: int, block: BatchBlock, path: str) -> None:
    """Raise what a walk that ended like this ends with in Kafka's tool."""
    if status == UNDERSIZED:
        raise undersized_error(block.bad_size, path)
    if status == SHORT_HEADER:
        raise CorruptRecordError("Unexpected EOF while attempting to read the next batch")


def _largest_timestamp(log: LogFile, start: int, offset: int) -> tuple[int, int]:
    """The last offset of the first batch from byte `start` on that reaches `offset`, and its largest timestamp.

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
    """The largest timestamp (ms) of the records of a one-batch block, at least -1."""
    stretch = inflate(block, 0)
    if stretch.error:
        raise java_codec_error(block, 0, stretch.error)
    fault = stretch.fault
    largest = -1
    if fault is None and block.magic[0] < 2:
        largest, fault = largest_message_timestamp(block, 0, stretch.payloads[0])
    elif fault is None:
        records = RecordBlock()
        more = True
        while more:
            more = kernels.decode(block, records, 0, 1, stretch.payloads)
            largest = max((largest, *records.timestamp[: records.length]))
        fault = records.fault
    if fault:
        raise java_fault(fault)
    return largest
