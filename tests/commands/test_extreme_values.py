"""Whatever number a field has: no command ends in an error of its own, and the other partitions are looked at."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.batch import CRC_AT, CRC_START, LENGTH_AT, LOG_OVERHEAD
from kdump.formats.checksums import crc32c
from tests.agreement.directories import EVERYTHING, build
from tests.agreement.running import kdump

_BATCH = {
    0: "q", 8: "i", 12: "i", 16: "b", 21: "h", 23: "i", 27: "q", 35: "q", 43: "q", 51: "h", 53: "i", 57: "i",
}  # fmt: skip
_MESSAGE = {0: "q", 8: "i", 16: "b", 17: "b", 18: "q", 26: "i"}
_FIELDS = {
    "index": {0: "i", 4: "i"}, "timeindex": {0: "q", 8: "i"}, "txnindex": {0: "h", 2: "q", 10: "q", 18: "q", 26: "q"},
    "snapshot": {0: "h", 6: "i", 10: "q", 18: "h", 20: "i", 24: "q", 32: "i", 36: "q", 44: "i", 48: "q"},
}  # fmt: skip
_CHECKPOINTS = (
    names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT, names.REPLICATION_CHECKPOINT, names.CLEANER_CHECKPOINT,
)  # fmt: skip
COMMANDS = (
    ("verify", "--deep"), ("startup", "--clean"), ("startup", "--unclean"), ("doctor",), ("repair",),
    ("repair", "--strategy", "salvage"), ("repair", "--strategy", "truncate"), ("repair", "--fix-bit"),
    ("rebuild-index", "--all"), ("trim",), ("ls", "--count"), ("dump", "--format", "jsonl"), ("stats", "--records"),
    ("retain",), ("compact", "--config", "compact.properties"), ("txns", "--all"), ("lookup", "--timestamp", "0"),
    ("export", "--to", "exported", "--format", "jsonl"), ("replicas",),
)  # fmt: skip


def extremes(code: str) -> tuple[int, ...]:
    largest = (1 << 8 * struct.calcsize(f">{code}") - 1) - 1
    return -largest - 1, -1, largest


def changed(data: bytes, fields: dict[int, str]) -> Iterator[bytearray]:
    """The bytes with an extreme value in each field in turn."""
    for at, code in fields.items():
        for value in extremes(code) if at + struct.calcsize(f">{code}") <= len(data) else ():
            other = bytearray(data)
            struct.pack_into(f">{code}", other, at, value)
            yield other


def logs(path: Path, *, is_old: bool) -> Iterator[bytearray]:
    """The log with an extreme value in a header of its second batch, whose CRC is right."""
    data = path.read_bytes()
    start = LOG_OVERHEAD + int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD], "big")
    size = LOG_OVERHEAD + int.from_bytes(data[start + LENGTH_AT : start + LOG_OVERHEAD], "big")
    for batch in changed(data[start : start + size], _MESSAGE if is_old else _BATCH):
        if is_old:
            batch[12:16] = zlib.crc32(batch[16:]).to_bytes(4, "big")
        else:
            batch[CRC_AT:CRC_START] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
        yield bytearray(data[:start]) + batch + data[start + size :]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with a partition for each extreme value, and checkpoints that have such."""
    root = tmp_path_factory.mktemp("extremes")
    build(EVERYTHING, root / "all")
    folder = root / "data"
    folder.mkdir()
    number = 0
    for source in ("payments-0", "legacy-0"):
        partition = root / "all" / "disk-1" / source
        for path in sorted(partition.iterdir()):
            kind = path.suffix[1:]
            data = path.read_bytes()
            contents = list(logs(path, is_old=source == "legacy-0")) if kind == names.LOG and data else []
            for content in contents or changed(data, _FIELDS.get(kind, {})):
                if kind == names.PRODUCER_SNAPSHOT:
                    content[2:6] = crc32c(bytes(content[6:])).to_bytes(4, "big")
                copy = folder / f"{source[:-2]}-{number}"
                shutil.copytree(partition, copy)
                (copy / path.name).write_bytes(content)
                number += 1
    for at, name in enumerate(_CHECKPOINTS):
        partitions = (path.name.rpartition("-") for path in folder.iterdir() if path.is_dir())
        lines = [f"{topic} {index} {extremes('q')[(n + at) % 3]}\n" for n, (topic, _, index) in enumerate(partitions)]
        (folder / name).write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    (root / "compact.properties").write_text("cleanup.policy=compact\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_value_ends_a_command(data: Path, command: tuple[str, ...]) -> None:
    said = kdump(data.parent, *command, data.name)
    shutil.rmtree(data.parent / "exported", ignore_errors=True)
    assert said.code in (0, 1, 3, 4), said.err
    assert "an error in kdump itself" not in said.out + said.err
    assert "Traceback" not in said.err
    assert os.listdir(data)
