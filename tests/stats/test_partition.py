"""The figures of partitions, against the records and batches one by one."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from kdump.formats.batch import CODEC_MASK, HEADER_SIZE
from kdump.formats.codecs import GZIP, NONE, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.statistics.batches import BatchStats
from kdump.statistics.partition import SegmentTimes, Stats, StatsOptions, dirtiness, partition_stats, total
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, Record
from tests.sampling import sampled
from tests.storage.building import KERNELS, batch, flipped, segment_file, use_kernels, with_valid_crc

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def _folders() -> list[str]:
    lines = (FIXTURES / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["dir"] for line in lines]


class Counted(NamedTuple):
    """A partition's items, one by one."""

    batches: list[Batch]
    records: list[Record]
    damage: list[Damage]


def count(log: PartitionLog) -> Counted:
    found = list(log.batches())
    batches = [each for each in found if isinstance(each, Batch)]
    markers = {
        offset for each in batches if each.is_control for offset in range(each.base_offset, each.last_offset + 1)
    }
    records = [each for each in log.records() if isinstance(each, Record) and each.offset not in markers]
    return Counted(batches, records, [each for each in found if isinstance(each, Damage)])


@pytest.mark.parametrize("folder", sampled(_folders(), 8))
def test_kafkas_own_logs(folder: str) -> None:
    log = PartitionLog(str(FIXTURES / "corpus" / folder))
    stats, counted = partition_stats(log, StatsOptions(records=True)), count(log)
    batches, records = stats.batches, stats.records
    assert records is not None
    assert stats.size == sum(Path(segment.log_path).stat().st_size for segment in log.segments)
    assert batches.batches == len(counted.batches)
    assert batches.bytes == sum(each.size for each in counted.batches)
    assert batches.bytes + stats.damaged + stats.preallocated >= stats.size
    assert batches.sizes.total == batches.bytes
    codecs = Counter(each.attributes & CODEC_MASK for each in counted.batches)
    assert {codec: share.batches for codec, share in batches.codecs.items()} == codecs
    assert sum(share.bytes for share in batches.codecs.values()) == batches.bytes
    times = [each.max_timestamp for each in counted.batches if each.max_timestamp != -1]
    assert (batches.earliest, batches.latest) == ((min(times), max(times)) if times else (None, None))
    assert batches.producers == {each.producer_id for each in counted.batches} - {-1}
    assert batches.control == sum(each.is_control for each in counted.batches)
    assert batches.transactional == sum(each.is_transactional for each in counted.batches)
    if not batches.wrappers:
        assert batches.records == sum(each.record_count for each in counted.batches)
        assert batches.gaps == sum(
            after.base_offset != before.last_offset + 1
            for before, after in zip(counted.batches, counted.batches[1:], strict=False)
        )
        assert batches.missing == batches.spanned - batches.records

    assert records.records == len(counted.records)
    assert records.tombstones == sum(each.key is not None and each.value is None for each in counted.records)
    assert records.null_values == sum(each.value is None for each in counted.records)
    assert records.sizes.total == sum(len(each.key or b"") + len(each.value or b"") for each in counted.records)
    assert records.headers == sum(len(each.headers) for each in counted.records)
    last = {each.key: each for each in counted.records if each.key is not None}
    assert (records.distinct_keys, records.kept) == (len(last), len(last))
    assert records.kept_bytes == sum(len(each.key or b"") + len(each.value or b"") for each in last.values())
    assert records.kept_tombstones == sum(each.value is None for each in last.values())


@pytest.mark.parametrize("kernels", ["native", "portable"])
def test_gaps_late_batches_and_damage(kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(kernels, monkeypatch)
    good = [batch(0, timestamp=5000), batch(2, timestamp=3000), batch(10, 1, timestamp=-1), batch(11, timestamp=9000)]
    bad = flipped(batch(14), -1)
    segment_file(tmp_path / "t-0", b"".join((*good[:3], bad, good[3])))
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions())
    batches = stats.batches
    assert (batches.batches, batches.records, batches.gaps, batches.missing) == (4, 7, 1, 6)
    assert batches.late == 1
    assert (stats.damage_count, stats.damaged) == (1, len(bad))
    assert stats.damage[0].position == sum(map(len, good[:3]))


def test_a_sample_is_spread_and_tells_what_codecs_make_of_it(tmp_path: Path) -> None:
    value = b"abcdefgh" * 100
    data = [batch(2 * number, value=value) for number in range(40)]
    segment_file(tmp_path / "t-0", b"".join(data))
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions(sample=5))
    assert stats.sample.batches == 5
    assert stats.sample.estimate(NONE, 12345) == 12345
    gzip, zstd = stats.sample.estimate(GZIP, 10_000), stats.sample.estimate(ZSTD, 10_000)
    assert gzip is not None
    assert zstd is not None
    assert max(gzip, zstd) < 2000
    none = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions(sample=0))
    assert (none.sample.batches, none.batches.batches) == (0, 40)


def test_what_a_packed_log_would_take_unpacked(tmp_path: Path) -> None:
    packed = batch(0, 50, value=b"x" * 100, codec=ZSTD)
    plain = batch(0, 50, value=b"x" * 100)
    segment_file(tmp_path / "t-0", packed)
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions())
    assert stats.sample.estimate(NONE, stats.batches.payload) == len(plain) - 61


def test_more_keys_than_there_is_room_for(tmp_path: Path) -> None:
    records = [NewRecord(number, 0, b"%d" % number, b"") for number in range(100)]
    segment_file(tmp_path / "t-0", encode_batch(records, NewBatch()))
    log = PartitionLog(str(tmp_path / "t-0"))
    found = partition_stats(log, StatsOptions(records=True, key_memory=24 * 50)).records
    assert found is not None
    assert (found.distinct_keys, found.kept, found.superseded_ratio) == (None, None, None)
    roomy = partition_stats(log, StatsOptions(records=True, key_memory=24 * 200)).records
    assert roomy is not None
    assert (roomy.distinct_keys, roomy.superseded_ratio) == (100, 0.0)


def test_producers_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules["kdump.statistics.batches"], "MAX_PRODUCERS", 3)
    data = [encode_batch([NewRecord(n, 0, None, b"")], NewBatch(producer_id=n, producer_epoch=0)) for n in range(5)]
    segment_file(tmp_path / "t-0", b"".join(data))
    batches = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions()).batches
    assert (len(batches.producers), batches.has_more_producers, batches.idempotent) == (3, True, 5)


def test_partitions_add_up_and_travel(tmp_path: Path) -> None:
    for number in range(3):
        segment_file(tmp_path / f"t-{number}", b"".join(batch(2 * n, timestamp=1000 * n) for n in range(number + 1)))
    parts = [
        partition_stats(PartitionLog(str(tmp_path / f"t-{number}")), StatsOptions(records=True)) for number in range(3)
    ]
    whole = total(pickle.loads(pickle.dumps(parts)))
    assert whole.partitions == 3
    assert whole.batches.records == sum(part.batches.records for part in parts) == 12
    assert whole.size == sum(part.size for part in parts)
    assert whole.records is not None
    assert whole.records.records == 12
    assert whole.records.distinct_keys == 6
    assert (whole.batches.earliest, whole.batches.latest) == (1, 2001)
    assert total([]) == Stats(partitions=0, batches=BatchStats())


def test_zeros_at_the_end_of_the_last_segment_alone_are_no_damage(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0) + bytes(100))
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions(records=True))
    assert (stats.preallocated, stats.damage_count) == (100, 0)
    segment_file(tmp_path / "t-0", batch(2), 2)
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions(records=True))
    assert (stats.preallocated, stats.damage_count, stats.damaged) == (0, 1, 100)


def test_the_cleaners_view() -> None:
    segments = [SegmentTimes(base, 100, 0, 0) for base in (0, 10, 20, 30)]
    assert dirtiness(segments, 0).ratio == 1
    assert (dirtiness(segments, 10).clean, dirtiness(segments, 10).dirty) == (100, 200)
    assert dirtiness(segments, 15).clean == 100
    assert (dirtiness(segments, 30).clean, dirtiness(segments, 30).dirty) == (300, 0)
    assert dirtiness(segments[:1], 0).ratio == 0


@pytest.mark.parametrize("name", KERNELS)
def test_good_batches_before_a_corrupt_payload_count(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_kernels(name, monkeypatch)
    corrupt = with_valid_crc(flipped(batch(4, codec=GZIP), HEADER_SIZE))
    segment_file(tmp_path / "t-0", batch(0, codec=GZIP) + batch(2) + corrupt + batch(6, 3, codec=GZIP))
    stats = partition_stats(PartitionLog(str(tmp_path / "t-0")), StatsOptions(records=True))
    assert stats.records is not None
    assert (stats.records.records, stats.records.distinct_keys, stats.records.kept) == (7, 3, 3)
    assert stats.damage_count == 1


def test_a_vanished_segment_is_an_error(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0))
    log = PartitionLog(str(tmp_path / "t-0"))
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(FileNotFoundError):
        partition_stats(log, StatsOptions())
