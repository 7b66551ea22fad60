"""Partition directories against the cluster's metadata, where that lies beside them: whose they are, and where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.check.kraft import damage_effect
from kdump.check.topic_ids import ways_to
from kdump.errors import CheckpointError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import IGNORES, REFUSES, Severity
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.uuids import format_uuid
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters
from kdump.topics.topic_ids import TopicIds

if TYPE_CHECKING:
    from kdump.query.inventory import Placement, Placing

_ASIDE = "; a broker renames the directory at start (-stray) and serves nothing of it"


def check_placement(log: PartitionLog, placing: Placing, ids: TopicIds) -> Iterator[Finding]:
    """Yield a partition directory that a broker would load, by what the cluster has under its name and its topic id.

    One without a topic id is found by its file. Raises OSError.
    """
    if log.name is None or log.name.state in (names.DELETE, names.STRAY):
        return
    try:
        metadata = log.metadata
    except CheckpointError:  # said where the file is looked at
        return
    placement = placing(log.name, metadata.topic_id) if metadata else None
    if metadata is None or placement is None:
        return
    if _is_anothers(placement, format_uuid(metadata.topic_id)):
        text = _difference(log.name.topic, format_uuid(metadata.topic_id), placement)
        finding = found("KD-META-TOPIC-CLUSTER", os.path.join(log.path, names.PARTITION_METADATA), text)
        known = ids.of(log)
        is_known = known is not None and known.is_clusters
        yield finding._replace(ways=ways_to(known, metadata.topic_id)) if known and is_known else finding
    elif placement.stray:
        yield found("KD-DIR-UNASSIGNED", log.path, placement.stray + _ASIDE)


def _is_anothers(placement: Placement, topic_id: str) -> bool:
    """Return whether the cluster has the topic id for another topic, or another one for the topic of that name."""
    if placement.topic_id is None:
        return placement.topic is not None
    return placement.topic_id != topic_id


def _difference(topic: str, topic_id: str, placement: Placement) -> str:
    whose = "of no topic in the cluster" if placement.topic is None else f"that of {placement.topic} in the cluster"
    own = f"no topic {topic}" if placement.topic_id is None else f"{topic} with {placement.topic_id}"
    return f"the topic id {topic_id} is {whose}, which has {own}{_ASIDE if placement.stray else ''}"


def check_metadata(clusters: Clusters, directory: LogDirectory) -> Iterator[Finding]:
    """Yield whether the metadata in a log directory, if there is any, tells of partitions."""
    if names.CLUSTER_METADATA_DIR not in directory.directories:
        return
    problems = clusters.of(directory).problems
    if problems and not all(problem.is_unreadable for problem in problems):
        first = next(problem for problem in problems if not problem.is_unreadable)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        finding = found("KD-META-CLUSTER", first.path, first.text + more, first.position)
        if parse_file_name(os.path.basename(first.path)).kind == names.KRAFT_SNAPSHOT:
            finding = _of_snapshot(finding)
        yield finding


def _of_snapshot(finding: Finding) -> Finding:
    """Return a finding of the metadata as what its snapshot has done to it: KD-KRAFT-SNAPSHOT says the rest."""
    effect, ways = damage_effect(finding.path)
    if effect is REFUSES:
        return finding._replace(ways=ways)
    return finding._replace(severity=Severity.NOTE, effect=IGNORES, ways=())
