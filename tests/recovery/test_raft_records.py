"""Snapshots and bootstrap.checkpoint as a node reads them at its start: what ends the process, and what is passed
over."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from kdump.errors import CORRUPT_RECORD, ILLEGAL_ARGUMENT, ILLEGAL_STATE, KAFKA, NO_SUCH_ELEMENT, RUNTIME, LoadError
from kdump.formats.batch import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
)
from kdump.formats.encode import NewBatch, encode_batch
from kdump.formats.kraft_snapshot import Pair, Voter, control_pair, kraft_batch, snapshot, voters_pair
from kdump.recovery.bootstrap import bootstrap_failure
from kdump.recovery.newest_snapshot import SnapshotRead, read_snapshot
from kdump.recovery.outcome import Failure
from kdump.recovery.raft_records import RaftRecord, raft_records
from kdump.topics.image_records import MetadataRecord
from tests.recovery.building import broken

NOTHING = MetadataRecord("NoOpRecord", 0, {}).encode()
HEADER = control_pair(SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 5})
VERSION = control_pair(KRAFT_VERSION, {"kRaftVersion": 1})
VOTERS = voters_pair([Voter(1, b"1" * 16, "CONTROLLER", "localhost", 9093)])
LEADER = control_pair(LEADER_CHANGE, {"leaderId": 1, "voters": [], "grantingVoters": []})
FOOTER = control_pair(SNAPSHOT_FOOTER, {})


def feature(name: str, level: int = 27) -> bytes:
    return MetadataRecord("FeatureLevelRecord", 0, {"name": name, "featureLevel": level}).encode()


def control(*pairs: Pair, offset: int = 0) -> bytes:
    return kraft_batch(pairs, offset, 1, 5, is_control=True)


def data(*values: bytes, offset: int = 0) -> bytes:
    return kraft_batch([(None, value) for value in values], offset, 1, 5, is_control=False)


def checkpoint(folder: Path, *batches: bytes) -> str:
    path = folder / "00000000000000000012-0000000003.checkpoint"
    path.write_bytes(b"".join(batches))
    return str(path)


def read(folder: Path, *batches: bytes, checks_crcs: bool = True) -> list[RaftRecord]:
    return list(raft_records(checkpoint(folder, *batches), checks_crcs=checks_crcs))


def types(records: list[RaftRecord]) -> list[int | str]:
    """The control types, and the names of metadata records."""
    return [each.control_type if each.decoded is None else each.decoded.name for each in records]  # type: ignore[misc]


@pytest.mark.parametrize("checks_crcs", [True, False])
def test_every_record_is_read_of_every_batch(tmp_path: Path, checks_crcs: bool) -> None:
    batches = [
        control(LEADER, HEADER, VERSION, VOTERS),
        data(NOTHING, feature("metadata.version"), offset=4),
        data(NOTHING, offset=6),
        control(FOOTER, offset=7),
    ]
    found = read(tmp_path, *batches, checks_crcs=checks_crcs)
    assert types(found) == [
        LEADER_CHANGE, SNAPSHOT_HEADER, KRAFT_VERSION, KRAFT_VOTERS,
        "NoOpRecord", "FeatureLevelRecord", "NoOpRecord", SNAPSHOT_FOOTER,
    ]  # fmt: skip
    assert [each.control_type for each in found[4:7]] == [None] * 3


@pytest.mark.parametrize("checks_crcs", [True, False])
@pytest.mark.parametrize("kept", [0, 1, 11, 16, 17, 60, -1])
def test_an_incomplete_end_is_skipped(tmp_path: Path, checks_crcs: bool, kept: int) -> None:
    torn = data(NOTHING, offset=1)[:kept]
    assert types(read(tmp_path, control(HEADER), torn, checks_crcs=checks_crcs)) == [SNAPSHOT_HEADER]


@pytest.mark.parametrize("checks_crcs", [True, False])
@pytest.mark.parametrize(("size", "text"), [(13, "13"), (0, "0"), (-1, "-1")])
def test_a_size_that_no_batch_has(tmp_path: Path, checks_crcs: bool, size: int, text: str) -> None:
    head = pack(">qi", 1, size)
    path = checkpoint(tmp_path, control(HEADER), head, bytes(60))
    expected = (
        f"Record size {text} is less than the minimum record overhead (14)"
        if checks_crcs
        else f"Found record size {text} smaller than minimum record overhead (14) in file {path}."
    )
    with pytest.raises(LoadError) as caught:
        list(raft_records(path, checks_crcs=checks_crcs))
    assert (caught.value.exception, str(caught.value), caught.value.file) == (CORRUPT_RECORD, expected, path)


def test_the_head_alone_shows_a_wrong_size(tmp_path: Path) -> None:
    """A reader of memory looks at the size as soon as 12 bytes are there, a reader of files once 17 are."""
    head = pack(">qi", 1, 13)
    with pytest.raises(LoadError, match="Record size 13"):
        read(tmp_path, control(HEADER), head)
    assert types(read(tmp_path, control(HEADER), head[:11])) == [SNAPSHOT_HEADER]
    assert types(read(tmp_path, control(HEADER), head, checks_crcs=False)) == [SNAPSHOT_HEADER]
    assert types(read(tmp_path, control(HEADER), pack(">qi", 1, 14))) == [SNAPSHOT_HEADER]


@pytest.mark.parametrize(("magic", "is_invalid"), [(-1, True), (0, False), (1, False), (2, False), (3, True)])
def test_the_head_alone_shows_a_wrong_magic(tmp_path: Path, magic: int, is_invalid: bool) -> None:
    head = pack(">qiib", 1, 100, 0, magic)
    if is_invalid:
        with pytest.raises(LoadError, match=f"Invalid magic found in record: {magic}") as caught:
            read(tmp_path, control(HEADER), head)
        assert caught.value.exception == CORRUPT_RECORD
    else:
        assert types(read(tmp_path, control(HEADER), head)) == [SNAPSHOT_HEADER]
    assert types(read(tmp_path, control(HEADER), head, checks_crcs=False)) == [SNAPSHOT_HEADER]


def test_only_a_snapshot_s_crcs_are_looked_at(tmp_path: Path) -> None:
    first = data(NOTHING)
    wrong = data(NOTHING)[:17] + bytes(4) + data(NOTHING)[21:]
    assert types(read(tmp_path, first, wrong, checks_crcs=False)) == ["NoOpRecord"] * 2
    with pytest.raises(LoadError, match=r"Record is corrupt \(stored crc = 0, computed crc = \d+\)") as caught:
        read(tmp_path, first, wrong)
    assert caught.value.exception == CORRUPT_RECORD


def test_a_batch_without_records(tmp_path: Path) -> None:
    empty = encode_batch([], NewBatch(base_offset=7, last_offset=7, base_timestamp=0, max_timestamp=0))
    with pytest.raises(LoadError, match="Batch must contain at least one record; baseOffset = 7") as caught:
        read(tmp_path, empty)
    assert caught.value.exception == ILLEGAL_ARGUMENT


@pytest.mark.parametrize(
    "pair",
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\0"),
        (b"\0\0\0\7", b"\0\0\0"),
        (b"\0\0", b"\0\0\0"),
        (None, b"\0\0\0"),
        (HEADER[0], b"\0\0\0"),
        (HEADER[0], b""),
        (VOTERS[0], VOTERS[1][:-8]),
    ],
)
def test_a_control_record_that_is_none_of_kraft_s(tmp_path: Path, pair: Pair) -> None:
    with pytest.raises(LoadError, match=r"^Unable to read control record at offset 3: ") as caught:
        read(tmp_path, control(pair, offset=3))
    assert caught.value.exception == RUNTIME


def test_a_control_record_without_a_value(tmp_path: Path) -> None:
    """It is too short for the first version of any message but the footer's."""
    batch = control((HEADER[0], None), offset=3)  # type: ignore[arg-type]
    with pytest.raises(LoadError, match=r"^Unable to read control record at offset 3: "):
        read(tmp_path, batch)


def test_control_records_are_read_as_their_first_version(tmp_path: Path) -> None:
    later = b"\0\x09" + HEADER[1][2:]
    assert types(read(tmp_path, control((HEADER[0], later)))) == [SNAPSHOT_HEADER]


@pytest.mark.parametrize("value", [b"", None, b"\1", NOTHING[:2]])
def test_a_metadata_record_that_is_none(tmp_path: Path, value: bytes | None) -> None:
    with pytest.raises(LoadError, match=r"^unable to deserialize record at offset 3: ") as caught:
        read(tmp_path, data(value, offset=3))  # type: ignore[arg-type]
    assert caught.value.exception == RUNTIME


def test_records_newer_than_kdump_are_skipped(tmp_path: Path) -> None:
    newer = bytes((1, 0x7F, 0))
    assert read(tmp_path, data(newer)) == [RaftRecord(None, None)]


def test_a_whole_snapshot(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, *snapshot([NOTHING], timestamp=5))
    assert read_snapshot(path) == SnapshotRead(None, has_footer=True)
    assert not read_snapshot(path).ends_early


@pytest.mark.parametrize("values", [[], [NOTHING]])
def test_a_snapshot_without_its_footer_ends_early(tmp_path: Path, values: list[bytes]) -> None:
    batches = [control(HEADER), *(data(value, offset=1) for value in values)]
    found = read_snapshot(checkpoint(tmp_path, *batches))
    assert (found, found.ends_early) == (SnapshotRead(None), True)
    torn = read_snapshot(checkpoint(tmp_path, *batches, control(FOOTER, offset=9)[:-1]))
    assert (torn, torn.ends_early) == (SnapshotRead(None), True)


def test_a_footer_counts_at_the_end_only(tmp_path: Path) -> None:
    assert not read_snapshot(checkpoint(tmp_path, control(HEADER, FOOTER), data(NOTHING, offset=2))).has_footer


def test_what_ends_the_process_that_reads_a_snapshot(tmp_path: Path) -> None:
    text = "First batch is not a control batch with at least one record"
    for first in (data(NOTHING), control(VERSION)):
        path = checkpoint(tmp_path, first, control(HEADER, FOOTER, offset=1))
        found = read_snapshot(path)
        assert found == SnapshotRead(Failure(ILLEGAL_STATE, text, path, offline=False))
        assert not found.ends_early
    path = checkpoint(tmp_path)
    assert read_snapshot(path) == SnapshotRead(Failure(NO_SUCH_ELEMENT, "No value present", path, offline=False))
    path = checkpoint(tmp_path, control(HEADER), broken(data(NOTHING, offset=1)))
    failure = read_snapshot(path).failure
    assert failure is not None
    assert (failure.exception, failure.file, failure.offline) == (CORRUPT_RECORD, path, False)


def test_a_bootstrap_checkpoint(tmp_path: Path) -> None:
    assert bootstrap_failure(str(tmp_path / "bootstrap.checkpoint")) is None
    assert bootstrap_failure(checkpoint(tmp_path, data(NOTHING, feature("x"), feature("metadata.version")))) is None
    path = checkpoint(tmp_path, data(feature("x"), NOTHING))
    text = (
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap"
        f" metadata file: {path}"
    )
    assert bootstrap_failure(path) == Failure(RUNTIME, text, path, offline=False)


def test_a_bootstrap_checkpoint_s_crcs_are_not_looked_at(tmp_path: Path) -> None:
    whole = data(feature("metadata.version"))
    assert bootstrap_failure(checkpoint(tmp_path, whole[:17] + bytes(4) + whole[21:])) is None


def test_a_bootstrap_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, data(feature("metadata.version")), data(b"\1"))
    failure = bootstrap_failure(path)
    assert failure is not None
    assert (failure.exception, failure.file, failure.offline) == (RUNTIME, path, False)
    text = "java.io.IOException: Is a directory"
    assert bootstrap_failure(str(tmp_path)) == Failure(KAFKA, text, str(tmp_path), offline=False)


def test_a_bootstrap_checkpoint_may_hold_more(tmp_path: Path) -> None:
    """Control records, and records that have no name, are no features."""
    path = checkpoint(tmp_path, control(HEADER), data(feature("metadata.version"), bytes((1, 0x7F, 0)), offset=1))
    assert bootstrap_failure(path) is None
