"""Read a segment for the cleaner: batches with their records decoded, and no way past damage."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kdump.errors import CleaningError, OnError
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.printable import command_line
from kdump.storage.damage import Damage
from kdump.storage.decoded import DecodedRows, decoded
from kdump.storage.log_reader import LogFile


def read_batches(
    log: LogFile, base_offset: int, start: int = 0, stop: int | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[DecodedRows]:
    """Yield the batches of `log` from byte `start` on; the blocks are reused for what comes next.

    `limit` bounds what one batch may decompress to, in bytes. Raises CleaningError at the first damage: what cannot be
    read must not be written again with a checksum that holds.
    """
    parts = decoded(log, base_offset, start, stop, errors=OnError.YIELD, limit=limit, whole_batches=True)
    for part in parts:
        if isinstance(part, Damage):
            raise CleaningError(f"{log.path} at byte {part.position}: {_wrong(part)}")
        yield part


def repair_first(path: str) -> str:
    """Say what to do with the partition directory at `path` before it can be cleaned."""
    return f"repair it first: {command_line('kdump', 'repair', path)} shows the ways"


def _wrong(damage: Damage) -> str:
    if damage.offsets is None:
        return f"{damage.text}: {repair_first(os.path.dirname(damage.path))}"
    return f"the records of the batch at offset {damage.offsets[1]} cannot be read: {damage.cause}"
