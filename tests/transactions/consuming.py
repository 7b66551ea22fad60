"""What a consumer gets of a partition, by the way that dump goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kdump.formats.batch import CONTROL
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.partition import PartitionLog
from kdump.transactions.isolation import isolated
from kdump.transactions.isolation_level import Isolation


class Consumed(NamedTuple):
    """A record: its offset, timestamp (ms), key and value."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def consumed(folder: Path, isolation: Isolation, start_offset: int | None = None) -> Iterator[Consumed]:
    """The records of a sound partition from an offset on; markers of Kafka's own are no consumer's."""
    log = PartitionLog(str(folder))
    selection = isolated(Selection(start_offset), log, isolation)
    for segment in selection.segments(log):
        with segment.open_log() as file:
            for found in Sweep(segment, file, selection, selection.start(segment, file)):
                assert isinstance(found, Selected), found
                if not found.block.attributes[found.row] & CONTROL:
                    yield from _records(found)


def _records(found: Selected) -> Iterator[Consumed]:
    data = found.source

    def bytes_at(position: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(data[position : position + length])

    for offset, timestamp, _, key, key_length, value, value_length, *_ in found.spans():
        yield Consumed(offset, timestamp, bytes_at(key, key_length), bytes_at(value, value_length))
