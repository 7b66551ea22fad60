"""Run the compiled kernel over logs and print a digest of all that it gives: equal on every platform.

`python packaging/exercise.py LOG...` needs nothing but the package kdump itself, so that it runs under an emulator.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

from kdump.blocks import BatchBlock, RecordBlock
from kdump.kernels import _native as kernel


def digest(data: bytes) -> str:
    """Batches, records, text and keys of the batches that are not compressed."""
    found = sha256()
    block, records = BatchBlock(64), RecordBlock(256)
    block.data, block.available = data, len(data)
    text = kernel.LogText(True, True, False, lambda _type, _value: b"")
    keys = kernel.OffsetMap(1 << 16, 1 << 11)
    position = 0
    while True:
        kernel.walk(block, position, len(data), len(data))
        for name in ("position", "size", "base_offset", "last_offset", "crc", "valid", "max_timestamp", "producer_id"):
            found.update(getattr(block, name)[: block.length].tobytes())
        for row in range(block.length):
            if block.magic[row] < 2 or block.attributes[row] & 0x27 or not block.valid[row]:
                continue
            text.render(block, row, row + 1, [None], found.update)
            records.seek(row)
            while kernel.decode(block, records, row, row + 1, [None]):
                found.update(records.offset[: records.length].tobytes())
            keys.take(block, records, row, [None], b"\1", 0)
            found.update(keys.classify(block, records, row, [None], 1 << 40, 0, True, row, row + 1))
        if block.next_position == position or block.status:
            return found.hexdigest()
        position = block.next_position


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(digest(Path(name).read_bytes()), Path(name).name)
