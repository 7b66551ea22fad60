"""Which other brokers have a partition, by the cluster's metadata beside it."""

from __future__ import annotations

import os
from typing import NamedTuple

from kdump.errors import KdumpError, RefusedError
from kdump.formats.uuids import is_reserved_directory_id
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters


class Replicas(NamedTuple):
    """The brokers that have a partition, and those in sync when the metadata was written; `broker` is this one.

    `min_insync` is min.insync.replicas, at most the number of brokers; None where nothing tells it. `leader` and
    `next_leader`, whom the controller elects when that one goes, are None for nobody. `directory` is the id of the log
    directory that this broker is to have it in; None where none is assigned.
    """

    brokers: tuple[int, ...]
    in_sync: tuple[int, ...]
    broker: int | None
    min_insync: int | None = None
    leader: int | None = None
    next_leader: int | None = None
    directory: bytes | None = None

    @property
    def is_under_replicated(self) -> bool:
        """Whether brokers are missing in the ISR."""
        return len(self.in_sync) < len(self.brokers)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether producers with acks=all are refused: NOT_ENOUGH_REPLICAS."""
        return self.min_insync is not None and len(self.in_sync) < self.min_insync

    @property
    def others_in_sync(self) -> tuple[int, ...]:
        """The brokers that can send what is lost here."""
        return tuple(number for number in self.in_sync if number != self.broker)


def replicas_of(
    log: PartitionLog, clusters: Clusters, topic_id: bytes | None = None, named_by: LogDirectory | None = None
) -> Replicas | None:
    """Return where a partition's replicas are; None where no metadata is at hand, or it does not know the partition.

    `topic_id` counts where the directory has no partition.metadata. The metadata are those `named_by` a log directory;
    None: the one that the partition is in. Raises OSError.
    """
    from kdump.query.inventory import owner_of

    try:
        directory = LogDirectory(os.path.dirname(os.path.abspath(log.path)))
        placing = clusters.of(named_by or directory).placing
        placement = placing(log.name, log.metadata.topic_id if log.metadata else topic_id) if placing else None
        owner = owner_of(directory)
    except KdumpError:
        return None
    if placement is None or placement.replicas is None or placement.isr is None:
        return None
    numbers = placement.min_insync, placement.leader, placement.next_leader
    broker = owner.node_id if owner else None
    directories = dict(zip(placement.replicas, placement.directories or (), strict=False))
    known = None if broker is None else directories.get(broker)
    assigned = None if known is None or is_reserved_directory_id(known) else known
    return Replicas(placement.replicas, placement.isr, broker, *numbers, assigned)


def check_only_copy(log: PartitionLog, replicas: Replicas | None) -> None:
    """Raise RefusedError where other brokers have what a salvage of this partition gives up.

    A leader never sends offsets again that are missing inside a follower's log, so the replicas would differ for good.
    """
    if why := why_not_only_copy(log, replicas):
        who, whose = why
        raise RefusedError(f"{who}. Nothing was changed. If {whose} gone: --only-copy")


def why_not_only_copy(log: PartitionLog, replicas: Replicas | None) -> tuple[str, str] | None:
    """Return who has what a salvage of this partition gives up, and whose copy that is, in words; None for nobody."""
    others = replicas.others_in_sync if replicas else ()
    if not others:
        return None
    name = os.path.basename(os.path.abspath(log.path))
    who = f"broker {others[0]} is" if len(others) == 1 else f"brokers {' and '.join(map(str, others))} are"
    whose = "its copy is" if len(others) == 1 else "their copies are"
    return f"{who} in sync for {name}; the leader would never send what is given up here again after a salvage", whose
