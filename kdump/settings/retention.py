"""What retention goes by."""

from __future__ import annotations

from typing import Any, NamedTuple

from kdump.formats.batch import TimestampType
from kdump.releases import NEWEST, KafkaRelease
from kdump.settings import table
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import DEFAULTS, TopicSettings
from kdump.settings.table import COMPACT, DELETE, LIKE_TOTAL, Setting
from kdump.settings.views import Fields, values_of

FIELDS: Fields = {
    "retention_ms": table.RETENTION_MS,
    "retention_bytes": table.RETENTION_BYTES,
    "delete_retention_ms": table.DELETE_RETENTION_MS,
    "has_remote_storage": table.REMOTE_STORAGE,
    "local_retention_ms": table.LOCAL_RETENTION_MS,
    "local_retention_bytes": table.LOCAL_RETENTION_BYTES,
    "timestamp_after_max_ms": table.TIMESTAMP_AFTER_MAX_MS,
    "check_interval_ms": table.CHECK_INTERVAL_MS,
}


class RetentionSettings(NamedTuple):
    """The settings that decide what retention deletes; negative for no limit.

    `deletes` and `compacts` are what cleanup.policy names. `has_remote_storage`: the topic is tiered, so `local_…`
    decide what stays on the disk. `check_interval_ms` is how often a broker looks. `loading` are the settings that a
    broker loads the log with; `sources` say in words where what decides about its segments comes from.
    """

    retention_ms: int = table.RETENTION_MS.default
    retention_bytes: int = table.RETENTION_BYTES.default
    delete_retention_ms: int = table.DELETE_RETENTION_MS.default
    deletes: bool = True
    compacts: bool = False
    has_remote_storage: bool = False
    local_retention_ms: int = LIKE_TOTAL
    local_retention_bytes: int = LIKE_TOTAL
    is_append_time: bool = False
    timestamp_after_max_ms: int = table.TIMESTAMP_AFTER_MAX_MS.default
    check_interval_ms: int = table.CHECK_INTERVAL_MS.default
    loading: LoadingSettings = LoadingSettings()
    sources: tuple[str, ...] = (DEFAULTS,)

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""
        return (
            *FIELDS.values(), *LoadingSettings.counting(), table.CLEANUP_POLICY, table.TIMESTAMP_TYPE
        )  # fmt: skip

    @classmethod
    def of(cls, settings: TopicSettings, release: KafkaRelease = NEWEST) -> RetentionSettings:
        """Take them out of a topic's settings, for the release that deletes. Raises ConfigError."""
        policies = settings.get(table.CLEANUP_POLICY)
        return cls(
            **values_of(FIELDS, settings, release),
            deletes=DELETE in policies,
            compacts=COMPACT in policies,
            is_append_time=settings.get(table.TIMESTAMP_TYPE) == TimestampType.LOG_APPEND_TIME,
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
        return self.has_remote_storage and self.local_retention_ms != LIKE_TOTAL

    @property
    def _is_size_local(self) -> bool:
        return self.has_remote_storage and self.local_retention_bytes != LIKE_TOTAL
