"""What is in log directories and partitions, as plain facts: whose they are, offsets, times, sizes, leftovers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kdump.disk.reading import status_of
from kdump.errors import CheckpointError, KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.codecs import NAMES
from kdump.formats.names import FileName, PartitionDirName, parse_file_name
from kdump.formats.uuids import format_uuid
from kdump.storage.broker import BrokerIdentity, Duplicate, PartitionPlaces, identity_of
from kdump.storage.checkpoints import Checkpoints, PartitionCheckpoints, remote_start_offset
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import SegmentInfo, segment_info
from kdump.storage.live import broker_on
from kdump.storage.partition import PartitionLog

if TYPE_CHECKING:
    from kdump.query.outline import Outline

Result = TypeVar("Result")


class FileInfo(NamedTuple):
    """A file of a partition or log directory; `kind`, `state`, `offset`, `epoch` are what its name says."""

    name: str
    size: int
    kind: str = names.OTHER
    state: str = names.LIVE
    offset: int | None = None
    epoch: int | None = None


class Placement(NamedTuple):
    """What the cluster's metadata says of a partition directory.

    `topic` is the topic with the directory's topic id, `replicas`, `isr` and `leader` are that partition's; None where
    the cluster knows no such topic or partition, or has no leader. `topic_id` is the id that the cluster has for the
    directory's topic name. `stray` says why a broker takes the replica for a stray one at start, and sets it aside.
    `min_insync` is min.insync.replicas, at most the number of replicas. `directories` are the ids of the log
    directories that the replicas are in, in their order; None where the cluster does not know them. `next_leader` is
    the one that the controller elects when the present one goes; None for nobody. `is_tiered`: a part of the topic's
    logs may be in remote storage.
    """

    topic: str | None
    topic_id: str | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    leader: int | None
    stray: str | None
    min_insync: int | None = None
    directories: tuple[bytes, ...] | None = None
    next_leader: int | None = None
    is_tiered: bool = False

    @property
    def is_under_replicated(self) -> bool:
        """Whether replicas are missing in the ISR."""
        return self.replicas is not None and self.isr is not None and len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether producers with acks=all are refused: NOT_ENOUGH_REPLICAS."""
        return self.min_insync is not None and self.isr is not None and len(self.isr) < self.min_insync


class PartitionInfo(NamedTuple):
    """One partition directory.

    `log_start_offset` and `end_offset` (absolute) bound what a broker would serve from this disk. `size` is that of
    the logs in bytes, `total_size` that of all files. `leftovers` have a suffix, and a broker removes them at start or
    completes what they are part of; `replaced` are those that it removes then for .swap files. `orphans` are index
    files without a log; `unexpected` are files that Kafka does not write (among them files of a segment from whose name
    no offset can be read: with one a broker does not start). `problems` are texts of what cannot be parsed, `errors`
    say why files cannot be read, those of segments among them. `placement` is None where the cluster's metadata is not
    at hand, `outline` where nobody has asked for it (kdump.operations.outline) and without segments.
    """

    path: str
    topic: str | None
    partition: int | None
    state: str
    unique_id: str | None
    topic_id: str | None
    checkpoints: PartitionCheckpoints
    segments: tuple[SegmentInfo, ...]
    size: int
    total_size: int
    log_start_offset: int
    end_offset: int | None
    records: int | None
    first_timestamp: int | None
    largest_timestamp: int | None
    codecs: tuple[str, ...]
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshots: tuple[FileInfo, ...]
    kraft_snapshots: tuple[FileInfo, ...]
    leftovers: tuple[FileInfo, ...]
    replaced: tuple[FileInfo, ...]
    orphans: tuple[FileInfo, ...]
    unexpected: tuple[FileInfo, ...]
    problems: tuple[str, ...]
    errors: tuple[OSError, ...]
    placement: Placement | None = None
    name: PartitionDirName | None = None
    outline: Outline | None = None

    @property
    def is_damaged(self) -> bool:
        """Whether one of its logs is damaged."""
        return any(segment.damage for segment in self.segments)

    @property
    def remote_start_offset(self) -> int | None:
        """Where (absolute) the log of a tiered topic starts in remote storage; None where all of it is local."""
        is_tiered = self.placement is not None and self.placement.is_tiered
        return remote_start_offset(self.checkpoints.log_start, self.log_start_offset, lambda: is_tiered)


class LogDirectoryInfo(NamedTuple):
    """One log directory, its partitions apart.

    `checkpoints` has the number of entries of each offset checkpoint that is there. `not_partitions` are directories
    with whose names a broker refuses to start; `missing` are partitions (topic, number) that a checkpoint has and the
    directory has not. `problems` are texts of what cannot be parsed, `errors` say why files cannot be read. `release`
    is that of Kafka which wrote the directory, as `4.3`, and `is_controller` whether its node is a controller and no
    broker, where the cluster's metadata tells it. `has_broker`: one is running on it.
    `never_started`: it was formatted, and nothing has run on it.
    """

    path: str
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    clean_shutdown: bool
    broker_epoch: int | None
    partition_count: int
    checkpoints: dict[str, int]
    leftovers: tuple[FileInfo, ...]
    not_partitions: tuple[str, ...]
    missing: tuple[tuple[str, int], ...]
    problems: tuple[str, ...]
    errors: tuple[OSError, ...]
    has_broker: bool = False
    release: str | None = None
    is_controller: bool = False
    never_started: bool = False


class Faults:
    """What was in the way: texts of what cannot be parsed (`problems`), and why files cannot be read (`errors`)."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.errors: list[OSError] = []

    def tried(self, read: Callable[[], Result]) -> Result | None:
        """Return what `read` gives; None where it fails."""
        try:
            return read()
        except KdumpError as error:
            self.problems.append(str(error))
        except OSError as error:
            self.errors.append(error)
        return None


def log_directory_info(directory: LogDirectory, checkpoints: Checkpoints) -> LogDirectoryInfo:
    """Return the facts about a log directory."""
    faults, bad = Faults(), checkpoints.errors.values()
    meta = faults.tried(directory.meta_properties)
    shutdown = faults.tried(directory.clean_shutdown_file)
    checkpointed = {key for lines in checkpoints.lines.values() for key in lines}
    holder = broker_on(directory.path)
    files = (_file_info(directory.path, name, parse_file_name(name)) for name in directory.files)
    return LogDirectoryInfo(
        path=directory.path,
        cluster_id=meta.cluster_id if meta else None,
        node_id=meta.node_id if meta else None,
        directory_id=format_uuid(meta.directory_id) if meta and meta.directory_id else None,
        clean_shutdown=directory.clean_shutdown,
        broker_epoch=shutdown.broker_epoch if shutdown else None,
        partition_count=len(directory.partition_names),
        checkpoints={name: len(lines) for name, lines in checkpoints.lines.items() if name in directory.files},
        leftovers=tuple(file for file in files if file.state != names.LIVE),
        not_partitions=tuple(sorted(name for name, _ in directory.bad_names())),
        missing=tuple(sorted(checkpointed - directory.checkpointed())),
        problems=(*(str(error) for error in bad if isinstance(error, CheckpointError)), *faults.problems),
        errors=(*(error for error in bad if isinstance(error, OSError)), *faults.errors),
        has_broker=holder is not None and not holder.is_kdump,
        never_started=directory.never_started,
    )


Placing = Callable[[PartitionDirName | None, bytes | None], Placement | None]
"""From a partition directory's name and topic id to what the cluster's metadata says of it."""


def partition_info(
    log: PartitionLog,
    checkpoints: PartitionCheckpoints | None = None,
    *,
    count: bool = False,
    placing: Placing | None = None,
) -> PartitionInfo:
    """Return the facts about a partition directory. With `count` all batches are read."""
    checkpoints = checkpoints or PartitionCheckpoints()
    faults = Faults()
    metadata = faults.tried(lambda: log.metadata)
    knows_topic = not (faults.problems or faults.errors)
    epochs = faults.tried(lambda: log.leader_epochs)
    last = log.segments[-1] if log.segments else None
    segments = tuple(segment_info(segment, count=count, is_last=segment is last) for segment in log.segments)
    log_start = checkpoints.log_start_offset(segments[0].base_offset if segments else 0)
    orphan_names = set(log.orphans())
    files = [_file_info(log.path, name, parsed) for name, parsed in log.files.items()]
    replaced = set(log.replaced)
    live = [file for file in files if file.state == names.LIVE and file.name not in orphan_names | replaced]
    return PartitionInfo(
        path=log.path,
        topic=log.name.topic if log.name else None,
        partition=log.name.partition if log.name else None,
        state=log.name.state if log.name else names.LIVE,
        unique_id=log.name.unique_id if log.name else None,
        topic_id=format_uuid(metadata.topic_id) if metadata else None,
        checkpoints=checkpoints,
        segments=segments,
        size=sum(segment.size for segment in segments),
        total_size=sum(file.size for file in files),
        log_start_offset=log_start,
        end_offset=_log_end(segments, log_start),
        records=_sum(segment.records for segment in segments),
        first_timestamp=next((s.first_timestamp for s in segments if s.first_timestamp is not None), None),
        largest_timestamp=max((s.largest_timestamp for s in segments if s.largest_timestamp is not None), default=None),
        codecs=_merged(segment.codecs for segment in segments),
        leader_epochs=tuple(epochs or ()),
        producer_snapshots=tuple(file for file in live if file.kind == names.PRODUCER_SNAPSHOT),
        kraft_snapshots=tuple(file for file in live if file.kind in names.METADATA_SNAPSHOT_KINDS),
        leftovers=tuple(file for file in files if file.state != names.LIVE),
        replaced=tuple(file for file in files if file.name in replaced),
        orphans=tuple(file for file in files if file.name in orphan_names),
        unexpected=tuple(file for file in live if _is_unexpected(file)),
        problems=tuple(faults.problems),
        errors=(*faults.errors, *(segment.error for segment in segments if segment.error)),
        placement=placing(log.name, metadata.topic_id if metadata else None) if placing and knows_topic else None,
        name=log.name,
    )


def owner_of(directory: LogDirectory) -> BrokerIdentity | None:
    """Return the broker that a log directory belongs to; None where it cannot be known."""
    owner = Faults().tried(lambda: identity_of(directory))
    return None if owner == BrokerIdentity(None, None) else owner


def duplicates(partitions: Iterable[tuple[BrokerIdentity | None, PartitionInfo]]) -> list[Duplicate]:
    """Return partitions that are in several directories of one broker."""
    places = PartitionPlaces()
    for broker, info in partitions:
        if info.name is not None:
            places.add(broker, info.name, info.path)
    return list(places.duplicates())


def replication_counts(partitions: Iterable[PartitionInfo]) -> tuple[int, int]:
    """Return how many partitions lack in-sync replicas, and how many of them so many that producers are refused.

    Of those placed by the cluster's metadata: strays lack none.
    """
    placed = [info.placement for info in partitions if info.placement]
    known = [placement for placement in placed if placement.isr is not None and placement.stray is None]
    return sum(each.is_under_replicated for each in known), sum(each.is_under_min_isr for each in known)


def _log_end(segments: tuple[SegmentInfo, ...], start: int) -> int | None:
    """Return the log end offset: never below the log start offset, at which a log without records begins."""
    end = segments[-1].end_offset if segments else start
    return None if end is None else max(start, end)


def _file_info(folder: str, name: str, parsed: FileName) -> FileInfo:
    try:
        size = status_of(os.path.join(folder, name)).size
    except OSError:  # gone since its directory was listed
        size = 0
    return FileInfo(name, size, parsed.kind, parsed.state, parsed.offset, parsed.epoch)


def _is_unexpected(file: FileInfo) -> bool:
    return file.kind == names.OTHER or (file.kind in names.SEGMENT_KINDS and file.offset is None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _merged(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    found = {name for each in lists for name in each}
    return tuple(sorted(found, key=lambda name: (NAMES.index(name) if name in NAMES else len(NAMES), name)))
