"""What may be cleaned, how dirty it is, what bounds the cleaner, and when it is due."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.clean.state import ACTIVE, HIGH_WATERMARK, LAG, TRANSACTION, LastRecord, Limit, between, not_compacted
from kdump.errors import CleaningError, ConfigError
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import PropertyFile, Settings, TopicSettings
from tests.clean.building import CONFIG, DAY, NOW, batch, build, clean_once, in_txn, marker, name, state_of

PAIR = (b"a", b"1")
SEGMENTS = {0: [batch(0, PAIR, timestamp=10)], 10: [batch(10, PAIR, timestamp=20)], 20: [batch(20, PAIR, timestamp=30)]}


def test_without_a_checkpoint_all_but_the_active_segment_is_dirty(tmp_path: Path) -> None:
    state = state_of(build(tmp_path, SEGMENTS))
    assert (state.first_dirty_offset, state.first_uncleanable_offset) == (0, 20)
    assert (state.log_start_offset, state.log_end_offset, state.high_watermark) == (0, 21, 21)
    assert state.limits == (Limit(ACTIVE, 20),)
    assert (state.clean_size, state.dirty_ratio) == (0, 1.0)
    assert not state.is_watermark_known


def test_the_dirty_ratio_counts_whole_segments(tmp_path: Path) -> None:
    state = state_of(build(tmp_path, SEGMENTS, checkpoint=10))
    size = len(batch(0, PAIR))
    assert (state.clean_size, state.cleanable_size, state.dirty_ratio) == (size, size, 0.5)
    within = state_of(build(tmp_path / "within", SEGMENTS, checkpoint=5))
    assert (within.clean_size, within.cleanable_size) == (size, 2 * size)  # the first segment counts as both
    assert [state.is_due(CONFIG._replace(min_cleanable_ratio=ratio)) for ratio in (0.49, 0.5)] == [True, False]


@pytest.mark.parametrize(
    ("checkpoint", "start", "words"), [(30, 0, "above the log end offset"), (5, 10, "below the log st")]
)
def test_a_checkpoint_outside_the_log_does_not_count(tmp_path: Path, checkpoint: int, start: int, words: str) -> None:
    partition = build(tmp_path, SEGMENTS, checkpoint=checkpoint)
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nusers 0 {start}\n")
    state = state_of(partition)
    assert (state.first_dirty_offset, state.checkpoint) == (start, checkpoint)
    assert words in state.reset


def test_nothing_at_or_behind_the_high_watermark(tmp_path: Path) -> None:
    state = state_of(build(tmp_path, SEGMENTS, high_watermark=15))
    assert (state.last_stable_offset, state.first_uncleanable_offset) == (15, 10)
    assert state.limits == (Limit(HIGH_WATERMARK, 15), Limit(ACTIVE, 20))
    assert state.is_watermark_known
    beyond = state_of(build(tmp_path / "beyond", SEGMENTS, high_watermark=99))
    assert (beyond.high_watermark, beyond.first_uncleanable_offset) == (21, 20)


def test_nothing_of_an_open_transaction(tmp_path: Path) -> None:
    segments = {
        0: [batch(0, PAIR)],
        10: [in_txn(10, 7, PAIR)],
        20: [marker(20, 7), in_txn(21, 8, PAIR)],
        30: [batch(30, PAIR)],
    }
    state = state_of(build(tmp_path, segments))
    assert (state.last_stable_offset, state.first_uncleanable_offset) == (21, 20)
    assert state.limits == (Limit(TRANSACTION, 21, 8), Limit(ACTIVE, 30))


def test_nothing_younger_than_the_lag(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    state = state_of(partition, CONFIG._replace(min_compaction_lag_ms=100), 120)
    assert state.limits == (Limit(ACTIVE, 20),)  # a timestamp of 20 is just not behind 120 - 100
    state = state_of(partition, CONFIG._replace(min_compaction_lag_ms=100), 119)
    assert (state.first_uncleanable_offset, state.limits[0]) == (10, Limit(LAG, 10, until=120))


def test_without_a_time_index_the_files_time_counts(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS, modified={0: 500})
    (partition / name(0, "timeindex")).write_bytes(b"")
    state = state_of(partition, CONFIG._replace(min_compaction_lag_ms=100), 550)
    assert state.limits[0] == Limit(LAG, 0, until=600)


def test_the_longest_lag_makes_it_due_whatever_the_ratio(tmp_path: Path) -> None:
    config = CONFIG._replace(min_cleanable_ratio=1.0, max_compaction_lag_ms=1000)
    partition = build(tmp_path, SEGMENTS)
    assert not state_of(partition, config, 1010).is_due(config)
    state = state_of(partition, config, 1011)
    assert state.is_due(config)
    assert state.overdue_since == 1010


def test_an_empty_log_is_not_due(tmp_path: Path) -> None:
    state = state_of(build(tmp_path, {0: []}))
    assert (state.dirty_ratio, state.is_due(CONFIG)) == (0.0, False)


def test_after_a_pass_it_is_no_longer_due(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    clean_once(partition)
    assert not state_of(partition).is_due(CONFIG)


def test_leftovers_of_a_swap_are_not_skipped(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    os.rename(partition / name(0, "index"), partition / name(0, "index.swap"))
    with pytest.raises(CleaningError, match=r"index\.swap: left over") as refused:
        state_of(partition)
    assert str(refused.value).endswith(f": repair it first: kdump repair {partition} shows the ways")


def test_damage_is_not_written_anew(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    data = bytearray((partition / name(10, "log")).read_bytes())
    data[-1] ^= 1
    (partition / name(10, "log")).write_bytes(data)
    before = (partition / name(0, "log")).read_bytes()
    with pytest.raises(CleaningError, match=r"00010\.log at byte 0: batch .* fails its CRC") as refused:
        clean_once(partition)
    assert str(refused.value).endswith(f": repair it first: kdump repair {partition} shows the ways")
    assert (partition / name(0, "log")).read_bytes() == before


def test_a_log_that_a_broker_would_have_to_recover_is_left_alone(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, PAIR)], 10: [batch(10, PAIR)]})
    (partition / name(11, "snapshot")).unlink()
    with open(partition / name(10, "log"), "ab") as log:
        log.write(bytes(500))
    with pytest.raises(CleaningError, match="its producers' state is not known: ") as refused:
        state_of(partition)
    assert str(refused.value).endswith(f": repair it first: kdump repair {partition} shows the ways")


# --- settings


def cleaning(properties: dict[str, str]) -> CleaningSettings:
    """The view of the cleaner on properties of which nothing else is known."""
    return CleaningSettings.of(TopicSettings.of(properties))


def test_settings_are_those_of_the_topic_before_the_servers() -> None:
    config = cleaning(
        {
            "log.cleanup.policy": "delete",
            "cleanup.policy": "compact,delete",
            "log.cleaner.min.cleanable.ratio": "0.2",
            "min.cleanable.dirty.ratio": "0.3",
            "log.segment.bytes": "1000",
            "message.max.bytes": "777",
            "log.index.interval.bytes": "5",
            "unknown": "x",
        }
    )
    assert config.policies == frozenset({"compact", "delete"})
    assert config.default_policies == frozenset({"delete"})
    assert (config.min_cleanable_ratio, config.segment_bytes) == (0.3, 1000)
    assert (config.max_message_bytes, config.broker_message_bytes) == (777, 777)
    assert config.loading == LoadingSettings(index_interval_bytes=5)


def test_threads_share_memory_and_buffers() -> None:
    config = cleaning(
        {
            "log.cleaner.threads": "2",
            "log.cleaner.io.buffer.size": "4000",
            "log.cleaner.dedupe.buffer.size": "4800",
            "log.cleaner.io.buffer.load.factor": "0.75",
        }
    )
    assert (config.buffer_bytes, config.map_bytes, config.map_slots, config.map_keys) == (1000, 2400, 100, 75)
    default = CleaningSettings()
    assert (default.map_slots, default.map_keys, default.buffer_bytes) == (5592405, 5033164, 262144)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "shred"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "half"),
        ("delete.retention.ms", "-1"),
        ("segment.bytes", "13"),
        ("log.cleaner.dedupe.buffer.size", "23"),
        ("log.cleaner.dedupe.buffer.size", "25"),
        ("log.cleaner.io.buffer.size", "33"),
    ],
)
def test_settings_that_kafka_would_not_take(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        cleaning({key: value})


@pytest.mark.parametrize(
    ("given", "value"),
    [("log.cleaner.min.cleanable.ratio", "half"), ("log.segment.bytes", "3"), ("segment.bytes", "3")],
)
def test_a_bad_setting_is_named_as_it_is_given(given: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cleaning({given: value})
    assert str(caught.value).startswith(f"{given} is '{value}': expected a number")


@pytest.mark.parametrize(
    ("properties", "topic", "was_cleaned", "is_named", "why"),
    [
        ({}, "t", False, False, "not known to be compacted"),
        ({}, "t", False, True, ""),
        ({}, "t", True, False, ""),
        ({}, "__consumer_offsets", False, False, ""),
        ({"cleanup.policy": "delete"}, "__consumer_offsets", False, False, ""),
        ({"cleanup.policy": "delete"}, "t", True, True, "cleanup.policy is delete"),
        ({"cleanup.policy": "compact"}, "t", False, False, ""),
        ({"log.cleanup.policy": "delete"}, "t", False, True, "log.cleanup.policy is delete"),
        ({"log.cleanup.policy": "delete"}, "t", True, False, ""),
        ({"log.cleanup.policy": "compact"}, "t", False, False, ""),
        ({"cleanup.policy": ""}, "t", True, True, "cleanup.policy is empty: "),
    ],
)
def test_which_partitions_are_for_the_cleaner(
    properties: dict[str, str], topic: str, was_cleaned: bool, is_named: bool, why: str
) -> None:
    settings = Settings(files=[PropertyFile("server.properties", None, properties)])
    found = not_compacted(CleaningSettings.of(settings.of(topic)), was_cleaned=was_cleaned, is_named=is_named)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_the_state_depends_on_the_clock_for_nothing_else(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    assert state_of(partition, now=NOW).limits == state_of(partition, now=10 * NOW).limits


def test_a_checkpoint_at_an_end_of_the_log_counts(tmp_path: Path) -> None:
    at_end = state_of(build(tmp_path / "end", SEGMENTS, checkpoint=21))
    assert (at_end.first_dirty_offset, at_end.reset) == (21, "")
    assert (at_end.first_uncleanable_offset, at_end.cleanable_size, at_end.is_due(CONFIG)) == (20, 0, False)
    at_start = state_of(build(tmp_path / "start", SEGMENTS, checkpoint=0))
    assert (at_start.first_dirty_offset, at_start.reset) == (0, "")


def test_of_a_transaction_that_begins_at_the_high_watermark_nothing_is_known(tmp_path: Path) -> None:
    segments = {0: [batch(0, PAIR)], 10: [in_txn(10, 7, PAIR), batch(11, PAIR)]}
    state = state_of(build(tmp_path / "at", segments, high_watermark=10))
    assert state.limits == (Limit(HIGH_WATERMARK, 10), Limit(ACTIVE, 10))
    state = state_of(build(tmp_path / "behind", segments, high_watermark=11))
    assert state.limits == (Limit(TRANSACTION, 10, 7), Limit(ACTIVE, 10), Limit(HIGH_WATERMARK, 11))
    assert state.last_stable_offset == 10


def test_without_a_lag_the_future_is_no_limit(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS)
    assert state_of(partition, CONFIG._replace(min_compaction_lag_ms=0), 5).limits == (Limit(ACTIVE, 20),)
    assert state_of(partition, CONFIG._replace(min_compaction_lag_ms=1), 20).limits[0] == Limit(LAG, 10, until=21)


def test_what_is_overdue_is_not_due_where_nothing_can_be_cleaned(tmp_path: Path) -> None:
    config = CONFIG._replace(min_cleanable_ratio=1.0, max_compaction_lag_ms=1000)
    state = state_of(build(tmp_path, SEGMENTS, high_watermark=0), config, 5000)
    assert (state.overdue_since, state.cleanable_size, state.is_due(config)) == (1010, 0, False)


def test_the_first_batch_with_a_time_tells_since_when_it_is_overdue(tmp_path: Path) -> None:
    """Neither one from the beginning of all times, nor a segment of which the cleaner left nothing."""
    config = CONFIG._replace(max_compaction_lag_ms=1000)
    segments = {
        0: [batch(0, PAIR, timestamp=0)],
        10: [],
        20: [batch(20, PAIR, timestamp=1), batch(21, PAIR, timestamp=-1)],
        30: [batch(30, PAIR, timestamp=5)],
        40: [batch(40, PAIR, timestamp=50)],
    }
    assert state_of(build(tmp_path / "some", segments), config, 5000).overdue_since == 1001
    none = {0: segments[0], 10: [], 40: segments[40]}
    assert state_of(build(tmp_path / "none", none), config, 5000).overdue_since is None


@pytest.mark.parametrize(("later", "is_known"), [(DAY - 1, True), (DAY, False)])
def test_a_producer_expires_unless_it_has_a_transaction_open(tmp_path: Path, later: int, is_known: bool) -> None:
    """As in ProducerStateManager.isProducerExpired."""
    plain = batch(1, PAIR, timestamp=2000, producer_id=8, producer_epoch=3, base_sequence=0)
    partition = build(tmp_path, {0: [in_txn(0, 7, PAIR, timestamp=2000), plain]}, now=3000)
    for _ in range(2):  # by its snapshot, and by its batches alone
        known = state_of(partition, now=2000 + later).last_records
        assert known == {7: LastRecord(0, 0)} | ({8: LastRecord(1, 3)} if is_known else {})
        (partition / name(2, "snapshot")).unlink(missing_ok=True)


def test_which_segments_lie_between_two_offsets(tmp_path: Path) -> None:
    segments = state_of(build(tmp_path, SEGMENTS)).segments

    def bases(start: int, stop: int) -> list[int]:
        return [each.base_offset for each in between(segments, start, stop)]

    assert [bases(0, 20), bases(0, 21), bases(9, 11), bases(10, 10), bases(15, 15)] == [
        [0, 10],
        [0, 10, 20],
        [0, 10],
        [],
        [],
    ]
    later = segments[1:]
    assert [each.base_offset for each in between(later, 5, 15)] == [10]


def test_a_log_without_segments_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "users-0").mkdir()
    with pytest.raises(CleaningError, match="there is no segment in it"):
        state_of(tmp_path / "users-0")
