"""What an append goes by."""

from __future__ import annotations

from typing import Any, NamedTuple

from kdump.errors import ConfigError
from kdump.formats.batch import TimestampType
from kdump.formats.codecs import GZIP, LZ4, ZSTD
from kdump.releases import INDEX_PER_BATCH, NEWEST, KafkaRelease
from kdump.settings import table
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import TopicSettings
from kdump.settings.table import COMPACT, Setting
from kdump.settings.views import Fields, values_of

_MIN_INDEX_BYTES = 12  # one entry of a time index
FIELDS: Fields = {
    "segment_bytes": table.SEGMENT_BYTES,
    "segment_ms": table.SEGMENT_MS,
    "segment_jitter_ms": table.SEGMENT_JITTER_MS,
    "segment_index_bytes": table.SEGMENT_INDEX_BYTES,
    "index_interval_bytes": table.INDEX_INTERVAL_BYTES,
    "max_message_bytes": table.MAX_MESSAGE_BYTES,
    "max_compaction_lag_ms": table.MAX_COMPACTION_LAG_MS,
    "timestamp_before_max_ms": table.TIMESTAMP_BEFORE_MAX_MS,
    "timestamp_after_max_ms": table.TIMESTAMP_AFTER_MAX_MS,
    "preallocate": table.PREALLOCATE,
    "record_version": table.MESSAGE_FORMAT,
    "producer_id_expiration_ms": table.PRODUCER_EXPIRATION_MS,
    "lz4_level": table.LZ4_LEVEL,
    "zstd_level": table.ZSTD_LEVEL,
}


class WritingSettings(NamedTuple):
    """The settings that decide what an append leaves on disk.

    `codec` is the compression.type, None for that of the producer; a level is None for the codec's default.
    `record_version` is the message format (0, 1 or 2) that message.format.version names, which brokers before 4.0
    convert everything to. `index_per_batch`: index entries are counted batch by batch, as by brokers from 4.1 on,
    instead of append by append.
    """

    segment_bytes: int = table.SEGMENT_BYTES.default
    segment_ms: int = table.SEGMENT_MS.default
    segment_jitter_ms: int = table.SEGMENT_JITTER_MS.default
    segment_index_bytes: int = table.SEGMENT_INDEX_BYTES.default
    index_interval_bytes: int = table.INDEX_INTERVAL_BYTES.default
    max_message_bytes: int = table.MAX_MESSAGE_BYTES.default
    max_compaction_lag_ms: int = table.MAX_COMPACTION_LAG_MS.default
    is_append_time: bool = False
    timestamp_before_max_ms: int = table.TIMESTAMP_BEFORE_MAX_MS.default
    timestamp_after_max_ms: int = table.TIMESTAMP_AFTER_MAX_MS.default
    preallocate: bool = False
    compacted: bool = False
    codec: int | None = None
    gzip_level: int | None = None
    lz4_level: int | None = None
    zstd_level: int | None = None
    record_version: int = table.MESSAGE_FORMAT.default
    producer_id_expiration_ms: int = table.PRODUCER_EXPIRATION_MS.default
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""
        return (
            *FIELDS.values(), table.GZIP_LEVEL, table.TIMESTAMP_TYPE, table.CLEANUP_POLICY, table.COMPRESSION_TYPE
        )  # fmt: skip

    @classmethod
    def of(
        cls, settings: TopicSettings, release: KafkaRelease = NEWEST, *, index_per_batch: bool | None = None
    ) -> WritingSettings:
        """Take them out of a topic's settings; `index_per_batch` is the release's own way if not given.

        Raises ConfigError.
        """
        values = values_of(FIELDS, settings, release)
        if values["segment_index_bytes"] < _MIN_INDEX_BYTES:
            name, size = table.SEGMENT_INDEX_BYTES.name, values["segment_index_bytes"]
            text = f"{name} is {size}: Kafka cannot make a time index of less than {_MIN_INDEX_BYTES} bytes"
            raise ConfigError(text, name)
        level = settings.get(table.GZIP_LEVEL)
        return cls(
            **values,
            gzip_level=None if level < 0 else level,
            is_append_time=settings.get(table.TIMESTAMP_TYPE) == TimestampType.LOG_APPEND_TIME,
            compacted=COMPACT in settings.get(table.CLEANUP_POLICY),
            codec=table.COMPRESSION[settings.get(table.COMPRESSION_TYPE)],
            index_per_batch=release.has(INDEX_PER_BATCH) if index_per_batch is None else index_per_batch,
        )

    @property
    def max_segment_ms(self) -> int:
        """How long (ms) a segment may be active: compaction that is due ends it earlier."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    def level(self, codec: int) -> int | None:
        """Return the level that batches are compressed with; None for the codec's default."""
        return {GZIP: self.gzip_level, LZ4: self.lz4_level, ZSTD: self.zstd_level}.get(codec)

    @property
    def loading(self) -> LoadingSettings:
        """What the loading of an existing log depends on."""
        return LoadingSettings(
            self.index_interval_bytes,
            self.segment_index_bytes,
            self.record_version,
            self.producer_id_expiration_ms,
            index_per_batch=self.index_per_batch,
        )


TOPIC_PROPERTIES = frozenset(setting.name for setting in WritingSettings.counting())
"""The names of a topic's properties that decide what an append leaves on disk."""
