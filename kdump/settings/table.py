"""Kafka's settings that decide what is in a log directory: names, units, defaults and ranges, each said once.

A topic has a setting by its own name, else by the server's names for it, of which the first that is given counts
(Kafka: WritingSettings, KafkaConfig, ServerTopicConfigSynonyms). Numbers are read as Java reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kdump.errors import ConfigError
from kdump.formats.batch import TimestampType
from kdump.formats.codecs import GZIP, LEVELS, LZ4, NAMES, ZSTD
from kdump.formats.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, parse_long
from kdump.releases import (
    LARGE_DEFAULT_SEGMENTS,
    LARGE_SEGMENTS,
    MAX_DECOMPRESSED_MESSAGE_BYTES,
    Behaviour,
    KafkaRelease,
)
from kdump.settings import defaults

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

NO_LIMIT = -1
LIKE_TOTAL = -2
"""Of local.retention.*: the topic's retention.* counts."""
MIN_SEGMENT_BYTES = 1 << 20
"""The least log.segment.bytes from 4.0 on, and segment.bytes of a topic from 4.1 on (KIP-1030)."""
OLDEST_EPOCH_FORMAT = 2
"""The lowest record version with leader epochs and producer state."""


class CleanupPolicy(StrEnum):
    """What becomes of old records: the words of cleanup.policy."""

    DELETE = "delete"
    COMPACT = "compact"


DELETE, COMPACT = CleanupPolicy
PRODUCER = "producer"
COMPRESSION: Mapping[str, int | None] = {
    PRODUCER: None,
    "uncompressed": 0,
    **{name: codec for codec, name in enumerate(NAMES) if codec},
}
"""compression.type to the number of the codec; None for that of the producer."""

_MINUTE, _HOUR = 60_000, 3_600_000


class Kind(Protocol[_T_co]):
    """What values a setting has (Kafka: ConfigDef.Type with its validator)."""

    @property
    def expected(self) -> str:
        """The values in words."""

    def parse(self, text: str) -> _T_co | None:
        """Return the value of a text without blanks around it; None for one that Kafka refuses."""


class Number:
    """A whole number from `least` to `most`, or `also`; `negative` is what every number below 0 stands for."""

    def __init__(
        self, least: int, most: int = LONG_MAX, *, also: int | None = None, negative: int | None = None
    ) -> None:
        self.least, self.most, self.also, self.negative = least, most, also, negative

    @property
    def expected(self) -> str:
        """The values in words."""
        if self.least in (INT_MIN, LONG_MIN):
            return "a whole number"
        most = "on" if self.most == LONG_MAX else f"to {self.most}"
        more = self.also if self.also is not None else self.negative
        return f"a number from {self.least} {most}{'' if more is None else f', or {more}'}"

    def parse(self, text: str) -> int | None:
        """Return the value of a text."""
        number = parse_long(text)
        if number is not None and -self.most - 1 <= number < 0 and self.negative is not None:
            return self.negative
        return number if number is not None and (self.least <= number <= self.most or number == self.also) else None


class Fraction:
    """A number from 0 to 1."""

    expected = "a number from 0 to 1"

    def parse(self, text: str) -> float | None:
        """Return the value of a text."""
        value = float(text.rstrip("fFdD")) if re.fullmatch(_JAVA_DOUBLE, text) else -1.0
        return value if 0 <= value <= 1 else None


class Flag:
    """true or false, in any case."""

    expected = "true or false"

    def parse(self, text: str) -> bool | None:
        """Return the value of a text."""
        return {"true": True, "false": False}.get(text.lower())


class Word(NamedTuple):
    """One of some words, spelled as here."""

    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        """The values in words."""
        return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"

    def parse(self, text: str) -> str | None:
        """Return the value of a text."""
        return text if text in self.choices else None


class Words(NamedTuple):
    """Some of two words, spelled as here, with commas between them, or nothing."""

    choices: tuple[str, str]

    @property
    def expected(self) -> str:
        """The values in words."""
        return f"{', '.join(self.choices)} or both"

    def parse(self, text: str) -> frozenset[str] | None:
        """Return the value of a text."""
        words = frozenset(part.strip() for part in text.split(",")) if text else frozenset()
        return words if words <= set(self.choices) else None


class Listed:
    """Parts of any kind with commas between them."""

    expected = "a list"

    def parse(self, text: str) -> str:
        """Return the value of a text."""
        return text


_RECORD_VERSIONS = {8: 0, 9: 0, 10: 1, 11: 2}
"""The record versions of the releases 0.8 to 0.11."""


class RecordVersion:
    """A release of Kafka, such as 0.10.2, 2.8-IV1 or 3.0, as the format of records that it wrote: 0, 1 or 2."""

    expected = "a Kafka release such as 0.10.2 or 2.8"

    def parse(self, text: str) -> int | None:
        """Return the value of a text."""
        parts = text.partition("-")[0].split(".")
        if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        major, minor = int(parts[0][:9]), int(parts[1][:9])
        return _RECORD_VERSIONS.get(minor) if major == 0 else 2


class ServerName(NamedTuple):
    """A name that a server has for a setting: one of it is `unit` of the topic's; of another `kind` where not None."""

    name: str
    unit: int = 1
    kind: Number | None = None


class Named(NamedTuple, Generic[_T]):
    """A setting under one of its names."""

    setting: Setting[_T]
    name: str
    unit: int
    kind: Kind[Any]

    @property
    def is_topics(self) -> bool:
        """Whether topics have the setting under this name, and the server has not."""
        return all(self.name != server.name for server in self.setting.server)

    def value(self, text: str) -> _T:
        """Return the value of a text, in the unit of the topic's name. Raises ConfigError."""
        found: Any = self.kind.parse(text.strip())
        if found is None:
            raise ConfigError(f"{self.name} is {text!r}: expected {self.kind.expected}", self.name)
        value: _T = found * self.unit if self.unit != 1 and found > 0 else found
        return value

    def is_too_small(self, text: str, release: KafkaRelease) -> bool:
        """Return whether brokers of a release end at their start with this number, which the setting can have."""
        raised, number = self.setting.raised.get(self.name), parse_long(text.strip())
        if raised is None or number is None or number >= raised.least:
            return False
        return raised.behaviour is None or release.has(raised.behaviour)


class Raised(NamedTuple):
    """The least number of a setting under one of its names where a release behaves so (None: where any starts)."""

    behaviour: Behaviour | None
    least: int


class Earlier(NamedTuple, Generic[_T]):
    """The default of the releases before one."""

    release: KafkaRelease
    default: _T


class Setting(Generic[_T]):
    """A setting of topics, or of the server alone; sizes in bytes, times in ms.

    `server` are the server's names in the order in which they count. What topics do not have is named as there.
    Releases have it from `since` on (None: the oldest one has it), or where they have `behaviour`; no longer from
    `until`, in whose place there is what `instead` names. `default` is that of the newest release that has it,
    `earlier` one before it. `raised` are by name the least numbers that only some releases, or only brokers at their
    start, insist on.
    """

    def __init__(  # noqa: PLR0913 - a setting's columns in the table
        self,
        name: str,
        kind: Kind[_T],
        default: _T,
        server: tuple[ServerName, ...] = (),
        *,
        is_topics: bool = True,
        since: KafkaRelease | None = None,
        behaviour: Behaviour | None = None,
        until: KafkaRelease | None = None,
        instead: tuple[str, ...] = (),
        earlier: Earlier[_T] | None = None,
        raised: Mapping[str, Raised] = MappingProxyType({}),
    ) -> None:
        self.name, self.kind, self.default, self.server, self.is_topics = name, kind, default, server, is_topics
        self.since, self.behaviour, self.until, self.instead = since, behaviour, until, instead
        self.earlier, self.raised = earlier, raised

    def is_in(self, release: KafkaRelease) -> bool:
        """Return whether a release has the setting."""
        if self.is_missing(release):
            return False
        return (self.since is None or self.since <= release) and (self.until is None or release < self.until)

    def is_missing(self, release: KafkaRelease) -> bool:
        """Return whether only releases of a behaviour have the setting, and this one is none of them."""
        return self.behaviour is not None and not release.has(self.behaviour)

    def default_in(self, release: KafkaRelease) -> _T:
        """Return the default of a release."""
        return self.earlier.default if self.earlier is not None and release < self.earlier.release else self.default

    @property
    def default_text(self) -> str:
        """The default as Kafka writes it."""
        default: object = self.default
        if isinstance(default, bool):
            return str(default).lower()
        return ",".join(sorted(default)) if isinstance(default, frozenset) else str(default)

    @property
    def names(self) -> Iterator[Named[_T]]:
        """The setting under its names; the first one that is given counts."""
        if self.is_topics:
            yield Named(self, self.name, 1, self.kind)
        for name, unit, kind in self.server:
            if name != self.name or not self.is_topics:
                yield Named(self, name, unit, kind or self.kind)


_JAVA_DOUBLE = r"(?a)[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?[fFdD]?"
_SIZE, _SPAN, _COUNT = Number(0, INT_MAX), Number(0), Number(1, INT_MAX)
_LIMITED = Number(1, negative=NO_LIMIT)


def _setting(name: str, kind: Kind[_T], default: _T, *server: str, **releases: Any) -> Setting[_T]:
    return Setting(name, kind, default, tuple(map(ServerName, server)), **releases)


def _servers(name: str, kind: Kind[_T], default: _T, unit: int = 1, **releases: Any) -> Setting[_T]:
    return Setting(name, kind, default, (ServerName(name, unit),), is_topics=False, **releases)


# of topics

CLEANUP_POLICY = _setting("cleanup.policy", Words((DELETE, COMPACT)), frozenset({DELETE}), "log.cleanup.policy")
COMPRESSION_TYPE = _setting("compression.type", Word(tuple(COMPRESSION)), PRODUCER, "compression.type")
GZIP_LEVEL = _setting("compression.gzip.level", Number(*LEVELS[GZIP], also=-1), -1, "compression.gzip.level")
LZ4_LEVEL = _setting("compression.lz4.level", Number(*LEVELS[LZ4]), 9, "compression.lz4.level")
ZSTD_LEVEL = _setting("compression.zstd.level", Number(*LEVELS[ZSTD]), 3, "compression.zstd.level")
DELETE_RETENTION_MS = _setting("delete.retention.ms", _SPAN, 86_400_000, "log.cleaner.delete.retention.ms")
FILE_DELETE_DELAY_MS = _setting("file.delete.delay.ms", _SPAN, 60_000, "log.segment.delete.delay.ms")
FLUSH_MESSAGES = _setting("flush.messages", Number(1), LONG_MAX, "log.flush.interval.messages")
FLUSH_MS = _setting("flush.ms", _SPAN, LONG_MAX, "log.flush.interval.ms")
FOLLOWER_THROTTLED = _setting("follower.replication.throttled.replicas", Listed(), "")
INDEX_INTERVAL_BYTES = _setting("index.interval.bytes", _SIZE, 4096, "log.index.interval.bytes")
LEADER_THROTTLED = _setting("leader.replication.throttled.replicas", Listed(), "")
LOCAL_RETENTION_BYTES = _setting("local.retention.bytes", Number(LIKE_TOTAL), LIKE_TOTAL, "log.local.retention.bytes")
LOCAL_RETENTION_MS = _setting("local.retention.ms", Number(LIKE_TOTAL), LIKE_TOTAL, "log.local.retention.ms")
MAX_COMPACTION_LAG_MS = _setting("max.compaction.lag.ms", Number(1), LONG_MAX, "log.cleaner.max.compaction.lag.ms")
# the largest array of the JVM stands for no limit
MAX_DECOMPRESSED_BYTES = _setting(
    "max.decompressed.message.bytes",
    _SIZE,
    INT_MAX - 8,
    "max.decompressed.message.bytes",
    behaviour=MAX_DECOMPRESSED_MESSAGE_BYTES,
)
MAX_MESSAGE_BYTES = _setting("max.message.bytes", _SIZE, 1_048_588, "message.max.bytes")
MESSAGE_DOWNCONVERSION = _setting(
    "message.downconversion.enable", Flag(), True, "log.message.downconversion.enable", until=KafkaRelease.V4_0
)
# releases before 4.0 convert what they append
MESSAGE_FORMAT = _setting(
    "message.format.version",
    RecordVersion(),
    OLDEST_EPOCH_FORMAT,
    "log.message.format.version",
    until=KafkaRelease.V4_0,
)
TIMESTAMP_AFTER_MAX_MS = _setting(
    "message.timestamp.after.max.ms",
    _SPAN,
    _HOUR,
    "log.message.timestamp.after.max.ms",
    earlier=Earlier(KafkaRelease.V4_0, LONG_MAX),
)
TIMESTAMP_BEFORE_MAX_MS = _setting(
    "message.timestamp.before.max.ms", _SPAN, LONG_MAX, "log.message.timestamp.before.max.ms"
)
TIMESTAMP_DIFFERENCE_MAX_MS = _setting(
    "message.timestamp.difference.max.ms",
    _SPAN,
    LONG_MAX,
    "log.message.timestamp.difference.max.ms",
    until=KafkaRelease.V4_0,
    instead=(TIMESTAMP_BEFORE_MAX_MS.name, TIMESTAMP_AFTER_MAX_MS.name),
)
TIMESTAMP_TYPE = _setting(
    "message.timestamp.type",
    Word((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)),
    TimestampType.CREATE_TIME,
    "log.message.timestamp.type",
)
MIN_CLEANABLE_RATIO = _setting("min.cleanable.dirty.ratio", Fraction(), 0.5, "log.cleaner.min.cleanable.ratio")
MIN_COMPACTION_LAG_MS = _setting("min.compaction.lag.ms", _SPAN, 0, "log.cleaner.min.compaction.lag.ms")
MIN_INSYNC_REPLICAS = _setting("min.insync.replicas", _COUNT, 1, "min.insync.replicas")
PREALLOCATE = _setting("preallocate", Flag(), False, "log.preallocate")
REMOTE_COPY_DISABLE = _setting("remote.log.copy.disable", Flag(), False)
REMOTE_DELETE_ON_DISABLE = _setting("remote.log.delete.on.disable", Flag(), False)
REMOTE_STORAGE = _setting("remote.storage.enable", Flag(), False)
RETENTION_BYTES = _setting("retention.bytes", Number(LONG_MIN), NO_LIMIT, "log.retention.bytes")
RETENTION_MS = Setting(
    "retention.ms",
    Number(NO_LIMIT),
    defaults.RETENTION_MS,
    (
        ServerName("log.retention.ms", 1, _LIMITED),
        ServerName("log.retention.minutes", _MINUTE, Number(1, INT_MAX, negative=NO_LIMIT)),
        ServerName("log.retention.hours", _HOUR, Number(1, INT_MAX, negative=NO_LIMIT)),
    ),
)
# releases before 4.1 wrote segments of less than 1 MiB
SEGMENT_BYTES = _setting(
    "segment.bytes",
    Number(14, INT_MAX),
    1 << 30,
    "log.segment.bytes",
    raised={
        "segment.bytes": Raised(LARGE_SEGMENTS, MIN_SEGMENT_BYTES),
        "log.segment.bytes": Raised(LARGE_DEFAULT_SEGMENTS, MIN_SEGMENT_BYTES),
    },
)
SEGMENT_INDEX_BYTES = _setting("segment.index.bytes", Number(4, INT_MAX), 10 << 20, "log.index.size.max.bytes")
SEGMENT_JITTER_MS = Setting(
    "segment.jitter.ms",
    _SPAN,
    0,
    (ServerName("log.roll.jitter.ms"), ServerName("log.roll.jitter.hours", _HOUR, _SIZE)),
)
SEGMENT_MS = Setting(
    "segment.ms",
    Number(1),
    604_800_000,
    (ServerName("log.roll.ms"), ServerName("log.roll.hours", _HOUR, _COUNT)),
)
UNCLEAN_LEADER_ELECTION = _setting("unclean.leader.election.enable", Flag(), False, "unclean.leader.election.enable")

# of the server alone

# the least is that of the value alone up to 4.0, where KafkaMetadataLog insists on more
METADATA_SEGMENT_BYTES = _servers(
    "metadata.log.segment.bytes",
    Number(12, INT_MAX),
    1 << 30,
    raised={"metadata.log.segment.bytes": Raised(None, 8 << 20)},
)
BROKER_MESSAGE_BYTES = _servers("message.max.bytes", _SIZE, 1_048_588)
CHECK_INTERVAL_MS = _servers("log.retention.check.interval.ms", Number(1), 300_000)
CLEANER_THREADS = _servers("log.cleaner.threads", _COUNT, 1)
CLEANER_BUFFER_BYTES = _servers("log.cleaner.io.buffer.size", Number(34, INT_MAX), 512 << 10)
CLEANER_MAP_BYTES = _servers("log.cleaner.dedupe.buffer.size", Number(24), 128 << 20)
CLEANER_LOAD_FACTOR = _servers("log.cleaner.io.buffer.load.factor", Fraction(), 0.9)
OFFSETS_RETENTION_MS = _servers("offsets.retention.minutes", _COUNT, defaults.OFFSETS_RETENTION_MS, _MINUTE)
OFFSETS_PARTITIONS = _servers("offsets.topic.num.partitions", _COUNT, 50)
OFFSETS_SEGMENT_BYTES = _servers("offsets.topic.segment.bytes", _COUNT, 100 << 20)
TRANSACTION_MAX_TIMEOUT_MS = _servers("transaction.max.timeout.ms", _COUNT, defaults.MAX_TIMEOUT_MS)
TRANSACTIONS_PARTITIONS = _servers("transaction.state.log.num.partitions", _COUNT, 50)
TRANSACTIONS_SEGMENT_BYTES = _servers("transaction.state.log.segment.bytes", _COUNT, 100 << 20)
SHARE_STATE_PARTITIONS = _servers(
    "share.coordinator.state.topic.num.partitions", _COUNT, 50, since=KafkaRelease.V4_0
)
SHARE_STATE_SEGMENT_BYTES = _servers(
    "share.coordinator.state.topic.segment.bytes", _COUNT, 100 << 20, since=KafkaRelease.V4_0
)
PRODUCER_EXPIRATION_MS = _servers("producer.id.expiration.ms", _COUNT, 86_400_000)

COORDINATORS = frozenset((
    OFFSETS_RETENTION_MS,
    OFFSETS_PARTITIONS,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTIONS_PARTITIONS,
    SHARE_STATE_PARTITIONS,
))
"""Settings by which coordinators go, and which no log depends on."""

SETTINGS: tuple[Setting[Any], ...] = tuple(found for found in list(globals().values()) if isinstance(found, Setting))
"""All settings of which kdump knows more than the name: most of them some part of it follows."""


def _by_name() -> dict[str, Named[Any]]:
    found: dict[str, Named[Any]] = {}
    for setting in SETTINGS:  # message.max.bytes is a setting of the server and a topic's default
        found |= {named.name: named for named in setting.names}
    return found


BY_NAME: Mapping[str, Named[Any]] = _by_name()
"""The settings by every name that they have."""


def names_of(settings: Iterable[Setting[Any]]) -> frozenset[str]:
    """Return all names of some settings, for topics and for servers."""
    return frozenset(named.name for setting in settings for named in setting.names)
