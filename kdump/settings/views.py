"""What parts of a broker go by, as plain data out of a topic's settings: a module for each part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kdump.releases import NEWEST, KafkaRelease
from kdump.settings.sources import TopicSettings
from kdump.settings.table import Setting

Fields = Mapping[str, Setting[Any]]
"""The settings that fields of a view have the values of."""


class View(Protocol):
    """What a part of a broker goes by."""

    @staticmethod
    def counting() -> tuple[Setting[Any], ...]:
        """Return the settings that it depends on."""

    @classmethod
    def of(cls, settings: TopicSettings) -> Any:
        """Take it out of a topic's settings. Raises ConfigError."""


def values_of(fields: Fields, settings: TopicSettings, release: KafkaRelease = NEWEST) -> dict[str, Any]:
    """Return the values of the fields in a release, defaults of settings that it does not have. Raises ConfigError."""
    return {
        name: setting.default if setting.is_missing(release) else settings.get(setting, release)
        for name, setting in fields.items()
    }
