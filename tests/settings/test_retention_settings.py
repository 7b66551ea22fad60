"""Settings: names for topics and servers, which one wins, and whose they are."""

from __future__ import annotations

import pytest

from kdump.errors import ConfigError
from kdump.settings.loading import LoadingSettings
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import (
    BUILT_IN,
    CLEANER,
    COMMAND_LINE,
    DEFAULTS,
    METADATA,
    PropertyFile,
    Settings,
    TopicSettings,
)


def retention(properties: dict[str, str]) -> RetentionSettings:
    """The view of retention on properties of which nothing else is known."""
    return RetentionSettings.of(TopicSettings.of(properties))._replace(sources=(DEFAULTS,))


def of(settings: Settings, topic: str, *, was_cleaned: bool = False) -> RetentionSettings:
    """The view of retention on a topic."""
    return RetentionSettings.of(settings.of(topic, was_cleaned=was_cleaned))


def test_kafkas_defaults() -> None:
    assert retention({}) == RetentionSettings(
        retention_ms=604_800_000, retention_bytes=-1, delete_retention_ms=86_400_000, deletes=True, compacts=False
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "4", "retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": " -1 "}, -1),
        ({"retention.ms": "0"}, 0),
    ],
)
def test_a_server_has_three_ways_to_say_how_long(properties: dict[str, str], expected: int) -> None:
    assert retention(properties).retention_ms == expected


def test_all_settings_by_the_names_of_a_server() -> None:
    config = retention(
        {
            "log.cleanup.policy": "compact, delete",
            "log.retention.bytes": "10",
            "log.cleaner.delete.retention.ms": "11",
            "log.local.retention.ms": "12",
            "log.local.retention.bytes": "13",
            "log.message.timestamp.type": "LogAppendTime",
            "log.message.timestamp.after.max.ms": "14",
            "log.retention.check.interval.ms": "15",
            "remote.storage.enable": "TRUE",
        }
    )
    assert config == RetentionSettings(
        604_800_000, 10, 11, True, True, True, 12, 13, True, 14, 15, LoadingSettings(has_remote_storage=True)
    )
    assert config.policy == "compact,delete"
    assert (config.time_limit_ms, config.time_name) == (12, "local.retention.ms")
    assert (config.size_limit, config.size_name) == (13, "local.retention.bytes")


def test_an_empty_policy_deletes_nothing() -> None:
    config = retention({"cleanup.policy": ""})
    assert (config.deletes, config.compacts, config.policy) == (False, False, "none")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"retention.ms": "a day"}, "retention.ms is 'a day'"),
        ({"log.retention.hours": "x"}, "log.retention.hours is 'x'"),
        ({"delete.retention.ms": "-1"}, "delete.retention.ms is '-1'"),
        ({"log.retention.bytes": "9" * 30}, "log.retention.bytes is"),
        ({"cleanup.policy": "shrink"}, "cleanup.policy is 'shrink'"),
        ({"message.timestamp.type": "Never"}, "message.timestamp.type is 'Never'"),
        ({"remote.storage.enable": "maybe"}, "remote.storage.enable is 'maybe'"),
    ],
)
def test_values_that_kafka_would_not_take(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        retention(properties)


CLUSTER = {
    (4, ""): {"log.retention.ms": "1000"},
    (4, "7"): {"log.retention.bytes": "77"},
    (4, "8"): {"log.retention.bytes": "88"},
    (2, "orders"): {"retention.ms": "2000", "cleanup.policy": "delete"},
}


def test_layers_from_the_metadata_log_to_the_command_line() -> None:
    server = PropertyFile("server.properties", None, {"log.retention.ms": "3000", "log.retention.bytes": "5"})
    topic = PropertyFile("orders.properties", "ord*", {"retention.ms": "4000"})
    settings = Settings(CLUSTER, 7, (server,))
    orders = of(settings, "orders")
    assert (orders.retention_ms, orders.retention_bytes) == (2000, 5)
    assert orders.sources == (METADATA, "server.properties")
    assert of(settings, "clicks").retention_ms == 3000
    clicks = of(Settings(CLUSTER, 7), "clicks")
    assert (clicks.retention_ms, clicks.retention_bytes) == (1000, 77)
    assert of(Settings(CLUSTER, 7, (topic, server)), "orders").retention_ms == 4000
    given = of(Settings(CLUSTER, 7, (topic, server), {"retention.ms": "6000"}), "orders")
    assert given.retention_ms == 6000
    assert given.sources[-1] == COMMAND_LINE


def test_what_nothing_is_said_of_has_the_defaults_and_is_not_known() -> None:
    found = of(Settings(), "orders")
    assert found.sources == (DEFAULTS,)
    assert not found.is_known
    assert not of(Settings(given={"delete.retention.ms": "5"}), "orders").is_known
    assert of(Settings(given={"retention.bytes": "5"}), "orders").is_known
    assert of(Settings(files=(PropertyFile("server.properties", None, {}),)), "orders").is_known


def test_what_the_cleaner_has_been_at_is_compacted_unless_its_own_policy_is_known() -> None:
    server = PropertyFile("server.properties", None, {"log.cleanup.policy": "delete"})
    found = of(Settings(files=(server,)), "clicks", was_cleaned=True)
    assert found.policy == "compact"
    assert CLEANER in found.sources
    assert of(Settings(CLUSTER), "orders", was_cleaned=True).policy == "delete"
    assert of(Settings(given={"cleanup.policy": "delete"}), "clicks", was_cleaned=True).policy == "delete"


def test_a_brokers_own_topics_are_as_it_creates_them() -> None:
    meant_for_others = PropertyFile("a", None, {"cleanup.policy": "delete", "retention.ms": "1"})
    all_topics = PropertyFile("b", "*", {"cleanup.policy": "delete", "retention.ms": "1"})
    settings = Settings(files=(meant_for_others, all_topics), given={"cleanup.policy": "delete", "retention.ms": "1"})
    assert of(settings, "__consumer_offsets").policy == "compact"
    assert of(settings, "__consumer_offsets").sources == (BUILT_IN,)
    assert of(settings, "__remote_log_metadata").retention_ms == -1
    assert of(Settings(given={"delete.retention.ms": "5"}), "__consumer_offsets").delete_retention_ms == 5
    named = PropertyFile("c", "__consumer_offsets", {"cleanup.policy": "delete"})
    assert of(Settings(files=(named,)), "__consumer_offsets").policy == "delete"
    in_cluster = {(2, "__consumer_offsets"): {"cleanup.policy": "compact,delete"}}
    assert of(Settings(in_cluster), "__consumer_offsets").deletes
