"""Findings about a partition's topic id, each with the command that restores it where something at hand has the id."""

from __future__ import annotations

from kdump.findings.finding import Finding, found
from kdump.findings.kind import Remedy
from kdump.formats.uuids import format_uuid
from kdump.storage.partition import PartitionLog
from kdump.topics.topic_ids import KnownTopicId, TopicIds

_KEPT = Remedy(
    None, (), "if they are of an earlier topic of that name, leave it: the broker keeps the directory as -stray"
)


def of_file(code: str, path: str, text: str, log: PartitionLog, ids: TopicIds) -> Finding:
    """Return the finding about a partition.metadata that is missing or cannot be read. Raises OSError."""
    known = ids.of(log)
    if known is not None:
        return found(code, path, text)._replace(ways=(_writes(known),))
    topic = log.name.topic if log.name else "TOPIC"
    note = "write version: 0 and topic_id: ID into it, with the TopicId of kafka-topics.sh --describe --topic"
    return found(code, path, text)._replace(ways=(Remedy(None, (), f"{note} {topic}"),))


def of_other_id(path: str, topic_id: bytes, known: KnownTopicId, code: str = "KD-META-TOPIC-ID") -> Finding:
    """Return the finding about a partition whose topic id is not the one that is known of the topic."""
    text = f"the topic id is {format_uuid(topic_id)}, that of {known.source} {format_uuid(known.topic_id)}"
    return found(code, path, text)._replace(ways=ways_to(known, topic_id))


def of_unknown_id(path: str, text: str, topic: str) -> Finding:
    """Return the finding about a topic whose partitions have several ids, of which nothing says which one is right."""
    note = f"find out which one is right: kafka-topics.sh --describe --topic {topic}; kdump repair --topic-id writes it"
    return found("KD-META-TOPIC-ID", path, text)._replace(ways=(Remedy(None, (), note),))


def ways_to(known: KnownTopicId, topic_id: bytes) -> tuple[Remedy, ...]:
    """Return the ways out of another topic id than the known one."""
    if known.is_damaged_in(topic_id):
        return (_writes(known),)
    note = "if its records are of that topic: writes its id"
    return Remedy("repair", ("--topic-id", format_uuid(known.topic_id), "--apply"), note), _KEPT


def _writes(known: KnownTopicId) -> Remedy:
    id_ = format_uuid(known.topic_id)
    option = () if known.is_beside else ("--topic-id", id_)
    return Remedy("repair", (*option, "--apply"), f"writes version: 0, topic_id: {id_} (from {known.source})")
