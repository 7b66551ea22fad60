"""Settings: names for topics and servers, which one wins, and whose they are."""

from __future__ import annotations

import pytest

from kdump.errors import ConfigError
from kdump.settings.retention import RetentionConfig, retention_config
from kdump.settings.sources import BUILT_IN, CLEANER, COMMAND_LINE, DEFAULTS, METADATA, PropertyFile, Settings


def test_kafkas_defaults() -> None:
    assert retention_config({}) == RetentionConfig(
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
    assert retention_config(properties).retention_ms == expected


def test_all_settings_by_the_names_of_a_server() -> None:
    config = retention_config(
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
    assert config == RetentionConfig(604_800_000, 10, 11, True, True, True, 12, 13, True, 14, 15)
    assert config.policy == "compact,delete"
    assert (config.time_limit_ms, config.time_name) == (12, "local.retention.ms")
    assert (config.size_limit, config.size_name) == (13, "local.retention.bytes")


def test_an_empty_policy_deletes_nothing() -> None:
    config = retention_config({"cleanup.policy": ""})
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
        retention_config(properties)


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
    orders = settings.of("orders")
    assert (orders.config.retention_ms, orders.config.retention_bytes) == (2000, 5)
    assert orders.sources == (METADATA, "server.properties")
    assert settings.of("clicks").config.retention_ms == 3000
    assert Settings(CLUSTER, 7).of("clicks").config == RetentionConfig(1000, 77)
    assert Settings(CLUSTER, 7, (topic, server)).of("orders").config.retention_ms == 4000
    given = Settings(CLUSTER, 7, (topic, server), {"retention.ms": "6000"}).of("orders")
    assert given.config.retention_ms == 6000
    assert given.sources[-1] == COMMAND_LINE


def test_what_nothing_is_said_of_has_the_defaults_and_is_not_known() -> None:
    found = Settings().of("orders")
    assert found.sources == (DEFAULTS,)
    assert not found.is_known
    assert not Settings(given={"delete.retention.ms": "5"}).of("orders").is_known
    assert Settings(given={"retention.bytes": "5"}).of("orders").is_known
    assert Settings(files=(PropertyFile("server.properties", None, {}),)).of("orders").is_known


def test_what_the_cleaner_has_been_at_is_compacted_unless_its_own_policy_is_known() -> None:
    server = PropertyFile("server.properties", None, {"log.cleanup.policy": "delete"})
    found = Settings(files=(server,)).of("clicks", was_cleaned=True)
    assert found.config.policy == "compact"
    assert CLEANER in found.sources
    assert Settings(CLUSTER).of("orders", was_cleaned=True).config.policy == "delete"
    assert Settings(given={"cleanup.policy": "delete"}).of("clicks", was_cleaned=True).config.policy == "delete"


def test_a_brokers_own_topics_are_as_it_creates_them() -> None:
    meant_for_others = PropertyFile("a", None, {"cleanup.policy": "delete", "retention.ms": "1"})
    all_topics = PropertyFile("b", "*", {"cleanup.policy": "delete", "retention.ms": "1"})
    settings = Settings(files=(meant_for_others, all_topics), given={"cleanup.policy": "delete", "retention.ms": "1"})
    assert settings.of("__consumer_offsets").config.policy == "compact"
    assert settings.of("__consumer_offsets").sources == (BUILT_IN,)
    assert settings.of("__remote_log_metadata").config.retention_ms == -1
    assert Settings(given={"delete.retention.ms": "5"}).of("__consumer_offsets").config.delete_retention_ms == 5
    named = PropertyFile("c", "__consumer_offsets", {"cleanup.policy": "delete"})
    assert Settings(files=(named,)).of("__consumer_offsets").config.policy == "delete"
    in_cluster = {(2, "__consumer_offsets"): {"cleanup.policy": "compact,delete"}}
    assert Settings(in_cluster).of("__consumer_offsets").config.deletes
