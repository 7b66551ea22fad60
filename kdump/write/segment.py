"""The active segment: appends to its .log, and the index entries that fall due meanwhile."""

from __future__ import annotations

import os
from array import array
from functools import partial
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.disk.durable import WritableFile, remove_file
from kdump.disk.reading import is_there
from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn, decode_offset_entries, decode_time_entries, encode_aborted_txns
from kdump.formats.names import segment_file_name
from kdump.settings.writing import WritingSettings
from kdump.storage.index_builder import OffsetIndexBuilder, TimeIndexBuilder
from kdump.storage.indexes import OffsetIndex, TimeIndex
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.storage.segment_indexes import IndexState, SegmentIndexes


class Mark(NamedTuple):
    """How far a segment was written, to go back to."""

    size: int
    indexes: IndexState
    rolling_timestamp: int | None
    txn_size: int


class ActiveSegment:
    """A segment open for appending; its index files hold their entries only once it is closed.

    `size` counts the bytes of the .log that are used. `created` is when (ms) it was opened, `jitter` how much earlier
    (ms) than segment.ms it is rolled. `rolling_timestamp` (ms) is what segment.ms counts from, None while the segment
    is empty.
    """

    def __init__(
        self,
        folder: str,
        base_offset: int,
        config: WritingSettings,
        created: int,
        jitter: int = 0,
        like: os.stat_result | None = None,
    ) -> None:
        """Make a new segment, removing stray files of its name; with the owner and mode of `like`. Raises OSError."""
        self.folder = folder
        self.base_offset = base_offset
        self.config = config
        self.created = created
        self.jitter = jitter
        self.like = like
        self.size = 0
        self.rolling_timestamp: int | None = None
        self.txn_size = 0
        self.indexes = SegmentIndexes(
            base_offset, config.segment_index_bytes, config.index_interval_bytes, partial(os.path.join, folder)
        )
        self._txns: WritableFile | None = None
        self._log = self._open()

    def _open(self) -> WritableFile:
        remove_file(self.path(names.TXN_INDEX))
        for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
            WritableFile.create(self.path(kind), self.like).close()
        log = WritableFile.create(self.path(names.LOG), self.like)
        if self.config.preallocate:
            log.truncate(self.config.segment_bytes)
        return log

    def path(self, kind: str) -> str:
        """Return the path of the segment's file of a kind (names.LOG, …)."""
        return os.path.join(self.folder, segment_file_name(self.base_offset, f".{kind}"))

    def fits(self, last_offset: int) -> bool:
        """Return whether absolute `last_offset` can be told relative to the base offset."""
        return 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def is_full(self) -> bool:
        """Return whether one of the indexes has no room for another entry."""
        return not (self.indexes.offsets.has_room(1) and self.indexes.times.has_room(1))

    def waited(self, now: int, max_timestamp: int) -> int:
        """Return how long (ms) the segment has been active as segment.ms counts it, for an append of this timestamp."""
        if self.rolling_timestamp is not None and self.rolling_timestamp >= 0:
            return max_timestamp - self.rolling_timestamp
        return now - self.created

    def mark(self) -> Mark:
        """Return how far the segment is written."""
        return Mark(self.size, self.indexes.state(), self.rolling_timestamp, self.txn_size)

    def back_to(self, mark: Mark) -> None:
        """Undo what was appended since `mark`. Raises OSError."""
        self.indexes.restore(mark.indexes)
        self.size, self.rolling_timestamp, self.txn_size = mark.size, mark.rolling_timestamp, mark.txn_size
        self._log.truncate(mark.size)
        if self.config.preallocate:
            self._log.truncate(max(mark.size, self.config.segment_bytes))
        if self._txns is not None:
            self._txns.truncate(mark.txn_size)

    def append(self, data: bytes | bytearray, batches: BatchBlock, max_timestamp: int, offset_of_max: int) -> None:
        """Append the bytes of `batches`, whose maximal timestamp (ms) and its batch's last offset these are.

        Raises OSError, KdumpError; `back_to` then undoes what is done.
        """
        position = self.size
        self._log.write(data, position)
        if self.config.index_per_batch:
            self._index_batches(batches, position)
        else:
            if position == 0:
                self.rolling_timestamp = max_timestamp
            self.indexes.append(batches.last_offset[batches.length - 1], position, max_timestamp, offset_of_max)
        self.size = position + len(data)

    def _index_batches(self, batches: BatchBlock, position: int) -> None:
        if position == 0:
            self.rolling_timestamp = batches.max_timestamp[0]
        rows = batches.length
        batches.position[:rows] = array("q", [position + at for at in batches.position[:rows]])
        _, error = self.indexes.add(batches, rows)
        if error:
            raise error

    def append_aborted(self, txns: list[AbortedTxn]) -> None:
        """Add to the transaction index, which is made with its first entry. Raises OSError."""
        if self._txns is None:
            self._txns = WritableFile.create(self.path(names.TXN_INDEX), self.like)
        data = encode_aborted_txns(txns)
        self._txns.write(data, self.txn_size)
        self.txn_size += len(data)

    def close(self, *, clean: bool = True, durable: bool = True) -> None:
        """Complete the indexes, cut all files to their used size and close them. Raises OSError.

        Not `clean`: leave the files at their full size, as a broker that is killed does. `durable`: what was written is
        on the disk after that, the .log before its indexes.
        """
        if clean:
            self.indexes.finish()
            self._log.truncate(self.size)
        for opened in (self._log, self._txns):
            if opened is not None:
                if durable:
                    opened.sync()
                opened.close()
        self._txns = None
        for index in (self.indexes.offsets, self.indexes.times):
            self._write_index(index, clean, durable)

    def _write_index(self, index: OffsetIndexBuilder | TimeIndexBuilder, clean: bool, durable: bool) -> None:
        content = index.content()
        with WritableFile(index.path) as file:
            file.write(content, 0)
            file.truncate(len(content) if clean else index.full_size)
            if durable:
                file.sync()


class ResumedSegment(ActiveSegment):
    """The last segment of a log that is there already; its indexes must be trimmed, as loading and closing leave them.

    As in a broker that has been started again, the bytes since the last index entry count from here, and the largest
    timestamp is that of the time index.
    """

    def _open(self) -> WritableFile:
        log = WritableFile(self.path(names.LOG))
        self.size = os.path.getsize(self.path(names.LOG))
        with OffsetIndex(self.path(names.OFFSET_INDEX), self.base_offset) as index:
            for offset, position in decode_offset_entries(index.read(0, index.size), self.base_offset):
                self.indexes.offsets.put(offset, position)
        with TimeIndex(self.path(names.TIME_INDEX), self.base_offset) as time_index:
            for timestamp, offset in decode_time_entries(time_index.read(0, time_index.size), self.base_offset):
                self.indexes.times.put(timestamp, offset)
        self.indexes.resume(self.size)
        if self.size:
            with LogFile(self.path(names.LOG)) as file:
                self.rolling_timestamp = next(file.blocks(whole=False)).max_timestamp[0]
        if is_there(self.path(names.TXN_INDEX)):
            self._txns = WritableFile(self.path(names.TXN_INDEX))
            self.txn_size = os.path.getsize(self.path(names.TXN_INDEX))
        if self.config.preallocate:
            log.truncate(max(self.size, self.config.segment_bytes))
        return log
