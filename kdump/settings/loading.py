"""What log loading depends on besides the files: how the broker stopped, checkpoints, clock, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdump.errors import ConfigError
from kdump.formats.java_text import INT_MAX, LONG_MAX, parse_long

OLDEST_EPOCH_FORMAT = 2
"""The lowest record version with leader epochs and producer state."""

INDEX_INTERVAL = "index.interval.bytes"
SEGMENT_INDEX = "segment.index.bytes"
MESSAGE_FORMAT = "message.format.version"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
REMOTE_STORAGE = "remote.storage.enable"

_SERVER_NAMES = {
    INDEX_INTERVAL: "log.index.interval.bytes",
    SEGMENT_INDEX: "log.index.size.max.bytes",
    MESSAGE_FORMAT: "log.message.format.version",
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic (and one of the broker's) that decide what loading leaves behind; Kafka's defaults.

    `record_version` is 0, 1 or 2: the format that message.format.version names, whatever format the data has.
    `remote_storage`: the topic is tiered, so its log start offset may lie before its first segment.
    """

    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10485760
    record_version: int = OLDEST_EPOCH_FORMAT
    producer_id_expiration_ms: int = 86400000
    remote_storage: bool = False

    @property
    def has_epochs(self) -> bool:
        """Whether the format of the topic has leader epochs."""
        return self.record_version >= OLDEST_EPOCH_FORMAT


def topic_config(properties: Mapping[str, str]) -> TopicConfig:
    """The settings in a server.properties or a topic's properties; a topic's name wins over the server's for it.

    Properties of other names are of no importance. Raises ConfigError.
    """
    default = TopicConfig()
    version = properties.get(_given_name(properties, MESSAGE_FORMAT))
    remote = properties.get(REMOTE_STORAGE, "false").strip().lower()
    if remote not in ("true", "false"):
        raise ConfigError(f"{REMOTE_STORAGE} is {remote!r}: expected true or false")
    return TopicConfig(
        _number(properties, INDEX_INTERVAL, default.index_interval_bytes, 0, INT_MAX),
        _number(properties, SEGMENT_INDEX, default.segment_index_bytes, 4, INT_MAX),
        default.record_version if version is None else record_version(version),
        _number(properties, PRODUCER_EXPIRATION, default.producer_id_expiration_ms, 1, LONG_MAX),
        remote == "true",
    )


def record_version(release: str) -> int:
    """The record format of a message.format.version such as 0.10.2, 2.8-IV1 or 3.0. Raises ConfigError."""
    parts = release.strip().partition("-")[0].split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f"{MESSAGE_FORMAT} is {release!r}: expected a Kafka release such as 0.10.2 or 2.8")
    major, minor = int(parts[0][:9]), int(parts[1][:9])
    if major > 0 or minor >= 11:
        return 2
    return 1 if minor == 10 else 0


def _given_name(properties: Mapping[str, str], name: str) -> str:
    """The name under which a setting of a topic is given: its own, or the server's."""
    return name if name in properties else _SERVER_NAMES.get(name, name)


def _number(properties: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    given = _given_name(properties, name)
    text = properties.get(given)
    if text is None:
        return default
    number = parse_long(text.strip())
    if number is None or not least <= number <= most:
        raise ConfigError(f"{given} is {text!r}: expected a number from {least} to {most}")
    return number
