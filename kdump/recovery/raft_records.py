"""Read a snapshot or a bootstrap.checkpoint as Kafka does (RecordsIterator, RecordsBatchReader).

An incomplete end is skipped in silence, as if nothing had followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    RUNTIME,
    KdumpError,
    LoadError,
    NewerError,
    Problem,
)
from kdump.formats.batch import CRC_START, FRAME, FRAME_SIZE, KRAFT_VOTERS, LEADER_CHANGE, LOG_OVERHEAD, MIN_SIZE_FIELD
from kdump.formats.checksums import crc32c
from kdump.formats.control import control_type_of
from kdump.formats.control import decode_value as decode_control
from kdump.formats.faults import BLOCK_FULL, UNDERSIZED, in_memory_error, undersized_error
from kdump.formats.schemas.cluster_metadata import decode_value
from kdump.formats.schemas.framing import Decoded
from kdump.query.contents import Content, contents_in
from kdump.storage.control_batches import is_control
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import Run
from kdump.storage.segment import Segment

_NEWEST_MAGIC = 2
_FIRST_VERSION = bytes(2)
"""Kafka reads the values of control records as their first version, whatever they say of themselves."""


class RaftRecord(NamedTuple):
    """A record: a control record's type, or what one of the metadata says; both None where it is newer than kdump."""

    control_type: int | None
    decoded: Decoded | None


def raft_records(path: str, *, checks_crcs: bool) -> Iterator[RaftRecord]:
    """Yield the records of a file. Raises LoadError where Kafka's reader ends in an exception, OSError."""
    segment = Segment(path)
    with segment.open_log() as log:
        position = 0
        while True:
            entry = log.entry_at(position, log.size)
            if checks_crcs:
                _check_header(path, log, position)
            if entry.status == UNDERSIZED:
                raise LoadError(CORRUPT_RECORD, str(undersized_error(entry.size, path)), path)
            if entry.status != BLOCK_FULL:
                return
            block = log.batch_at(position, entry.size)
            if checks_crcs:
                _check_crc(path, block)
            if not block.count[0]:
                text = f"Batch must contain at least one record; baseOffset = {block.base_offset[0]}"
                raise LoadError(ILLEGAL_ARGUMENT, text, path)
            for content in contents_in(segment, Run(block, 0, 1), partial(_raise_problem, path)):
                yield _record(path, content, is_control=is_control(block, 0))
            position += entry.size


def _check_header(path: str, log: LogFile, position: int) -> None:
    """Raise LoadError for a size or magic that a reader of memory (ByteBufferLogInputStream) minds, complete or not."""
    header = log.read(position, FRAME_SIZE)
    if len(header) < LOG_OVERHEAD:
        return
    _, size, _, magic = FRAME.unpack_from(header.ljust(FRAME_SIZE, b"\0"))
    if size < MIN_SIZE_FIELD:
        raise LoadError(CORRUPT_RECORD, str(in_memory_error(size=size)), path)
    if not 0 <= magic <= _NEWEST_MAGIC:
        raise LoadError(CORRUPT_RECORD, str(in_memory_error(magic=magic)), path)


def _check_crc(path: str, block: BatchBlock) -> None:
    computed = crc32c(memoryview(block.data)[CRC_START:])
    if computed != block.crc[0]:
        text = f"Record is corrupt (stored crc = {block.crc[0]}, computed crc = {computed})"
        raise LoadError(CORRUPT_RECORD, text, path)


def _raise_problem(path: str, problem: Problem) -> None:
    raise LoadError(INVALID_RECORD, problem.text, path)


def _record(path: str, content: Content, *, is_control: bool) -> RaftRecord:
    what = "Unable to read control record" if is_control else "unable to deserialize record"
    try:
        if not is_control:
            return RaftRecord(None, decode_value(content.value or b""))
        number = control_type_of(content.key)
        if not LEADER_CHANGE <= number <= KRAFT_VOTERS:
            raise KdumpError(f"control type {number}")
        decode_control(number, _FIRST_VERSION + (content.value or b"")[len(_FIRST_VERSION) :])
        return RaftRecord(number, None)
    except NewerError:
        return RaftRecord(None, None)
    except KdumpError as error:
        raise LoadError(RUNTIME, f"{what} at offset {content.offset}: {error}", path) from None
