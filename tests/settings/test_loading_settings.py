"""What is read out of server.properties and topic properties."""

from __future__ import annotations

import pytest

from kdump.errors import ConfigError
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import TopicSettings
from kdump.settings.table import MESSAGE_FORMAT


def loading(properties: dict[str, str]) -> LoadingSettings:
    """The view of loading on properties of which nothing else is known."""
    return LoadingSettings.of(TopicSettings.of(properties))


def test_without_properties_kafkas_defaults_hold() -> None:
    assert loading({}) == LoadingSettings(4096, 10485760, 2, 86400000, False)


def test_names_of_the_server() -> None:
    found = loading(
        {
            "log.index.interval.bytes": "1",
            "log.index.size.max.bytes": "96",
            "log.message.format.version": "0.10.2-IV0",
            "producer.id.expiration.ms": "5",
            "log.dirs": "/data",
        }
    )
    assert found == LoadingSettings(1, 96, 1, 5, False)
    assert not found.has_epochs


def test_the_topics_name_wins_over_the_servers() -> None:
    found = loading({"log.index.interval.bytes": "1", "index.interval.bytes": "2", "remote.storage.enable": "true"})
    assert found.index_interval_bytes == 2
    assert found.has_remote_storage


@pytest.mark.parametrize(
    ("release", "version"),
    [("0.8.2", 0), ("0.9.0", 0), ("0.10.0-IV1", 1), ("0.10.2", 1), ("0.11.0", 2), ("2.8", 2), ("3.0-IV1", 2)],
)
def test_record_version_of_a_release(release: str, version: int) -> None:
    assert loading({MESSAGE_FORMAT.name: release}).record_version == version


@pytest.mark.parametrize("release", ["", "2", "latest", "2.x", "-1.0"])
def test_not_a_release(release: str) -> None:
    with pytest.raises(ConfigError, match=r"message\.format\.version"):
        loading({MESSAGE_FORMAT.name: release})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("index.interval.bytes", "-1"),
        ("index.interval.bytes", "2147483648"),
        ("log.index.interval.bytes", "4 KiB"),
        ("segment.index.bytes", "3"),
        ("segment.index.bytes", "10 MB"),
        ("producer.id.expiration.ms", "0"),
        ("remote.storage.enable", "yes"),
    ],
)
def test_values_that_kafka_refuses(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is {value!r}: expected"):
        loading({name: value})
