"""Which partitions the new cluster has: those of the metadata, and those of directories that it does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kdump.cluster.choice import Chosen
from kdump.cluster.copies import Copy
from kdump.cluster.wanted import Note, NoteKind, Refusal, Wanted
from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.formats.words import listed
from kdump.settings.sources import HASHED_TOPICS
from kdump.topics.cluster_image import ClusterImage, Topic


@dataclass(slots=True)
class AtHand:
    """The partitions of the new cluster, their copies, and what is to be said of the rest.

    `ids_to_write` are copies without partition.metadata, with the topic id that they get.
    """

    partitions: list[Chosen] = field(default_factory=list)
    copies: dict[tuple[str, int], list[Copy]] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)
    ids_to_write: list[tuple[Copy, bytes]] = field(default_factory=list)
    left_out: list[Copy] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def topics_at_hand(image: ClusterImage, copies: Sequence[Copy], wanted: Wanted, *, has_metadata: bool) -> AtHand:
    """Join the metadata with the directories."""
    found = AtHand()
    ids = _topic_ids(image, copies, found, has_metadata=has_metadata)
    usable: list[Copy] = []
    for copy in copies:
        if copy.name.state in (names.DELETE, names.STRAY):
            found.left_out.append(copy)
            text = f"{copy.path} is left as it is and counts as no copy"
            found.notes.append(Note(NoteKind.LEFT_OUT, copy.name.topic, text))
        elif copy.name.topic not in ids:
            found.left_out.append(copy)
        elif copy.topic_id not in (None, ids[copy.name.topic]):
            found.left_out.append(copy)
            text = f"{copy.path} is of an older topic of this name (id {format_uuid(copy.topic_id or b'')})"
            found.notes.append(Note(NoteKind.LEFT_OUT, copy.name.topic, text))
        else:
            usable.append(copy)
            if copy.topic_id is None:
                found.ids_to_write.append((copy, ids[copy.name.topic]))
    for copy in usable:
        found.copies.setdefault(copy.key, []).append(copy)
    by_id = {topic.topic_id: topic for topic in image.topics.values()}
    for name, topic_id in sorted(ids.items()):
        found.partitions += _partitions(name, topic_id, by_id.get(topic_id), found, wanted)
    return found


def _topic_ids(image: ClusterImage, copies: Sequence[Copy], found: AtHand, *, has_metadata: bool) -> dict[str, bytes]:
    """Return the id of each topic that the new cluster has, by name."""
    known = {topic.name: topic.topic_id for topic in image.topics.values()}
    names_of = {topic_id: name for name, topic_id in known.items()}
    stated: dict[str, dict[bytes, Copy]] = {}
    without: dict[str, Copy] = {}
    for copy in copies:
        if copy.name.state in (names.DELETE, names.STRAY) or copy.name.topic in known:
            continue
        if copy.topic_id is None:
            without.setdefault(copy.name.topic, copy)
        else:
            stated.setdefault(copy.name.topic, {}).setdefault(copy.topic_id, copy)
    for name, by_id in stated.items():
        if len(by_id) > 1:
            paths = " and ".join(copy.path for copy in by_id.values())
            reason = f"two topic ids for one name: {paths}"
            way_out = "move the directories of the one that is not wanted out of the log directories"
            found.refusals.append(Refusal(name, reason, way_out))
            continue
        ((topic_id, copy),) = by_id.items()
        other = names_of.setdefault(topic_id, name)
        if other != name:
            reason = f"one topic id under two names, {other} and {name}: {copy.path}"
            way_out = "rename the directories, or move those of one name out of the log directories"
            found.refusals.append(Refusal(name, reason, way_out))
        known[name] = topic_id
        found.adopted.append(name)
    for name, copy in without.items():
        if name not in known and name not in stated:
            reason = f"no copy has a {names.PARTITION_METADATA}, and no metadata knows its id: {copy.path}"
            way_out = f"write {copy.path}/{names.PARTITION_METADATA} (version: 0, topic_id: an id of its own)"
            found.refusals.append(Refusal(name, reason, way_out))
    if not has_metadata:
        found.adopted.sort()
    return known


def refuse_unknown(found: AtHand, wanted: Wanted) -> Iterator[Refusal]:
    """Say that the operator has to decide about topics that the metadata does not know."""
    if found.adopted and wanted.unknown_topics is None:
        reason = "the metadata does not know these topics: it is older than they are, or they were deleted"
        way_out = "--unknown-topics adopt (nothing is lost) or --unknown-topics leave-out"
        yield Refusal(listed(found.adopted, 3), reason, way_out)


def _partitions(name: str, topic_id: bytes, topic: Topic | None, found: AtHand, wanted: Wanted) -> Iterator[Chosen]:
    """Yield the partitions of a topic, without holes from 0: without a partition 0 no broker can register."""
    old = topic.partitions if topic else {}
    seen = [partition for at, partition in found.copies if at == name]
    number = max([*old, *seen], default=-1) + 1
    asked = wanted.partitions.get(name)
    if asked is not None and asked < number:
        reason = f"partition {number - 1} is there, so there are at least {number} partitions"
        found.refusals.append(Refusal(name, reason, f"ask for {number} or more"))
    elif topic is None and name in HASHED_TOPICS and asked is None:
        reason = f"nothing says how many partitions it had: {number - 1} is the highest in the PATHs"
        option, setting = _option(name), HASHED_TOPICS[name]
        way_out = f"{option} N, as the old {setting.name} was (Kafka's default: {setting.default})"
        found.refusals.append(Refusal(name, reason, way_out))
    for partition in range(max(number, asked or 0)):
        yield Chosen(name, topic_id, partition, old.get(partition))


def _option(topic: str) -> str:
    return {
        names.CONSUMER_OFFSETS_TOPIC: "--offsets-partitions",
        names.TRANSACTION_STATE_TOPIC: "--transaction-partitions",
    }.get(topic, "--share-state-partitions")


def leave_out_unknown(copies: Iterable[Copy], image: ClusterImage) -> list[Copy]:
    """Return the copies whose topic the metadata knows, by id where they have one."""
    by_name = {topic.name: topic.topic_id for topic in image.topics.values()}
    return [copy for copy in copies if copy.name.topic in by_name]
