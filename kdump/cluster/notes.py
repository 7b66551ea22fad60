"""What the operator should know before the new cluster starts: what is behind, what is left out, what would go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kdump.cluster.choice import Chosen
from kdump.cluster.copies import Copy
from kdump.cluster.metadata_copies import MetadataCopy
from kdump.cluster.wanted import Note, NoteKind
from kdump.errors import ConfigError
from kdump.formats import names
from kdump.formats.words import byte_words, number_words
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import PropertyFile, Settings
from kdump.topics.cluster_image import ClusterImage


@dataclass(slots=True)
class Expired:
    """What retention deletes of a topic soon after the start: records of segments that are too old, and bytes."""

    topic: str
    retention_ms: int
    partitions: int = 0
    records: int = 0
    size: int = 0
    is_all: bool = True

    def note(self) -> Note:
        """Return the note for the operator."""
        what = "all of its" if self.is_all else "its oldest"
        text = (
            f"retention.ms={self.retention_ms}: the brokers delete {what} {number_words(self.records, 'record')}"
            f" ({byte_words(self.size)}, {number_words(self.partitions, 'partition')}) soon after the start; to keep"
            " them: --hold-retention"
        )
        return Note(NoteKind.RETENTION, self.topic, text)


def expired_topics(
    image: ClusterImage, partitions: Sequence[Chosen], now: int, properties: Mapping[str, str]
) -> Iterator[Expired]:
    """Yield the topics of which segments are older than retention.ms at a time (ms), by name.

    `properties` are those of the brokers' server.properties.
    """
    settings = Settings(image.configs, None, (PropertyFile("", None, properties),))
    found: dict[str, Expired] = {}
    for chosen in partitions:
        if chosen.best is None:
            continue
        try:
            config = RetentionSettings.of(settings.of(chosen.topic))
        except ConfigError:
            continue
        if not config.deletes or config.retention_ms < 0:
            continue
        topic = found.setdefault(chosen.topic, Expired(chosen.topic, config.retention_ms))
        old = 0
        for age in chosen.best.ages:
            if age.largest_timestamp >= now - config.retention_ms:
                break
            topic.records += age.records
            topic.size += age.size
            old += bool(age.records)
        topic.partitions += bool(old)
        topic.is_all = topic.is_all and old == sum(bool(age.records) for age in chosen.best.ages)
    yield from (topic for _, topic in sorted(found.items()) if topic.records)


def notes_on_state(
    taken: MetadataCopy | None, copies: Sequence[MetadataCopy], adopted: Sequence[str]
) -> Iterator[Note]:
    """Say what the metadata is, and what is gone with it."""
    if taken is None or taken.state is None:
        text = (
            "no metadata: topics and their ids come from the directories. Topic settings, ACLs, SCRAM users, quotas and"
            " delegation tokens are gone: set them again before clients are let in"
        )
        yield Note(NoteKind.LOST, "cluster", text)
        text = "retention.ms=-1 and retention.bytes=-1: nothing is deleted and nothing compacted before you set it"
        yield from (Note(NoteKind.SETTING, topic, text) for topic in adopted if topic not in names.INTERNAL_TOPICS)
        return
    state = taken.state
    text = f"{taken.path}: epoch {state.epoch}, {state.end_offset} records"
    older = [copy for copy in copies if copy is not taken and copy.state and copy.rank < taken.rank]
    if older:
        text += f"; {len(older)} older cop{'y' if len(older) == 1 else 'ies'} not used"
    yield Note(NoteKind.METADATA, "cluster", text)
    if len(copies) == 1 or not any(copy is not taken and copy.rank == taken.rank for copy in copies):
        text = "what the old controllers wrote after the end of this copy is not known here"
        yield Note(NoteKind.METADATA, "cluster", text)
    if state.held_back:
        text = f"{state.held_back} records of a metadata transaction that never ended do not count"
        yield Note(NoteKind.METADATA, "cluster", text)
    for topic in adopted:
        text = "not in the metadata: made with retention.ms=-1 and retention.bytes=-1; set what it had"
        yield Note(NoteKind.SETTING, topic, text)


def notes_on_partitions(partitions: Sequence[Chosen], ids: Sequence[tuple[Copy, bytes]]) -> Iterator[Note]:
    """Say what is to be known of each partition, and of its other copies."""
    for copy, _ in ids:
        yield Note(NoteKind.LEFT_OUT, copy.path, f"{names.PARTITION_METADATA} is missing and is written")
    open_ids: dict[str, list[str]] = {}
    for chosen in partitions:
        best = chosen.best
        if best is None:
            yield Note(NoteKind.EMPTY, chosen.name, "no copy: starts empty")
            continue
        yield from _on_copies(chosen, best)
        for each in best.open_transactions:
            open_ids.setdefault(each, []).append(chosen.name)
    for each in sorted(open_ids):
        text = "its transaction is open: its own timeout, or initTransactions of the same id, ends it"
        yield Note(NoteKind.TRANSACTION, each, text)


def _on_copies(chosen: Chosen, best: Copy) -> Iterator[Note]:
    if chosen.lost_records:
        text = f"cuts {number_words(chosen.lost_records, 'valid record')} after damage"
        yield Note(NoteKind.LOST, chosen.name, text)
    for copy in chosen.copies:
        if copy.damage is not None:
            text = f"{copy.path}: {copy.damage.text}; valid up to offset {copy.valid_end}"
            yield Note(NoteKind.DAMAGED, chosen.name, text)
        elif copy.valid_end < best.valid_end:
            text = f"{copy.path} ends at {copy.valid_end}, {best.valid_end - copy.valid_end} behind: it follows"
            yield Note(NoteKind.BEHIND, chosen.name, text)
    mark = best.line(names.REPLICATION_CHECKPOINT)
    is_replicated = len(chosen.old["replicas"] if chosen.old else chosen.copies) > 1
    if is_replicated and mark is not None and mark < best.valid_end:
        offsets = f"offsets {mark}\N{EN DASH}{best.valid_end - 1}"
        text = f"{offsets} were above the high watermark that was last written; they count as committed"
        yield Note(NoteKind.UNCOMMITTED, chosen.name, text)
    for copy in chosen.extra:
        yield Note(NoteKind.LEFT_OUT, chosen.name, f"{copy.path} is set aside: the node has a better copy")
    line = best.line(names.LOG_START_CHECKPOINT)
    if line is not None and line > best.valid_end:
        text = (
            f"log start offset {line} is above the valid end {best.valid_end}: left out, as with it all records would"
            " be deleted"
        )
        yield Note(NoteKind.CHECKPOINT, chosen.name, text)
