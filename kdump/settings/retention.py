"""The settings that decide what retention deletes, from the properties of a topic or of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdump.errors import ConfigError
from kdump.formats.java_text import LONG_MAX, parse_long
from kdump.settings.loading import REMOTE_STORAGE

CLEANUP_POLICY = "cleanup.policy"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
DELETE_RETENTION_MS = "delete.retention.ms"
LOCAL_RETENTION_MS = "local.retention.ms"
LOCAL_RETENTION_BYTES = "local.retention.bytes"
TIMESTAMP_TYPE = "message.timestamp.type"
AFTER_MAX_MS = "message.timestamp.after.max.ms"
CHECK_INTERVAL_MS = "log.retention.check.interval.ms"

NO_LIMIT = -1
LIKE_TOTAL = -2
"""Of local.retention.*: the topic's retention.* counts."""

_SERVER_NAMES = {
    CLEANUP_POLICY: "log.cleanup.policy",
    RETENTION_MS: "log.retention.ms",
    RETENTION_BYTES: "log.retention.bytes",
    DELETE_RETENTION_MS: "log.cleaner.delete.retention.ms",
    LOCAL_RETENTION_MS: "log.local.retention.ms",
    LOCAL_RETENTION_BYTES: "log.local.retention.bytes",
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    AFTER_MAX_MS: "log.message.timestamp.after.max.ms",
}
_LONGER_UNITS = (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
_POLICIES = frozenset({"delete", "compact"})
_TYPES = ("CreateTime", "LogAppendTime")
_LONG_MIN = -LONG_MAX - 1

DECIDING = frozenset(
    (*(each for name in (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES) for each in (name, _SERVER_NAMES[name])),
     *(name for name, _ in _LONGER_UNITS))
)  # fmt: skip
"""The names, for topics and for servers, that decide which segments go by time or size."""


@dataclass(frozen=True, slots=True)
class RetentionConfig:
    """A topic's settings with Kafka's defaults; times in ms, sizes in bytes, negative for no limit.

    `deletes` and `compacts` are what cleanup.policy names. `remote_storage`: the topic is tiered, so `local_…` decide
    what stays on the disk. `check_interval_ms` is how often a broker looks.
    """

    retention_ms: int = 604_800_000
    retention_bytes: int = NO_LIMIT
    delete_retention_ms: int = 86_400_000
    deletes: bool = True
    compacts: bool = False
    remote_storage: bool = False
    local_retention_ms: int = LIKE_TOTAL
    local_retention_bytes: int = LIKE_TOTAL
    log_append_time: bool = False
    timestamp_after_max_ms: int = 3_600_000
    check_interval_ms: int = 300_000

    @property
    def policy(self) -> str:
        """cleanup.policy as Kafka writes it; `none` where it is empty."""
        names = [name for name, is_on in (("compact", self.compacts), ("delete", self.deletes)) if is_on]
        return ",".join(names) or "none"

    @property
    def time_limit_ms(self) -> int:
        """How old (ms) the newest record of a segment on this disk may get; negative for no limit."""
        if self.remote_storage and self.local_retention_ms != LIKE_TOTAL:
            return self.local_retention_ms
        return self.retention_ms

    @property
    def size_limit(self) -> int:
        """How many bytes of the log at least stay on this disk; negative for no limit."""
        if self.remote_storage and self.local_retention_bytes != LIKE_TOTAL:
            return self.local_retention_bytes
        return self.retention_bytes

    @property
    def time_name(self) -> str:
        """The name of the setting that `time_limit_ms` comes from."""
        is_local = self.remote_storage and self.local_retention_ms != LIKE_TOTAL
        return LOCAL_RETENTION_MS if is_local else RETENTION_MS

    @property
    def size_name(self) -> str:
        """The name of the setting that `size_limit` comes from."""
        is_local = self.remote_storage and self.local_retention_bytes != LIKE_TOTAL
        return LOCAL_RETENTION_BYTES if is_local else RETENTION_BYTES


def retention_config(properties: Mapping[str, str]) -> RetentionConfig:
    """The settings in a server.properties, a topic's properties, or both; a topic's name wins over the server's for it.

    Properties of other names are of no importance. Raises ConfigError.
    """
    default = RetentionConfig()
    policies = _policies(properties.get(_given_name(properties, CLEANUP_POLICY), "delete"))
    timestamps = properties.get(_given_name(properties, TIMESTAMP_TYPE), _TYPES[0]).strip()
    if timestamps not in _TYPES:
        raise ConfigError(f"{TIMESTAMP_TYPE} is {timestamps!r}: expected {' or '.join(_TYPES)}")
    remote = properties.get(REMOTE_STORAGE, "false").strip().lower()
    if remote not in ("true", "false"):
        raise ConfigError(f"{REMOTE_STORAGE} is {remote!r}: expected true or false")
    return RetentionConfig(
        _retention_ms(properties, default.retention_ms),
        _number(properties, RETENTION_BYTES, default.retention_bytes, _LONG_MIN),
        _number(properties, DELETE_RETENTION_MS, default.delete_retention_ms, 0),
        "delete" in policies,
        "compact" in policies,
        remote == "true",
        _number(properties, LOCAL_RETENTION_MS, default.local_retention_ms, LIKE_TOTAL),
        _number(properties, LOCAL_RETENTION_BYTES, default.local_retention_bytes, LIKE_TOTAL),
        timestamps == _TYPES[1],
        _number(properties, AFTER_MAX_MS, default.timestamp_after_max_ms, 0),
        _number(properties, CHECK_INTERVAL_MS, default.check_interval_ms, 1),
    )


def _policies(text: str) -> set[str]:
    policies = {policy.strip() for policy in text.split(",") if policy.strip()}
    if not policies <= _POLICIES:
        raise ConfigError(f"{CLEANUP_POLICY} is {text!r}: expected delete, compact or both")
    return policies


def _retention_ms(properties: Mapping[str, str], default: int) -> int:
    """retention.ms; of a server's three ways to say it the most exact one counts."""
    if RETENTION_MS not in properties and _SERVER_NAMES[RETENTION_MS] not in properties:
        for name, unit in _LONGER_UNITS:
            if name in properties:
                count = _number(properties, name, 0, _LONG_MIN)
                return NO_LIMIT if count < 0 else count * unit
    return max(NO_LIMIT, _number(properties, RETENTION_MS, default, _LONG_MIN))


def _given_name(properties: Mapping[str, str], name: str) -> str:
    """The name under which a setting is given: the topic's, or the server's."""
    return name if name in properties else _SERVER_NAMES.get(name, name)


def _number(properties: Mapping[str, str], name: str, default: int, least: int) -> int:
    given = _given_name(properties, name)
    text = properties.get(given)
    if text is None:
        return default
    number = parse_long(text.strip())
    if number is None or number < least:
        lowest = "a whole number" if least == _LONG_MIN else f"a whole number from {least} on"
        raise ConfigError(f"{given} is {text!r}: expected {lowest}")
    return number
