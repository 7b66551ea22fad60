"""The configuration of a topic, as far as it decides what an append leaves on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdump.errors import ConfigError
from kdump.formats.codecs import GZIP, LEVELS, LZ4, NAMES, ZSTD
from kdump.formats.java_text import INT_MAX, LONG_MAX, parse_long
from kdump.releases import EMPTY_CLEANUP_POLICY, INDEX_PER_BATCH, NEWEST, KafkaRelease
from kdump.settings.loading import MESSAGE_FORMAT, TopicConfig, record_version

PRODUCER = "producer"
CREATE_TIME, LOG_APPEND_TIME = "CreateTime", "LogAppendTime"

_INDEX_LEAST = 12  # one entry of a time index; with less Kafka cannot make one

_NUMBERS = {
    "segment.bytes": ("segment_bytes", 14, INT_MAX),
    "segment.ms": ("segment_ms", 1, LONG_MAX),
    "segment.jitter.ms": ("segment_jitter_ms", 0, LONG_MAX),
    "segment.index.bytes": ("segment_index_bytes", _INDEX_LEAST, INT_MAX),
    "index.interval.bytes": ("index_interval_bytes", 0, INT_MAX),
    "max.message.bytes": ("max_message_bytes", 0, INT_MAX),
    "max.compaction.lag.ms": ("max_compaction_lag_ms", 1, LONG_MAX),
    "message.timestamp.before.max.ms": ("timestamp_before_max_ms", 0, LONG_MAX),
    "message.timestamp.after.max.ms": ("timestamp_after_max_ms", 0, LONG_MAX),
    "producer.id.expiration.ms": ("producer_id_expiration_ms", 1, INT_MAX),
    "compression.gzip.level": ("gzip_level", *LEVELS[GZIP]),
    "compression.lz4.level": ("lz4_level", *LEVELS[LZ4]),
    "compression.zstd.level": ("zstd_level", *LEVELS[ZSTD]),
}
_POLICIES = frozenset({"delete", "compact"})
_COMPRESSION = {PRODUCER: None, "uncompressed": 0, **{name: codec for codec, name in enumerate(NAMES) if codec}}

_SERVER_NAMES = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.message.bytes": "message.max.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "preallocate": "log.preallocate",
    "cleanup.policy": "log.cleanup.policy",
    MESSAGE_FORMAT: "log.message.format.version",
}

PROPERTIES = frozenset(
    {*_NUMBERS, "message.timestamp.type", "preallocate", "cleanup.policy", "compression.type", MESSAGE_FORMAT}
)
"""The names of all properties that `LogConfig.from_properties` reads."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's configuration with the defaults of Kafka 4; sizes in bytes, times in ms.

    `codec` is the compression.type, None for that of the producer; a level is None for the codec's default.
    `record_version` is the message format (0, 1 or 2) that message.format.version names, which brokers before 4.0
    convert everything to. `index_per_batch`: index entries are counted batch by batch, as by brokers from 4.1 on,
    instead of append by append.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    max_compaction_lag_ms: int = LONG_MAX
    log_append_time: bool = False
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    preallocate: bool = False
    compacted: bool = False
    codec: int | None = None
    gzip_level: int | None = None
    lz4_level: int | None = None
    zstd_level: int | None = None
    record_version: int = 2
    producer_id_expiration_ms: int = 86_400_000
    index_per_batch: bool = True

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], release: KafkaRelease = NEWEST, *, index_per_batch: bool | None = None
    ) -> LogConfig:
        """The configuration with these properties of a topic, or the server's for it where the topic has none.

        `index_per_batch` is the release's own way if not given. Properties of other names do not matter here. Raises
        ConfigError.
        """
        properties = _of_server(properties) | dict(properties)
        values: dict[str, int] = {
            field: _number(name, properties[name], least, most)
            for name, (field, least, most) in _NUMBERS.items()
            if name in properties
        }
        timestamp_type = properties.get("message.timestamp.type", CREATE_TIME)
        if timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
            raise ConfigError(
                f"message.timestamp.type is {timestamp_type!r}: expected {CREATE_TIME} or {LOG_APPEND_TIME}"
            )
        policies = {policy.strip() for policy in properties.get("cleanup.policy", "delete").split(",")}
        if policies == {""} and release.has(EMPTY_CLEANUP_POLICY):
            policies = set()
        if not policies <= _POLICIES:
            raise ConfigError(f"cleanup.policy is {','.join(sorted(policies))!r}: expected delete, compact or both")
        codec = properties.get("compression.type", PRODUCER)
        if codec not in _COMPRESSION:
            raise ConfigError(f"compression.type is {codec!r}: expected one of {', '.join(_COMPRESSION)}")
        version = properties.get(MESSAGE_FORMAT)
        return cls(
            **values,
            log_append_time=timestamp_type == LOG_APPEND_TIME,
            preallocate=_truth("preallocate", properties.get("preallocate", "false")),
            compacted="compact" in policies,
            codec=_COMPRESSION[codec],
            record_version=2 if version is None else record_version(version),
            index_per_batch=release.has(INDEX_PER_BATCH) if index_per_batch is None else index_per_batch,
        )

    @property
    def max_segment_ms(self) -> int:
        """How long (ms) a segment may be active: compaction that is due ends it earlier."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    def level(self, codec: int) -> int | None:
        """The level that batches are compressed with; None for the codec's default."""
        return {GZIP: self.gzip_level, LZ4: self.lz4_level, ZSTD: self.zstd_level}.get(codec)

    def for_loading(self) -> TopicConfig:
        """What the loading of an existing log depends on."""
        return TopicConfig(
            self.index_interval_bytes, self.segment_index_bytes, self.record_version, self.producer_id_expiration_ms
        )


def _of_server(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: properties[server] for name, server in _SERVER_NAMES.items() if server in properties}


def _number(name: str, text: str, least: int, most: int) -> int:
    number = parse_long(text.strip())
    if number is None or not least <= number <= most:
        raise ConfigError(f"{name} is {text!r}: expected a number from {least} to {most}")
    return number


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}: expected true or false")
    return word == "true"
