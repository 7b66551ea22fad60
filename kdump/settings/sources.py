"""Which settings a topic has: given outright, in files, in the cluster's metadata log, or Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from kdump.formats import names
from kdump.settings.loading import TopicConfig, topic_config
from kdump.settings.retention import CLEANUP_POLICY, DECIDING, RETENTION_MS, RetentionConfig, retention_config

BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2

Configs = Mapping[tuple[int, str], Mapping[str, str]]
"""Settings in the cluster's metadata by resource type and name."""

DEFAULTS = "Kafka's defaults"
METADATA = "the cluster's metadata log"
BUILT_IN = "what a broker creates this topic with"
COMMAND_LINE = "the command line"
CLEANER = "the cleaner's checkpoint, which names the partition"

_COMPACTED = {CLEANUP_POLICY: "compact"}
_KEPT = {CLEANUP_POLICY: "delete", RETENTION_MS: "-1"}
_INTERNAL = {
    names.CONSUMER_OFFSETS_TOPIC: _COMPACTED,
    names.TRANSACTION_STATE_TOPIC: _COMPACTED,
    names.SHARE_GROUP_STATE_TOPIC: _KEPT,
    names.REMOTE_LOG_METADATA_TOPIC: _KEPT,
}


def built_in(topic: str) -> Mapping[str, str]:
    """Return what a broker creates a topic of its own with; nothing for other topics."""
    return _INTERNAL.get(topic, {})


class PropertyFile(NamedTuple):
    """Properties from a file: for the topics that match the pattern `topics`, or as a server's defaults (None)."""

    path: str
    topics: str | None
    properties: Mapping[str, str]

    def is_for(self, topic: str) -> bool:
        """Whether it has settings of this topic in particular; a broker's own topics must be named in full."""
        if self.topics is None:
            return False
        return topic == self.topics if topic in _INTERNAL else fnmatchcase(topic, self.topics)


class TopicSettings(NamedTuple):
    """A topic's settings, and `sources`: in words where what decides about its segments comes from.

    `loading` are the settings that a broker loads the log with.
    """

    config: RetentionConfig = RetentionConfig()
    sources: tuple[str, ...] = (DEFAULTS,)
    loading: TopicConfig = TopicConfig()

    @property
    def is_known(self) -> bool:
        """Whether anything says what the topic's retention is, so that it is not merely supposed."""
        return DEFAULTS not in self.sources


@dataclass(frozen=True, slots=True)
class Settings:
    """Layers of properties, by the name of a topic or of a server; a later one wins over those before.

    `cluster` has the configurations of the metadata log by (resource type, name), `node_id` says whose log directory
    it is; `files` and `given` are the operator's.
    """

    cluster: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    node_id: int | None = None
    files: Sequence[PropertyFile] = ()
    given: Mapping[str, str] = field(default_factory=dict)

    def properties(self, topic: str) -> dict[str, str]:
        """All that is said of a topic, or of topics that nothing else is said of."""
        found: dict[str, str] = {}
        for name in ("", str(self.node_id)):
            found |= self.cluster.get((BROKER_RESOURCE, name), {})
        found |= self.cluster.get((TOPIC_RESOURCE, topic), {})
        for file in sorted(self.files, key=lambda file: file.topics is not None):
            if file.topics is None or file.is_for(topic):
                found |= file.properties
        return {**found, **self.given}

    def loading(self, topic: str) -> TopicConfig:
        """The settings that a broker loads the logs of a topic with. Raises ConfigError."""
        return topic_config(self.properties(topic))

    def of(self, topic: str, *, was_cleaned: bool = False) -> TopicSettings:
        """The settings of a topic. Raises ConfigError.

        `was_cleaned`: the cleaner has been at it, so it is compacted where nothing says what its own policy is. A
        broker's own topics are as it creates them, but for what is said of them by name.
        """
        named = [(METADATA, self.cluster.get((TOPIC_RESOURCE, topic), {}), False)]
        named += [(file.path, file.properties, True) for file in self.files if file.is_for(topic)]
        shared = [(METADATA, self.cluster.get((BROKER_RESOURCE, name), {}), False) for name in ("", str(self.node_id))]
        general = [(file.path, file.properties, True) for file in self.files if file.topics is None]
        given = (COMMAND_LINE, self.given, False)
        if topic in _INTERNAL:
            limits = {name: value for name, value in self.given.items() if name not in DECIDING}
            layers = [(BUILT_IN, _INTERNAL[topic], True), *named, (COMMAND_LINE, limits, False)]
        else:
            layers = [*shared, named[0], *general, *named[1:], given]
        properties: dict[str, str] = {}
        sources: list[str] = []
        for name, layer, counts in layers:
            if (counts or DECIDING & layer.keys()) and name not in sources:
                sources.append(name)
            properties |= layer
        if was_cleaned and CLEANUP_POLICY not in properties:
            properties |= _COMPACTED
            sources.append(CLEANER)
        return TopicSettings(retention_config(properties), tuple(sources or [DEFAULTS]), topic_config(properties))
