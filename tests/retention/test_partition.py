"""What becomes of a partition: what goes, what blocks, what is advised, what waits for its delete horizon."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kdump.formats.codecs import GZIP, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.retention.advice import Advice, advice_on
from kdump.retention.partition import HIGH_WATERMARK, TIMESTAMP, DeletedAmount
from kdump.retention.policy import LOG_START, SIZE, TIME
from kdump.retention.segments import Shutdown
from kdump.retention.tombstones import Waiting, tombstones_of
from kdump.retention.totals import Totals
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment
from tests.retention.building import DAY, HOUR, NOW, look, write_log

OLD = NOW - 8 * DAY
YOUNG = NOW - HOUR


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Four old segments and a young one, of two records each."""
    return write_log(tmp_path / "orders-0", [[[OLD, OLD]]] * 4 + [[[YOUNG, YOUNG]]])


def test_what_goes_and_what_each_policy_would_delete_alone(partition: Path) -> None:
    size = (partition / f"{0:020d}.log").stat().st_size
    space = sum(path.stat().st_size for path in partition.glob(f"{0:020d}.*"))
    found = look(partition, start=4, retention_bytes=2 * size)
    assert found.reasons == (LOG_START, LOG_START, SIZE, TIME)
    assert (found.log_start_offset, found.new_log_start_offset) == (4, 8)
    two, one = DeletedAmount(2, 2 * space), DeletedAmount(1, space)
    assert found.shares() == {LOG_START: two, SIZE: one, TIME: one}
    assert found.alone == {LOG_START: two, SIZE: DeletedAmount(3, 3 * space), TIME: DeletedAmount(4, 4 * space)}
    assert (found.space, found.rolls, found.block, found.has_work) == (4 * space, False, None, True)
    totals = Totals.of([found, look(partition, retention_ms=-1)])
    assert (totals.partitions, totals.working, totals.segments) == (2, 1, 10)
    assert totals.freed == DeletedAmount(4, 4 * space)
    assert totals.alone[SIZE] == DeletedAmount(3, 3 * space)


def test_nothing_to_do(partition: Path) -> None:
    found = look(partition, retention_ms=30 * DAY)
    assert (found.reasons, found.has_work, found.new_log_start_offset) == ((), False, 0)
    assert found.next is not None
    assert found.next.due == OLD + 30 * DAY + 1


def test_all_go(partition: Path) -> None:
    found = look(partition, retention_ms=0)
    assert (len(found.reasons), found.rolls, found.new_log_start_offset, found.next) == (5, True, 10, None)


def test_the_high_watermark_holds(partition: Path) -> None:
    found = look(partition, checkpoints=PartitionCheckpoints(high_watermark=5))
    assert (len(found.reasons), found.high_watermark, found.is_watermark_known) == (2, 5, True)
    assert found.block is not None
    assert (found.block.reason, [state.base_offset for state in found.block.held]) == (HIGH_WATERMARK, [4, 6])
    texts = [item.text for item in advice_on(found)]
    assert "high watermark (5)" in texts[0]
    assert look(partition).high_watermark == 10
    assert look(partition, checkpoints=PartitionCheckpoints(high_watermark=99)).high_watermark == 10
    assert look(partition, checkpoints=PartitionCheckpoints(high_watermark=0, log_start=3)).high_watermark == 3


def test_a_log_start_that_cannot_be(partition: Path) -> None:
    with pytest.raises(KdumpError, match=r"cannot start at 7, for its high watermark is 5"):
        look(partition, start=7, checkpoints=PartitionCheckpoints(high_watermark=5))
    with pytest.raises(KdumpError, match=r"log start offset 11 is above the log end offset 10"):
        look(partition, checkpoints=PartitionCheckpoints(log_start=11))


def test_a_timestamp_of_the_future_blocks_what_follows(tmp_path: Path) -> None:
    wrong = OLD * 1000
    folder = write_log(tmp_path / "orders-0", [[[OLD]], [[OLD], [OLD, wrong]], [[OLD]], [[OLD]], [[YOUNG]]])
    found = look(folder)
    assert found.reasons == (TIME,)
    block = found.block
    assert block is not None
    assert (block.reason, block.blocker.base_offset) == (TIMESTAMP, 1)
    assert [state.base_offset for state in block.held] == [4, 5]
    assert block.space == sum(state.space for state in block.held)
    assert block.batch is not None
    assert (block.batch.record_offset, block.batch.unit) == (3, "microseconds")
    assert block.free_offset == 6
    assert [state.base_offset for state in found.future] == [1]
    free = look(folder, start=block.free_offset)
    assert (free.reasons, free.block) == ((LOG_START,) * 4, None)


def test_the_free_offset_leads_over_several_segments_of_the_future_but_no_young_one(tmp_path: Path) -> None:
    future = NOW + 30 * DAY
    folder = write_log(tmp_path / "orders-0", [[[future]], [[OLD]], [[future]], [[OLD]], [[YOUNG]], [[OLD]], [[YOUNG]]])
    block = look(folder).block
    assert block is not None
    assert [state.base_offset for state in block.held] == [1, 3, 5]
    assert block.free_offset == 4


def test_the_first_segment_in_the_future_is_told_before_it_holds_anything(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "orders-0", [[[NOW + 2 * HOUR]], [[YOUNG]]])
    block = look(folder).block
    assert block is not None
    assert (block.held, block.free_offset) == ((), 1)
    near = write_log(tmp_path / "clicks-0", [[[NOW + HOUR]], [[YOUNG]]])
    assert look(near).block is None  # a broker lets that pass
    assert look(folder, retention_ms=-1).block is None
    assert look(folder, cleanup_policy="compact").block is None


def test_a_young_segment_before_old_ones_blocks_too(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "orders-0", [[[YOUNG]], [[OLD]], [[NOW]]])
    found = look(folder)
    assert found.block is not None
    assert [state.base_offset for state in found.block.held] == [1]
    assert not any("Repair the cause" in item.text for item in advice_on(found))


def advised(folder: Path, **properties: Any) -> list[Advice]:
    return list(advice_on(look(folder, **properties)))


def test_advice_has_the_exact_commands(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "orders-7", [[[NOW * 1000]], [[OLD]], [[YOUNG]]])
    size = (folder / f"{2:020d}.log").stat().st_size
    items = advised(folder, retention_bytes=123456)
    commands = [line for item in items for line in item.commands]
    request = '{"partitions": [{"topic": "orders", "partition": 7, "offset": 2}], "version": 1}'
    alter = "kafka-configs.sh --bootstrap-server HOST:9092 --alter --entity-type topics --entity-name orders"
    assert "in microseconds where Kafka wants milliseconds" in items[0].text  # what deletes nothing comes first
    assert commands[:2] == [
        f"{alter} --add-config message.timestamp.after.max.ms=3600000",
        f"{alter} --add-config message.timestamp.type=LogAppendTime",
    ]
    assert shlex.split(commands[2]) == ["echo", request, ">", "delete.json"]
    assert commands[3] == "kafka-delete-records.sh --bootstrap-server HOST:9092 --offset-json-file delete.json"
    assert commands[4] == f"kdump retain {folder} --log-start-offset 2 --apply"
    assert commands[5:] == [
        f"{alter} --add-config retention.bytes={size}",
        f"{alter} --add-config retention.bytes=123456",
    ]
    without_limit = [line for item in advised(folder) for line in item.commands]
    assert without_limit[-1] == f"{alter} --delete-config retention.bytes"
    # and the size advised frees exactly what is held
    assert len(look(folder, retention_bytes=size).reasons) == 2


def test_advice_where_the_time_of_the_file_counts(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "orders-0", [[[OLD]], [[OLD]], [[YOUNG]]])
    (folder / f"{0:020d}.timeindex").unlink()
    first = advised(folder)[0]
    assert first.commands == (f"kdump rebuild-index {folder / f'{0:020d}.log'} --apply",)
    without = write_log(tmp_path / "clicks-0", [[[-1]], [[OLD]], [[YOUNG]]])
    assert "no timestamps" in advised(without)[0].text
    wrong_index = write_log(tmp_path / "views-0", [[[OLD]], [[OLD]], [[YOUNG]]])
    (wrong_index / f"{0:020d}.timeindex").write_bytes(NOW.to_bytes(8, "big") + bytes(4))
    assert f"No record has the timestamp {NOW}" in advised(wrong_index)[0].text


def test_what_a_broker_does_first_is_a_problem(partition: Path) -> None:
    (partition / f"{0:020d}.log.swap").write_bytes(b"")
    log = partition / f"{6:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    swap, damage = look(partition, shutdown=Shutdown(clean=False)).problems
    assert "log.swap: segments were being replaced" in swap
    assert f"{log} at byte 0: batch " in damage


def test_a_log_that_does_not_load_is_a_problem(partition: Path) -> None:
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("garbage")
    (problem,) = look(partition).problems
    assert "does not load the log: " in problem


def test_no_segments_at_all(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    found = look(tmp_path / "orders-0")
    assert (found.segments, found.has_work, found.rolls, found.next) == ((), False, False, None)


def tombstone(
    offset: int, horizon: int | None = None, *, codec: int = 0, count: int = 1, key: bytes | None = b"k"
) -> bytes:
    records = [NewRecord(offset + n, OLD, key, None) for n in range(count)]
    attributes = codec | (DELETE_HORIZON if horizon is not None else 0)
    return encode_batch(records, NewBatch(attributes, base_timestamp=horizon))


def test_tombstones_and_markers_by_their_horizons(tmp_path: Path) -> None:
    marker = NewRecord(20, OLD, b"\0\0\0\1", b"\0\0\0\0\0\0")
    ends = [
        encode_batch([marker], NewBatch(TRANSACTIONAL | CONTROL | DELETE_HORIZON, 7, 0, -1, base_timestamp=NOW)),
        encode_batch([marker._replace(offset=21)], NewBatch(TRANSACTIONAL | CONTROL, 7, 0, -1)),
    ]
    data = [
        tombstone(0, NOW),  # over: the horizon itself is the first moment
        tombstone(1, NOW + 1, codec=GZIP, count=2),
        tombstone(3, NOW + 9, codec=ZSTD),
        tombstone(4),
        tombstone(5, key=None),
        encode_batch([NewRecord(6, OLD, b"k", b"")]),
        *ends,
    ]
    write_segment(tmp_path / "t-0", 0, data)
    found = tombstones_of(PartitionLog(str(tmp_path / "t-0")), NOW)
    assert found.records == Waiting(due=1, waiting=3, unset=1, next_horizon=NOW + 1, last_horizon=NOW + 9)
    assert found.markers == Waiting(due=1, unset=1)
    assert found.unreadable == 0
    assert look(tmp_path / "t-0", cleanup_policy="compact").tombstones == found
    assert look(tmp_path / "t-0").tombstones is None


def test_many_tombstones_in_one_batch_and_damage_are_counted(tmp_path: Path) -> None:
    broken = bytearray(tombstone(10_000))
    broken[65] ^= 1
    write_segment(tmp_path / "t-0", 0, [tombstone(0, count=9_000), bytes(broken), tombstone(10_001)])
    found = tombstones_of(PartitionLog(str(tmp_path / "t-0")), NOW)
    assert (found.records.unset, found.unreadable) == (9_001, 1)


def test_the_corpus_is_taken_as_it_is(corpus: Path) -> None:
    """Every sound log that Kafka wrote can be looked at, and what goes is always the beginning of the log."""
    seen = 0
    for checkpoint in sorted((corpus / "corpus").glob("[a-h]-*/recovery-point-offset-checkpoint")):
        for folder in sorted(path for path in checkpoint.parent.iterdir() if path.is_dir()):
            if folder.name == names.CLUSTER_METADATA_DIR:
                continue
            found = look(folder, now=1_700_086_400_000, retention_ms=HOUR)
            seen += 1
            assert found.new_log_start_offset >= found.log_start_offset
            if found.staying and found.block is None and found.next and found.next.due is not None:
                assert found.next.due > found.now
    assert seen > 30
