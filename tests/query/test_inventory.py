"""The facts about segments, partitions and log directories: true, and had without reading more than is needed."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.codecs import GZIP, LZ4, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.query.inventory import (
    PartitionInfo,
    duplicates,
    log_directory_info,
    owner_of,
    partition_info,
)
from kdump.storage import facts as segment_inventory
from kdump.storage.broker import BrokerIdentity
from kdump.storage.checkpoints import Checkpoints, PartitionCheckpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import IndexInfo, SegmentInfo, segment_info
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from tests.sampling import sampled
from tests.storage.building import batch, flipped, segment_file

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
UNIQUE = "0123456789abcdef" * 2


def partition_of_case(case: str) -> PartitionInfo:
    directory = LogDirectory(str(CORPUS / case))
    checkpoints = Checkpoints.read(directory.path)
    (log,) = directory.partitions()
    return partition_info(log, checkpoints.of(log.name))


def build(folder: Path, parts: list[bytes], base_offset: int = 0, *, index_every: int = 4) -> Segment:
    """A segment of batches of two records, 1000 ms plus the offset being their timestamps, with both indexes."""
    path = Path(segment_file(folder, b"".join(parts), base_offset))
    offsets, times, position = [], [], 0
    for n, part in enumerate(parts):
        if n % index_every == index_every - 1:
            offsets.append(OffsetIndexEntry(base_offset + 2 * n + 1, position))
            times.append(TimeIndexEntry(1000 + base_offset + 2 * n + 1, base_offset + 2 * n + 1))
        position += len(part)
    path.with_suffix(".index").write_bytes(encode_offset_entries(offsets, base_offset))
    path.with_suffix(".timeindex").write_bytes(encode_time_entries(times, base_offset))
    return Segment(str(path))


def timed(count: int, codecs: dict[int, int] | None = None) -> list[bytes]:
    return [batch(2 * n, codec=(codecs or {}).get(n, 0), timestamp=1000 + 2 * n) for n in range(count)]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small any more."""
    monkeypatch.setattr(segment_inventory, "SMALL", 64)


def test_a_small_segment_is_read_as_a_whole(tmp_path: Path) -> None:
    info = segment_info(build(tmp_path, timed(10, {3: GZIP, 5: LZ4})))
    assert info.is_counted
    assert (info.batches, info.records, info.end_offset) == (10, 20, 20)
    assert (info.first_timestamp, info.largest_timestamp) == (1000, 1019)
    assert info.codecs == ("none", "gzip", "lz4")
    assert info.magics == (2,)
    assert info.size == info.used_size == os.path.getsize(info.path)
    assert info.on_disk == os.stat(info.path).st_blocks * 512
    assert (info.has_zero_tail, info.damage, info.error) == (False, (), None)
    assert info.offset_index == IndexInfo(2, 16, 16)
    assert info.time_index == IndexInfo(2, 24, 24)
    assert info.txn_index is None


@pytest.mark.usefixtures("large")
def test_of_a_large_segment_only_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = build(tmp_path, timed(400, {0: GZIP, 200: ZSTD, 399: LZ4}))
    read = []
    close = LogFile.close

    def noted(log: LogFile) -> None:
        read.append(log.bytes_read)
        close(log)

    monkeypatch.setattr(LogFile, "close", noted)
    info = segment_info(segment)
    assert sum(read) < info.size / 20
    assert not info.is_counted
    assert (info.batches, info.records, info.end_offset) == (None, None, 800)
    assert (info.first_timestamp, info.largest_timestamp) == (1000, 1799)
    assert info.codecs == ("gzip", "lz4")
    assert info.used_size == info.size


@pytest.mark.usefixtures("large")
def test_counting_reads_all_of_it(tmp_path: Path) -> None:
    info = segment_info(build(tmp_path, timed(400, {200: ZSTD})), count=True)
    assert info.is_counted
    assert (info.batches, info.records) == (400, 800)
    assert info.codecs == ("none", "zstd")


@pytest.mark.usefixtures("large")
def test_the_largest_timestamp_may_be_behind_the_last_index_entry(tmp_path: Path) -> None:
    parts = timed(10)
    parts[9] = batch(18, timestamp=9_000)
    assert segment_info(build(tmp_path, parts)).largest_timestamp == 9_001


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "entries",
    [
        [],
        [TimeIndexEntry(9999, 5), TimeIndexEntry(1007, 7)],
        [TimeIndexEntry(9999, 4000)],  # behind the log's end
        [TimeIndexEntry(9999, -4)],
    ],
)
def test_a_time_index_that_does_not_fit_is_not_believed(tmp_path: Path, entries: list[TimeIndexEntry]) -> None:
    segment = build(tmp_path, timed(10))
    data = b"".join(t.to_bytes(8, "big") + o.to_bytes(4, "big", signed=True) for t, o in entries)
    Path(segment.path(names.TIME_INDEX)).write_bytes(data)
    assert segment_info(segment).largest_timestamp is None
    assert segment_info(segment, count=True).largest_timestamp == 1019


@pytest.mark.usefixtures("large")
def test_without_an_index_the_last_segment_is_read_and_others_only_if_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = build(tmp_path, timed(10))
    for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
        os.unlink(segment.path(kind))
    assert segment_info(segment, is_last=False).records == 20
    monkeypatch.setattr(segment_inventory, "MAX_TAIL", 100)
    info = segment_info(segment, is_last=False)
    assert (info.end_offset, info.records, info.used_size, info.largest_timestamp) == (None, None, None, None)
    assert info.first_timestamp == 1000
    assert segment_info(segment, is_last=True).records == 20
    assert segment_info(segment, is_last=True).end_offset == 20


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("zeros", [18, 5000, 3 << 20])
def test_a_preallocated_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool, zeros: int) -> None:
    if not small:
        monkeypatch.setattr(segment_inventory, "SMALL", 64)
    segment = build(tmp_path, timed(10))
    used = os.path.getsize(segment.log_path)
    os.truncate(segment.log_path, used + zeros)
    info = segment_info(segment)
    assert info.has_zero_tail
    assert (info.used_size, info.size, info.end_offset) == (used, used + zeros, 20)
    assert info.damage == ()
    counted = segment_info(segment, count=True)
    assert counted.has_zero_tail
    assert (counted.used_size, counted.records, counted.damage) == (used, 20, ())


def test_a_sparse_file_shows_what_is_allocated(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    os.truncate(segment.log_path, 64 << 20)
    info = segment_info(segment)
    assert info.size == 64 << 20
    if os.stat(segment.log_path).st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no sparse files")
    assert info.on_disk < 1 << 20
    assert (info.used_size or 0) < 1 << 20


def test_zeros_before_something_else_are_damage(tmp_path: Path) -> None:
    parts = timed(10)
    parts[5] = bytes(len(parts[5]))
    info = segment_info(build(tmp_path, parts, index_every=100))
    assert not info.has_zero_tail
    assert (info.batches, info.used_size) == (9, info.size)
    assert [(found.position, found.resumed) for found in info.damage] == [(5 * len(parts[0]), 6 * len(parts[0]))]
    # a broker reads no further
    assert info.end_offset == 10


@pytest.mark.parametrize("small", [True, False])
def test_a_torn_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    if not small:
        monkeypatch.setattr(segment_inventory, "SMALL", 64)
    segment = build(tmp_path, timed(10))
    size = os.path.getsize(segment.log_path)
    os.truncate(segment.log_path, size - 20)
    info = segment_info(segment)
    assert info.end_offset == 18
    assert not info.has_zero_tail
    assert info.used_size == size // 10 * 9
    (damage,) = info.damage
    assert (damage.position, damage.resumed) == (info.used_size, size - 20)


@pytest.mark.usefixtures("large")
def test_a_bad_crc_in_the_tail_is_said_and_does_not_move_the_end(tmp_path: Path) -> None:
    parts = timed(10)
    parts[9] = flipped(parts[9], -1)
    info = segment_info(build(tmp_path, parts))
    assert info.end_offset == 20
    (damage,) = info.damage
    assert "fails its CRC" in damage.text


def test_preallocated_indexes_count_what_is_used(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    for kind, tail in ((names.OFFSET_INDEX, 800), (names.TIME_INDEX, 1200)):
        with open(segment.path(kind), "ab") as writer:
            writer.write(bytes(tail))
    info = segment_info(segment)
    assert info.offset_index == IndexInfo(2, 816, 16)
    assert info.time_index == IndexInfo(2, 1224, 24)


def test_the_transaction_index_is_counted(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    data = encode_aborted_txns([AbortedTxn(0, 1, 0, 3, 4)] * 3) + b"\0"
    Path(segment.path(names.TXN_INDEX)).write_bytes(data)
    assert segment_info(segment).txn_index == IndexInfo(3, 103, 102)


def test_an_empty_segment(tmp_path: Path) -> None:
    info = segment_info(Segment(segment_file(tmp_path, b"", 77)))
    assert (info.end_offset, info.records, info.batches, info.used_size) == (77, 0, 0, 0)
    assert (info.first_timestamp, info.largest_timestamp, info.codecs) == (None, None, ())
    assert (info.offset_index, info.time_index) == (None, None)


def test_messages_inside_wrappers_are_counted_when_asked_for(tmp_path: Path) -> None:
    wrapper = encode_wrapper([NewRecord(n, 1000 + n, None, b"v") for n in range(5)], 1, LZ4)
    segment = Segment(segment_file(tmp_path, wrapper + encode_message(NewRecord(5, 1005, None, b"v"), 1)))
    info = segment_info(segment)
    assert (info.batches, info.records, info.end_offset, info.magics) == (2, None, 6, (1,))
    assert segment_info(segment, count=True).records == 6


def test_a_wrapper_that_cannot_be_opened_is_damage_when_counting(tmp_path: Path) -> None:
    broken = encode_message(NewRecord(4, 1000, None, b"no lz4 frame"), 1, LZ4)
    segment = Segment(segment_file(tmp_path, broken + encode_message(NewRecord(5, 1005, None, b"v"), 1)))
    info = segment_info(segment, count=True)
    assert info.records == 1
    (damage,) = info.damage
    assert (damage.position, damage.resumed) == (0, len(broken))


def test_first_timestamps_that_the_header_does_not_have(tmp_path: Path) -> None:
    records = [NewRecord(0, 500, None, b"v"), NewRecord(1, 700, None, b"v")]
    for attributes, wanted in ((0, 500), (0x08, 700), (0x40, 700)):
        data = encode_batch(records, NewBatch(attributes=attributes))
        assert segment_info(Segment(segment_file(tmp_path, data))).first_timestamp == wanted
    without = encode_message(NewRecord(0, -1, None, b"v"), 0)
    info = segment_info(Segment(segment_file(tmp_path, without)))
    assert (info.first_timestamp, info.largest_timestamp) == (None, None)


def test_a_segment_that_cannot_be_read(tmp_path: Path) -> None:
    info = segment_info(Segment(str(tmp_path / "00000000000000000005.log")))
    assert isinstance(info.error, FileNotFoundError)
    assert (info.base_offset, info.end_offset, info.size) == (5, None, 0)


def test_a_partition_with_transactions() -> None:
    info = partition_of_case("s-src-txn")
    assert (info.topic, info.partition, info.state) == ("topic", 0, names.LIVE)
    assert info.topic_id == "ESIzRFVmd4gBI0VniavN7w"
    assert (info.log_start_offset, info.end_offset, info.records) == (0, 557, 557)
    assert [segment.base_offset for segment in info.segments] == [0, 142, 289, 406, 538]
    assert [segment.txn_index.entries for segment in info.segments if segment.txn_index] == [1, 2, 2, 2, 1]
    assert info.checkpoints == PartitionCheckpoints(None, 557, 557, None)
    assert info.leader_epochs == ((3, 0),)
    assert [file.offset for file in info.producer_snapshots] == [142, 289, 406, 538, 557]
    assert (info.leftovers, info.orphans, info.unexpected, info.problems, info.errors) == ((), (), (), (), ())
    assert info.size == sum(segment.size for segment in info.segments)
    assert info.total_size == sum(path.stat().st_size for path in (CORPUS / "s-src-txn" / "topic-0").iterdir())


def test_a_log_start_offset_above_the_first_base_offset() -> None:
    info = partition_of_case("e-base-max")
    assert info.log_start_offset == 9223372036854675807
    assert info.end_offset == 9223372036854676968
    log = PartitionLog(str(CORPUS / "s-src-txn" / "topic-0"))
    assert partition_info(log, PartitionCheckpoints(log_start=100)).log_start_offset == 100


def test_what_a_cleaner_left(tmp_path: Path) -> None:
    deleted = partition_of_case("z-3-29")
    assert deleted.segments == ()
    assert deleted.end_offset == 0
    assert {file.state for file in deleted.leftovers} == {names.DELETED}
    swapped = partition_of_case("z-3-93")
    assert {file.state for file in swapped.leftovers} == {names.SWAP}
    assert [file.name for file in swapped.replaced] == ["00000000000000000072.snapshot"]
    assert {file.state for file in partition_of_case("z-3-141").leftovers} == {names.CLEANED}
    assert [file.name for file in partition_of_case("z-3-134").orphans] == ["00000000000000002978.index"]


def test_a_kraft_log_has_snapshots() -> None:
    info = partition_of_case("f-cluster-metadata")
    assert [(file.offset, file.epoch) for file in info.kraft_snapshots] == [(162, 5), (212, 5), (None, None)]


def test_a_preallocated_case() -> None:
    (segment,) = partition_of_case("h-prealloc-log").segments
    assert segment.has_zero_tail
    assert (segment.used_size, segment.size, segment.end_offset) == (61612, 131072, 486)


@pytest.mark.parametrize("case", sampled(sorted(path.name for path in CORPUS.iterdir()), 10))
def test_small_and_large_agree(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look at both ends says is what reading everything says."""
    whole = partition_of_case(case)
    monkeypatch.setattr(segment_inventory, "SMALL", 0)
    ends = partition_of_case(case)
    for all_read, some_read in zip(whole.segments, ends.segments, strict=True):
        assert some_read.end_offset == all_read.end_offset
        assert some_read.first_timestamp in (all_read.first_timestamp, None) or all_read.damage
        if not all_read.damage and some_read.largest_timestamp is not None:
            assert some_read.largest_timestamp == all_read.largest_timestamp
        if not all_read.damage:
            assert set(some_read.codecs) <= set(all_read.codecs)
            assert some_read.used_size == all_read.used_size
            assert some_read.has_zero_tail == all_read.has_zero_tail


def test_names_that_kafka_does_not_give(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0))
    for name in ("notes.txt", "00000000000000000000 (1).log", "x.index"):
        (tmp_path / "t-0" / name).write_bytes(b"")
    info = partition_info(PartitionLog(str(tmp_path / "t-0")))
    assert {file.name for file in info.unexpected} == {"notes.txt", "00000000000000000000 (1).log"}
    assert [file.name for file in info.orphans] == ["x.index"]


def test_files_that_cannot_be_parsed_are_problems(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0))
    (tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("0\nx\n")
    (tmp_path / "t-0" / names.PARTITION_METADATA).write_text("?")
    info = partition_info(PartitionLog(str(tmp_path / "t-0")))
    assert len(info.problems) == 2
    assert (info.topic_id, info.leader_epochs, info.errors) == (None, (), ())
    assert info.end_offset == 2


def test_a_segment_that_vanished_is_an_error_of_the_partition(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0))
    log = PartitionLog(str(tmp_path / "t-0"))
    os.unlink(log.segments[0].log_path)
    info = partition_info(log)
    (error,) = info.errors
    assert isinstance(error, FileNotFoundError)
    assert info.end_offset is None


def log_directory(folder: Path, node: int = 1) -> LogDirectory:
    """A log directory with a partition in each state."""
    for name in ("a-0", "a-1", f"b-0.{UNIQUE}-delete", f"c-0.{UNIQUE}-future", f"d-0.{UNIQUE}-stray"):
        segment_file(folder / name, batch(0))
    (folder / names.META_PROPERTIES).write_text(f"version=1\nnode.id={node}\ncluster.id=abc\n")
    return LogDirectory(str(folder))


def test_a_log_directory(tmp_path: Path) -> None:
    log_directory(tmp_path)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / names.REMOTE_LOG_INDEX_CACHE_DIR).mkdir()
    (tmp_path / f"{names.REPLICATION_CHECKPOINT}.tmp").write_text("")
    (tmp_path / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n4\na 0 2\nc 0 1\nb 0 1\ngone 7 1\n")
    (tmp_path / names.CLEANER_CHECKPOINT).write_text("1\n0\n")
    directory = LogDirectory(str(tmp_path))
    checkpoints = Checkpoints.read(directory.path)
    info = log_directory_info(directory, checkpoints)
    assert (info.cluster_id, info.node_id, info.directory_id) == ("abc", 1, None)
    assert (info.clean_shutdown, info.broker_epoch, info.partition_count) == (False, None, 5)
    assert info.checkpoints == {names.RECOVERY_POINT_CHECKPOINT: 4}
    assert info.not_partitions == ("lost+found",)
    assert info.missing == (("b", 0), ("gone", 7))
    assert [file.name for file in info.leftovers] == [f"{names.REPLICATION_CHECKPOINT}.tmp"]
    assert len(info.problems) == 1
    assert "Unrecognised version:1" in info.problems[0]
    assert checkpoints.of(PartitionLog(str(tmp_path / "a-0")).name) == PartitionCheckpoints(recovery_point=2)
    assert checkpoints.of(PartitionLog(str(tmp_path / "a-1")).name) == PartitionCheckpoints()


def test_clean_shutdown_of_a_log_directory() -> None:
    directory = LogDirectory(str(CORPUS / "s-src-txn"))
    info = log_directory_info(directory, Checkpoints.read(directory.path))
    assert (info.clean_shutdown, info.broker_epoch, info.node_id) == (True, 42, 1)
    assert (info.problems, info.errors, info.missing, info.not_partitions) == ((), (), (), ())


def placed(*folders: Path) -> list[tuple[BrokerIdentity | None, PartitionInfo]]:
    found = []
    for folder in folders:
        directory = LogDirectory(str(folder))
        found += [(owner_of(directory), partition_info(log)) for log in directory.partitions()]
    return found


def test_partitions_in_two_places_of_one_node(tmp_path: Path) -> None:
    for name in ("one", "two"):
        log_directory(tmp_path / name)
    shutil.rmtree(tmp_path / "two" / "a-1")
    found = duplicates(placed(tmp_path / "one", tmp_path / "two"))
    assert [(each.topic, each.partition) for each in found] == [("a", 0), ("c", 0)]
    assert found[0].paths == (str(tmp_path / "one" / "a-0"), str(tmp_path / "two" / "a-0"))


def test_replicas_of_two_nodes_are_no_duplicates(tmp_path: Path) -> None:
    log_directory(tmp_path / "one", 1)
    log_directory(tmp_path / "two", 2)
    assert duplicates(placed(tmp_path / "one", tmp_path / "two")) == []


def test_one_directory_listed_twice_is_no_duplicate(tmp_path: Path) -> None:
    log_directory(tmp_path / "one")
    (tmp_path / "link").symlink_to("one")
    assert duplicates(placed(tmp_path / "one", tmp_path / "one", tmp_path / "link")) == []


@pytest.mark.parametrize("case", ["s-src-txn", "s-src-v1-gzip", "g-plain-1-cleaned", "f-cluster-metadata"])
@pytest.mark.parametrize("seed", sampled(range(40), 5))
def test_whatever_is_done_to_a_directory_its_facts_come_out(case: str, seed: int, tmp_path: Path) -> None:
    """Bytes changed, files cut, emptied, lengthened, renamed: no exception, and the sizes stay true."""
    chance = random.Random(f"{case} {seed}")
    shutil.copytree(CORPUS / case, tmp_path / case)
    for path in sorted(path for path in (tmp_path / case).rglob("*") if path.is_file()):
        data = bytearray(path.read_bytes())
        what = chance.randrange(8)
        if what == 0:
            del data[chance.randrange(len(data) + 1) :]
        elif what == 1:
            data += bytes(chance.randrange(200))
        elif what == 2:
            data += chance.randbytes(chance.randrange(200))
        elif what < 6:
            for _ in range(chance.randrange(4) if data else 0):
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        if what == 7 and chance.random() < 0.2:
            path.rename(path.with_name(f"{chance.randrange(1000)}{path.suffix}"))
    directory = LogDirectory(str(tmp_path / case))
    checkpoints = Checkpoints.read(directory.path)
    assert log_directory_info(directory, checkpoints).partition_count == 1
    for log in directory.partitions():
        for count in (False, True):
            info = partition_info(log, checkpoints.of(log.name), count=count)
            assert info.errors == ()
            for segment in info.segments:
                assert segment.size == os.path.getsize(segment.path)
                assert 0 <= (segment.used_size or 0) <= segment.size
                assert all(0 <= found.position < found.resumed <= segment.size for found in segment.damage)


def test_facts_are_plain_values(tmp_path: Path) -> None:
    info = segment_info(Segment(segment_file(tmp_path, batch(0))))
    with pytest.raises(AttributeError):
        info.size = 3  # type: ignore[misc]
    assert info == SegmentInfo(**{name: getattr(info, name) for name in SegmentInfo._fields})
