"""What the log cleaner goes by."""

from __future__ import annotations

from typing import Any, NamedTuple

from kdump.errors import ConfigError
from kdump.formats.java_text import INT_MAX
from kdump.releases import CONVERTS_LEGACY, INDEX_PER_BATCH, LAST_BATCH_BELOW_HIGH_WATERMARK, NEWEST, KafkaRelease
from kdump.settings import table
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import INTERNAL_SEGMENT_BYTES, TopicSettings
from kdump.settings.table import COMPACT, Setting
from kdump.settings.views import Fields, values_of

_MAP_ENTRY_BYTES = 24
_FRAME_BYTES = 17
FIELDS: Fields = {
    "min_cleanable_ratio": table.MIN_CLEANABLE_RATIO,
    "min_compaction_lag_ms": table.MIN_COMPACTION_LAG_MS,
    "max_compaction_lag_ms": table.MAX_COMPACTION_LAG_MS,
    "delete_retention_ms": table.DELETE_RETENTION_MS,
    "segment_bytes": table.SEGMENT_BYTES,
    "max_decompressed_message_bytes": table.MAX_DECOMPRESSED_BYTES,
    "max_message_bytes": table.MAX_MESSAGE_BYTES,
    "broker_message_bytes": table.BROKER_MESSAGE_BYTES,
    "load_factor": table.CLEANER_LOAD_FACTOR,
}


class CleaningSettings(NamedTuple):
    """The settings of a topic and of the log cleaner that decide what is cleaned, and what comes out.

    `policies` are those of the topic's cleanup.policy, `default_policies` the server's, None where they are not known.
    A larger record than `max_decompressed_message_bytes` in a compressed batch ends the cleaning.
    `max_message_bytes` is the topic's, `broker_message_bytes` the broker's limit. `map_bytes` is the memory for the
    offset map and `buffer_bytes` the size of each of the two buffers of one cleaner thread. `loading` are the settings
    that opening a log depends on. Of the release are `converts_legacy` (batches of format v0 and v1 are rewritten in
    v2), `index_per_batch` (index entries are counted batch by batch, not write by write) and
    `keeps_batch_at_high_watermark` (a batch with nothing left stays where it ends at the high watermark, not where it
    is the last of the round).
    """

    policies: frozenset[str] | None = None
    default_policies: frozenset[str] | None = None
    min_cleanable_ratio: float = table.MIN_CLEANABLE_RATIO.default
    min_compaction_lag_ms: int = table.MIN_COMPACTION_LAG_MS.default
    max_compaction_lag_ms: int = table.MAX_COMPACTION_LAG_MS.default
    delete_retention_ms: int = table.DELETE_RETENTION_MS.default
    segment_bytes: int = table.SEGMENT_BYTES.default
    max_decompressed_message_bytes: int = table.MAX_DECOMPRESSED_BYTES.default
    max_message_bytes: int = table.MAX_MESSAGE_BYTES.default
    broker_message_bytes: int = table.BROKER_MESSAGE_BYTES.default
    map_bytes: int = table.CLEANER_MAP_BYTES.default
    buffer_bytes: int = table.CLEANER_BUFFER_BYTES.default // 2
    load_factor: float = table.CLEANER_LOAD_FACTOR.default
    converts_legacy: bool = NEWEST.has(CONVERTS_LEGACY)
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)
    keeps_batch_at_high_watermark: bool = NEWEST.has(LAST_BATCH_BELOW_HIGH_WATERMARK)
    loading: LoadingSettings = LoadingSettings()

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""
        return (
            *FIELDS.values(), *LoadingSettings.counting(), table.CLEANUP_POLICY, table.CLEANER_THREADS,
            table.CLEANER_BUFFER_BYTES, table.CLEANER_MAP_BYTES, *INTERNAL_SEGMENT_BYTES,
        )  # fmt: skip

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
            **values_of(FIELDS, settings, release),
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
