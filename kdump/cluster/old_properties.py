"""The server.properties of old nodes: what they tell of a cluster that its log directories and metadata do not.

Files that were named, and those that lie beside a log directory. Kafka's defaults count for what a file leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kdump.cluster.disks import Disk
from kdump.cluster.wanted import Note, NoteKind
from kdump.disk.reading import is_file, read_small
from kdump.errors import CheckpointError, ConfigError, KdumpError, Problem, Report
from kdump.formats.java_properties import parse_properties
from kdump.formats.words import number_words
from kdump.settings.node import LOG_DIRS, SERVER_PROPERTIES, log_directories, node_id
from kdump.settings.sources import HASHED_TOPICS, TopicSettings
from kdump.settings.table import UNCLEAN_LEADER_ELECTION

_PLACES = ("", "..", os.path.join("..", "config"), os.path.join("..", "config", "kraft"))
_KEPT = (
    *("log.", "offsets.", "transaction.", "transactional.", "group.", "share.", "message.", "compression."),
    *("min.insync.replicas", "num.partitions", "default.replication.factor", "broker.rack"),
)
_NOT_KEPT = (*LOG_DIRS, UNCLEAN_LEADER_ELECTION.name)


@dataclass(frozen=True, slots=True)
class OldProperties:
    """The settings of an old node; `node_id` is None where the file does not say. `log_dirs` are as written there."""

    path: str
    values: Mapping[str, str]
    node_id: int | None
    log_dirs: tuple[str, ...]

    def kept(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that the node continues with: defaults of topics, groups and transactions."""
        for name, value in sorted(self.values.items()):
            if name.startswith(_KEPT) and name not in _NOT_KEPT:
                yield name, value


def kept_settings(found: Sequence[OldProperties]) -> dict[str, str]:
    """Return the lines that nodes continue with from some files; of two for one name the first file's."""
    return {name: value for each in reversed(found) for name, value in each.kept()}


def read_old_properties(path: str) -> OldProperties:
    """Read a server.properties. Raises OSError, ConfigError for what Kafka would not take for one."""
    try:
        values = parse_properties(read_small(path), path)
    except CheckpointError as error:
        raise ConfigError(str(error)) from None
    try:
        return OldProperties(path, values, node_id(values), log_directories(values))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def old_properties(given: Sequence[str], disks: Sequence[Disk], report: Report) -> list[OldProperties]:
    """Return the files given, and those beside log directories of the same node; each node's first counts.

    What lies beside a log directory and cannot be read is reported. Raises OSError, ConfigError for one that was given.
    """
    found = [read_old_properties(path) for path in given]
    for disk in disks:
        if any(each.node_id is not None and each.node_id == disk.node_id for each in found):
            continue
        for path in (os.path.join(disk.path, place, SERVER_PROPERTIES) for place in _PLACES):
            one = _beside(os.path.normpath(path), report) if is_file(path) else None
            if one is not None and one.node_id is not None and one.node_id == disk.node_id:
                found.append(one)
                break
    return found


def _beside(path: str, report: Report) -> OldProperties | None:
    try:
        return read_old_properties(path)
    except (KdumpError, OSError) as error:
        report(Problem.failed(path, error))
        return None


def node_of(disk: Disk, found: Sequence[OldProperties]) -> int | None:
    """Return the node of a log directory whose meta.properties does not say it: the one whose log.dirs name it."""
    real = os.path.realpath(disk.path)
    named = {each.node_id for each in found if real in map(os.path.realpath, each.log_dirs)}
    return named.pop() if len(named) == 1 else None


def partition_counts(found: Sequence[OldProperties]) -> dict[str, int]:
    """Return how many partitions the old brokers gave the topics that ids are hashed over; none where they disagree."""
    counts: dict[str, int] = {}
    for topic, setting in HASHED_TOPICS.items() if found else ():
        with suppress(ConfigError):
            numbers = {TopicSettings.of(each.values).get(setting) for each in found}
            if len(numbers) == 1:
                counts[topic] = numbers.pop()
    return counts


def notes_on_properties(found: Sequence[OldProperties], disks: Sequence[Disk]) -> Iterator[Note]:
    """Say what the files show: log directories that were not given, elections that lose records."""
    for each in found:
        given = sum(disk.node_id == each.node_id for disk in disks)
        if len(each.log_dirs) > given:
            named = number_words(len(each.log_dirs), "log directory", "log directories")
            text = f"names {named} ({', '.join(each.log_dirs)}), and {number_words(given, 'was', 'were')} given"
            yield Note(NoteKind.LOST, each.path, text)
        if TopicSettings.of(each.values).is_on(UNCLEAN_LEADER_ELECTION):
            text = f"{UNCLEAN_LEADER_ELECTION.name}=true becomes false: set it again once all replicas are in sync"
            yield Note(NoteKind.SETTING, each.path, text)
