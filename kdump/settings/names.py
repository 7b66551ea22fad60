"""What there is to say of the names in a properties file: those of Kafka's settings, and others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kdump.errors import ConfigError
from kdump.formats.close_names import closest
from kdump.formats.words import listed
from kdump.releases import NEWEST
from kdump.settings.kafka_names import SETTINGS
from kdump.settings.table import BY_NAME, COORDINATORS, Setting, names_of

_NOT_FOLLOWED = frozenset((
    "log.cleaner.backoff.ms", "log.cleaner.enable", "log.cleaner.io.max.bytes.per.second",
    "log.dir.failure.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms", "log.flush.start.offset.checkpoint.interval.ms",
    "log.initial.task.delay.ms", "producer.id.expiration.check.interval.ms",
))  # fmt: skip
"""Settings of logs that say when a running broker does something, not what is in its files."""

_OF_PLUGINS = frozenset((
    "allow.everyone.if.no.acl.found", "kafka.csv.metrics.dir", "kafka.csv.metrics.reporter.enabled",
    "metrics.jmx.blacklist", "metrics.jmx.exclude", "metrics.jmx.include", "metrics.jmx.whitelist",
    "super.users",
))  # fmt: skip
"""Settings of what Kafka brings along: StandardAuthorizer, JmxReporter, KafkaMetricsConfig."""

OPEN_NAMES = (
    *("authorizer.zookeeper.", "config.providers.", "listener.name.", "metrics.context.", "rlmm.config."),
    "rsm.config.",
)
"""What names begin with that Kafka hands on to plugins, or that a listener's name is part of: any name may follow."""

PREFIX_NAMES = ("remote.log.metadata.manager.impl.prefix", "remote.log.storage.manager.impl.prefix")
"""The settings that name what the names of a plugin's settings begin with."""

MAX_NAMED = 5
"""So many names that are not known, such as those of plugins, are in a note."""

_UNKNOWN = f"not known to this kdump (newest: Kafka {NEWEST.value})"


def notes_on(properties: Mapping[str, str], counting: Iterable[Setting[Any]]) -> Iterator[str]:
    """Yield what there is to say of names in a properties file that do not count where only `counting` do.

    Unknown names are named with the nearest one that is known, and names of earlier releases with what replaced them.
    Settings of logs that do not count are named, in one note, unless they say what is so without them; others are
    skipped: a server.properties as Kafka brings it has nothing to note.
    """
    used = names_of(counting)
    idle, unknown = [], []
    open_names = tuple(filter(None, (properties.get(name, "").strip() for name in PREFIX_NAMES)))
    for name, text in properties.items():
        if name in used:
            continue
        setting = BY_NAME[name].setting if name in BY_NAME else None
        if setting is not None and setting.until is not None:
            how = f"replaced it by {' and '.join(setting.instead)}" if setting.instead else "does not have it any more"
            yield f"{name} is not used: Kafka {setting.until.value} {how}"
        elif name in _NOT_FOLLOWED or (name in BY_NAME and not _is_skipped(name, text)):
            idle.append(name)
        elif not is_known(name) and not name.startswith(open_names):
            close = closest(name, _ALL, 0.8)
            if close is None:
                unknown.append(name)
            else:
                yield f"{name} is {_UNKNOWN}: not used. Did you mean '{close}'?"
    if unknown:
        yield f"{_UNKNOWN}, not used: {listed(unknown, MAX_NAMED)}"
    if idle:
        yield f"not used here: {', '.join(idle)}"


_SCOPES = ("server", "topic", "broker-quota")
"""Whose settings may be in a properties file."""
_KAFKAS = frozenset(
    name for scope, name, *_ in (line.split() for line in SETTINGS.strip().splitlines()) if scope in _SCOPES
)
_ALL = _KAFKAS | _OF_PLUGINS


def is_known(name: str) -> bool:
    """Return whether Kafka has a setting of this name, or plugins may have."""
    return name in _ALL or name.startswith(OPEN_NAMES)


def _is_skipped(name: str, text: str) -> bool:
    named = BY_NAME[name]
    return named.setting in COORDINATORS or bool(named.value(text) == named.setting.default)


def check_given(given: Iterable[str], counting: Iterable[Setting[Any]]) -> None:
    """Raise ConfigError for a name of a setting given outright that is not one of those `counting`, for topics."""
    known = {setting.name for setting in counting}
    for name in given:
        if name not in known:
            close = closest(name, known, 0.8)
            hint = f"did you mean {close!r}?" if close else f"those that matter here are {', '.join(sorted(known))}"
            raise ConfigError(f"{name!r} is not a setting that matters here: {hint}")
