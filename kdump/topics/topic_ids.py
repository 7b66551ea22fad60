"""The topic id that a partition should have: by the cluster's metadata, else by the topic's other partitions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.disk.reading import read_small
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.metadata_files import parse_partition_metadata
from kdump.formats.names import PartitionDirName
from kdump.formats.uuids import parse_uuid
from kdump.formats.words import number_words
from kdump.query.inventory import Placing, owner_of
from kdump.storage.around import directory_around
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

_MAX_DAMAGED_BITS = 8
"""Bits in which a damaged topic id may differ from the right one; two random ones differ in about 61."""


class KnownTopicId(NamedTuple):
    """A topic's id, in `source`: the words for what has it. `is_beside`: that is in the partition's log directory."""

    topic_id: bytes
    source: str
    is_clusters: bool = False
    is_beside: bool = True

    def is_damaged_in(self, topic_id: bytes) -> bool:
        """Return whether another id can only be this one, damaged."""
        bits = int.from_bytes(self.topic_id, "big") ^ int.from_bytes(topic_id, "big")
        return 0 < bits.bit_count() <= _MAX_DAMAGED_BITS


class TopicIds:
    """The ids of topics by what is in some log directories; files are read once for a topic."""

    def __init__(self, clusters: Clusters) -> None:
        """`clusters` are those of the log directories that are looked at together."""
        self._clusters = clusters
        self._directories: dict[str, LogDirectory] = {}
        self._placings: dict[str, list[tuple[str, Placing]]] = {}
        self._names: dict[str, dict[str, list[str]]] = {}
        self._partitions: dict[tuple[str, str], dict[str, bytes]] = {}

    def of(self, log: PartitionLog) -> KnownTopicId | None:
        """Return the id that a partition's topic has; None where nothing tells, or partitions contradict each other.

        The cluster's metadata decide, then more than half of the topic's partitions. Raises OSError.
        """
        if log.name is None or log.name.topic == names.CLUSTER_METADATA_TOPIC:
            return None
        return self._by_cluster(log, log.name) or self._by_partitions(log)

    def partitions(self, log: PartitionLog) -> dict[str, bytes]:
        """Return the ids that the topic's partitions in a partition's log directory have, by their paths.

        Raises OSError.
        """
        directory = self._directory(log)
        if directory.path not in self._names:
            self._names[directory.path] = _by_topic(directory)
        topic = log.name.topic if log.name else ""
        key = directory.path, topic
        if key not in self._partitions:
            folders = (os.path.join(directory.path, name) for name in self._names[directory.path].get(topic, ()))
            self._partitions[key] = dict(_ids_in(folders, log))
        return self._partitions[key]

    def _directory(self, log: PartitionLog) -> LogDirectory:
        folder = os.path.dirname(os.path.abspath(log.path))
        if folder not in self._directories:
            self._directories[folder] = LogDirectory(directory_around(log.path))
        return self._directories[folder]

    def _by_cluster(self, log: PartitionLog, name: PartitionDirName) -> KnownTopicId | None:
        directory = self._directory(log)
        if directory.path not in self._placings:
            self._placings[directory.path] = list(self._placings_of(directory))
        for other, placing in self._placings[directory.path]:
            placement = placing(PartitionDirName(name.topic, name.partition), None)
            if placement is not None and placement.topic_id is not None:
                is_beside = os.path.realpath(other) == os.path.realpath(directory.path)
                place = "" if is_beside else f" in {other}"
                return KnownTopicId(parse_uuid(placement.topic_id), f"the cluster's metadata{place}", True, is_beside)
        return None

    def _placings_of(self, directory: LogDirectory) -> Iterator[tuple[str, Placing]]:
        """Yield what tells of a directory's partitions, and where it is.

        Of a directory of which nothing says whose it is, that is the metadata of the only cluster at hand.
        """
        placing = self._clusters.of(directory).placing
        others = [] if names.CLUSTER_METADATA_DIR in directory.directories else self._clusters.with_metadata()
        if placing is not None:
            yield others[0].path if others else directory.path, placing
            return
        owners = {owner.cluster_id for each in others if (owner := owner_of(each))}
        if owner_of(directory) is None and len(owners) == 1:
            placing = self._clusters.of(others[0]).placing
            if placing is not None:
                yield others[0].path, placing

    def _by_partitions(self, log: PartitionLog) -> KnownTopicId | None:
        ids = self.partitions(log)
        if not ids:
            return None
        topic_id, count = Counter(ids.values()).most_common(1)[0]
        if 2 * count <= len(ids):
            return None
        others = [os.path.basename(path) for path, known in ids.items() if known == topic_id]
        more = f" and {number_words(count - 1, 'more partition')} of the topic" if count > 1 else ""
        return KnownTopicId(topic_id, f"{others[0]}{more}")


def _by_topic(directory: LogDirectory) -> dict[str, list[str]]:
    """Return the names of the live partition directories by topic."""
    by_topic: dict[str, list[str]] = {}
    for name in directory.partition_names:
        parsed = names.parse_partition_dir(name)
        if parsed.state == names.LIVE:
            by_topic.setdefault(parsed.topic, []).append(name)
    return by_topic


def _ids_in(folders: Iterable[str], log: PartitionLog) -> Iterator[tuple[str, bytes]]:
    """Yield the partition directories whose partition.metadata can be read, each with its topic id.

    That of `log`, which is one of them, is mostly known already.
    """
    for folder in folders:
        path = os.path.join(folder, names.PARTITION_METADATA)
        with suppress(KdumpError, OSError):
            metadata = log.metadata if folder == log.path else parse_partition_metadata(read_small(path), path)
            if metadata is not None:
                yield folder, metadata.topic_id
