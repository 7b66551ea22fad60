"""Read buffers through one set of kernels into plain values."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import pytest

from kdump.blocks import BATCH_COLUMNS, BatchBlock, RecordBlock
from kdump.formats.encode import NewRecord
from kdump.formats.faults import BLOCK_FULL, Fault, fault_error
from kdump.kernels.portable import kernels as portable
from kdump.kernels.portable.records import headers
from kdump.storage.payloads import inflate


def native_kernels() -> ModuleType | None:
    """The compiled kernels; None where they were not built. Raises ImportError where they are there but do not load."""
    name = "kdump.kernels._native"
    return import_module(name) if find_spec(name) else None


NATIVE = native_kernels()
KERNELS = [portable] if NATIVE is None else [portable, NATIVE]

only_native = pytest.mark.skipif(NATIVE is None, reason="the compiled kernels are not built here")


class Content(NamedTuple):
    """The records of a log up to its first damage, their sequences, stored CRCs and whether these hold."""

    records: list[NewRecord]
    sequences: list[int]
    crcs: list[int]
    valid: list[int]
    fault: Fault | None


def block_of(data: bytes, rows: int = 16, position: int = 0) -> BatchBlock:
    """An empty block over `data`, which lies at byte `position` of a file."""
    block = BatchBlock(rows)
    block.data = data
    block.data_position = position
    block.available = len(data)
    return block


def walked(kernel: ModuleType, data: bytes, rows: int = 16) -> BatchBlock:
    """The first entries of the log that `data` is."""
    block = block_of(data, rows)
    kernel.walk(block, 0, len(data), len(data))
    return block


def row_of(block: BatchBlock, row: int) -> dict[str, int]:
    """One row by its columns' names."""
    return {name: getattr(block, name)[row] for name in BATCH_COLUMNS}


def read(kernel: ModuleType, data: bytes, rows: int = 16, capacity: int = 16) -> Content:
    """The records of the log that `data` is, in blocks of `rows` batches and `capacity` records."""
    content = Content([], [], [], [], None)
    block = block_of(data, rows)
    records = RecordBlock(capacity)
    status, position = BLOCK_FULL, 0
    while status == BLOCK_FULL:
        status = kernel.walk(block, position, len(data), len(data))
        position = block.next_position
        row = 0
        while row < block.length:
            inflated = inflate(block, row)
            if inflated.error and not inflated.fault:
                raise inflated.error
            good = inflated.stop - 1 if inflated.fault else inflated.stop
            fault = _decode(kernel, block, records, row, good, inflated.payloads, content) or inflated.fault
            if fault:
                return content._replace(fault=fault)
            row = inflated.stop
    return content


def _decode(
    kernel: ModuleType,
    block: BatchBlock,
    records: RecordBlock,
    first: int,
    stop: int,
    payloads: list[bytes | None],
    content: Content,
) -> Fault | None:
    records.seek(first)
    more = True
    while more:
        more = kernel.decode(block, records, first, stop, payloads)
        for at in range(records.length):
            payload = payloads[records.row[at] - first]
            content.records.append(record_at(records, at, block.data if payload is None else payload))
            content.sequences.append(records.sequence[at])
            content.crcs.append(records.crc[at])
            content.valid.append(records.valid[at])
    return records.fault


def record_at(records: RecordBlock, at: int, source: bytes | bytearray) -> NewRecord:
    """The record at index `at` of a block."""
    return NewRecord(
        records.offset[at],
        records.timestamp[at],
        _part(source, records.key_position[at], records.key_length[at]),
        _part(source, records.value_position[at], records.value_length[at]),
        tuple(headers(source, records.headers_position[at], records.headers_count[at])),
    )


def _part(source: bytes | bytearray, position: int, length: int) -> bytes | None:
    return bytes(source[position : position + length]) if length >= 0 else None


def text_of(fault: Fault | None) -> str:
    """What an operator would read."""
    return str(fault_error(fault)) if fault else ""
