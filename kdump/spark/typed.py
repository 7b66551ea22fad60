"""decode=columns: keys and values as columns of the types that their schemas give, as far as Spark has them.

A type that Spark has not is the nearest one that holds its values: unsigned numbers wider ones, times of day and
decimals of more than 38 digits text, nanoseconds microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from kdump.columns.decoding import Choice, TopicColumns, topic_columns
from kdump.columns.names import KEY, VALUE, Decode
from kdump.spark.arrow_types import SCALARS
from kdump.spark.decoding import payload_decoder
from kdump.spark.options import ReadOptions
from kdump.spark.places import find_partitions, reading
from kdump.storage.partition import PartitionLog

MAX_SAMPLED = 16
"""Partitions of a topic that are looked at to find out what its records have."""

_MAX_DIGITS = 38
_NAMES = {kind: name.lower() for name, kind in SCALARS.items()}
_WIDER = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


@dataclass(frozen=True, slots=True)
class Typed:
    """How the keys and values of a read are decoded: the types of those that are, and by what in each topic."""

    types: Mapping[str, pa.DataType]
    topics: Mapping[str, TopicColumns]
    others: TopicColumns

    def of_topic(self, topic: str | None) -> TopicColumns:
        """Return what decodes the records of a topic."""
        return self.topics.get(topic or "", self.others)


def typed(options: ReadOptions) -> Typed:
    """Find out what the partitions of a read hold: one type for all, JSON text where topics differ.

    Raises KdumpError, OSError.
    """
    decoder = payload_decoder(options)
    found = {
        topic: topic_columns(decoder, topic, logs, Decode.COLUMNS, options.schema_id)
        for topic, logs in _sampled(options).items()
    }
    chosen = {name: _common(name, found) for name in (KEY, VALUE)}
    types = {name: kind for name, (kind, _) in chosen.items() if kind is not None}

    def choices(topic: TopicColumns | None) -> Iterator[Choice]:
        own = {each.name: each for each in (topic.choices if topic else ())}
        for name in types:
            common = chosen[name][1]
            yield own.get(name, common) if common.reader else common

    return Typed(
        types,
        {topic: TopicColumns(decoder, topic, tuple(choices(each)), spark_kind) for topic, each in found.items()},
        TopicColumns(decoder, "", tuple(choices(None)), spark_kind),
    )


def _sampled(options: ReadOptions) -> dict[str, list[PartitionLog]]:
    """Return, of each topic that is no internal one, partitions to look at, spread over all it has."""
    by_topic: dict[str, list[PartitionLog]] = {}
    for each in find_partitions(options):
        if not (each.topic or "").startswith("_"):
            by_topic.setdefault(each.topic or "", []).append(each.log)
    for topic, logs in by_topic.items():
        by_topic[topic] = logs[:: -(-len(logs) // MAX_SAMPLED)]
        for log in by_topic[topic]:
            with reading(log):
                _ = log.segments
    return by_topic


def _common(name: str, topics: Mapping[str, TopicColumns]) -> tuple[pa.DataType | None, Choice]:
    """Return the type of the keys or values of all topics that have schemas, and one of those they are read by."""
    there = [
        (spark_kind(field.native), choice)
        for topic in topics.values()
        for field, choice in zip(topic.fields, topic.choices, strict=True)
        if choice.name == name
    ]
    if not there:
        return None, Choice(name)
    kind, choice = there[0]
    if any(other != kind for other, _ in there):
        return pa.string(), Choice(name)
    return kind, choice


def spark_kind(kind: pa.DataType) -> pa.DataType:
    """Return the type of Spark's, as Arrow has it, that a column of this type gets."""
    if kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_kind(field.type)) for field in kind])
    if kinds.is_list(kind):
        return pa.list_(spark_kind(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(spark_kind(kind.key_type), spark_kind(kind.item_type))
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_decimal(kind):
        return pa.string() if kind.precision > _MAX_DIGITS else kind
    if kind in _WIDER:
        return _WIDER[kind]
    return kind if kind in _NAMES else pa.string()


def type_text(kind: pa.DataType, quote: str = "`") -> str:
    """Return a type that Spark has, in DDL; without quotes as Spark's `simpleString` has it."""
    if kinds.is_struct(kind):
        fields = (f"{quote}{field.name}{quote}:{type_text(field.type, quote)}" for field in kind)
        return f"struct<{','.join(fields)}>"
    if kinds.is_list(kind):
        return f"array<{type_text(kind.value_type, quote)}>"
    if kinds.is_map(kind):
        return f"map<{type_text(kind.key_type, quote)},{type_text(kind.item_type, quote)}>"
    if kinds.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]
