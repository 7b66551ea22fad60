"""The options of the data source: their names, as Spark's own Kafka source has them where it has them, and values."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from kdump.columns.names import Decode
from kdump.errors import KdumpError
from kdump.formats.close_names import closest
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.time_units import MS
from kdump.txns.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.spark.typed import Typed

EARLIEST, LATEST = "earliest", "latest"
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
"""What stands for the ends of a partition in offsets as JSON."""

READ_OPTIONS = (
    "path", "paths", "kind", "columns", "includeHeaders", "includeControlRecords",
    "topics", "subscribe", "subscribePattern", "assign", "partitions", "replicas",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "maxDecompressedBytes",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "decode", "schemas", "schemaId", "isolationLevel", "kafka.isolation.level",
    "deep", "now", "retentionMs", "select", "ignore", "severities",
)  # fmt: skip

DEFAULT_DELAY_MS = 15 * 60_000
"""Of maxTriggerDelay, as in Spark's Kafka source."""
_DELAY_UNITS = {**MS, "m": MS["min"]}


class RowKind(StrEnum):
    """What the rows are."""

    RECORDS = "records"
    BATCHES = "batches"
    SEGMENTS = "segments"
    FINDINGS = "findings"


class Replicas(StrEnum):
    """Which replicas of a partition are read."""

    ONE = "one"
    ALL = "all"


PartitionOffsets = dict[tuple[str, int], int]
Value = TypeVar("Value")


class OptionError(KdumpError):
    """An option of the data source that does not exist, or a value that makes no sense."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is wanted: an offset for each partition, or a time (ms), or `default` (earliest or latest).

    Of a partition that neither `offsets` nor `times` (ms) name, everything is wanted. With `is_strict` a time that no
    record reaches is an error.
    """

    default: int
    offsets: PartitionOffsets = field(default_factory=dict)
    timestamp: int | None = None
    times: PartitionOffsets = field(default_factory=dict)
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is to be read, and how; docs/spark.md explains each.

    `typed` is what decode=columns has found out (kdump.spark.source).
    """

    paths: tuple[str, ...]
    kind: RowKind = RowKind.RECORDS
    columns: tuple[str, ...] = ()
    headers: bool = False
    control: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    decode: Decode | None = None
    schemas: str | None = None
    schema_id: int | None = None
    typed: Typed | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    assigned: frozenset[tuple[str, int]] | None = None
    partitions: tuple[tuple[int, int], ...] = ()
    replicas: Replicas = Replicas.ONE
    start: Bound = field(default_factory=lambda: Bound(EARLIEST_OFFSET))
    stop: Bound = field(default_factory=lambda: Bound(LATEST_OFFSET))
    min_partitions: int | None = None
    task_offsets: int | None = None
    fails: bool = True
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_DELAY_MS
    limit: int = DEFAULT_LIMIT
    deep: bool = False
    now: int | None = None
    retention_ms: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: tuple[tuple[str, str], ...] = ()

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether a partition is one of those asked for."""
        if self.assigned is not None and (topic, partition) not in self.assigned:
            return False
        if self.topics and not any(fnmatchcase(topic, pattern) for pattern in self.topics):
            return False
        if self.topic_pattern is not None and not re.fullmatch(self.topic_pattern, topic):
            return False
        return not self.partitions or any(first <= partition <= last for first, last in self.partitions)

    @property
    def chooses(self) -> bool:
        """Whether not all partitions are asked for."""
        return bool(self.topics or self.topic_pattern or self.partitions) or self.assigned is not None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a read. Raises OptionError."""
    given = Given(options, READ_OPTIONS)
    if given.ignored:
        _note_ignored(tuple(given.ignored))
    kind = RowKind(given.choice("kind", tuple(RowKind), RowKind.RECORDS))
    decode = given.choice("decode", tuple(Decode), "")
    topics = (*given.names("topics"), *given.names("subscribe"))
    pattern = given.value("subscribePattern", _pattern)
    assigned = given.value("assign", _assignment)
    if sum(map(bool, (topics, pattern, assigned))) > 1:
        raise OptionError("topics (or subscribe), subscribePattern and assign exclude each other: give one of them")
    most, least = given.number("maxOffsetsPerTrigger", 1), given.number("minOffsetsPerTrigger", 1)
    if most is not None and least is not None and least > most:
        raise OptionError("minOffsetsPerTrigger is larger than maxOffsetsPerTrigger")
    return ReadOptions(
        paths=given.paths(),
        kind=kind,
        columns=given.names("columns"),
        headers=given.truth("includeHeaders", False),
        control=given.truth("includeControlRecords", False),
        isolation=_isolation(given),
        decode=Decode(decode) if decode else None,
        schemas=given.text("schemas"),
        schema_id=given.number("schemaId", 0),
        topics=topics,
        topic_pattern=pattern,
        assigned=assigned,
        partitions=given.value("partitions", _ranges) or (),
        replicas=Replicas(given.choice("replicas", tuple(Replicas), Replicas.ONE)),
        start=_bound(given, "starting", EARLIEST_OFFSET),
        stop=_bound(given, "ending", LATEST_OFFSET),
        min_partitions=given.number("minPartitions", 1),
        task_offsets=given.number("maxRecordsPerPartition", 1) if kind is RowKind.RECORDS else None,
        fails=given.truth("failOnDataLoss", True),
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=given.value("maxTriggerDelay", _delay) or DEFAULT_DELAY_MS,
        limit=given.number("maxDecompressedBytes", 1) or DEFAULT_LIMIT,
        deep=given.truth("deep", False),
        now=given.number("now", 0),
        retention_ms=given.number("retentionMs", -1),
        select=given.names("select"),
        ignore=given.names("ignore"),
        severities=tuple(_severity(text) for text in given.names("severities")),
    )


@lru_cache
def _note_ignored(names: tuple[str, ...]) -> None:
    """Say once that options of a Kafka client mean nothing here."""
    import logging

    logging.getLogger("kdump.spark").warning("no broker is asked: ignored %s", ", ".join(names))


def _isolation(given: Given) -> Isolation:
    """Return the isolation level, under either of its names; that of Kafka's client counts where both are given."""
    choices = tuple(level.value for level in Isolation)
    name = "kafka.isolation.level" if given.text("kafka.isolation.level") is not None else "isolationLevel"
    return Isolation(given.choice(name, choices, Isolation.READ_UNCOMMITTED.value))


CLIENT_OPTIONS = re.compile(r"kafka\..+|kafkaconsumer\.polltimeoutms|fetchoffset\..+|groupidprefix", re.IGNORECASE)
"""Options of Spark's own Kafka source that say how it talks to brokers: taken, and ignored."""


class Given:
    """The options that were given, each asked for by name and kind of value."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        """`known` are the names that there are; case does not matter. Raises OptionError for another."""
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        self.ignored = sorted(name for name in options if name.lower() not in names and CLIENT_OPTIONS.fullmatch(name))
        """Names of options that mean nothing here."""
        for name in options:
            if name.lower() not in names and name not in self.ignored:
                raise OptionError(_unknown("option", name, known))

    def text(self, name: str) -> str | None:
        """Return the value as it was given; None without one."""
        return self._values.get(name.lower())

    def value(self, name: str, parse: Callable[[str], Value]) -> Value | None:
        """Return the value as `parse` reads it, which raises ValueError with what it expects. Raises OptionError."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise OptionError(f"option {name} is {text!r}: expected {error}") from None

    def truth(self, name: str, default: bool) -> bool:
        """Return true or false."""
        found = self.value(name, _truth)
        return default if found is None else found

    def number(self, name: str, least: int) -> int | None:
        """Return a whole number."""

        def parse(text: str) -> int:
            if not re.fullmatch(r"-?\d{1,19}", text.strip()) or int(text) < least:
                raise ValueError(f"a number from {least} on")
            return int(text)

        return self.value(name, parse)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of several words."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise OptionError(_unknown(name, text, choices))
        return text.lower()

    def names(self, name: str) -> tuple[str, ...]:
        """Return words with commas between them."""
        text = self.text(name) or ""
        return tuple(word.strip() for word in text.split(",") if word.strip())

    def paths(self) -> tuple[str, ...]:
        """Return what load() was given: one path, or several as Spark hands them on. Raises OptionError without any."""
        paths = self.value("paths", _path_list) or []
        one = self.text("path")
        found = tuple(local_path(path) for path in [*([one] if one is not None else []), *paths])
        if not found:
            raise OptionError("no path: give load() a log directory, a partition directory or a pattern of them")
        return found


def local_path(path: str) -> str:
    """Return a path, which may be a file: URL, as an absolute one here. Raises OptionError for another URL."""
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]+):(?=/)", path)
    if scheme and scheme[1].lower() != "file":
        raise OptionError(
            f"{path}: {scheme[1]}: cannot be read from here: mount it at the same place on the driver and all executors"
        )
    if scheme:
        from urllib.parse import unquote

        path = "/" + unquote(path[len("file:") :]).lstrip("/")
    if not path:
        raise OptionError("the path is empty")
    return os.path.abspath(path)


def _unknown(what: str, name: str, known: tuple[str, ...]) -> str:
    by_case = {each.lower(): each for each in known}
    close = closest(name.lower(), by_case)
    hint = f"did you mean {by_case[close]}?" if close else f"expected one of {', '.join(known)}"
    return f"there is no {what} {name!r}: {hint}"


def _truth(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def _delay(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in ("", *_DELAY_UNITS):
        raise ValueError("a time like 15m, 90s or 500ms")
    return int(found[1]) * _DELAY_UNITS[found[2] or "ms"]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _json(text: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(expected) from None


def _path_list(text: str) -> list[str]:
    expected = "a JSON list of paths"
    found = _json(text, expected)
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ValueError(expected)
    return found


def _assignment(text: str) -> frozenset[tuple[str, int]]:
    expected = 'topics with their partitions as JSON, like {"orders":[0,1]}'
    found = _json(text, expected)
    if not isinstance(found, dict) or not all(isinstance(numbers, list) for numbers in found.values()):
        raise ValueError(expected)
    if not all(type(number) is int for numbers in found.values() for number in numbers):
        raise ValueError(expected)
    return frozenset((topic, number) for topic, numbers in found.items() for number in numbers)


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,10})(?:\s*-\s*(\d{1,10}))?\s*", part)
        if not found:
            raise ValueError("numbers of partitions and ranges of them, like 0,3,8-15")
        ranges.append((int(found[1]), int(found[2] or found[1])))
    return tuple(ranges)


def partition_offsets(text: str) -> PartitionOffsets:
    """Return the offsets of a JSON text, {"topic": {"partition": offset}}. Raises ValueError with what is expected."""
    words = f'{EARLIEST}, {LATEST}, or offsets by topic and partition as JSON, like {{"orders":{{"0":23,"1":-2}}}}'
    return _by_partition(text, EARLIEST_OFFSET, words)


def _by_partition(text: str, least: int, expected: str) -> PartitionOffsets:
    """Return the numbers, from `least` on, of a JSON text by topic and partition. Raises ValueError(expected)."""
    found = _json(text, expected)
    if not isinstance(found, dict):
        raise ValueError(expected)
    offsets: PartitionOffsets = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise ValueError(expected)
        for number, offset in partitions.items():
            if not re.fullmatch(r"\d{1,10}", number) or type(offset) is not int or offset < least:
                raise ValueError(expected)
            offsets[topic, int(number)] = offset
    return offsets


def _partition_times(text: str) -> PartitionOffsets:
    """Return the times (ms) of a JSON text. Raises ValueError with what is expected."""
    return _by_partition(text, 0, 'times (ms) by topic and partition as JSON, like {"orders":{"0":1700000000000}}')


def _bound(given: Given, end: str, default: int) -> Bound:
    timestamp = given.number(f"{end}Timestamp", 0)
    name = f"{end}Offsets"
    text = (given.text(name) or "").strip().lower()
    times = given.value(f"{end}OffsetsByTimestamp", _partition_times)
    if times is not None:
        if text or timestamp is not None:
            others = f"{end}Timestamp and {end}OffsetsByTimestamp"
            raise OptionError(f"{name}, {others} exclude each other: give one of them")
        strategy = given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        return Bound(default, times=times, is_strict=end == "starting" and strategy == "error")
    if timestamp is not None:
        if text:
            raise OptionError(f"{name} and {end}Timestamp exclude each other: give one of them")
        return Bound(default, timestamp=timestamp)
    if text in ("", EARLIEST, LATEST):
        bound = Bound({"": default, EARLIEST: EARLIEST_OFFSET, LATEST: LATEST_OFFSET}[text])
    else:
        bound = Bound(default, given.value(name, partition_offsets) or {})
    if default == LATEST_OFFSET and EARLIEST_OFFSET in (bound.default, *bound.offsets.values()):
        raise OptionError(f"{name} cannot be {EARLIEST} (-2): that would be nothing")
    return bound


def _severity(text: str) -> tuple[str, str]:
    code, equals, severity = text.partition("=")
    if not equals:
        raise OptionError(f"option severities has {text!r}: expected CODE=level")
    return code, severity
