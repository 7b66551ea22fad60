"""What a broker's start goes by."""

from __future__ import annotations

from typing import Any, NamedTuple

from kdump.settings import table
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import TopicSettings
from kdump.settings.table import SETTINGS, Setting
from kdump.settings.views import Fields, values_of

FIELDS: Fields = {"cleaner_map_bytes": table.CLEANER_MAP_BYTES, "cleaner_threads": table.CLEANER_THREADS}


class StartSettings(NamedTuple):
    """The settings of a server that decide whether it starts: the memory of the log cleaner, and its threads.

    What it does with its logs then is in RetentionSettings, with what loading them depends on.
    """

    cleaner_map_bytes: int
    cleaner_threads: int

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on, with those of the logs."""
        refused = (setting for setting in SETTINGS if setting.raised)
        return (*FIELDS.values(), *refused, *RetentionSettings.counting())

    @classmethod
    def of(cls, settings: TopicSettings) -> StartSettings:
        """Take them out of a server's settings. Raises ConfigError."""
        return cls(**values_of(FIELDS, settings))
