"""The settings of a topic and of the log cleaner that decide what is cleaned, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kdump.errors import ConfigError
from kdump.formats.java_text import INT_MAX, LONG_MAX, parse_long
from kdump.formats.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kdump.releases import (
    CONVERTS_LEGACY,
    EMPTY_CLEANUP_POLICY,
    INDEX_PER_BATCH,
    LAST_BATCH_BELOW_HIGH_WATERMARK,
    NEWEST,
    KafkaRelease,
)
from kdump.settings.loading import TopicConfig, topic_config

POLICY = "cleanup.policy"
SERVER_POLICY = "log.cleanup.policy"
COMPACT = "compact"
RATIO = "min.cleanable.dirty.ratio"
LOAD_FACTOR = "log.cleaner.io.buffer.load.factor"
MESSAGE_BYTES = "max.message.bytes"
BROKER_MESSAGE_BYTES = "message.max.bytes"

_SERVER_NAMES = {
    RATIO: "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "segment.bytes": "log.segment.bytes",
    MESSAGE_BYTES: BROKER_MESSAGE_BYTES,
}
_ENTRY_BYTES = 24
_LEAST_BUFFER = 34  # two halves that hold the frame of a batch each
_COMPACTED_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
_POLICIES = frozenset({COMPACT, "delete"})


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The settings with Kafka's defaults; times in ms, sizes in bytes.

    `policies` are those of the topic's cleanup.policy, `default_policies` the server's, None where they are not known.
    `max_message_bytes` is the topic's, `broker_message_bytes` the broker's limit. `map_bytes` is the memory for the
    offset map and `buffer_bytes` the size of each of the two buffers of one cleaner thread. `loading` are the settings
    that opening a log depends on. Of the release are `converts_legacy` (batches of format v0 and v1 are rewritten in
    v2), `index_per_batch` (index entries are counted batch by batch, not write by write) and
    `keeps_batch_at_high_watermark` (a batch with nothing left stays where it ends at the high watermark, not where it
    is the last of the round).
    """

    policies: frozenset[str] | None = None
    default_policies: frozenset[str] | None = None
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 1 << 30
    max_message_bytes: int = 1_048_588
    broker_message_bytes: int = 1_048_588
    map_bytes: int = 128 << 20
    buffer_bytes: int = 256 << 10
    load_factor: float = 0.9
    converts_legacy: bool = NEWEST.has(CONVERTS_LEGACY)
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)
    keeps_batch_at_high_watermark: bool = NEWEST.has(LAST_BATCH_BELOW_HIGH_WATERMARK)
    loading: TopicConfig = field(default_factory=TopicConfig)

    @property
    def is_compacted(self) -> bool:
        """Whether the topic's own cleanup.policy says that it is compacted."""
        return self.policies is not None and COMPACT in self.policies

    @property
    def map_slots(self) -> int:
        """The entries that the offset map has room for."""
        return self.map_bytes // _ENTRY_BYTES

    @property
    def map_keys(self) -> int:
        """The different keys that one pass can take."""
        return int(self.map_slots * self.load_factor)


def cleaner_config(
    properties: Mapping[str, str], release: KafkaRelease = NEWEST, *, converts_legacy: bool | None = None
) -> CleanerConfig:
    """The settings in a server.properties or a topic's properties; a topic's name wins over the server's for it.

    `converts_legacy` is the release's own way if not given. Properties of other names are of no importance. Raises
    ConfigError.
    """
    read = _Reader(properties)
    default = CleanerConfig()
    threads = read.number("log.cleaner.threads", 1, 1, INT_MAX)
    buffers = read.number("log.cleaner.io.buffer.size", 2 * default.buffer_bytes, _LEAST_BUFFER, INT_MAX)
    memory = read.number("log.cleaner.dedupe.buffer.size", default.map_bytes, _ENTRY_BYTES, LONG_MAX)
    config = CleanerConfig(
        policies=read.policies(POLICY, release),
        default_policies=read.policies(SERVER_POLICY, release),
        min_cleanable_ratio=read.fraction(RATIO, default.min_cleanable_ratio),
        min_compaction_lag_ms=read.number("min.compaction.lag.ms", 0, 0, LONG_MAX),
        max_compaction_lag_ms=read.number("max.compaction.lag.ms", LONG_MAX, 1, LONG_MAX),
        delete_retention_ms=read.number("delete.retention.ms", default.delete_retention_ms, 0, LONG_MAX),
        segment_bytes=read.number("segment.bytes", default.segment_bytes, 14, INT_MAX),
        max_message_bytes=read.number(MESSAGE_BYTES, default.max_message_bytes, 0, INT_MAX),
        broker_message_bytes=read.number(BROKER_MESSAGE_BYTES, default.broker_message_bytes, 0, INT_MAX),
        map_bytes=min(memory // threads, INT_MAX),
        buffer_bytes=buffers // threads // 2,
        load_factor=read.fraction(LOAD_FACTOR, default.load_factor),
        converts_legacy=release.has(CONVERTS_LEGACY) if converts_legacy is None else converts_legacy,
        index_per_batch=release.has(INDEX_PER_BATCH),
        keeps_batch_at_high_watermark=release.has(LAST_BATCH_BELOW_HIGH_WATERMARK),
        loading=topic_config(properties),
    )
    if config.map_keys < 1:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size is {memory}: for {threads} threads with a load factor of"
            f" {config.load_factor} it has no room for a single key"
        )
    if config.buffer_bytes < _LEAST_BUFFER // 2:
        raise ConfigError(f"log.cleaner.io.buffer.size is {buffers}: too little for {threads} threads")
    return config


class _Reader:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def policies(self, name: str, release: KafkaRelease) -> frozenset[str] | None:
        text = self._properties.get(name)
        if text is None:
            return None
        policies = frozenset(part.strip().lower() for part in text.split(",")) - {""}
        if not policies and not release.has(EMPTY_CLEANUP_POLICY):
            raise ConfigError(f"{name} is empty, which Kafka allows from 4.2 on")
        if not policies <= _POLICIES:
            raise ConfigError(f"{name} is {text!r}: expected compact, delete or both")
        return policies

    def number(self, name: str, default: int, least: int, most: int) -> int:
        given, text = self._given(name)
        if text is None:
            return default
        number = parse_long(text.strip())
        if number is None or not least <= number <= most:
            raise ConfigError(f"{given} is {text!r}: expected a number from {least} to {most}")
        return number

    def fraction(self, name: str, default: float) -> float:
        given, text = self._given(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise ConfigError(f"{given} is {text!r}: expected a number from 0 to 1")
        return value

    def _given(self, name: str) -> tuple[str, str | None]:
        """The name under which a setting is given, its own or the server's, and what it is; None without it."""
        given = name if name in self._properties else _SERVER_NAMES.get(name, name)
        return given, self._properties.get(given)


def not_compacted(config: CleanerConfig, topic: str, *, was_cleaned: bool, is_named: bool) -> str:
    """Why a partition is not one for the cleaner; empty if it is.

    `was_cleaned`: the cleaner's checkpoint has it. `is_named`: it was asked for in particular, so that it counts as
    compacted where nothing else is known.
    """
    if topic in _COMPACTED_TOPICS:
        return ""
    if config.policies is not None:
        return "" if config.is_compacted else f"{POLICY} is {_words(config.policies)}: the cleaner leaves it alone"
    if was_cleaned:
        return ""
    if config.default_policies is not None:
        if COMPACT in config.default_policies:
            return ""
        return f"{SERVER_POLICY} is {_words(config.default_policies)}, and the cleaner's checkpoint does not have it"
    return "" if is_named else f"nothing says that it is compacted: give --config with {POLICY}, or name its directory"


def _words(policies: frozenset[str]) -> str:
    return ",".join(sorted(policies)) or "empty"
