"""Every bit flip and every truncation of small segments, read from a file to the last record by both sets of kernels.

Nothing but KdumpError may come out, every step must get further, and memory must stay bounded.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.errors import KdumpError
from kdump.formats.batch import CONTROL, FRAME_SIZE, TRANSACTIONAL
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_wrapper
from kdump.formats.faults import END, PARTIAL, Fault, fault_error
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate
from tests.kernels.seeds import MARKER, control, records

LIMIT = 1 << 20  # bytes that a batch may decompress to
HEADROOM = 256 << 20  # bytes of memory that reading may take

IDEMPOTENT = NewBatch(producer_id=7, producer_epoch=1, base_sequence=(1 << 31) - 2, leader_epoch=3)
SEGMENTS = {
    "v2": [
        encode_batch(records(4), IDEMPOTENT),
        encode_batch(records(2, 4)),
        encode_batch([control(1, MARKER)._replace(offset=6)], NewBatch(CONTROL | TRANSACTIONAL, 7, 1)),
    ],
    "v2 compressed": [
        encode_batch(records(3, 3 * index), NewBatch(codec)) for index, codec in enumerate((GZIP, SNAPPY, LZ4, ZSTD))
    ],
    "v1 wrapper": [
        encode_wrapper([NewRecord(offset, 1000, b"key", b"value") for offset in (0, 1, 2)], 1, GZIP),
        encode_wrapper([NewRecord(offset, 1000, None, b"value") for offset in (3, 5)], 1, LZ4, 2000),
        encode_wrapper([NewRecord(offset, 1000, b"key", b"value") for offset in (6, 7)], 0, SNAPPY),
    ],
}


@pytest.fixture(autouse=True)
def _active(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything use the kernels under test."""
    for name in ("LogText", "check", "crc32", "crc32c", "decode", "find_batch", "walk"):
        monkeypatch.setattr(kernels, name, getattr(kernel, name))


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Where the system can say how much is in use: no room for what a damaged length asks for."""
    usage = Path("/proc/self/statm")
    if not usage.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(usage.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Reader:
    """Reads one file after another as far as they can be read, and keeps count of what it met."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.met: Counter[str] = Counter()
        self._records = RecordBlock(3)

    def read(self) -> tuple[int, list[int], int]:
        """Status of the end, the entries' `valid`, and how many records there were."""
        valid: list[int] = []
        count = 0
        text = kernels.LogText(True, True, False, lambda number, value: b"%d" % number)
        with LogFile(str(self.path)) as log:
            position = -1
            for block in log.blocks():
                assert block.next_position > position or block.length == 0
                position = block.next_position
                valid += block.valid[: block.length]
                count += self._block(block, text)
        return block.status, valid, count

    def _block(self, block: BatchBlock, text: kernels.LogText) -> int:
        row = count = 0
        while row < block.length:
            inflated = inflate(block, row, limit=LIMIT)
            assert row < inflated.stop <= block.length
            assert all(len(payload or b"") <= LIMIT for payload in inflated.payloads)
            if inflated.error:
                assert isinstance(inflated.error, KdumpError)
                self.met[type(inflated.error).__name__] += 1
            self._fault(inflated.fault)
            bad = inflated.error is not None or inflated.fault is not None
            count += self._decode(block, row, inflated.stop - bad, inflated.payloads)
            self._fault(text.render(block, row, inflated.stop, inflated.payloads, len))
            row = inflated.stop
        return count

    def _decode(self, block: BatchBlock, first: int, stop: int, payloads: list[bytes | None]) -> int:
        self._records.seek(first)
        count = 0
        while self._records.next_row < stop:
            before = self._records.next_row, self._records.next_index
            kernels.decode(block, self._records, first, stop, payloads)
            assert (self._records.next_row, self._records.next_index) > before or self._records.fault
            count += self._records.length
            if self._records.fault:
                self._fault(self._records.fault)
                self._records.seek(self._records.next_row + 1)
        return count

    def _fault(self, fault: Fault | None) -> None:
        if fault:
            assert str(fault_error(fault))
            self.met[type(fault_error(fault)).__name__] += 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SEGMENTS)
def test_every_bit_flip(name: str, tmp_path: Path) -> None:
    entries = SEGMENTS[name]
    data = b"".join(entries)
    reader = Reader(tmp_path / "log")
    reader.path.write_bytes(data)
    sound = reader.read()
    assert sound[:2] == (END, [1] * len(entries))
    assert not reader.met
    with reader.path.open("r+b", buffering=0) as file:
        for at in range(len(data)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes((data[at] ^ 1 << bit,)), at)
                _check_flip(entries, at, sound[2], *reader.read())
            os.pwrite(file.fileno(), data[at : at + 1], at)
    assert reader.read() == sound
    assert reader.met["InvalidRecordError"] > 10
    assert (reader.met["StreamError"] > 10) == (name != "v2")


def _check_flip(entries: list[bytes], at: int, records: int, status: int, valid: list[int], count: int) -> None:
    """What a single flipped bit must look like in the table."""
    number = 0
    while at >= len(entries[number]):
        at -= len(entries[number])
        number += 1
    v2 = entries[number][16] == 2
    if at in range(8, 12) or at == 16:  # the frame: the next entries are lost, or this one is another kind
        assert valid[:number] == [1] * number
    else:
        # no checksum covers the offset and, in v2, the leader epoch
        covered = at >= (FRAME_SIZE if v2 else 12)
        assert status == END
        assert valid == [not (covered and index == number) for index in range(len(entries))]
        if not covered and (v2 or at > 7):  # an offset may contradict those inside a wrapper
            assert count == records


@pytest.mark.parametrize("name", SEGMENTS)
def test_every_truncation(name: str, tmp_path: Path) -> None:
    entries = SEGMENTS[name]
    ends = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
    reader = Reader(tmp_path / "log")
    reader.path.write_bytes(b"".join(entries))
    for size in range(ends[-1], -1, -1):
        os.truncate(reader.path, size)
        status, valid, _ = reader.read()
        complete = sum(end <= size for end in ends[1:])
        assert valid == [1] * complete
        assert status == (END if size - ends[complete] <= FRAME_SIZE else PARTIAL)
    assert not reader.met


@pytest.mark.parametrize("name", SEGMENTS)
def test_zeros_from_every_byte_on(name: str, tmp_path: Path) -> None:
    """What a file that was preallocated looks like after a crash."""
    data = b"".join(SEGMENTS[name])
    reader = Reader(tmp_path / "log")
    reader.path.write_bytes(data)
    with reader.path.open("r+b", buffering=0) as file:
        for at in range(len(data) - 1, -1, -1):
            os.pwrite(file.fileno(), b"\0", at)
            reader.read()
    assert reader.read()[1:] == ([], 0)
