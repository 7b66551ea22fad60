"""The table of Kafka's settings: one text has one value wherever it counts, as Kafka's own classes read it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kdump.errors import ConfigError
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.releases import KafkaRelease
from kdump.settings import cleaning, loading, retention, writing
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.settings.names import OPEN_NAMES, PREFIX_NAMES, is_known, notes_on
from kdump.settings.replication import ReplicationSettings
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import PropertyFile, Settings, TopicSettings, with_small_segments
from kdump.settings.start import StartSettings
from kdump.settings.table import (
    BY_NAME,
    CLEANUP_POLICY,
    MESSAGE_FORMAT,
    OFFSETS_RETENTION_MS,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_JITTER_MS,
    SEGMENT_MS,
    SETTINGS,
    SHARE_STATE_SEGMENT_BYTES,
    Setting,
)
from kdump.settings.views import View
from kdump.settings.writing import WritingSettings

VIEWS: tuple[type[View], ...] = (LoadingSettings, WritingSettings, CleaningSettings, RetentionSettings)

# what LogConfig and KafkaConfig of Kafka 3.9.2, 4.0.2 and 4.3.1 make of these texts
TAKEN: tuple[tuple[str, str, Any], ...] = (
    ("cleanup.policy", " compact , delete ", {"compact", "delete"}),
    ("cleanup.policy", "compact,compact", {"compact"}),
    ("cleanup.policy", "", set()),
    ("log.cleanup.policy", "", set()),
    ("preallocate", "True ", True),
    ("message.timestamp.type", "LogAppendTime ", "LogAppendTime"),
    ("segment.bytes", "+1048576", 1048576),
    ("retention.bytes", "-2", -2),
    ("retention.ms", "0", 0),
    ("log.retention.ms", "-5", -1),
    ("log.retention.hours", "-7", -1),
    ("log.retention.hours", "-2147483648", -1),
    ("min.cleanable.dirty.ratio", "5e-1", 0.5),
    ("min.cleanable.dirty.ratio", "0.5f", 0.5),
    ("min.cleanable.dirty.ratio", ".5", 0.5),
    ("compression.gzip.level", "-1", -1),
    ("compression.type", "gzip ", "gzip"),
    ("segment.index.bytes", "4", 4),
    ("local.retention.ms", "999999999999", 999999999999),
)
REFUSED = (
    ("cleanup.policy", "Compact"),
    ("cleanup.policy", "DELETE"),
    ("cleanup.policy", "none"),
    ("cleanup.policy", "compact,"),
    ("cleanup.policy", "compact,,delete"),
    ("log.cleanup.policy", "Compact"),
    ("preallocate", "1"),
    ("message.timestamp.type", "logappendtime"),
    ("segment.bytes", "1_048_576"),
    ("segment.bytes", "1e6"),
    ("retention.ms", "-2"),
    ("log.retention.ms", "0"),
    ("log.retention.minutes", "0"),
    ("log.retention.minutes", "-2147483649"),
    ("log.roll.hours", "x"),
    ("log.roll.hours", "0"),
    ("min.cleanable.dirty.ratio", "1.1"),
    ("min.cleanable.dirty.ratio", "inf"),
    ("min.cleanable.dirty.ratio", "1_0e-2"),
    ("compression.gzip.level", "0"),
    ("compression.type", "none"),
    ("segment.index.bytes", "3"),
    ("message.format.version", "0.5"),
    ("local.retention.ms", "-3"),
    ("producer.id.expiration.ms", "99999999999"),
)


@pytest.mark.parametrize(("name", "text", "value"), TAKEN)
def test_texts_that_kafka_takes(name: str, text: str, value: Any) -> None:
    assert BY_NAME[name].value(text) == value


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_texts_that_kafka_refuses(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(name)} is '{re.escape(text)}': expected "):
        TopicSettings.of({name: text}).check()


@pytest.mark.parametrize(
    ("setting", "properties", "expected"),
    [
        (SEGMENT_MS, {"log.roll.hours": "24"}, 86_400_000),
        (SEGMENT_MS, {"log.roll.hours": "24", "log.roll.ms": "5"}, 5),
        (SEGMENT_MS, {"log.roll.ms": "5", "segment.ms": "6"}, 6),
        (SEGMENT_JITTER_MS, {"log.roll.jitter.hours": "2"}, 7_200_000),
        (RETENTION_MS, {"log.retention.minutes": "3", "log.retention.hours": "2"}, 180_000),
    ],
)
def test_the_servers_names_count_in_kafkas_order(
    setting: Setting[int], properties: dict[str, str], expected: int
) -> None:
    assert TopicSettings.of(properties).get(setting) == expected


def test_a_value_that_does_not_count_is_refused_as_well() -> None:
    with pytest.raises(ConfigError, match=r"^log\.roll\.hours is 'x'"):
        TopicSettings.of({"log.roll.ms": "5", "log.roll.hours": "x"}).check()


def test_every_view_has_kafkas_defaults_and_one_value_for_one_text() -> None:
    """Fields of views that have the same name are the same setting."""
    assert [view.of(TopicSettings()) for view in VIEWS[::2]] == [LoadingSettings(), CleaningSettings()]
    fields: dict[str, Setting[Any]] = {}
    for part, view in zip((loading, writing, cleaning, retention), VIEWS, strict=True):
        for name, setting in part.FIELDS.items():
            assert fields.setdefault(name, setting) is setting
            assert getattr(view.of(TopicSettings()), name) == setting.default


def test_a_default_may_be_that_of_a_release() -> None:
    """LogConfig of 3.9.2 has Long.MAX_VALUE, from 4.0 on it is an hour (KIP-1030)."""
    settings = TopicSettings()
    old, new = KafkaRelease.V3_9_1, KafkaRelease.V4_0
    for view in (WritingSettings, RetentionSettings):
        assert [view.of(settings, each).timestamp_after_max_ms for each in (old, new)] == [2**63 - 1, 3_600_000]
        given = TopicSettings.of({"log.message.timestamp.after.max.ms": "5"})
        assert view.of(given, old).timestamp_after_max_ms == 5


def test_every_setting_counts_for_some_part() -> None:
    views: tuple[type[View], ...] = (*VIEWS, ReplicationSettings, StartSettings)
    counting = {setting for view in views for setting in view.counting()}
    left = {setting.name for setting in SETTINGS if setting not in counting}
    assert left == {
        "transaction.max.timeout.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "transaction.state.log.num.partitions",
        "share.coordinator.state.topic.num.partitions",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "message.downconversion.enable",
        "message.timestamp.difference.max.ms",
    }


def test_the_releases_that_have_a_setting() -> None:
    old, v4_0, v4_1 = KafkaRelease.V3_9, KafkaRelease.V4_0, KafkaRelease.V4_1
    assert [setting.is_in(old) for setting in (SEGMENT_BYTES, MESSAGE_FORMAT, SHARE_STATE_SEGMENT_BYTES)] == [
        True, True, False,
    ]  # fmt: skip
    assert [setting.is_in(v4_0) for setting in (SEGMENT_BYTES, MESSAGE_FORMAT, SHARE_STATE_SEGMENT_BYTES)] == [
        True, False, True,
    ]  # fmt: skip
    own, servers = BY_NAME["segment.bytes"], BY_NAME["log.segment.bytes"]
    assert [own.is_too_small("1048575", release) for release in (old, v4_0, v4_1)] == [False, False, True]
    assert [servers.is_too_small(" 1048575", release) for release in (old, v4_0, v4_1)] == [False, True, True]
    assert not own.is_too_small("1048576", v4_1)
    assert not BY_NAME["segment.index.bytes"].is_too_small("4", v4_1)
    metadata = BY_NAME["metadata.log.segment.bytes"]
    assert [metadata.is_too_small("8388607", release) for release in (old, v4_0, v4_1)] == [True, True, True]
    assert not metadata.is_too_small("8388608", v4_1)
    topics = [("a", {"segment.bytes": "5"}), ("b", {}), ("c", {"segment.bytes": "x"})]
    assert list(with_small_segments(topics, v4_1)) == ["a"]


def test_a_setting_that_only_servers_have_may_have_a_unit() -> None:
    assert TopicSettings.of({"offsets.retention.minutes": "3"}).get(OFFSETS_RETENTION_MS) == 180_000
    assert TopicSettings().get(OFFSETS_RETENTION_MS) == 7 * 24 * 3600 * 1000


def test_segments_of_a_brokers_own_topics_are_as_large_as_the_server_says() -> None:
    def size(settings: Settings, topic: str) -> int:
        return WritingSettings.of(settings.of(topic)).segment_bytes

    assert size(Settings(), "__consumer_offsets") == 100 << 20
    assert size(Settings(), "__remote_log_metadata") == 1 << 30
    cluster = {(4, ""): {"transaction.state.log.segment.bytes": "5000", "log.segment.bytes": "6000"}}
    assert size(Settings(cluster), "__transaction_state") == 5000
    assert size(Settings(cluster), "orders") == 6000


def test_the_metadata_has_what_a_topic_was_created_with() -> None:
    """Kafka 4.0 creates __share_group_state without retention.ms: its records go after seven days."""
    topic = "__share_group_state"
    created = {(TOPIC_RESOURCE, topic): {"cleanup.policy": "delete", "segment.bytes": "104857600"}}
    assert Settings().of(topic).get(RETENTION_MS) == -1
    assert Settings(created).of(topic).get(RETENTION_MS) == 7 * 24 * 3600 * 1000


def test_files_for_all_topics_count_for_a_brokers_own_but_do_not_decide_what_those_keep() -> None:
    given = {"index.interval.bytes": "7", "segment.bytes": "5000", "cleanup.policy": "delete", "retention.ms": "1"}
    found = Settings(files=(PropertyFile("f", None, given),)).of("__consumer_offsets")
    assert LoadingSettings.of(found).index_interval_bytes == 7
    assert CleaningSettings.of(found).segment_bytes == 5000
    assert CleaningSettings.of(found).is_compacted
    assert RetentionSettings.of(found).retention_ms == RETENTION_MS.default


def test_the_metadata_log_has_kafkas_defaults_whatever_the_server_has() -> None:
    """With 3.9.2 and 4.3.1: log.index.interval.bytes=1 and log.index.size.max.bytes=1024 made no difference to it."""
    given = {"log.index.interval.bytes": "7", "log.retention.ms": "1", "log.index.size.max.bytes": "1024"}
    found = Settings({(4, ""): {"log.index.interval.bytes": "9"}}, files=(PropertyFile("f", None, given),))
    assert LoadingSettings.of(found.of("__cluster_metadata")) == LoadingSettings()
    assert RetentionSettings.of(found.of("__cluster_metadata")).retention_ms == -1
    own_names = PropertyFile("f", None, {"index.interval.bytes": "5"})
    assert LoadingSettings.of(Settings(files=(own_names,)).of("__cluster_metadata")).index_interval_bytes == 5
    named = PropertyFile("f", "__cluster_metadata", {"index.interval.bytes": "5"})
    assert LoadingSettings.of(Settings(files=(named,)).of("__cluster_metadata")).index_interval_bytes == 5


UNKNOWN = "is not known to this kdump (newest: Kafka 4.4)"


def test_names_that_do_not_count_are_noted() -> None:
    notes = list(
        notes_on(
            {
                "log.retention.hour": "1",
                "my.own.plugin": "x",
                "message.timestamp.difference.max.ms": "5",
                "log.flush.interval.ms": "1000",
                "segment.bytes": "2000000",
                "log.retention.hours": "168",
                "retention.ms": "5",
                "listeners": "x",
            },
            RetentionSettings.counting(),
        )
    )
    assert notes == [
        f"log.retention.hour {UNKNOWN}: not used. Did you mean 'log.retention.hours'?",
        "message.timestamp.difference.max.ms is not used: Kafka 4.0 replaced it by message.timestamp.before.max.ms and"
        " message.timestamp.after.max.ms",
        "not known to this kdump (newest: Kafka 4.4), not used: my.own.plugin",
        "not used here: log.flush.interval.ms, segment.bytes",
    ]


def test_names_of_plugins_are_one_note() -> None:
    known = {"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}  # StandardAuthorizer's
    assert list(notes_on(known, RetentionSettings.counting())) == []
    strange = {f"my.plugin.{number}": "x" for number in range(7)}
    said = ", ".join(list(strange)[:5])
    notes = list(notes_on(known | strange, RetentionSettings.counting()))
    assert notes == [f"not known to this kdump (newest: Kafka 4.4), not used: {said} and 2 more"]


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("num.partitons", ": not used. Did you mean 'num.partitions'?"),
        ("offsets.retention.minuts", ": not used. Did you mean 'offsets.retention.minutes'?"),
        ("zookeper.connect", ": not used. Did you mean 'zookeeper.connect'?"),
    ],
)
def test_a_typo_in_any_name_is_noted_with_the_name(name: str, note: str) -> None:
    assert list(notes_on({name: "1"}, RetentionSettings.counting())) == [f"{name} {UNKNOWN}{note}"]


def test_what_only_begins_as_names_of_kafka_do_is_none_of_them() -> None:
    [note] = notes_on({"group.foo.bar": "1", "alter.nonsense": "1"}, RetentionSettings.counting())
    assert note == "not known to this kdump (newest: Kafka 4.4), not used: group.foo.bar, alter.nonsense"


def test_names_that_plugins_and_listeners_make_are_known() -> None:
    given = {
        "listener.name.internal.ssl.keystore.location": "k",
        "rsm.config.bucket": "b",
        "remote.log.storage.manager.impl.prefix": "tiers.",
        "tiers.bucket": "b",
    }
    assert list(notes_on(given, RetentionSettings.counting())) == []


def test_what_a_newer_release_has_is_not_known_and_no_typo() -> None:
    known = {"max.decompressed.message.bytes": "1", "remote.copy.lag.ms": "1", "group.streams.assignors": "sticky"}
    assert list(notes_on(known, ())) == ["not used here: max.decompressed.message.bytes"]
    [note] = notes_on({"retention.tiers.of.kafka.5": "1"}, ())
    assert note == "not known to this kdump (newest: Kafka 4.4), not used: retention.tiers.of.kafka.5"


def test_every_setting_of_the_table_is_kafkas() -> None:
    assert all(is_known(name) for name in (*BY_NAME, *PREFIX_NAMES, *OPEN_NAMES))


def test_the_policy_has_one_spelling() -> None:
    assert TopicSettings.of({"cleanup.policy": "compact"}).own(CLEANUP_POLICY) == frozenset({"compact"})


def test_what_coordinators_go_by_is_skipped_where_logs_matter() -> None:
    found = {"offsets.topic.num.partitions": "4", "transaction.max.timeout.ms": "5", "log.initial.task.delay.ms": "500"}
    assert list(notes_on(found, ())) == ["not used here: log.initial.task.delay.ms"]
