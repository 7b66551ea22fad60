"""What kafka-dump-log says of payloads that it cannot read, with the causes behind its exceptions.

The texts are those of Kafka's tool, of 3.9.2 and 4.3.1 alike.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from struct import pack_into

import pytest

from kdump.formats.batch import CONTROL
from kdump.formats.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_wrapper
from tests.commands.golden import in_process

KAFKA = "org.apache.kafka.common."
NOT_DECOMPRESSED = KAFKA + "KafkaException: Failed to decompress record stream"
NOT_TO_THE_END = KAFKA + "KafkaException: Error checking for remaining bytes after reading batch"
STRUCTURE = KAFKA + "InvalidRecordException: Found invalid record structure"
NO_RECORD = KAFKA + "InvalidRecordException: Incorrect declared batch size, premature EOF reached"
UNDERFLOW = "java.nio.BufferUnderflowException"
ILLEGAL = "java.lang.IllegalArgumentException: "
RECORD = NewRecord(0, 1000, b"k", b"value " * 30)


def content(codec: int, payload: bytes, *, magic: int = 2, count: int = 1) -> bytes:
    """A log of one batch with this payload, as it is on the disk."""
    if magic < 2:
        wrapper = bytearray(encode_wrapper([RECORD], 1, codec)[:34]) + payload
        pack_into(">i", wrapper, 8, len(wrapper) - 12)
        pack_into(">i", wrapper, 30, len(payload))
        return bytes(wrapper)
    batch = bytearray(encode_batch([RECORD])[:61]) + payload
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, 21, codec)
    pack_into(">i", batch, 57, count)
    return bytes(batch)


def packed(codec: int, records: bytes | None = None) -> bytes:
    return compress(codec, encode_batch([RECORD])[61:] if records is None else records)


def flipped(payload: bytes, at: int, bit: int = 1) -> bytes:
    changed = bytearray(payload)
    changed[at] ^= bit
    return bytes(changed)


def thrown(*chain: str) -> tuple[str, ...]:
    """An exception that has the first cause for its text."""
    return (f"{KAFKA}KafkaException: {chain[0]}", *chain)


BAD_LZ4 = "net.jpountz.lz4.LZ4Exception: Error decoding offset 74 of input buffer"
BAD_LZ4_V1 = "net.jpountz.lz4.LZ4Exception: Error decoding offset 47 of input buffer"
CHUNK = bytes.fromhex("82534e41505059000000000100000001")
CASES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "gzip trailer": (
        content(GZIP, flipped(packed(GZIP), -6)),
        (NOT_TO_THE_END, "java.util.zip.ZipException: Corrupt GZIP trailer"),
    ),
    "gzip trailer, v1": (
        content(GZIP, flipped(gzip.compress(b"\0" * 11), -6), magic=1),
        thrown("java.util.zip.ZipException: Corrupt GZIP trailer"),
    ),
    "gzip header": (content(GZIP, b"\x1f\x8c" + bytes(9)), thrown("java.util.zip.ZipException: Not in GZIP format")),
    "gzip cut": (
        content(GZIP, packed(GZIP)[:14]),
        (NOT_DECOMPRESSED, "java.io.EOFException: Unexpected end of ZLIB input stream"),
    ),
    "snappy chunk": (
        content(SNAPPY, CHUNK + b"\0\0\0\2\xff\0"),
        (NOT_DECOMPRESSED, "java.io.IOException: FAILED_TO_UNCOMPRESS(5)"),
    ),
    "snappy size": (
        content(SNAPPY, CHUNK + b"\x7f\xff\xff\xff" + bytes(50)),
        (
            "org.xerial.snappy.SnappyError: [FAILED_TO_UNCOMPRESS] Received chunkSize 2,147,483,647 is greater than"
            " max configured chunk size 536,870,912",
        ),
    ),
    "snappy sign": (
        content(SNAPPY, CHUNK + b"\xff\xff\xff\xfe"),
        ("org.xerial.snappy.SnappyError: [INVALID_CHUNK_SIZE] chunkSize is too big or negative : -2",),
    ),
    "lz4 block": (
        content(LZ4, bytes.fromhex("04224d18604082 03000000 616263 00000000")),
        (NOT_DECOMPRESSED, f"java.io.IOException: {BAD_LZ4}", BAD_LZ4),
    ),
    "lz4 block, v1": (
        content(LZ4, bytes.fromhex("04224d18604082 03000000 616263 00000000"), magic=1),
        thrown(f"java.io.IOException: {BAD_LZ4_V1}", BAD_LZ4_V1),
    ),
    "lz4 header": (
        content(LZ4, bytes.fromhex("04224d18614082")),
        thrown("java.lang.RuntimeException: Reserved bits must be 0"),
    ),
    "lz4 without its hash": (content(LZ4, bytes.fromhex("04224d186040")), thrown(UNDERFLOW)),
    "zstd frame": (
        content(ZSTD, b"nothing"),
        (NOT_DECOMPRESSED, "com.github.luben.zstd.ZstdIOException: Unknown frame descriptor"),
    ),
    "no record": (
        content(ZSTD, packed(ZSTD, b"")),
        (
            NO_RECORD,
            f"{ILLEGAL}Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff",
        ),
    ),
    "half a varint": (
        content(ZSTD, packed(ZSTD, b"\x85")),
        (
            NO_RECORD,
            f"{ILLEGAL}Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffff85",
        ),
    ),
    "a record's end": (content(LZ4, packed(LZ4, b"\x06\0\0\0")), (STRUCTURE, UNDERFLOW)),
    "a key's length": (
        content(NONE, b"\x0e\0\0\0\x28\0\0\0"),
        (STRUCTURE, f"{ILLEGAL}newLimit > capacity: (20 > 3)"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_causes_are_those_of_kafka(name: str, tmp_path: Path) -> None:
    data, said = CASES[name]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    done = in_process(["--files", str(path), "--print-data-log"])
    assert done.code == 1
    expected = [f'Exception in thread "main" {said[0]}', *(f"Caused by: {cause}" for cause in said[1:])]
    assert done.err.decode().splitlines() == expected


@pytest.mark.parametrize(
    ("key", "value", "before", "since", "release"),
    [
        (bytes(4), bytes(5), f"{KAFKA}InvalidRecordException: Invalid value size", UNDERFLOW, "4.1"),
        (
            bytes(4),
            b"\xff\xfe\0",
            f"{KAFKA}InvalidRecordException: Invalid value size",
            f"{KAFKA}InvalidRecordException: Invalid version found for end transaction marker: -2.",
            "4.1",
        ),
        (
            bytes(3),
            bytes(6),
            f"{KAFKA}InvalidRecordException: Invalid value size found for end control record key.",
            f"{KAFKA}InvalidRecordException: Invalid value size found for control record key.",
            "4.3",
        ),
    ],
)
def test_markers_that_are_too_short(
    key: bytes, value: bytes, before: str, since: str, release: str, tmp_path: Path
) -> None:
    """Seen with 3.9.2 to 4.3.1; the first release that says another thing is the one given."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(encode_batch([NewRecord(0, 1, key, value)], NewBatch(CONTROL, producer_id=7, producer_epoch=0)))
    releases = ("3.9", "4.0", "4.1", "4.2", "4.3")
    for each in releases:
        said = in_process(["--files", str(path), "--print-data-log"], each).err.decode()
        expected = before if releases.index(each) < releases.index(release) else since
        assert said.startswith(f'Exception in thread "main" {expected}'), each
