"""Copies of a partition that a heal may take from, and why it must not take from others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kdump.change.checkpoint_lines import offset_in
from kdump.errors import CheckpointError, KdumpError, RefusedError
from kdump.formats.metadata_files import MetaProperties
from kdump.formats.uuids import format_uuid
from kdump.mend.replicas import Replicas, replicas_of
from kdump.replication.heal import Healing, Peer
from kdump.storage.around import directory_around
from kdump.storage.directory import LogDirectory
from kdump.storage.live import broker_on
from kdump.storage.open import open_directory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters


@dataclass(slots=True)
class Sources:
    """The places that are healed from: partition directories and log directories of other brokers.

    `are_used`: a copy of some partition was found in them.
    """

    places: tuple[LogDirectory | PartitionLog, ...]
    are_used: bool = False

    def of(self, log: PartitionLog) -> Iterator[PartitionLog]:
        """Yield the copies of a partition, in the order of the places. RefusedError for another one, OSError."""
        found = list(self._named(log))
        if not found and not any(isinstance(place, LogDirectory) for place in self.places):
            raise RefusedError(f"{self.places[0].path} is not a copy of {log.path}.")
        self.are_used = self.are_used or bool(found)
        yield from found

    def missing_in(self, directory: LogDirectory, clusters: Clusters) -> list[str]:
        """Return the partitions that the cluster has in a log directory, and only these places have. Raises OSError."""
        meta = directory.meta_properties()
        known, placing = set(directory.directories), clusters.of(directory).placing
        if meta is None or meta.directory_id is None or placing is None:
            return []
        found = {}
        for copy in self._all():
            name = os.path.basename(os.path.abspath(copy.path))
            if copy.name is None or copy.name.state or name in known or name in found:
                continue
            placement = placing(copy.name, copy.metadata.topic_id if copy.metadata else None)
            if placement is None or placement.replicas is None or placement.directories is None:
                continue
            at = dict(zip(placement.replicas, placement.directories, strict=False))
            if meta.node_id is not None and at.get(meta.node_id) == meta.directory_id:
                found[name] = copy
        return sorted(found)

    def _all(self) -> Iterator[PartitionLog]:
        for place in self.places:
            if isinstance(place, LogDirectory):
                yield from (PartitionLog(os.path.join(place.path, name)) for name in place.partition_names)
            else:
                yield place

    def _named(self, log: PartitionLog) -> Iterator[PartitionLog]:
        name = os.path.basename(os.path.abspath(log.path))
        for place in self.places:
            if not isinstance(place, LogDirectory):
                if place.name is not None and log.name is not None and place.name[:2] == log.name[:2]:
                    yield place
            elif name in place.partition_names:
                yield PartitionLog(os.path.join(place.path, name))


def check_sources(paths: Sequence[str]) -> Sources:
    """Return the places to heal from. Raises KdumpError for a path that is none."""
    try:
        return Sources(tuple(map(open_directory, paths)))
    except OSError as error:
        raise KdumpError(f"{error.filename}: {error.strerror}") from None


def peer_of(log: PartitionLog, other: PartitionLog) -> Peer:
    """Return a copy that may be taken from, as far as it may. Raises RefusedError, OSError."""
    if os.path.realpath(other.path) == os.path.realpath(log.path):
        raise RefusedError(f"{other.path} is the copy to repair.")
    if other.name is not None and other.name.state:
        raise RefusedError(f"{other.path} is not a copy that a broker serves (-{other.name.state}).")
    mine, theirs = _meta_of(log), _meta_of(other)
    if mine and theirs and mine.cluster_id and theirs.cluster_id and mine.cluster_id != theirs.cluster_id:
        raise RefusedError(f"{other.path} is of another cluster: {theirs.cluster_id}, not {mine.cluster_id}.")
    ids = [each.metadata.topic_id if each.metadata else None for each in (log, other)]
    if None not in ids and ids[0] != ids[1]:
        texts = [format_uuid(each) for each in ids if each is not None]
        raise RefusedError(f"{other.path} is of another topic of the same name: topic id {texts[1]}, not {texts[0]}.")
    if broker_on(directory_around(other.path)) is None:
        return Peer(other)
    return Peer(other, other.segments[-1].base_offset if other.segments else 0)


def check_may_have(
    log: PartitionLog, peers: Sequence[Peer], clusters: Clusters, metadata: LogDirectory
) -> Replicas | None:
    """Refuse to heal a copy that its broker is not to have by the `metadata`; what they say of replicas."""
    known = (each.metadata.topic_id for each in (log, *(peer.log for peer in peers)) if each.metadata)
    replicas = replicas_of(log, clusters, next(known, None), metadata)
    if replicas is not None and replicas.broker is not None and replicas.broker not in replicas.brokers:
        brokers = ", ".join(map(str, replicas.brokers))
        raise RefusedError(f"the cluster has {log.path} on the brokers {brokers}, not on {replicas.broker}.")
    if replicas is not None:
        _check_is_assigned(log, replicas)
    return replicas


def _check_is_assigned(log: PartitionLog, replicas: Replicas) -> None:
    """Refuse to make a copy in another log directory of the broker than the one that has it."""
    meta, assigned = _meta_of(log), replicas.directory
    here = meta.directory_id if meta else None
    if log.segments or here is None or assigned is None or here == assigned:
        return
    raise RefusedError(
        f"the cluster has {log.path} in another log directory of broker {replicas.broker}, that with the directory.id"
        f" {format_uuid(assigned)}: with a copy in both the broker does not start."
    )


def newest_metadata(log: PartitionLog, peers: Sequence[Peer], clusters: Clusters) -> LogDirectory:
    """Return the log directory around one of the copies, of the same cluster, with the newest metadata. OSError."""
    own, found = _meta_of(log), LogDirectory(directory_around(log.path))
    for peer in peers:
        other = _meta_of(peer.log)
        if own is None or other is None or own.cluster_id != other.cluster_id:
            continue
        directory = LogDirectory(directory_around(peer.log.path))
        if clusters.of(directory).end > clusters.of(found).end:
            found = directory
    return found


def check_not_cleaned(healing: Healing, cleaned: int) -> None:
    """Refuse to mix what two cleaners have left."""
    if healing.first_damaged is not None and healing.first_damaged < cleaned:
        raise cleaned_apart(cleaned, f"offset {healing.first_damaged} is damaged here")


def cleaned_apart(cleaned: int, why: str) -> RefusedError:
    """Return the refusal to put batches of another copy below the offset up to which cleaners have been."""
    return RefusedError(
        f"the topic is compacted: below offset {cleaned} each broker's cleaner has left other batches, and {why}."
        " Move the directory away: then this command copies the other one completely, or the leader sends the partition"
        " again."
    )


def node_of(log: PartitionLog) -> int | None:
    """Return the broker that has a copy; None where nothing readable says so. Raises OSError."""
    meta = _meta_of(log)
    return meta.node_id if meta else None


def checkpoint_offset(log: PartitionLog, name: str) -> int:
    """Return what a checkpoint has for a copy; -1 for nothing, or where it cannot be parsed. Raises OSError."""
    path, parsed = os.path.join(directory_around(log.path), name), log.name
    offset = None if parsed is None else offset_in(path, parsed.topic, parsed.partition)
    return -1 if offset is None else offset


def _meta_of(log: PartitionLog) -> MetaProperties | None:
    try:
        return LogDirectory(directory_around(log.path)).meta_properties()
    except CheckpointError:
        return None
