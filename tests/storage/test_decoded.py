"""The loop over records: what cannot be read is met once, and everything else comes out of it, however it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.blocks import RECORD_ROWS, BatchBlock, RecordBlock
from kdump.errors import CodecError, InvalidRecordError, KdumpError, OnError
from kdump.formats.batch import HEADER_SIZE
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.decoded import (
    BadBatch,
    DamagedError,
    DecodedRows,
    Passed,
    decode_rows,
    decoded,
    first_offset,
    walk,
)
from kdump.storage.log_reader import LogFile
from tests.storage.building import KERNELS, batch, flipped, segment_file, use_kernels, with_valid_crc

BASE = 100


@pytest.fixture(params=KERNELS, autouse=True)
def either_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(request.param, monkeypatch)


def undecodable_records(offset: int) -> bytes:
    """A batch of five records whose third one says that it is longer than it is."""
    data = batch(offset, 5)
    size = data[HEADER_SIZE] // 2 + 1
    return with_valid_crc(flipped(data, HEADER_SIZE + 2 * size, 0x40))


def broken_payload(offset: int) -> bytes:
    """A batch that cannot be decompressed."""
    return with_valid_crc(flipped(batch(offset, 5, codec=GZIP), HEADER_SIZE + 12, 0xFF))


PARTS = (batch(BASE, 5), undecodable_records(BASE + 5), batch(BASE + 10, 5, codec=GZIP), broken_payload(BASE + 15))
LAST = batch(BASE + 20, 5)


def walked(path: str, *, whole_batches: bool = False) -> list[list[int] | tuple[DamageKind, int]]:
    """The offsets of the records that come together, and kind and position of the damage."""
    found: list[list[int] | tuple[DamageKind, int]] = []
    with LogFile(path) as log:
        for part in decoded(log, BASE, errors=OnError.YIELD, whole_batches=whole_batches):
            if isinstance(part, Damage):
                found.append((part.kind, part.position))
            else:
                found.append(part.records.offset[: part.records.length].tolist())
    return found


def offsets(found: list[list[int] | tuple[DamageKind, int]]) -> list[int]:
    return [offset for part in found if isinstance(part, list) for offset in part]


def damage(found: list[list[int] | tuple[DamageKind, int]]) -> list[tuple[DamageKind, int]]:
    return [part for part in found if isinstance(part, tuple)]


def test_what_cannot_be_read_does_not_end_the_loop(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join((*PARTS, LAST)), BASE)
    where = [sum(map(len, PARTS[:number])) for number in (1, 3)]
    lost = [(DamageKind.RECORDS, where[0]), (DamageKind.PAYLOAD, where[1])]
    found = walked(path)
    assert damage(found) == lost
    good = [*range(100, 105), *range(110, 115), *range(120, 125)]
    assert sorted(set(offsets(found)) - {105, 106}) == good  # of a batch that breaks off those before the fault
    assert offsets(found) == sorted(offsets(found))
    whole = walked(path, whole_batches=True)
    assert (offsets(whole), damage(whole)) == (good, lost)


def test_damage_is_raised_or_skipped(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(PARTS) + flipped(LAST, -1), BASE)
    with LogFile(path) as log:
        kept = [part for part in decoded(log, BASE, errors=OnError.SKIP) if isinstance(part, DecodedRows)]
        assert kept
        with pytest.raises(DamagedError, match=r"of the batch of offsets 105.109 cannot all be read") as met:
            list(decoded(log, BASE, errors=OnError.RAISE))
        assert isinstance(met.value.damage, Damage)
        assert isinstance(met.value.damage.cause, InvalidRecordError)
        *_, payload, crc = (each for each in decoded(log, BASE, errors=OnError.YIELD) if isinstance(each, Damage))
    assert isinstance(payload.cause, CodecError)
    assert (crc.kind, crc.resumed, crc.path) == (DamageKind.CRC, sum(map(len, PARTS)) + len(LAST), path)


class Between:
    """The batches whose first offset is in a range (Choice)."""

    def __init__(self, first: int, last: int) -> None:
        self.range = range(first, last + 1)

    def runs(self, block: BatchBlock, first: int, stop: int) -> Iterator[tuple[int, int]]:
        return ((row, row + 1) for row in range(first, stop) if block.base_offset[row] in self.range)

    def is_behind(self, block: BatchBlock, row: int) -> bool:
        return block.base_offset[row] > self.range[-1]


def test_a_walk_gives_what_is_chosen_and_how_far_that_has_led(tmp_path: Path) -> None:
    sizes = [len(part) for part in (*PARTS, LAST)]
    path = segment_file(tmp_path, b"".join((*PARTS, LAST)), BASE)
    with LogFile(path) as log:
        found = [
            part if isinstance(part, Passed) else part.block.base_offset[part.first]
            for part in walk(log, BASE, choice=Between(BASE + 5, BASE + 10))
            if not isinstance(part, Damage)
        ]
    assert found == [105, 110, Passed(sum(sizes), True)]


def test_a_walk_ends_where_nothing_behind_is_chosen(tmp_path: Path) -> None:
    """Damage divides the log into two runs, of which the second is not read."""
    begin, end = batch(BASE, 5) + batch(BASE + 5, 5), batch(BASE + 15, 5)
    path = segment_file(tmp_path, begin + flipped(batch(BASE + 10, 5), -1) + end, BASE)
    with LogFile(path) as log:
        for last, damages, records in ((BASE, 0, 5), (BASE + 5, 1, 10), (BASE + 15, 1, 15)):
            parts = list(decoded(log, BASE, errors=OnError.YIELD, choice=Between(BASE, last)))
            found = [part for part in parts if isinstance(part, Damage)]
            assert (len(found), len(parts) - len(found)) == (damages, records // 5)


def test_batches_are_whole_however_many_records_they_have(tmp_path: Path) -> None:
    """A batch that no record block takes gets a larger one."""
    many = 2 * RECORD_ROWS + 1
    data = batch(BASE, 3) + batch(BASE + 3, many) + batch(BASE + 3 + many, 3)
    path = segment_file(tmp_path, data, BASE)
    capacities = []
    with LogFile(path) as log:
        for part in decoded(log, BASE, errors=OnError.RAISE, whole_batches=True):
            assert isinstance(part, DecodedRows)
            capacities.append(part.records.capacity)
            for row, start, stop in part.rows():
                assert part.span(row) == (start, stop)
                assert stop - start == part.block.count[row]
    assert max(capacities) >= many
    assert offsets(walked(path, whole_batches=True)) == offsets(walked(path)) == list(range(BASE, BASE + many + 6))


def test_a_small_record_block_is_filled_again_and_again(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(PARTS), BASE)
    with LogFile(path) as log:
        block = next(log.blocks())
        parts = list(decode_rows(block, 0, block.length, records=RecordBlock(2)))
        bad = [part for part in parts if isinstance(part, BadBatch)]
        assert [(part.row, part.position) for part in bad] == [(1, block.position[1]), (3, block.position[3])]
        assert len(parts) > len(bad) + 4


def test_the_first_offset_of_a_wrapper_is_in_its_payload(tmp_path: Path) -> None:
    wrapper = encode_wrapper([NewRecord(BASE + n, 1000, b"k", b"v") for n in (3, 4, 7)], 1, GZIP)
    path = segment_file(tmp_path, wrapper + batch(BASE + 8, 2), BASE)
    with LogFile(path) as log:
        block = next(log.blocks())
        assert (block.base_offset[0], first_offset(block, 0), first_offset(block, 1)) == (-1, BASE + 3, BASE + 8)
        block.data = bytes(block.data[:60]) + bytes(len(block.data) - 60)
        with pytest.raises(KdumpError):
            first_offset(block, 0)
