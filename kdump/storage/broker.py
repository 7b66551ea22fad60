"""A broker by its log directories: who it is, and which partitions it has twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from kdump.formats import names
from kdump.formats.metadata_files import MetaProperties
from kdump.formats.names import PartitionDirName
from kdump.formats.uuids import format_uuid
from kdump.storage.directory import LogDirectory


class BrokerIdentity(NamedTuple):
    """Which broker a log directory belongs to; None where its meta.properties does not say."""

    cluster_id: str | None
    node_id: int | None


def identity_of(directory: LogDirectory) -> BrokerIdentity | None:
    """Return the broker that a log directory belongs to; None without meta.properties.

    Raises OSError, CheckpointError.
    """
    meta = directory.meta_properties()
    return BrokerIdentity(meta.cluster_id, meta.node_id) if meta else None


_OF_A_BROKER = frozenset({names.CLEAN_SHUTDOWN, names.LOCK, *names.OFFSET_CHECKPOINTS})


def not_formatted(directory: LogDirectory) -> str | None:
    """Return what a broker says that was there before, and finds no meta.properties now; None where none was there.

    (KafkaRaftServer, MetaPropertiesEnsemble.) Partitions alone are a copy of somebody's. `directory` has no
    meta.properties. Raises OSError.
    """
    return None if _OF_A_BROKER.isdisjoint(directory.files) else no_meta_properties(directory.path)


def no_meta_properties(path: str) -> str:
    """Return what a broker says of a log directory without a meta.properties, or that is not there."""
    return (
        f"No `{names.META_PROPERTIES}` found in {path} (have you run `kafka-storage.sh` to format the directory?)"
    )


def other_node(directory: LogDirectory, node_id: int | None, configured: int | None) -> str | None:
    """Return what a broker says of a meta.properties of another node than it is `configured` for; None if nothing."""
    if configured is None or node_id in (None, configured):
        return None
    return (
        f"Stored node id {node_id} doesn't match previous node id {configured} in"
        f" {os.path.join(directory.path, names.META_PROPERTIES)}. If you moved your data, make sure your configured"
        " node id matches. If you intend to create a new node, you should remove all data in your data directories."
    )


class Mismatch(NamedTuple):
    """Why a broker does not start with log directories that say they are its own, in its words.

    `is_of_clusters`: they are of several clusters; else two have one directory id.
    """

    text: str
    is_of_clusters: bool


class BrokerDirectories:
    """The log directories that were met, and what keeps a broker from starting with those that say they are its own.

    That is MetaPropertiesEnsemble.verify. Directories of different nodes are of several brokers.
    """

    def __init__(self) -> None:
        self._first: dict[int, tuple[str, MetaProperties]] = {}
        self._by_id: dict[tuple[int, bytes], str] = {}

    def add(self, path: str, meta: MetaProperties) -> Mismatch | None:
        """Take in a log directory with its meta.properties; return what its broker minds of it, None if nothing.

        One that is taken in again gets the same answer.
        """
        if meta.node_id is None:
            return None
        file = os.path.join(path, names.META_PROPERTIES)
        expected = self._first.setdefault(meta.node_id, (path, meta))[1].cluster_id
        if expected != meta.cluster_id and None not in (expected, meta.cluster_id):
            text = f"Invalid cluster.id in: {file}. Expected {expected}, but read {meta.cluster_id}"
            return Mismatch(text, is_of_clusters=True)
        if meta.directory_id is None:
            return None
        other = self._by_id.setdefault((meta.node_id, meta.directory_id), path)
        if os.path.realpath(other) == os.path.realpath(path):
            return None
        id_ = format_uuid(meta.directory_id)
        text = f"Duplicate directory ID Optional[{id_}] found. It was the ID of {other}, but also of {path}"
        return Mismatch(text, is_of_clusters=False)


class Duplicate(NamedTuple):
    """A partition that is in several places of one broker, which then does not start."""

    topic: str
    partition: int
    paths: tuple[str, ...]


class PartitionPlaces:
    """Where the partitions of brokers are, and Kafka's rule of what is one too many (LogManager.loadLog).

    A live replica and one on its way here (-future) may both be there, two of either kind may not. Those that wait for
    their deletion and stray ones never count, nor do replicas of several brokers; one directory under two paths is one.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[BrokerIdentity | None, str, int, str], list[str]] = {}

    def add(self, broker: BrokerIdentity | None, name: PartitionDirName, path: str) -> str | None:
        """Take in a partition directory; return the path of an earlier one that it duplicates, None without one.

        One that is taken in again, for a second look, gets the same answer.
        """
        if name.state in (names.DELETE, names.STRAY):
            return None
        paths = self._places.setdefault((broker, name.topic, name.partition, name.state), [])
        if path not in paths:
            if paths and os.path.realpath(path) in map(os.path.realpath, paths):
                return None
            paths.append(path)
        return None if paths[0] == path else paths[0]

    def duplicates(self) -> Iterator[Duplicate]:
        """Yield the partitions that are there more than once, by topic and number."""
        for (_, topic, partition, _), paths in sorted(self._places.items(), key=lambda item: item[0][1:]):
            if len(paths) > 1:
                yield Duplicate(topic, partition, tuple(paths))
