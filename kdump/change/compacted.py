"""Which records a cleaner may have dropped: of each, the proof that the log does without it (KIP-58, KIP-534)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import KdumpError
from kdump.formats.batch import DELETE_HORIZON, TRANSACTIONAL
from kdump.storage.control_batches import control_record, end_of_transaction, is_control
from kdump.storage.decoded import DecodedRows, decode_rows
from kdump.storage.log_reader import LogFile
from kdump.storage.planned import PlannedFiles
from kdump.storage.planned_log import LogView
from kdump.storage.records import Record
from kdump.storage.valid_batches import valid_runs

_MAP_BYTES = 1 << 31
_MAP_KEYS = _MAP_BYTES // 48


class Cleaned:
    """The records that a cleaner may drop: of the present `logs` (paths), which leave those of the `result`.

    `is_declared`: the change is a compaction, which drops records without a key and tombstones by rules of its own.
    """

    def __init__(self, logs: list[str], result: PlannedFiles, *, is_declared: bool) -> None:
        """Begin with nothing read."""
        self._logs = logs
        self._result = result
        self._is_declared = is_declared
        self._aborts: dict[int, list[tuple[int, bool]]] | None = None
        self._latest = kernels.OffsetMap(_MAP_BYTES, _MAP_KEYS)

    def explains(self, block: BatchBlock, row: int, offset: int, record: Record) -> bool:
        """Return whether the log does without a record of the batch in a row; `offset` is the record's (absolute).

        Raises OSError.
        """
        if self._aborts is None:
            self._read()
        if is_control(block, row) or self._is_aborted(block, row):
            return True
        if record.key is None:
            return self._is_declared
        if record.value is None and (self._is_declared or block.magic[row] < 2 or _has_horizon(block, row)):
            return True
        return self._latest.get(record.key) > offset

    def _read(self) -> None:
        """Read how transactions ended, and the latest offset of each key that the log keeps. Raises OSError."""
        self._aborts = {}
        for path in self._logs:
            with LogFile(path) as log:
                for block, first, stop in valid_runs(log):
                    self._note_markers(log, block, first, stop)
        for ends in self._aborts.values():
            ends.sort()
        if self._is_declared:  # a tombstone that goes as well has superseded what was before it
            for path in self._logs:
                with LogFile(path) as log:
                    self._note_keys(log)
        for name in sorted(self._result.files):
            with LogView(self._result, name) as view:
                self._note_keys(view)

    def _note_markers(self, log: LogFile, block: BatchBlock, first: int, stop: int) -> None:
        assert self._aborts is not None
        for row in range(first, stop) if block.controls else ():
            if is_control(block, row) and block.producer_id[row] >= 0:
                try:
                    record = control_record(*log.held(block, row))
                    marker = end_of_transaction(record) if record else None
                except KdumpError:
                    continue
                if marker is not None:
                    ends = self._aborts.setdefault(block.producer_id[row], [])
                    ends.append((marker.offset, marker.is_abort))

    def _note_keys(self, log: LogFile) -> None:
        for block, first, stop in valid_runs(log):
            for rows in _decoded(log, block, first, stop):
                wanted = bytes(
                    not is_control(rows.block, row) and not self._is_aborted(rows.block, row)
                    for row in range(rows.first, rows.stop)
                )
                self._latest.take(rows.block, rows.records, rows.first, rows.payloads, wanted, 0)

    def _is_aborted(self, block: BatchBlock, row: int) -> bool:
        """Return whether a batch is of a transaction that was aborted."""
        if block.magic[row] < 2 or not block.attributes[row] & TRANSACTIONAL or self._aborts is None:
            return False
        ends = self._aborts.get(block.producer_id[row], [])
        at = bisect_left(ends, (block.last_offset[row], False))
        return at < len(ends) and ends[at][1]


def _has_horizon(block: BatchBlock, row: int) -> bool:
    return bool(block.attributes[row] & DELETE_HORIZON)


def _decoded(log: LogFile, block: BatchBlock, first: int, stop: int) -> Iterator[DecodedRows]:
    """Yield the records of batches, as far as they can be read."""
    row = first
    while row < stop:
        held, at = (block, row) if block.holds(row) else log.held(block, row)
        end = at + 1
        while held is block and end < stop and block.holds(end):
            end += 1
        for rows in decode_rows(held, at, end):
            if isinstance(rows, DecodedRows):
                yield rows
        row += end - at
