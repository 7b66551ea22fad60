"""What parts of a broker go by, as plain data out of a topic's settings: loading, appending, cleaning, retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol

from kdump.errors import ConfigError
from kdump.formats.codecs import GZIP, LZ4, ZSTD
from kdump.formats.java_text import INT_MAX
from kdump.releases import (
    CONVERTS_LEGACY,
    INDEX_PER_BATCH,
    LAST_BATCH_BELOW_HIGH_WATERMARK,
    NEWEST,
    OFFSET_SEARCH_BY_BASE,
    OFFSET_SEARCH_READS_FOUND,
    SHORT_MARKERS_END,
    KafkaRelease,
)
from kdump.settings import table
from kdump.settings.sources import DEFAULTS, TopicSettings
from kdump.settings.table import COMPACT, DELETE, LIKE_TOTAL, LOG_APPEND_TIME, OLDEST_EPOCH_FORMAT, Setting

_Fields = Mapping[str, Setting[Any]]


class View(Protocol):
    """What a part of a broker goes by; `COUNTING` are the settings that it depends on."""

    COUNTING: ClassVar[tuple[Setting[Any], ...]]

    @classmethod
    def of(cls, settings: TopicSettings) -> Any:
        """Take it out of a topic's settings. Raises ConfigError."""


_INDEX_LEAST = 12  # one entry of a time index
_MAP_ENTRY_BYTES = 24
_FRAME_BYTES = 17


def _values(fields: _Fields, settings: TopicSettings) -> dict[str, Any]:
    return {name: settings.get(setting) for name, setting in fields.items()}


class OffsetSearch(Enum):
    """How a release searches a log for an offset: what it goes by, and whose first offset it reads."""

    BY_LAST = "last offsets"
    BY_LAST_READING_FOUND = "last offsets, and the first one of what is found"
    BY_FIRST = "first offsets"

    @classmethod
    def of(cls, release: KafkaRelease) -> OffsetSearch:
        """Return the way of a release."""
        if release.has(OFFSET_SEARCH_BY_BASE):
            return cls.BY_FIRST
        return cls.BY_LAST_READING_FOUND if release.has(OFFSET_SEARCH_READS_FOUND) else cls.BY_LAST


_NEWEST_SEARCH = OffsetSearch.of(NEWEST)


@dataclass(frozen=True, slots=True)
class LoadingSettings:
    """The settings that decide what loading a log leaves behind.

    `record_version` is 0, 1 or 2: the format that message.format.version names, whatever format the data has.
    `remote_storage`: the topic is tiered, so its log start offset may lie before its first segment.
    `index_per_batch`: segments that are split get index entries batch by batch, as by brokers from 4.1 on, instead of
    one for all batches that are copied at once. `short_markers_end`: an end marker that is too short ends the loading,
    as in brokers from 4.1 on; before it was an invalid record. `offset_search`: which batches of a segment a search for
    an offset asks for their first offsets.
    """

    FIELDS: ClassVar[_Fields] = {
        "index_interval_bytes": table.INDEX_INTERVAL_BYTES,
        "segment_index_bytes": table.SEGMENT_INDEX_BYTES,
        "record_version": table.MESSAGE_FORMAT,
        "producer_id_expiration_ms": table.PRODUCER_EXPIRATION_MS,
        "remote_storage": table.REMOTE_STORAGE,
    }
    COUNTING: ClassVar[tuple[Setting[Any], ...]] = tuple(FIELDS.values())

    index_interval_bytes: int = table.INDEX_INTERVAL_BYTES.default
    segment_index_bytes: int = table.SEGMENT_INDEX_BYTES.default
    record_version: int = table.MESSAGE_FORMAT.default
    producer_id_expiration_ms: int = table.PRODUCER_EXPIRATION_MS.default
    remote_storage: bool = False
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)
    short_markers_end: bool = NEWEST.has(SHORT_MARKERS_END)
    offset_search: OffsetSearch = _NEWEST_SEARCH

    @classmethod
    def of(cls, settings: TopicSettings, release: KafkaRelease = NEWEST) -> LoadingSettings:
        """Take them out of a topic's settings, for the release that starts. Raises ConfigError."""
        return cls(
            **_values(cls.FIELDS, settings),
            index_per_batch=release.has(INDEX_PER_BATCH),
            short_markers_end=release.has(SHORT_MARKERS_END),
            offset_search=OffsetSearch.of(release),
        )

    @property
    def has_epochs(self) -> bool:
        """Whether the format of the topic has leader epochs."""
        return self.record_version >= OLDEST_EPOCH_FORMAT


@dataclass(frozen=True, slots=True)
class WritingSettings:
    """The settings that decide what an append leaves on disk.

    `codec` is the compression.type, None for that of the producer; a level is None for the codec's default.
    `record_version` is the message format (0, 1 or 2) that message.format.version names, which brokers before 4.0
    convert everything to. `index_per_batch`: index entries are counted batch by batch, as by brokers from 4.1 on,
    instead of append by append.
    """

    FIELDS: ClassVar[_Fields] = {
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
    COUNTING: ClassVar[tuple[Setting[Any], ...]] = (
        *FIELDS.values(), table.GZIP_LEVEL, table.TIMESTAMP_TYPE, table.CLEANUP_POLICY, table.COMPRESSION_TYPE
    )  # fmt: skip

    segment_bytes: int = table.SEGMENT_BYTES.default
    segment_ms: int = table.SEGMENT_MS.default
    segment_jitter_ms: int = table.SEGMENT_JITTER_MS.default
    segment_index_bytes: int = table.SEGMENT_INDEX_BYTES.default
    index_interval_bytes: int = table.INDEX_INTERVAL_BYTES.default
    max_message_bytes: int = table.MAX_MESSAGE_BYTES.default
    max_compaction_lag_ms: int = table.MAX_COMPACTION_LAG_MS.default
    log_append_time: bool = False
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

    @classmethod
    def of(
        cls, settings: TopicSettings, release: KafkaRelease = NEWEST, *, index_per_batch: bool | None = None
    ) -> WritingSettings:
        """Take them out of a topic's settings; `index_per_batch` is the release's own way if not given.

        Raises ConfigError.
        """
        values = _values(cls.FIELDS, settings)
        if values["segment_index_bytes"] < _INDEX_LEAST:
            name, size = table.SEGMENT_INDEX_BYTES.name, values["segment_index_bytes"]
            raise ConfigError(f"{name} is {size}: Kafka cannot make a time index of less than {_INDEX_LEAST} bytes")
        level = settings.get(table.GZIP_LEVEL)
        return cls(
            **values,
            gzip_level=None if level < 0 else level,
            log_append_time=settings.get(table.TIMESTAMP_TYPE) == LOG_APPEND_TIME,
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


TOPIC_PROPERTIES = frozenset(setting.name for setting in WritingSettings.COUNTING)
"""The names of a topic's properties that decide what an append leaves on disk."""


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """The settings of a topic and of the log cleaner that decide what is cleaned, and what comes out.

    `policies` are those of the topic's cleanup.policy, `default_policies` the server's, None where they are not known.
    `max_message_bytes` is the topic's, `broker_message_bytes` the broker's limit. `map_bytes` is the memory for the
    offset map and `buffer_bytes` the size of each of the two buffers of one cleaner thread. `loading` are the settings
    that opening a log depends on. Of the release are `converts_legacy` (batches of format v0 and v1 are rewritten in
    v2), `index_per_batch` (index entries are counted batch by batch, not write by write) and
    `keeps_batch_at_high_watermark` (a batch with nothing left stays where it ends at the high watermark, not where it
    is the last of the round).
    """

    FIELDS: ClassVar[_Fields] = {
        "min_cleanable_ratio": table.MIN_CLEANABLE_RATIO,
        "min_compaction_lag_ms": table.MIN_COMPACTION_LAG_MS,
        "max_compaction_lag_ms": table.MAX_COMPACTION_LAG_MS,
        "delete_retention_ms": table.DELETE_RETENTION_MS,
        "segment_bytes": table.SEGMENT_BYTES,
        "max_message_bytes": table.MAX_MESSAGE_BYTES,
        "broker_message_bytes": table.BROKER_MESSAGE_BYTES,
        "load_factor": table.CLEANER_LOAD_FACTOR,
    }
    COUNTING: ClassVar[tuple[Setting[Any], ...]] = (
        *FIELDS.values(), *LoadingSettings.COUNTING, table.CLEANUP_POLICY, table.CLEANER_THREADS,
        table.CLEANER_BUFFER_BYTES, table.CLEANER_MAP_BYTES,
    )  # fmt: skip

    policies: frozenset[str] | None = None
    default_policies: frozenset[str] | None = None
    min_cleanable_ratio: float = table.MIN_CLEANABLE_RATIO.default
    min_compaction_lag_ms: int = table.MIN_COMPACTION_LAG_MS.default
    max_compaction_lag_ms: int = table.MAX_COMPACTION_LAG_MS.default
    delete_retention_ms: int = table.DELETE_RETENTION_MS.default
    segment_bytes: int = table.SEGMENT_BYTES.default
    max_message_bytes: int = table.MAX_MESSAGE_BYTES.default
    broker_message_bytes: int = table.BROKER_MESSAGE_BYTES.default
    map_bytes: int = table.CLEANER_MAP_BYTES.default
    buffer_bytes: int = table.CLEANER_BUFFER_BYTES.default // 2
    load_factor: float = table.CLEANER_LOAD_FACTOR.default
    converts_legacy: bool = NEWEST.has(CONVERTS_LEGACY)
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)
    keeps_batch_at_high_watermark: bool = NEWEST.has(LAST_BATCH_BELOW_HIGH_WATERMARK)
    loading: LoadingSettings = field(default_factory=LoadingSettings)

    @classmethod
    def of(
        cls, settings: TopicSettings, release: KafkaRelease = NEWEST, *, converts_legacy: bool | None = None
    ) -> CleaningSettings:
        """Take them out of a topic's settings; `converts_legacy` is the release's own way if not given.

        Raises ConfigError.
        """
        threads = settings.get(table.CLEANER_THREADS)
        buffers, memory = settings.get(table.CLEANER_BUFFER_BYTES), settings.get(table.CLEANER_MAP_BYTES)
        found = cls(
            **_values(cls.FIELDS, settings),
            policies=settings.own(table.CLEANUP_POLICY),
            default_policies=settings.of_server(table.CLEANUP_POLICY),
            map_bytes=min(memory // threads, INT_MAX),
            buffer_bytes=buffers // threads // 2,
            converts_legacy=release.has(CONVERTS_LEGACY) if converts_legacy is None else converts_legacy,
            index_per_batch=release.has(INDEX_PER_BATCH),
            keeps_batch_at_high_watermark=release.has(LAST_BATCH_BELOW_HIGH_WATERMARK),
            loading=LoadingSettings.of(settings, release),
        )
        if found.map_keys < 1:
            raise ConfigError(
                f"{table.CLEANER_MAP_BYTES.name} is {memory}: for {threads} threads with a load factor of"
                f" {found.load_factor} it has no room for a single key"
            )
        if found.buffer_bytes < _FRAME_BYTES:
            raise ConfigError(f"{table.CLEANER_BUFFER_BYTES.name} is {buffers}: too little for {threads} threads")
        return found

    @property
    def is_compacted(self) -> bool:
        """Whether the topic's own cleanup.policy says that it is compacted."""
        return self.policies is not None and COMPACT in self.policies

    @property
    def map_slots(self) -> int:
        """The entries that the offset map has room for."""
        return self.map_bytes // _MAP_ENTRY_BYTES

    @property
    def map_keys(self) -> int:
        """The different keys that one pass can take."""
        return int(self.map_slots * self.load_factor)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The settings that decide what retention deletes; negative for no limit.

    `deletes` and `compacts` are what cleanup.policy names. `remote_storage`: the topic is tiered, so `local_…` decide
    what stays on the disk. `check_interval_ms` is how often a broker looks. `loading` are the settings that a broker
    loads the log with; `sources` say in words where what decides about its segments comes from.
    """

    FIELDS: ClassVar[_Fields] = {
        "retention_ms": table.RETENTION_MS,
        "retention_bytes": table.RETENTION_BYTES,
        "delete_retention_ms": table.DELETE_RETENTION_MS,
        "remote_storage": table.REMOTE_STORAGE,
        "local_retention_ms": table.LOCAL_RETENTION_MS,
        "local_retention_bytes": table.LOCAL_RETENTION_BYTES,
        "timestamp_after_max_ms": table.TIMESTAMP_AFTER_MAX_MS,
        "check_interval_ms": table.CHECK_INTERVAL_MS,
    }
    COUNTING: ClassVar[tuple[Setting[Any], ...]] = (
        *FIELDS.values(), *LoadingSettings.COUNTING, table.CLEANUP_POLICY, table.TIMESTAMP_TYPE
    )  # fmt: skip

    retention_ms: int = table.RETENTION_MS.default
    retention_bytes: int = table.RETENTION_BYTES.default
    delete_retention_ms: int = table.DELETE_RETENTION_MS.default
    deletes: bool = True
    compacts: bool = False
    remote_storage: bool = False
    local_retention_ms: int = LIKE_TOTAL
    local_retention_bytes: int = LIKE_TOTAL
    log_append_time: bool = False
    timestamp_after_max_ms: int = table.TIMESTAMP_AFTER_MAX_MS.default
    check_interval_ms: int = table.CHECK_INTERVAL_MS.default
    loading: LoadingSettings = field(default_factory=LoadingSettings)
    sources: tuple[str, ...] = (DEFAULTS,)

    @classmethod
    def of(cls, settings: TopicSettings, release: KafkaRelease = NEWEST) -> RetentionSettings:
        """Take them out of a topic's settings, for the release that deletes. Raises ConfigError."""
        policies = settings.get(table.CLEANUP_POLICY)
        return cls(
            **_values(cls.FIELDS, settings),
            deletes=DELETE in policies,
            compacts=COMPACT in policies,
            log_append_time=settings.get(table.TIMESTAMP_TYPE) == LOG_APPEND_TIME,
            loading=LoadingSettings.of(settings, release),
            sources=settings.sources,
        )

    @property
    def is_known(self) -> bool:
        """Whether anything says what the topic's retention is, so that it is not merely supposed."""
        return DEFAULTS not in self.sources

    @property
    def policy(self) -> str:
        """cleanup.policy as Kafka writes it; `none` where it is empty."""
        names = [name for name, is_on in ((COMPACT, self.compacts), (DELETE, self.deletes)) if is_on]
        return ",".join(names) or "none"

    @property
    def time_limit_ms(self) -> int:
        """How old (ms) the newest record of a segment on this disk may get; negative for no limit."""
        return self.local_retention_ms if self._is_time_local else self.retention_ms

    @property
    def size_limit(self) -> int:
        """How many bytes of the log at least stay on this disk; negative for no limit."""
        return self.local_retention_bytes if self._is_size_local else self.retention_bytes

    @property
    def time_name(self) -> str:
        """The name of the setting that `time_limit_ms` comes from."""
        return (table.LOCAL_RETENTION_MS if self._is_time_local else table.RETENTION_MS).name

    @property
    def size_name(self) -> str:
        """The name of the setting that `size_limit` comes from."""
        return (table.LOCAL_RETENTION_BYTES if self._is_size_local else table.RETENTION_BYTES).name

    @property
    def _is_time_local(self) -> bool:
        return self.remote_storage and self.local_retention_ms != LIKE_TOTAL

    @property
    def _is_size_local(self) -> bool:
        return self.remote_storage and self.local_retention_bytes != LIKE_TOTAL


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The settings that decide what a partition's replicas are good for."""

    FIELDS: ClassVar[_Fields] = {
        "min_insync_replicas": table.MIN_INSYNC_REPLICAS,
        "allows_unclean_election": table.UNCLEAN_LEADER_ELECTION,
    }
    COUNTING: ClassVar[tuple[Setting[Any], ...]] = tuple(FIELDS.values())

    min_insync_replicas: int = table.MIN_INSYNC_REPLICAS.default
    allows_unclean_election: bool = table.UNCLEAN_LEADER_ELECTION.default

    @classmethod
    def of(cls, settings: TopicSettings) -> ReplicationSettings:
        """Take them out of a topic's settings. Raises ConfigError."""
        return cls(**_values(cls.FIELDS, settings))
