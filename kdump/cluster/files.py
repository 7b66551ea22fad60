"""The files beside the partitions of the new log directories: meta.properties, checkpoint files, the new metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kdump.cluster.copies import Copy
from kdump.cluster.disks import Disk
from kdump.cluster.nodes import Node
from kdump.cluster.resurrection import Resurrection, metadata_disk
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.metadata_files import MetaProperties, format_meta_properties


class NewDirectory(NamedTuple):
    """A log directory of the new cluster: its node, its path, and the log directory that it is, or None for a copy."""

    node: Node
    path: str
    disk: Disk | None


def checkpoint_files(copies: Iterable[Copy]) -> Mapping[str, bytes]:
    """Return the checkpoint files of a log directory with these copies in it: the lines of where each came from.

    No line may be of a partition that is not there: the cleaner's would stop it for good, if another log directory of
    the broker has one too (Kafka: LogCleanerManager.allCleanerCheckpoints). A log start offset above the end would
    delete the log. A copy with damage has no recovery point, so that the broker looks at all of it.
    """
    lines: dict[str, list[OffsetCheckpointEntry]] = {name: [] for name in names.OFFSET_CHECKPOINTS}
    for copy in copies:
        for name, entries in lines.items():
            offset = copy.start_line if name == names.LOG_START_CHECKPOINT else copy.line(name)
            if offset is None or (name == names.RECOVERY_POINT_CHECKPOINT and copy.damage is not None):
                continue
            entries.append(OffsetCheckpointEntry(*copy.key, min(offset, copy.valid_end)))
    return {name: format_offset_checkpoint(entries) for name, entries in lines.items()}


def meta_properties(plan: Resurrection, node: Node, directory_id: bytes, now: int) -> bytes:
    """Return the meta.properties of a log directory of a node, as of a time in ms."""
    return format_meta_properties(MetaProperties(1, plan.cluster_id, node.id, directory_id), now)


def gets_metadata(plan: Resurrection, node: Node, disk: Disk) -> bool:
    """Return whether a log directory is the one that gets the new metadata."""
    return node.id == plan.controller and disk == metadata_disk(node)


def copies_of(plan: Resurrection, node: Node, disk: Disk | None = None) -> Sequence[Copy]:
    """Return the copies that a node serves; of one of its log directories only, if one is named."""
    found = [chosen.replicas[node.id] for chosen in plan.partitions if node.id in chosen.replicas]
    return [copy for copy in found if disk is None or copy.disk == disk]
