"""Logs to measure with: a few hundred distinct batches each, repeated up to the size with their base offsets moved on.

`python benchmarks/data.py FOLDER` writes them without measuring anything. The same batches come out every time.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count, pairwise
from pathlib import Path
from struct import Struct

from kdump.formats.batch import CRC_START
from kdump.formats.checksums import crc32c
from kdump.formats.codecs import LZ4, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch

MIB = 1 << 20
DISTINCT = 256
BASE_TIMESTAMP = 1_700_000_000_000
BASE_OFFSET = Struct(">q")
CRC_AT = 17
CRC = Struct(">I")
TIMESTAMPS_AT = 27
TIMESTAMPS = Struct(">qq")

PAGES = ("products", "checkout", "search", "account", "returns", "help", "reviews", "wishlist")
EVENTS = ("page_view", "add_to_cart", "purchase", "click", "scroll")
COUNTRIES = ("DE", "FR", "US", "GB", "NL", "SE", "IT", "ES", "JP", "BR")
LETTERS = bytes(65 + number % 26 for number in range(256))

Contents = tuple[bytes | None, bytes]


def letters(numbers: random.Random, size: int) -> bytes:
    """`size` random upper-case letters."""
    return numbers.randbytes(size).translate(LETTERS)


def kilobyte(numbers: random.Random, number: int) -> Contents:
    """Key and value of a record that takes 1 KB in its batch."""
    return b"%08d" % number, letters(numbers, 1000)


def hundred_bytes(numbers: random.Random, _: int) -> Contents:
    """A value of 100 B, no key."""
    return None, letters(numbers, 100)


def click_event(numbers: random.Random, number: int) -> Contents:
    """A JSON value of about 200 B, no key, compressible as such events are."""
    return None, (
        b'{"id":"%032x","ts":%d,"type":"%s","user":%d,"session":"%020x","url":"/%s/%d","country":"%s","ms":%d,'
        b'"price":%d.%02d}'
        % (
            numbers.getrandbits(128),
            BASE_TIMESTAMP + number,
            numbers.choice(EVENTS).encode(),
            numbers.getrandbits(26),
            numbers.getrandbits(80),
            numbers.choice(PAGES).encode(),
            numbers.getrandbits(24),
            numbers.choice(COUNTRIES).encode(),
            numbers.getrandbits(14),
            numbers.getrandbits(10),
            numbers.getrandbits(6),
        )
    )


@dataclass(frozen=True, slots=True)
class Log:
    """A log to generate: `size` bytes at most, batches of `records` records, compressed with `codec`.

    Its timestamps begin anew with each repetition of the distinct batches, unless they are `rising`.
    """

    name: str
    description: str
    size: int
    records: int
    contents: Callable[[random.Random, int], Contents]
    codec: int = 0
    distinct: int = DISTINCT
    rising: bool = False

    def path(self, folder: Path) -> Path:
        """Where its segment is, in the log directory `folder`."""
        return folder / f"{self.name}-0" / "00000000000000000000.log"

    def batches(self) -> Iterator[bytes]:
        """The distinct batches, their base offsets those of the file's start."""
        numbers = random.Random(self.name)
        attributes = NewBatch(attributes=self.codec, leader_epoch=0)
        for first in range(0, self.distinct * self.records, self.records):
            records = [
                NewRecord(number, BASE_TIMESTAMP + number, *self.contents(numbers, number))
                for number in range(first, first + self.records)
            ]
            yield encode_batch(records, attributes)


LARGE = Log("large-batches", "16 KB batches of 1 KB records", 512 * MIB, 16, kilobyte)
ONE_RECORD = Log("one-record", "one-record batches, values of 100 B", 128 * MIB, 1, hundred_bytes)
LZ4_JSON = Log("lz4", "lz4 batches of 16 KB of 200 B JSON records", 64 * MIB, 78, click_event, LZ4)
ZSTD_JSON = Log("zstd", "zstd batches of 16 KB of 200 B JSON records", 64 * MIB, 78, click_event, ZSTD)
LOGS = (LARGE, ONE_RECORD, LZ4_JSON, ZSTD_JSON)
KILOBYTES = Log(
    "kilobyte-records", "16 KB batches of 1 KB records, none twice", 512 * MIB, 16, kilobyte, distinct=33_000
)
"""What repeats would be a dictionary in Parquet."""
SEARCHED = Log("searched", "one-record batches of 1 KB, timestamps rising", 1024 * MIB, 1, kilobyte, rising=True)
ASKED = (*LOGS, KILOBYTES)
TINY = Log("tiny", "one batch of one record", 256, 1, hundred_bytes, distinct=1)


def generate(log: Log, folder: Path, divisor: int = 1) -> Path:
    """The log's file in `folder`, of a size divided by `divisor`; written unless it is there already."""
    batches = list(log.batches())
    size = _whole_batches(batches, log.size // divisor)
    path = log.path(folder)
    if not _is_there(path, batches, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for piece in _pieces(log, batches, size):
                file.write(piece)
    return path


def _is_there(path: Path, batches: list[bytes], size: int) -> bool:
    """Whether the file has the right size and starts with the batches."""
    start = b"".join(batches)[:size]
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size == size and file.read(len(start)) == start
    except FileNotFoundError:
        return False


def _whole_batches(batches: list[bytes], limit: int) -> int:
    """How many bytes, at most `limit`, the batches take when they are repeated."""
    left = limit % sum(map(len, batches))
    size = limit - left
    for batch in batches:
        if len(batch) > left:
            break
        size += len(batch)
        left -= len(batch)
    return size


def _pieces(log: Log, batches: list[bytes], size: int) -> Iterator[memoryview]:
    """The file's content: all the batches with their base offsets, again and again."""
    piece = bytearray(b"".join(batches))
    spans = list(pairwise([0, *accumulate(map(len, batches))]))
    offsets = count(0, log.records)
    for done in range(0, size, len(piece)):
        for start, end in spans:
            offset = next(offsets)
            BASE_OFFSET.pack_into(piece, start, offset)
            if log.rising:
                timestamp = BASE_TIMESTAMP + offset
                TIMESTAMPS.pack_into(piece, start + TIMESTAMPS_AT, timestamp, timestamp + log.records - 1)
                CRC.pack_into(piece, start + CRC_AT, crc32c(memoryview(piece)[start + CRC_START : end]))
        yield memoryview(piece)[: size - done]

def log_parser(description: str | None, *, repeat: int, divisor: int = 1, log: Log = LARGE) -> argparse.ArgumentParser:
    """The command line of a benchmark of one log: where logs are, which one, how many turns."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    default = Path(tempfile.gettempdir()) / "kdump-benchmarks"
    parser.add_argument("--dir", type=Path, default=default, help="where the logs are and stay (default: %(default)s)")
    parser.add_argument("--log", choices=[each.name for each in ASKED], default=log.name, help="which log is used")
    parser.add_argument("--repeat", type=int, default=repeat, metavar="N", help="turns (default: %(default)s)")
    parser.add_argument("--divisor", type=int, default=divisor, metavar="N", help="divide the log's size by N")
    return parser


def asked_log(options: argparse.Namespace) -> Path:
    """The file of the log that `log_parser` was given; made if it is not there."""
    log = next(log for log in ASKED if log.name == options.log)
    return generate(log, options.dir / f"sizes-by-{options.divisor}", options.divisor)


if __name__ == "__main__":
    for each in (*LOGS, TINY):
        print(generate(each, Path(sys.argv[1])))
