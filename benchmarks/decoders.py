"""Decode records in this process, out of bytes already in memory: the kernel, aiokafka's Cython and kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

from aiokafka.record.memory_records import MemoryRecords as CythonRecords
from kafka.record.memory_records import MemoryRecords as PythonRecords

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.storage.log_reader import BUFFER_SIZE
from kdump.storage.payloads import Payloads, inflate

SHARE = 16
"""kafka-python is given this fraction of the bytes: it takes long."""

Decoder = Callable[[bytes], tuple[int, float]]
"""Decodes all records; their number, and the seconds of CPU that count."""


def stretches(data: bytes) -> Iterator[tuple[BatchBlock, Payloads]]:
    """Walk and decompress `data` in portions of the size in which files are read."""
    block = BatchBlock()
    block.data, block.available = data, len(data)
    while True:
        start = block.next_position
        kernels.walk(block, start, min(start + BUFFER_SIZE, len(data)), len(data))
        if not block.length:
            return
        row = 0
        while row < block.length:
            inflated = inflate(block, row)
            yield block, inflated
            row = inflated.stop


def decode_with_kernel(data: bytes) -> tuple[int, float]:
    """Into columns; only the time in the decoding kernel counts."""
    records = RecordBlock()
    total, seconds = 0, 0.0
    for block, inflated in stretches(data):
        records.seek(inflated.first)
        more = True
        while more:
            start = time.process_time()
            more = kernels.decode(block, records, inflated.first, inflated.stop, inflated.payloads)
            seconds += time.process_time() - start
            total += records.length
    return total, seconds


def all_of(decode: Decoder) -> Decoder:
    """The same decoder with all its time counted."""

    def timed(data: bytes) -> tuple[int, float]:
        start = time.process_time()
        total, _ = decode(data)
        return total, time.process_time() - start

    return timed


def client(records: type[CythonRecords] | type[PythonRecords], *, crc: bool = False) -> Decoder:
    """Go through all records of a client library, and look at offset, key and value; at each batch's CRC if asked."""

    def decode(data: bytes) -> tuple[int, float]:
        total = 0
        batches = records(data)
        while batches.has_next():
            batch = batches.next_batch()
            if crc and not batch.validate_crc():
                raise AssertionError("a CRC is wrong")
            for record in batch:
                record.offset, record.key, record.value  # noqa: B018
                total += 1
        return total, 0.0

    return all_of(decode)


DECODERS: dict[str, Decoder] = {
    "kernel, decode": decode_with_kernel,
    "aiokafka": client(CythonRecords),
    "kernel, all with CRC": all_of(decode_with_kernel),
    "aiokafka with CRC": client(CythonRecords, crc=True),
    "kafka-python": client(PythonRecords),
}


def rates(data: bytes, repeat: int) -> dict[str, float]:
    """Records a second of CPU that each decoder gets out of `data`, as medians; they take turns."""
    inputs = {name: data[: len(data) // SHARE] if name == "kafka-python" else data for name in DECODERS}
    found = {name: DECODERS[name](inputs[name])[0] for name in DECODERS}
    if found["kernel, decode"] != found["aiokafka"]:
        raise AssertionError(f"the decoders find different numbers of records: {found}")
    turns: dict[str, list[float]] = {name: [] for name in DECODERS}
    for _ in range(repeat):
        for name, decode in DECODERS.items():
            records, seconds = decode(inputs[name])
            turns[name].append(records / seconds)
    return {name: median(values) for name, values in turns.items()}
