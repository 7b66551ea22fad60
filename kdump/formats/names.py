"""Names in a log directory: partition directories, the files inside them, and the files beside them.

    <topic>-<partition>                          partition directory
    <topic>-<partition>.<32 hex>-future          replica being moved here from another log directory
    <topic>-<partition>.<32 hex>-delete          waits for its deletion
    <topic>-<partition>.<32 hex>-stray           replica that this broker was not assigned; kept aside

    <20 digits>.log                              records; the number is the segment's base offset
    <20 digits>.index .timeindex .txnindex       the segment's indexes
    <20 digits>.snapshot                         producer state before that offset
    <20 digits>-<10 digits>.checkpoint           KRaft snapshot: end offset (exclusive) and epoch
    <any of these>.deleted                       waits for its deletion
    <any of these>.cleaned .swap                 being written, and complete, replacement of segments
    <any of these>.tmp .part                     being written

Kafka looks for a partition's number after the last '-', and for any file's offset before the first '.'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from kdump.errors import NameFormatError
from kdump.formats.java_text import WHITESPACE, parse_int, parse_long


class FileKind(StrEnum):
    """What a file is, by the suffix of its name."""

    LOG = "log"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    KRAFT_SNAPSHOT = "checkpoint"
    OTHER = "other"


LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, PRODUCER_SNAPSHOT, KRAFT_SNAPSHOT, OTHER = FileKind

SEGMENT_KINDS = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, PRODUCER_SNAPSHOT)
INDEX_KINDS = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


class State(StrEnum):
    """What is to become of a file or a partition directory, by the end of its name; LIVE ones have none."""

    LIVE = ""
    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"
    TMP = "tmp"
    PART = "part"
    FUTURE = "future"
    DELETE = "delete"
    STRAY = "stray"


LIVE, DELETED, CLEANED, SWAP, TMP, PART, FUTURE, DELETE, STRAY = State

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
QUORUM_STATE = "quorum-state"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
METADATA_SNAPSHOT_KINDS = (KRAFT_SNAPSHOT, BOOTSTRAP_CHECKPOINT)
"""Files with batches of records of the cluster's metadata that are no log."""
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

OFFSET_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
LOG_DIRECTORY_FILES = frozenset({META_PROPERTIES, CLEAN_SHUTDOWN, *OFFSET_CHECKPOINTS})
"""What only a log directory has; other programs have a .lock, too."""

CLUSTER_METADATA_DIR = "__cluster_metadata-0"
REMOTE_LOG_INDEX_CACHE_DIR = "remote-log-index-cache"

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
SCHEMAS_TOPIC = "_schemas"
"""Where a schema registry keeps its schemas, if it is not told otherwise."""

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
"""What a broker tells clients is internal (Kafka: Topic.INTERNAL_TOPICS)."""

_NAMED_FILES = frozenset(
    {
        LEADER_EPOCH_CHECKPOINT,
        PARTITION_METADATA,
        QUORUM_STATE,
        BOOTSTRAP_CHECKPOINT,
        *LOG_DIRECTORY_FILES,
        LOCK,
    }
)
_FILE_STATES = (DELETED, CLEANED, SWAP, TMP, PART)
_DIR_STATES = (DELETE, FUTURE, STRAY)
_OFFSET_DIGITS = 20
_EPOCH_DIGITS = 10
_MAX_DIR_NAME = 255


class FileName(NamedTuple):
    """What the name of a file says.

    `kind` is the whole name where that is always the same, as PARTITION_METADATA. `offset` is
    None where the name has none that Java could read (also for a segment's file: loading such a log fails). `epoch`
    is that of a KRaft snapshot.
    """

    offset: int | None
    kind: FileKind | str
    state: State = LIVE
    epoch: int | None = None

    @property
    def is_kafkas(self) -> bool:
        """Whether Kafka names files so: not `notes.txt`, nor the `server.log` that an operator puts beside the data."""
        return self.kind != OTHER and (self.kind not in SEGMENT_KINDS or self.offset is not None)

    @property
    def is_live_log(self) -> bool:
        """Whether this is the .log of a segment that is in use; its name may still begin with no offset."""
        return self.kind == LOG and self.state == LIVE


class PartitionDirName(NamedTuple):
    """What the name of a partition directory says; `state` is LIVE, FUTURE, DELETE or STRAY.

    Long topic names are cut short in the names of DELETE and STRAY directories.
    """

    topic: str
    partition: int
    unique_id: str | None = None
    state: State = LIVE


MAX_TOPIC = 249
_TOPIC_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def can_be_topic(name: str) -> bool:
    """Return whether Kafka takes a name for a topic (Topic.validate); it becomes a directory's."""
    return 0 < len(name) <= MAX_TOPIC and name not in (".", "..") and _TOPIC_LETTERS.issuperset(name)


def by_topic_and_number(name: str) -> tuple[str, int, str]:
    """Return what sorts the names of partition directories: `orders-2` before `orders-10`."""
    parsed = parse_partition_dir(name)
    return parsed.topic, parsed.partition, name


@lru_cache(1 << 14)
def parse_file_name(name: str) -> FileName:
    """Return what `name` (without directory) says; never fails, as a log directory may hold anything."""
    stem, state = _split_state(name)
    if stem in _NAMED_FILES:
        return FileName(None, stem, state)
    suffix = stem.rpartition(".")[2] if "." in stem else ""
    if suffix == KRAFT_SNAPSHOT:
        return _parse_kraft_snapshot(stem, state)
    return FileName(offset_in_name(name), FileKind(suffix) if suffix in SEGMENT_KINDS else OTHER, state)


def live_logs(files: Iterable[str]) -> list[tuple[int, str]]:
    """Return those of `files`, by name, that are the .log of a segment in use, each after its base offset."""
    found = ((parse_file_name(name), name) for name in files)
    return [(parsed.offset, name) for parsed, name in found if parsed.is_live_log and parsed.offset is not None]


def producer_snapshots(files: Mapping[str, FileName]) -> dict[int, str]:
    """Return the names of the producer snapshots in use, each by its offset."""
    return {
        parsed.offset: name
        for name, parsed in files.items()
        if parsed.kind == PRODUCER_SNAPSHOT and parsed.state == LIVE and parsed.offset is not None
    }


def offset_in_name(name: str) -> int | None:
    """Return the number before the first '.', which Kafka takes for the offset of any file; None where it is none."""
    before, dot, _ = name.partition(".")
    return parse_long(before) if dot else None


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a file for this base offset; `suffix` with its dot, such as ".log" or ".index.swap"."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def kraft_snapshot_name(end_offset: int, epoch: int) -> str:
    """Return the name of the KRaft snapshot of all records before `end_offset`, the last of which is of `epoch`."""
    return f"{end_offset:0{_OFFSET_DIGITS}d}-{epoch:0{_EPOCH_DIGITS}d}.{KRAFT_SNAPSHOT}"


def parse_partition_dir(name: str, path: str | None = None) -> PartitionDirName:
    """Return what the name of a partition directory says.

    Raises NameFormatError, on which a broker refuses to start; `path` is the directory's path for its text.
    """
    body, state = _split_dir_state(name)
    unique_id = None
    if state:
        if not _has_unique_id(name, body):
            raise _not_a_partition(name, path)
        body, _, unique_id = body.rpartition(".")
    topic, _, number = body.rpartition("-")
    partition = parse_int(number)
    if not topic or partition is None:
        raise _not_a_partition(name, path)
    return PartitionDirName(topic, partition, unique_id, state)


def partition_dir_name(topic: str, partition: int, unique_id: str = "", state: State = LIVE) -> str:
    """Return the directory name of a partition; for DELETE and STRAY the topic is cut to fit 255 characters."""
    if not state:
        return f"{topic}-{partition}"
    rest = f"-{partition}.{unique_id}-{state}"
    kept = topic if state == FUTURE else topic[: max(0, _MAX_DIR_NAME - len(rest))]
    return kept + rest


def is_partition_dir(name: str) -> bool:
    """Return whether `name` is a partition directory's."""
    try:
        parse_partition_dir(name)
    except NameFormatError:
        return False
    return True


def _split_state(name: str) -> tuple[str, State]:
    stem, dot, suffix = name.rpartition(".")
    return (stem, State(suffix)) if dot and suffix in _FILE_STATES else (name, LIVE)


def _parse_kraft_snapshot(stem: str, state: State) -> FileName:
    """Parse as Kafka does: both numbers have a fixed width; a temporary file's random part may follow."""
    end_offset = parse_long(stem[:_OFFSET_DIGITS])
    epoch = parse_int(stem[_OFFSET_DIGITS + 1 : _OFFSET_DIGITS + 1 + _EPOCH_DIGITS])
    if end_offset is None or epoch is None:
        return FileName(None, OTHER, state)
    return FileName(end_offset, KRAFT_SNAPSHOT, state, epoch)


def _split_dir_state(name: str) -> tuple[str, State]:
    body, _, suffix = name.rpartition("-")
    return (body, State(suffix)) if suffix in _DIR_STATES else (name, LIVE)


def _has_unique_id(name: str, body: str) -> bool:
    r"""Return whether `name` matches Kafka's `(\S+)-(\S+)\.(\S+)-<state>`, `body` being what comes before the state."""
    dash = body.find("-", 1)
    dot = body.rfind(".", 0, len(body) - 1)
    return 0 < dash < dot - 1 and not any(character in WHITESPACE for character in name)


def _not_a_partition(name: str, path: str | None) -> NameFormatError:
    return NameFormatError(
        f"Found directory {path or name}, '{name}' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion)."
    )
