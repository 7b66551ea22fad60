"""Which settings a topic has: given outright, in files, in the cluster's metadata log, or Kafka's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kdump.errors import ConfigError
from kdump.formats import names
from kdump.formats.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE
from kdump.releases import NEWEST, KafkaRelease
from kdump.settings.table import (
    BY_NAME,
    CLEANUP_POLICY,
    COMPACT,
    COMPRESSION_TYPE,
    DELETE,
    NO_LIMIT,
    OFFSETS_PARTITIONS,
    OFFSETS_SEGMENT_BYTES,
    PRODUCER,
    REMOTE_STORAGE,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SHARE_STATE_PARTITIONS,
    SHARE_STATE_SEGMENT_BYTES,
    TRANSACTIONS_PARTITIONS,
    TRANSACTIONS_SEGMENT_BYTES,
    UNCLEAN_LEADER_ELECTION,
    Named,
    Setting,
    names_of,
)

_T = TypeVar("_T")

Configs = Mapping[tuple[int, str], Mapping[str, str]]
"""Settings in the cluster's metadata by resource type and name."""

DEFAULTS = "Kafka's defaults"
METADATA = "the cluster's metadata log"
BUILT_IN = "what a broker creates this topic with"
COMMAND_LINE = "the command line"
CLEANER = "the cleaner's checkpoint, which names the partition"

DECIDING = names_of((CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES))
"""The names, for topics and for servers, that decide which segments go by time or size."""
_OWN_DECIDING = frozenset(name for name in DECIDING if BY_NAME[name].is_topics)

_COMPACTED = {CLEANUP_POLICY.name: COMPACT}
_KEPT = {CLEANUP_POLICY.name: DELETE, RETENTION_MS.name: str(NO_LIMIT)}


class _Internal(NamedTuple):
    """What brokers create a topic of their own with, and the server's settings of its segments and partitions."""

    properties: Mapping[str, str]
    segment_bytes: Setting[int] | None = None
    partitions: Setting[int] | None = None


_INTERNAL: Mapping[str, _Internal] = {
    names.CONSUMER_OFFSETS_TOPIC: _Internal(
        _COMPACTED | {COMPRESSION_TYPE.name: PRODUCER}, OFFSETS_SEGMENT_BYTES, OFFSETS_PARTITIONS
    ),
    names.TRANSACTION_STATE_TOPIC: _Internal(
        _COMPACTED | {COMPRESSION_TYPE.name: "uncompressed", UNCLEAN_LEADER_ELECTION.name: "false"},
        TRANSACTIONS_SEGMENT_BYTES,
        TRANSACTIONS_PARTITIONS,
    ),
    names.SHARE_GROUP_STATE_TOPIC: _Internal(_KEPT, SHARE_STATE_SEGMENT_BYTES, SHARE_STATE_PARTITIONS),
    names.REMOTE_LOG_METADATA_TOPIC: _Internal(_KEPT),
    names.CLUSTER_METADATA_TOPIC: _Internal(_KEPT),
}
"""Kafka: DefaultAutoTopicCreationManager and the coordinators that it asks; TopicBasedRemoteLogMetadataManager;
KafkaMetadataLog.
"""

INTERNAL_SEGMENT_BYTES = tuple(each.segment_bytes for each in _INTERNAL.values() if each.segment_bytes is not None)
"""The server's settings that stand for segment.bytes of its own topics."""

HASHED_TOPICS = {topic: each.partitions for topic, each in _INTERNAL.items() if each.partitions is not None}
"""The topics whose partition a group's or a transaction's id decides, and the setting that says how many it has: with
another number of partitions an id is not found.
"""


class Layer(NamedTuple):
    """Properties by names of topics or of servers; `decides`: they may say which segments retention deletes."""

    origin: str
    properties: Mapping[str, str]
    decides: bool = False


def _layer(origin: str, properties: Mapping[str, str]) -> Layer:
    return Layer(origin, properties, bool(DECIDING & properties.keys()))


class TopicSettings(NamedTuple):
    """Layers of properties, the last one of which wins; a topic's name wins over the server's in all of them."""

    layers: tuple[Layer, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str], origin: str = COMMAND_LINE) -> TopicSettings:
        """Return the settings of which nothing but these properties is known."""
        return cls((_layer(origin, properties),))

    def under(self, properties: Mapping[str, str]) -> TopicSettings:
        """Return these settings with a layer of the command line more, which wins."""
        return TopicSettings((*self.layers, _layer(COMMAND_LINE, properties)))

    def get(self, setting: Setting[_T], release: KafkaRelease = NEWEST) -> _T:
        """Return what a setting is, the release's default where nothing is said. Raises ConfigError."""
        found = self._first(setting.names) if any(layer.properties for layer in self.layers) else None
        return setting.default_in(release) if found is None else found

    @property
    def is_tiered(self) -> bool:
        """Whether a part of the topic's logs may be in remote storage (KIP-405)."""
        return self.is_on(REMOTE_STORAGE)

    def is_on(self, setting: Setting[bool]) -> bool:
        """Return whether a setting is true; the default where its value is none that Kafka would take."""
        try:
            return self.get(setting)
        except ConfigError:
            return setting.default

    def own(self, setting: Setting[_T]) -> _T | None:
        """Return what is said of the topic itself; None where nothing is. Raises ConfigError."""
        return self._first(named for named in setting.names if named.is_topics)

    def of_server(self, setting: Setting[_T]) -> _T | None:
        """Return what is said of topics that have nothing of their own; None where nothing is. Raises ConfigError."""
        return self._first(named for named in setting.names if not named.is_topics)

    def check(self) -> None:
        """Raise ConfigError for the first value that Kafka would not take, whether it counts or not."""
        for layer in self.layers:
            for name, text in layer.properties.items():
                if name in BY_NAME:
                    BY_NAME[name].value(text)

    def _first(self, names: Iterable[Named[_T]]) -> _T | None:
        for named in names:
            for layer in reversed(self.layers):
                if named.name in layer.properties:
                    return named.value(layer.properties[named.name])
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """Where what decides about the topic's segments comes from, in words."""
        return tuple(dict.fromkeys(layer.origin for layer in self.layers if layer.decides)) or (DEFAULTS,)


def with_small_segments(topics: Iterable[tuple[str, Mapping[str, str]]], release: KafkaRelease) -> Iterator[str]:
    """Yield the names of topics, given with their own settings, of which brokers of a release refuse segment.bytes."""
    for name, properties in topics:
        if BY_NAME[SEGMENT_BYTES.name].is_too_small(properties.get(SEGMENT_BYTES.name, ""), release):
            yield name


class PropertyFile(NamedTuple):
    """Properties from a file: for the topics that match the pattern `topics`, or as a server's defaults (None)."""

    path: str
    topics: str | None
    properties: Mapping[str, str]

    def is_for(self, topic: str) -> bool:
        """Return whether it has settings of this topic in particular; a broker's own topics must be named in full."""
        if self.topics is None:
            return False
        return topic == self.topics if topic in _INTERNAL else fnmatchcase(topic, self.topics)


class Settings(NamedTuple):
    """Where the settings of a broker's topics come from.

    `cluster` has the configurations of the metadata log by (resource type, name), `node_id` says whose log directory
    it is; `files` and `given` are the operator's.
    """

    cluster: Configs = MappingProxyType({})
    node_id: int | None = None
    files: Sequence[PropertyFile] = ()
    given: Mapping[str, str] = MappingProxyType({})

    def of(self, topic: str, *, was_cleaned: bool = False) -> TopicSettings:
        """Return the settings of a topic.

        `was_cleaned`: the cleaner has been at it, so it is compacted where nothing says what its own policy is. A
        broker's own topics are as it creates them, but for what is said of them by name. For the metadata log a
        server's settings of its topics do not count (KafkaMetadataLog): of a file for all only topics' names do.
        """
        shared = [_layer(METADATA, self.cluster.get((BROKER_RESOURCE, name), {})) for name in ("", str(self.node_id))]
        general = [Layer(file.path, file.properties, True) for file in self.files if file.topics is None]
        own = _layer(METADATA, self.cluster.get((TOPIC_RESOURCE, topic), {}))
        named = [Layer(file.path, file.properties, True) for file in self.files if file.is_for(topic)]
        if topic == names.CLUSTER_METADATA_TOPIC:
            shared, general = [], [_of_topics(layer) for layer in general]
        if topic in _INTERNAL:
            # the metadata has what brokers of its own release have created the topic with
            properties = {} if own.properties else built_in(topic, TopicSettings((*shared, *general)))
            created = Layer(BUILT_IN, properties, bool(properties))
            layers = [*map(_for_all, shared), created, own, *map(_for_all, general), *named]
            layers.append(_layer(COMMAND_LINE, {k: v for k, v in self.given.items() if k not in DECIDING}))
        else:
            layers = [*shared, own, *general, *named, _layer(COMMAND_LINE, self.given)]
        if was_cleaned and not any(CLEANUP_POLICY.name in layer.properties for layer in layers):
            layers.append(Layer(CLEANER, _COMPACTED, True))
        return TopicSettings(tuple(layer for layer in layers if layer.properties or layer.decides))


def built_in(topic: str, server: TopicSettings | None = None) -> Mapping[str, str]:
    """Return what a broker with these settings creates a topic of its own with; nothing for other topics."""
    if topic not in _INTERNAL:
        return {}
    properties, segment_bytes, _ = _INTERNAL[topic]
    if segment_bytes is None:
        return properties
    return {**properties, SEGMENT_BYTES.name: str((server or TopicSettings()).get(segment_bytes))}


def _of_topics(layer: Layer) -> Layer:
    """Return what has the name that it has for a topic, which no server has in its own file."""
    properties = {name: text for name, text in layer.properties.items() if name in BY_NAME and BY_NAME[name].is_topics}
    return layer._replace(properties=properties)


def _for_all(layer: Layer) -> Layer:
    """Return what is for all topics, as far as it may count for a broker's own: it does not decide what they keep."""
    return Layer(layer.origin, {name: value for name, value in layer.properties.items() if name not in _OWN_DECIDING})
