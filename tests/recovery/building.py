"""Small partition directories for the tests of recovery, and what loading them leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kdump.blocks import BatchBlock
from kdump.formats import names
from kdump.formats.batch import CONTROL, CRC_START, HEADER_SIZE, LAST_OFFSET_DELTA_AT, TRANSACTIONAL
from kdump.formats.checksums import crc32c
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.names import segment_file_name
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome, Step
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of

NOW = 1_000_000
METADATA = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def file(base_offset: int, kind: str) -> str:
    """The name of a segment's file: file(5, "log")."""
    return segment_file_name(base_offset, f".{kind}")


def batch(offset: int, count: int = 1, *, size: int | None = None, timestamp: int = 1000, **fields: Any) -> bytes:
    """A v2 batch of `count` records from `offset` on, padded to `size` bytes if that is given."""
    records = [NewRecord(offset + n, timestamp, b"k", b"v") for n in range(count)]
    new = NewBatch(**{"leader_epoch": 0, **fields})
    data = encode_batch(records, new)
    if size is None:
        return data
    growth = 8  # of the two lengths before a value, at most
    for length in range(max(1, size - len(data) - growth), size):
        data = encode_batch([records[0]._replace(value=bytes(length)), *records[1:]], new)
        if len(data) == size:
            return data
    raise AssertionError(f"no batch of {size} bytes")


def produced(offset: int, producer: int, *, transactional: bool = False, epoch: int = 0, **fields: Any) -> bytes:
    """A batch of one record of an idempotent producer."""
    attributes = TRANSACTIONAL if transactional else 0
    return batch(
        offset,
        **{"producer_id": producer, "producer_epoch": epoch, "base_sequence": 0, "attributes": attributes, **fields},
    )


def marker(
    offset: int,
    producer: int,
    *,
    commit: bool = True,
    epoch: int = 0,
    timestamp: int = 1000,
    key: bytes | None = None,
    value: bytes | None = b"\0\0\0\0\0\3",
    attributes: int = CONTROL | TRANSACTIONAL,
) -> bytes:
    """A control batch that ends a transaction; `key` for one that is none of Kafka's."""
    record = NewRecord(offset, timestamp, (b"\0\0\0\1" if commit else b"\0\0\0\0") if key is None else key, value)
    fields = NewBatch(attributes, producer_id=producer, producer_epoch=epoch, leader_epoch=0)
    return encode_batch([record], fields)


def with_offset(data: bytes, offset: int) -> bytes:
    """A batch with another base offset, which its CRC does not cover."""
    return offset.to_bytes(8, "big", signed=True) + data[8:]


def with_last_delta(data: bytes, delta: int) -> bytes:
    """A batch with another last offset delta, and the CRC made right again."""
    changed = data[:LAST_OFFSET_DELTA_AT] + delta.to_bytes(4, "big", signed=True) + data[LAST_OFFSET_DELTA_AT + 4 :]
    return changed[: CRC_START - 4] + crc32c(changed[CRC_START:]).to_bytes(4, "big") + changed[CRC_START:]


def broken(data: bytes) -> bytes:
    """A batch with a byte of its content changed."""
    return data[:HEADER_SIZE] + bytes((data[HEADER_SIZE] ^ 1,)) + data[HEADER_SIZE + 1 :]


def make_log(folder: Path, files: dict[str, bytes], name: str = "topic-0") -> PartitionLog:
    """A partition directory with these files, and a partition.metadata."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    for each, data in {names.PARTITION_METADATA: METADATA, **files}.items():
        (path / each).write_bytes(data)
    return PartitionLog(str(path))


def load(log: PartitionLog, *, now: int = NOW, config: LoadingSettings | None = None, **startup: Any) -> LoadOutcome:
    """Load after an unclean shutdown with recovery point 0, unless `startup` says otherwise."""
    return load_log(log, Startup(now, config=config or LoadingSettings(), **startup))


def loaded(log: PartitionLog, **startup: Any) -> dict[str, bytes]:
    """The files that loading leaves, partition.metadata apart."""
    outcome = load(log, **startup)
    assert outcome.failure is None
    assert outcome.files is not None
    return {
        name: b"".join(content_of(log.path, recipe))
        for name, recipe in outcome.files.items()
        if name != names.PARTITION_METADATA
    }


def exception(outcome: LoadOutcome) -> str:
    """The simple name of the exception that ends loading."""
    assert outcome.failure is not None
    return outcome.failure.exception.rpartition(".")[2]


def steps(outcome: LoadOutcome, *actions: str) -> list[Step]:
    """The steps with one of these actions."""
    return [step for step in outcome.steps if step.action in actions]


def block_of(folder: Path, data: bytes) -> BatchBlock:
    """The batches of a log as one block."""
    path = folder / "block.log"
    path.write_bytes(data)
    with LogFile(str(path)) as log:
        (block,) = log.blocks()
    return block
