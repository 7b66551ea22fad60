"""Every batch with a valid CRC is found, wherever it lies and whatever its offsets say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import RefusedError
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.storage import valid_batches
from kdump.storage.log_reader import LogFile
from kdump.storage.valid_batches import valid_runs
from tests.storage.building import KERNELS, batch, flipped, segment_file, use_kernels, with_size

RECORD = NewRecord(5, 1000, b"key", b"value")
ENTRIES = {
    "v2": batch(7),
    "negative offset": (-9).to_bytes(8, "big", signed=True) + batch(7)[8:],
    "last offset": ((1 << 63) - 1).to_bytes(8, "big") + batch(7)[8:],
    "v1": encode_message(RECORD, 1),
    "v0": encode_message(RECORD, 0),
    "wrapper": encode_wrapper([RECORD], 1, 1),
    "unknown attributes": encode_batch([RECORD], NewBatch(attributes=0x4000)),
}
"""Batches that no walk would expect at these offsets, and one of a later release."""
GAPS = st.one_of(st.just(b""), st.binary(max_size=80), st.integers(0, 9000).map(bytes))


def found(path: str) -> list[tuple[int, int]]:
    """Where the valid batches of a file are: first byte and size."""
    with LogFile(path) as log:
        return [
            (block.position[row], block.size[row])
            for block, first, stop in valid_runs(log)
            for row in range(first, stop)
        ]


@pytest.mark.parametrize("kernels", KERNELS)
@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.tuples(GAPS, st.sampled_from(sorted(ENTRIES))), max_size=6), tail=GAPS)
def test_all_of_them_between_anything(
    tmp_path_factory: pytest.TempPathFactory, kernels: str, parts: list[tuple[bytes, str]], tail: bytes
) -> None:
    data, expected = b"", []
    for gap, entry in parts:
        data += gap
        expected.append((len(data), len(ENTRIES[entry])))
        data += ENTRIES[entry]
    path = segment_file(tmp_path_factory.mktemp("logs"), data + tail)
    with pytest.MonkeyPatch.context() as patch:
        use_kernels(kernels, patch)
        assert found(path) == expected


def test_one_within_a_damaged_batch_counts(tmp_path: Path) -> None:
    inner = batch(3)
    outer = batch(0, value=inner, count=1)
    assert found(segment_file(tmp_path, outer)) == [(0, len(outer))]
    assert found(segment_file(tmp_path, flipped(outer, 20))) == [(outer.index(inner), len(inner))]


def test_a_size_that_leads_over_other_batches_is_not_believed(tmp_path: Path) -> None:
    first, second = batch(0), batch(2)
    data = with_size(first, len(first + second) - 12) + second
    assert found(segment_file(tmp_path, data)) == [(len(first), len(second))]


def test_one_that_is_larger_than_the_buffer(tmp_path: Path) -> None:
    large = batch(0, value=b"v" * (3 << 20), count=1)
    assert found(segment_file(tmp_path, b"\xff" * 30 + large)) == [(30, len(large))]


def test_it_does_not_search_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valid_batches, "_MIN_TRIED", 1000)
    hostile = with_size(b"\1" * 17, 400) * 3000
    with pytest.raises(RefusedError, match="so much of it looks like batches"):
        found(segment_file(tmp_path, hostile))
