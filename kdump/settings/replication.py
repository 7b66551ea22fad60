"""What a partition's replicas are good for."""

from __future__ import annotations

from typing import Any, NamedTuple

from kdump.settings import table
from kdump.settings.sources import TopicSettings
from kdump.settings.table import Setting
from kdump.settings.views import Fields, values_of

FIELDS: Fields = {
    "min_insync_replicas": table.MIN_INSYNC_REPLICAS,
    "allows_unclean_election": table.UNCLEAN_LEADER_ELECTION,
}


class ReplicationSettings(NamedTuple):
    """The settings that decide what a partition's replicas are good for."""

    min_insync_replicas: int = table.MIN_INSYNC_REPLICAS.default
    allows_unclean_election: bool = table.UNCLEAN_LEADER_ELECTION.default

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""
        return tuple(FIELDS.values())

    @classmethod
    def of(cls, settings: TopicSettings) -> ReplicationSettings:
        """Take them out of a topic's settings. Raises ConfigError."""
        return cls(**values_of(FIELDS, settings))
