"""Entries as Kafka wrote them, byte for byte, and what is in them."""

from __future__ import annotations

from typing import NamedTuple

from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD
from kdump.formats.encode import NewRecord

KV = NewRecord(5, 1000, b"k", b"v")


class Golden(NamedTuple):
    """An entry, columns of its row in the batch table, and its records."""

    name: str
    data: bytes
    row: dict[str, int]
    records: list[NewRecord]


GOLDEN = [
    Golden(
        "v2",
        bytes.fromhex(
            "00000000000000050000003a0000000002716a618900000000000000000000000003e800000000000003e8ffffffffffffffffff"
            "ffffffffff0000000110000000026b027600"
        ),
        {
            "position": 0,
            "size": 70,
            "base_offset": 5,
            "last_offset": 5,
            "magic": 2,
            "attributes": 0,
            "crc": 0x716A6189,
            "valid": 1,
            "base_timestamp": 1000,
            "max_timestamp": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "count": 1,
            "leader_epoch": 0,
        },
        [KV],
    ),
    Golden(
        "COMMIT marker",
        bytes.fromhex(
            "0000000000000006000000420000000002e6b9bca800300000000000000000000003e800000000000003e8000000000000000700"
            "01ffffffff000000012000000008000000010c00000000000300"
        ),
        {
            "size": 78,
            "base_offset": 6,
            "attributes": 0x30,
            "valid": 1,
            "producer_id": 7,
            "producer_epoch": 1,
            "base_sequence": -1,
            "count": 1,
        },
        [NewRecord(6, 1000, bytes.fromhex("00000001"), bytes.fromhex("000000000003"))],
    ),
    Golden(
        "v1",
        bytes.fromhex("000000000000000500000018e4e321bc010000000000000003e8000000016b0000000176"),
        {
            "size": 36,
            "base_offset": 5,
            "last_offset": 5,
            "magic": 1,
            "attributes": 0,
            "crc": 0xE4E321BC,
            "valid": 1,
            "base_timestamp": 1000,
            "max_timestamp": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "count": 1,
            "leader_epoch": -1,
        },
        [KV],
    ),
    Golden(
        "v0",
        bytes.fromhex("00000000000000050000000fd20cbff50000ffffffff0000000176"),
        {"size": 27, "base_offset": 5, "magic": 0, "valid": 1, "base_timestamp": -1, "max_timestamp": -1, "count": 1},
        [NewRecord(5, -1, None, b"v")],
    ),
    Golden(
        "tombstone with a delete horizon",
        bytes.fromhex(
            "00000000000000050000003c0000000002d9af37140040000000000000000005265fe800000000000003e8ffffffffffffffffff"
            "ffffffffff000000011400ffefb25200026b0100"
        ),
        {"size": 72, "attributes": 0x40, "valid": 1, "base_timestamp": 86_401_000, "max_timestamp": 1000},
        [NewRecord(5, 1000, b"k", None)],
    ),
    Golden(
        "emptied by compaction",
        bytes.fromhex(
            "000000000000000500000031000000030204b3c52e000000000001ffffffffffffffff00000000000003e8000000000000000700"
            "000000000000000000"
        ),
        {
            "size": 61,
            "base_offset": 5,
            "last_offset": 6,
            "valid": 1,
            "base_timestamp": -1,
            "max_timestamp": 1000,
            "producer_id": 7,
            "producer_epoch": 0,
            "base_sequence": 0,
            "count": 0,
            "leader_epoch": 3,
        },
        [],
    ),
    Golden(
        "compacted",
        bytes.fromhex(
            "00000000000000060000003a0000000302bb3cb5f600000000000100000000000007d000000000000007d0000000000000000700"
            "00000000000000000110000002026a027700"
        ),
        {"base_offset": 6, "last_offset": 7, "valid": 1, "count": 1, "base_sequence": 0},
        [NewRecord(7, 2000, b"j", b"w")],
    ),
    Golden(
        "v0 wrapper (lz4 with the old header checksum)",
        bytes.fromhex(
            "000000000000000000000031d3f4ca9a0003ffffffff0000002304224d1860401a140000001600010051101fecd70a0f0070016b"
            "000000017600000000"
        ),
        {"base_offset": -1, "last_offset": 0, "magic": 0, "attributes": 3, "valid": 1, "count": -1},
        [NewRecord(0, -1, b"k", b"v")],
    ),
    Golden(
        "v1 wrapper (lz4)",
        bytes.fromhex(
            "00000000000000000000003f03f76595010300000000000003e8ffffffff0000002904224d186040821a000000160001006318e4"
            "e321bc011000c003e8000000016b000000017600000000"
        ),
        {"base_offset": -1, "last_offset": 0, "magic": 1, "attributes": 3, "valid": 1, "max_timestamp": 1000},
        [NewRecord(0, 1000, b"k", b"v")],
    ),
]

PAYLOAD = bytes.fromhex("10000000026b027600")
"""The records' area of the first golden batch."""

PACKED = {
    GZIP: "1f8b08000000000000ff1360606060ca662a630000a37fcfa609000000",
    SNAPPY: "82534e415050590000000001000000010000000b092010000000026b027600",
    LZ4: "04224d186040820900008010000000026b02760000000000",
    ZSTD: "28b52ffd005848000010000000026b027600010000",
}
"""`PAYLOAD` as Kafka's writers compress it."""
