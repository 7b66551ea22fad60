"""What loading a log goes by."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from kdump.release_tables import MAX_ARRAY_LENGTH
from kdump.releases import (
    INDEX_PER_BATCH,
    LIMITED_ARRAYS,
    NEWEST,
    OFFSET_SEARCH_BY_BASE,
    OFFSET_SEARCH_READS_FOUND,
    SHORT_MARKERS_END,
    TXN_VERSION_INT16,
    KafkaRelease,
)
from kdump.settings import table
from kdump.settings.sources import TopicSettings
from kdump.settings.table import OLDEST_EPOCH_FORMAT, Setting
from kdump.settings.views import Fields, values_of


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


def _max_producers(release: KafkaRelease) -> int | None:
    return MAX_ARRAY_LENGTH if release.has(LIMITED_ARRAYS) else None


FIELDS: Fields = {
    "index_interval_bytes": table.INDEX_INTERVAL_BYTES,
    "segment_index_bytes": table.SEGMENT_INDEX_BYTES,
    "record_version": table.MESSAGE_FORMAT,
    "producer_id_expiration_ms": table.PRODUCER_EXPIRATION_MS,
    "has_remote_storage": table.REMOTE_STORAGE,
}


class LoadingSettings(NamedTuple):
    """The settings that decide what loading a log leaves behind.

    `record_version` is 0, 1 or 2: the format that message.format.version names, whatever format the data has.
    `has_remote_storage`: the topic is tiered, so its log start offset may lie before its first segment.
    `index_per_batch`: segments that are split get index entries batch by batch, as by brokers from 4.1 on, instead of
    one for all batches that are copied at once. `short_markers_end`: an end marker that is too short ends the loading,
    as in brokers from 4.1 on; before it was an invalid record. `txn_version_int16`: the version in a transaction index
    is two bytes, as in brokers from 4.4 on. `max_producers`: a producer snapshot of more is deleted (None: any number
    is taken). `offset_search`: which batches of a segment a search for an offset asks for their first offsets.
    """

    index_interval_bytes: int = table.INDEX_INTERVAL_BYTES.default
    segment_index_bytes: int = table.SEGMENT_INDEX_BYTES.default
    record_version: int = table.MESSAGE_FORMAT.default
    producer_id_expiration_ms: int = table.PRODUCER_EXPIRATION_MS.default
    has_remote_storage: bool = False
    index_per_batch: bool = NEWEST.has(INDEX_PER_BATCH)
    short_markers_end: bool = NEWEST.has(SHORT_MARKERS_END)
    txn_version_int16: bool = NEWEST.has(TXN_VERSION_INT16)
    max_producers: int | None = _max_producers(NEWEST)
    offset_search: OffsetSearch = _NEWEST_SEARCH

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""
        return tuple(FIELDS.values())

    @classmethod
    def of(cls, settings: TopicSettings, release: KafkaRelease = NEWEST) -> LoadingSettings:
        """Take them out of a topic's settings, for the release that starts. Raises ConfigError."""
        return cls(
            **values_of(FIELDS, settings, release),
            index_per_batch=release.has(INDEX_PER_BATCH),
            short_markers_end=release.has(SHORT_MARKERS_END),
            txn_version_int16=release.has(TXN_VERSION_INT16),
            max_producers=_max_producers(release),
            offset_search=OffsetSearch.of(release),
        )

    @property
    def has_epochs(self) -> bool:
        """Whether the format of the topic has leader epochs."""
        return self.record_version >= OLDEST_EPOCH_FORMAT
