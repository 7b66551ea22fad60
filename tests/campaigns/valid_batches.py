"""An independent judge of changes: the batches with a valid CRC in the files of a partition directory.

It uses nothing of kdump, no offsets and no indexes: a batch is valid if it has a magic that Kafka knows, a size that
fits into the file, and the CRC of its bytes. Its identity is its bytes from the magic on, so
that a repair may restore what no CRC covers: base offset, size and leader epoch. Formats: Kafka's DefaultRecordBatch
(v2) and LegacyRecord (v0, v1).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import crcmod.predefined

_crc32c: Callable[[bytes], int] = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
_BASE_OFFSET, _SIZE, _CRC, _RECORDS = Struct(">q"), Struct(">i"), Struct(">I"), Struct(">i")
_BEFORE_SIZE, _PREFIX, MAGIC_AT = 8, 12, 16
_V2, _V2_CRC_AT, _V2_CRC_FROM, _V2_RECORDS_AT, _V2_HEADER = 2, 17, 21, 57, 61
_OLD_CRC, _OLD_HEADER = (12, MAGIC_AT, zlib.crc32), 22
OLD_MAGICS = (0, 1)


class ValidBatch(NamedTuple):
    """A batch in a file: byte positions, base offset, number of records (1 for v0 and v1), magic, identity."""

    start: int
    stop: int
    base_offset: int
    records: int
    magic: int
    identity: bytes


@lru_cache(maxsize=1 << 12)
def valid_batches(content: bytes) -> tuple[ValidBatch, ...]:
    """Return the batches of a file in the order of their bytes; none is inside another one."""
    batches = []
    position = 0
    while position + MAGIC_AT < len(content):
        stop = _end_of(content, position)
        if stop:
            batches.append(_batch(content, position, stop))
            position = stop
        else:
            position = _next_magic(content, position + 1)
    return tuple(batches)


def _end_of(content: bytes, start: int) -> int:
    """Return where the valid batch ends that begins at a byte; 0 if none does."""
    magic = content[start + MAGIC_AT]
    if magic > _V2:
        return 0
    stop = start + _PREFIX + int(_SIZE.unpack_from(content, start + _BEFORE_SIZE)[0])
    if not start + (_V2_HEADER if magic == _V2 else _OLD_HEADER) <= stop <= len(content):
        return 0
    crc_at, crc_from, crc_of = (_V2_CRC_AT, _V2_CRC_FROM, _crc32c) if magic == _V2 else _OLD_CRC
    return stop if _CRC.unpack_from(content, start + crc_at)[0] == crc_of(content[start + crc_from : stop]) else 0


def _next_magic(content: bytes, start: int) -> int:
    """Return the next position at or after `start` whose byte of the magic is one that Kafka knows."""
    places = [content.find(magic, start + MAGIC_AT) for magic in (b"\0", b"\1", b"\2")]
    return min((place - MAGIC_AT for place in places if place >= 0), default=len(content))


def _batch(content: bytes, start: int, stop: int) -> ValidBatch:
    magic = content[start + MAGIC_AT]
    records = _RECORDS.unpack_from(content, start + _V2_RECORDS_AT)[0] if magic == _V2 else 1
    base_offset = _BASE_OFFSET.unpack_from(content, start)[0]
    identity = blake2b(content[start + MAGIC_AT : stop], digest_size=16).digest()
    return ValidBatch(start, stop, base_offset, records, magic, identity)


class Held(NamedTuple):
    """The batches of a directory: those of its `.log` files, and those of all its files."""

    logs: tuple[ValidBatch, ...]
    files: tuple[ValidBatch, ...]


def held_by(contents: Mapping[str, bytes]) -> Held:
    """Return the batches of the files of a partition directory, whose contents are given by their names."""
    logs = [batch for name, content in contents.items() if name.endswith(".log") for batch in valid_batches(content)]
    others = [
        batch
        for name, content in contents.items()
        if ".log" in name and not name.endswith(".log")
        for batch in valid_batches(content)
    ]
    return Held(tuple(logs), (*logs, *others))


def missing(before: Iterable[ValidBatch], after: Iterable[ValidBatch], copies: Mapping[bytes, int]) -> list[ValidBatch]:
    """Return the batches of a directory that it lacks now.

    A batch has to be there as often as before, but not more often than `copies` has it (1 by default): duplicates that
    a fault has made may go.
    """
    left = Counter(batch.identity for batch in after)
    required: Counter[bytes] = Counter()
    lost = []
    for batch in before:
        required[batch.identity] += 1
        number = required[batch.identity]
        if number <= copies.get(batch.identity, 1) and number > left[batch.identity]:
            lost.append(batch)
    return lost


def copies_in(directory: Path) -> Counter[bytes]:
    """Return how often each batch is in the `.log` files of a directory, by its identity."""
    contents = (path.read_bytes() for path in directory.glob("*.log"))
    return Counter(batch.identity for content in contents for batch in valid_batches(content))
