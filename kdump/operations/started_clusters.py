"""The cluster's metadata as a broker's start leaves them: their log is recovered first, and may be cut."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.errors import Problem, Report
from kdump.formats import names
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.settings.node import voters
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.topics.clusters import ClusterMetadata, Clusters

if TYPE_CHECKING:
    from kdump.topics.placement import Cluster


class StartedClusters(Clusters):
    """The clusters that the log directories among some paths know of once their broker has started."""

    def __init__(self, paths: Iterable[str], properties: Mapping[str, str], now: int) -> None:
        """`properties` are those of the server, which tell a static quorum, `now` is its clock (ms)."""
        super().__init__(paths)
        self._voters = voters(properties)
        self._now = now

    def _cluster_in(self, directory: LogDirectory, report: Report) -> Cluster | None:
        problems: list[Problem] = []
        cluster = super()._cluster_in(directory, problems.append)
        for problem in problems:
            report(problem)
        if names.CLUSTER_METADATA_DIR not in directory.directories or (cluster and cluster.is_filled):
            return cluster
        if any(problem.is_unreadable for problem in problems):
            return cluster
        with suppress(OSError):  # said where the log is loaded
            return self._cut(directory) or cluster
        return cluster

    def _cut(self, directory: LogDirectory) -> Cluster | None:
        """Return what the metadata tell that the start leaves; None where it fails, or what is left is of no use."""
        from kdump.recovery.newest_snapshot import read_snapshot
        from kdump.topics.metadata_log import live_snapshots
        from kdump.topics.placement import cluster_up_to

        with held(os.path.join(directory.path, names.CLUSTER_METADATA_DIR)) as log:
            outcome = None if log is None else load_log(log, Startup(self._now, clean=False))
            if log is None or outcome is None or not outcome.ok:
                return None
            newest = next(live_snapshots(log), None)
            read = None if newest is None else read_snapshot(newest)
            if read is not None and read.failure is not None:
                return None
            cluster = cluster_up_to(log, directory, outcome.log_end_offset)
        if cluster is None:
            return None
        if read is not None and read.ends_early:
            cluster.read_early()
        elif newest is None or outcome.loss.has_data:  # else what is wrong follows the snapshot's footer: nobody minds
            cluster.cut_at(outcome.log_end_offset, self._voters)
        return cluster


def warnings_of(cluster: ClusterMetadata) -> list[str]:
    """Return what there is to say where the metadata in a log directory cannot be used, or not whole."""
    if not cluster.problems:
        empty = f"{names.CLUSTER_METADATA_DIR} names no broker: so it is after a log was emptied"
        return [] if cluster.cut is None else [empty + _what_follows(cluster)]
    first = cluster.problems[0]
    more = f" (and {len(cluster.problems) - 1} more)" if len(cluster.problems) > 1 else ""
    name = os.path.basename(first.path)
    place = name if name == names.CLUSTER_METADATA_DIR else f"{names.CLUSTER_METADATA_DIR}/{name}"
    text = f"{place}: {first.text}{more}"
    if cluster.ends_early:
        effect = "the node treats what is left of it as complete, and sets the other partitions aside"
        return [f"the newest snapshot of the cluster's metadata ends early: {text}; {effect}"]
    if cluster.cut is not None:
        return [f"the cluster's metadata are cut at offset {cluster.cut}: {text}{_what_follows(cluster)}"]
    if cluster.placing is not None:
        return [f"{text}; the node passes over it"]
    then = "; a controller ends when it reads that, and a broker never serves" if contradiction_in(cluster) else ""
    return [f"topic settings and partitions set aside are not known: {text}{then}"]


def contradiction_in(cluster: ClusterMetadata) -> Problem | None:
    """Return what is wrong with metadata of which no start makes anything; None where it does, or nobody knows.

    It ends the process of a controller (MetadataLoader, and SharedServer's fault handlers).
    """
    if not cluster.problems or cluster.placing is not None or cluster.cut is not None or cluster.ends_early:
        return None
    first = cluster.problems[0]
    return None if first.is_unreadable or first.is_newer else first


def _what_follows(cluster: ClusterMetadata) -> str:
    if cluster.placing is None:
        return (
            "; the node fetches what it lacks from the other controllers. If there are none (see --config), partitions"
            " set aside are not known"
        )
    return "; no other controller has what it lacks: partitions of topics that are not in it are set aside"
