"""Read a segment for the cleaner: batches with their records decoded, and no way past damage."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kdump.errors import CleaningError, OnError
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.encode import read_varint
from kdump.formats.printable import command_line
from kdump.settings.table import MAX_DECOMPRESSED_BYTES
from kdump.storage.damage import Damage
from kdump.storage.decoded import DecodedRows, decoded
from kdump.storage.log_reader import LogFile

_VARINT_BYTES = 5


def read_batches(
    log: LogFile,
    base_offset: int,
    start: int = 0,
    stop: int | None = None,
    limit: int = DEFAULT_LIMIT,
    *,
    max_record_bytes: int = MAX_DECOMPRESSED_BYTES.default,
) -> Iterator[DecodedRows]:
    """Yield the batches of `log` from byte `start` on; the blocks are reused for what comes next.

    `limit` bounds what one batch may decompress to, in bytes. Raises CleaningError at the first damage: what cannot be
    read must not be written again with a checksum that holds. Also for a record of more than `max_record_bytes` in a
    compressed batch, with which Kafka marks the partition as uncleanable.
    """
    parts = decoded(log, base_offset, start, stop, errors=OnError.YIELD, limit=limit, whole_batches=True)
    for part in parts:
        if isinstance(part, Damage):
            raise CleaningError(f"{log.path} at byte {part.position}: {_wrong(part)}")
        if max_record_bytes < MAX_DECOMPRESSED_BYTES.default:
            _check_sizes(log.path, part, max_record_bytes)
        yield part


def _check_sizes(path: str, rows: DecodedRows, max_record_bytes: int) -> None:
    """Check the sizes of records in compressed batches, as DefaultRecord.readFrom does; of others it does not."""
    for row in range(rows.first, rows.stop):
        payload, at = rows.payload(row), 0
        while payload is not None and rows.block.magic[row] >= 2 and at < len(payload):
            size, at = read_varint(payload, at, _VARINT_BYTES)
            if size > max_record_bytes:
                text = f"Invalid record size: {size} exceeds the configured maximum record size of {max_record_bytes}."
                where = f"the batch at offset {rows.block.base_offset[row]}"
                raise CleaningError(f"{path}: {where}: {text} Raise {MAX_DECOMPRESSED_BYTES.name} of the topic")
            at += size


def repair_first(path: str) -> str:
    """Say what to do with the partition directory at `path` before it can be cleaned."""
    return f"repair it first: {command_line('kdump', 'repair', path)} shows the ways"


def _wrong(damage: Damage) -> str:
    if damage.offsets is None:
        return f"{damage.text}: {repair_first(os.path.dirname(damage.path))}"
    return f"the records of the batch at offset {damage.offsets[1]} cannot be read: {damage.cause}"
