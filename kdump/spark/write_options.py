"""The options of a write: where to, how records become batches, and the topic's configuration by Kafka's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.errors import CodecError, ConfigError
from kdump.formats.codecs import NAMES, check_level
from kdump.formats.names import MAX_TOPIC, can_be_topic
from kdump.settings.sources import TopicSettings
from kdump.settings.writing import TOPIC_PROPERTIES, WritingSettings
from kdump.spark.options import Given, OptionError, local_path
from kdump.write.packing import Packing

WRITE_OPTIONS = ("path", "topic", "numPartitions", "codec", "codecLevel", "batchBytes", "batchRecords", "leaderEpoch")

_PLAIN = Packing()
COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")
_TYPES = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


class Destination(NamedTuple):
    """The log directory, the topic if it is the same for all rows, and how many partitions a new topic has."""

    path: str
    topic: str | None
    partitions: int | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What is to be written, and how; docs/spark.md explains each."""

    to: Destination
    packing: Packing = field(default_factory=Packing)
    config: WritingSettings = field(default_factory=WritingSettings)
    leader_epoch: int = 0


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a write. Raises OptionError."""
    properties = {name: value for name, value in options.items() if name.lower() in TOPIC_PROPERTIES}
    given = Given({name: value for name, value in options.items() if name not in properties}, WRITE_OPTIONS)
    try:
        settings = TopicSettings.of({name.lower(): value for name, value in properties.items()})
        config = WritingSettings.of(settings)
    except ConfigError as error:
        raise OptionError(f"option {error}") from None
    path = given.text("path")
    if path is None:
        raise OptionError("no path: give save() the log directory to write to")
    topic = given.text("topic")
    if topic is not None:
        check_topic(topic)
    codec = given.choice("codec", NAMES, NAMES[config.codec or 0])
    return WriteOptions(
        Destination(local_path(path), topic, given.number("numPartitions", 1)),
        Packing(
            codec=NAMES.index(codec),
            level=_level(given, NAMES.index(codec)),
            # a broker takes no batch that is larger than a segment or than max.message.bytes
            batch_bytes=min(
                given.number("batchBytes", 1) or _PLAIN.batch_bytes, config.segment_bytes, config.max_message_bytes
            ),
            batch_records=given.number("batchRecords", 1) or _PLAIN.batch_records,
        ),
        config,
        given.number("leaderEpoch", 0) or 0,
    )


def _level(given: Given, codec: int) -> int | None:
    level = given.number("codecLevel", -(1 << 17))
    if level is not None:
        try:
            check_level(codec, level)
        except CodecError as error:
            raise OptionError(f"option codecLevel: {error}") from None
    return level


def check_topic(topic: str) -> None:
    """Raise OptionError for what Kafka does not take for a topic's name; it becomes a directory's."""
    if not can_be_topic(topic):
        raise OptionError(
            f"{topic!r} cannot be a topic's name: expected 1 to {MAX_TOPIC} of a-z, A-Z, 0-9, '.', '_' and '-'"
        )


def check_columns(types: Mapping[str, str], topic: str | None) -> tuple[str, ...]:
    """Return the columns of a DataFrame (name to type, as Spark writes it) that are written. Raises OptionError."""
    by_name = {name.lower(): kind for name, kind in types.items()}
    for name, allowed in _TYPES.items():
        kind = by_name.get(name)
        if kind is not None and kind not in allowed:
            raise OptionError(f"column {name} is {kind}: expected {' or '.join(allowed)}")
    if "value" not in by_name:
        raise OptionError(f"there is no column value, which a record has to have, among {', '.join(types) or 'none'}")
    if topic is None and "topic" not in by_name:
        raise OptionError("there is neither a column topic nor an option topic")
    return tuple(name for name in COLUMNS if name in by_name)
