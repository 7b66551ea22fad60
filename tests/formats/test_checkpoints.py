"""Text checkpoints: what Kafka writes, and each rule of its reader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CheckpointError
from kdump.formats.checkpoints import (
    EpochEntry,
    OffsetCheckpointEntry,
    format_leader_epochs,
    format_offset_checkpoint,
    parse_leader_epochs,
    parse_offset_checkpoint,
)

PATH = "/data/some-checkpoint"
OFFSETS = b"0\n1\nmy-topic 0 1234\n"
EPOCHS = b"0\n2\n0 0\n3 57\n"

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def test_golden_bytes() -> None:
    assert parse_offset_checkpoint(OFFSETS, PATH) == [OffsetCheckpointEntry("my-topic", 0, 1234)]
    assert format_offset_checkpoint([OffsetCheckpointEntry("my-topic", 0, 1234)]) == OFFSETS
    assert parse_leader_epochs(EPOCHS, PATH) == [EpochEntry(0, 0), EpochEntry(3, 57)]
    assert format_leader_epochs([EpochEntry(0, 0), EpochEntry(3, 57)]) == EPOCHS
    assert format_leader_epochs([]) == b"0\n0\n"


@given(st.lists(st.builds(OffsetCheckpointEntry, st.text("aé._-", min_size=1), INT32, INT64)))
def test_offset_checkpoints_round_trip(entries: list[OffsetCheckpointEntry]) -> None:
    assert parse_offset_checkpoint(format_offset_checkpoint(entries), PATH) == entries


@given(st.lists(st.builds(EpochEntry, INT32, INT64)))
def test_leader_epochs_round_trip(entries: list[EpochEntry]) -> None:
    assert parse_leader_epochs(format_leader_epochs(entries), PATH) == entries


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"+0\r\n", b"0\n0", b"0\n0\n"])
def test_files_without_entries(data: bytes) -> None:
    assert parse_offset_checkpoint(data, PATH) == []
    assert parse_leader_epochs(data, PATH) == []


def test_white_space_and_signs_that_the_reader_takes() -> None:
    assert parse_offset_checkpoint(b"0\r\n+1\r\nt \t +2   -3 ", PATH) == [OffsetCheckpointEntry("t", 2, -3)]


@pytest.mark.parametrize("version", ["1", "-1", "+7"])
def test_another_version(version: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_offset_checkpoint(f"{version}\n".encode(), PATH)
    assert str(caught.value) == (
        f"Unrecognised version:{int(version)}, expected version: 0 in checkpoint file at: {PATH}"
    )


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("x\n1\n", "x"),
        (" 0\n1\n", " 0"),
        ("\n", ""),
        ("0\nmany\n", "many"),
        ("0\n2147483648\n", "2147483648"),
        ("0\n1\nt 0\n", "t 0"),
        ("0\n1\nt 0 1 2\n", "t 0 1 2"),
        ("0\n1\n t 0 1\n", " t 0 1"),
        ("0\n1\nt x 1\n", "t x 1"),
        ("0\n1\nt 2147483648 1\n", "t 2147483648 1"),
        ("0\n1\nt 0 9223372036854775808\n", "t 0 9223372036854775808"),
        ("0\n1\nt 0 1\n\n", ""),
    ],
)
def test_malformed_lines_of_offset_checkpoints(data: str, line: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_offset_checkpoint(data.encode(), PATH)
    assert str(caught.value) == f"Malformed line in checkpoint file [{PATH}]: {line}"


@pytest.mark.parametrize("line", ["0", "0 0 0", "x 0", "0 x", "2147483648 0", ""])
def test_malformed_lines_of_leader_epochs(line: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_leader_epochs(f"0\n1\n{line}\n".encode(), PATH)
    assert str(caught.value) == f"Malformed line in checkpoint file [{PATH}]: {line}"


@pytest.mark.parametrize(("expected", "found"), [(2, 1), (0, 1), (3, 0), (-1, 0), (2147483647, 2)])
def test_another_number_of_entries(expected: int, found: int) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_leader_epochs(f"0\n{expected}\n".encode() + b"1 1\n" * found, PATH)
    assert str(caught.value) == f"Expected [{expected}] entries in checkpoint file [{PATH}], but found only [{found}]"


def test_not_utf_8() -> None:
    with pytest.raises(CheckpointError, match="is not UTF-8 text"):
        parse_offset_checkpoint(b"0\n1\n\xff 0 0\n", PATH)


def test_every_truncation_and_bit_flip_gives_entries_or_the_error() -> None:
    for data in damaged(b"0\n2\nt 0 5\nu 1 6\n"):
        try:
            entries = parse_offset_checkpoint(data, PATH)
        except CheckpointError:
            continue
        assert len(entries) in (0, 2)


def damaged(sound: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(sound):
        yield sound[:at]
        for bit in range(8):
            yield sound[:at] + bytes([byte ^ 1 << bit]) + sound[at + 1 :]
