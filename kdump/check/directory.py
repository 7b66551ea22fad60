"""What is around the logs: directories and their names, files of other kinds, and files in a state of their own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kdump.check.topic_ids import of_file, of_other_id, of_unknown_id
from kdump.disk.reading import is_file, read_small
from kdump.errors import RUNTIME, CheckpointError
from kdump.findings.finding import UNREAD, Finding, found, unreadable
from kdump.findings.kind import ERROR, IGNORES, NOTE, REFUSES, BrokerEffect
from kdump.findings.remedies import OTHER_CLUSTER
from kdump.formats import names
from kdump.formats.metadata_files import parse_quorum_state
from kdump.formats.names import FileName, PartitionDirName
from kdump.formats.uuids import format_uuid
from kdump.query.inventory import Placing
from kdump.storage.broker import BrokerDirectories, BrokerIdentity, PartitionPlaces, identity_of, not_formatted
from kdump.storage.directory import LogDirectory
from kdump.storage.open import NOT_A_FILE
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters
from kdump.topics.topic_ids import TopicIds

_OPENED_BY_NAME = (
    names.LEADER_EPOCH_CHECKPOINT,
    names.PARTITION_METADATA,
    names.META_PROPERTIES,
    *names.OFFSET_CHECKPOINTS,
)
NO_DIRECTORY = "a directory, where a broker expects a file"
_DIRECTORY_STATES = {
    names.DELETE: ("KD-DIR-DELETE", "the partition waits for its deletion; its log is not checked"),
    names.FUTURE: ("KD-DIR-FUTURE", "the partition is being moved here from another log directory"),
    names.STRAY: ("KD-DIR-STRAY", "the broker set the partition aside: it was not assigned to this broker"),
}
_FILE_STATES = {
    names.DELETED: ("KD-FILE-DELETED", "the file waits for its deletion"),
    names.CLEANED: ("KD-FILE-CLEANED", "a cleaning or split was interrupted while it wrote this file"),
    names.SWAP: ("KD-FILE-SWAP", "the file is complete and was about to replace segments"),
    names.TMP: ("KD-FILE-TMP", "the file was being written"),
    names.PART: ("KD-FILE-TMP", "the snapshot was being written"),
}


def special_files(path: str) -> Iterator[Finding]:
    """Yield what is in a directory and is neither a file nor a directory, or a directory for a file. Raises OSError.

    Such are links that lead nowhere or in a circle, pipes and the like; directories where a broker expects a file.
    """
    with os.scandir(path) as entries:
        unexpected = [entry for entry in entries if entry.is_symlink() or not entry.is_file()]
    for entry in sorted(unexpected, key=lambda entry: entry.name):
        try:
            mode = os.stat(entry.path).st_mode
        except OSError as error:
            if entry.is_symlink():
                text = f"a symbolic link that cannot be followed: {error.strerror}"
                yield found(UNREAD, entry.path, text, effect=_effect_of_no_file(entry.path))
            continue  # else it is gone
        if stat.S_ISDIR(mode):
            if names.parse_file_name(entry.name).kind != names.OTHER:
                yield found(UNREAD, entry.path, NO_DIRECTORY, effect=_effect_of_no_file(entry.path))
        elif not stat.S_ISREG(mode):
            yield found(UNREAD, entry.path, NOT_A_FILE, effect=_effect_of_no_file(entry.path))


def _effect_of_no_file(path: str) -> BrokerEffect | None:
    """Return what a broker does where something of a file's name is no file.

    It passes over it when it lists a partition directory (LogLoader looks at files alone), and fails where it opens
    the file by its name: the index of a log that is there, and the files of the whole partition or directory.
    """
    folder, name = os.path.split(path)
    parsed = names.parse_file_name(name)
    if parsed.kind in _OPENED_BY_NAME:
        return None
    is_index = parsed.kind in names.INDEX_KINDS and parsed.state == names.LIVE and parsed.offset is not None
    log = names.segment_file_name(parsed.offset or 0, f".{names.LOG}")
    return None if is_index and is_file(os.path.join(folder, log)) else IGNORES


Owner = BrokerIdentity | None
"""The broker that a log directory belongs to; None where no meta.properties says it."""


class KnownPartitions:
    """Where partitions were met, over all the directories of one run.

    Only directories of the same broker are compared: replicas on several brokers are no duplicates. `ids` are the topic
    ids by what is at hand. `judges_ids`: they are held against partition.metadata, as whoever looks at one partition
    alone cannot.
    """

    def __init__(self, *, judges_ids: bool = True) -> None:
        """Begin with none."""
        self.judges_ids = judges_ids
        self._is_kraft: dict[str, bool] = {}
        self._places = PartitionPlaces()
        self._topic_ids: dict[tuple[str | None, str], tuple[bytes, str]] = {}
        self._first: tuple[Owner, str] | None = None
        self._together = BrokerDirectories()
        self._cleaned: dict[tuple[Owner, tuple[str, int]], str] = {}
        self._blamed: set[str] = set()
        self.ids = TopicIds(Clusters(()))

    def partition(self, path: str, name: PartitionDirName, owner: Owner) -> Iterator[Finding]:
        """Yield a partition directory that a broker would load."""
        other = self._places.add(owner, name, path)
        if other is not None:
            what = f"{name.topic}-{name.partition}" + (" on its way here (-future)" if name.state else "")
            yield found("KD-DIR-DUPLICATE", path, f"{what} is in {other} too")

    def topic_id(
        self, log: PartitionLog, owner: Owner, placing: Placing | None = None, directory: LogDirectory | None = None
    ) -> Iterator[Finding]:
        """Yield what is wrong with the partition's topic id, by those of the topic's other partitions. Raises OSError.

        What contradicts the cluster's metadata, `placing`, is found by them (kdump.check.cluster). `directory` is the
        log directory, where that is looked at.
        """
        path = os.path.join(log.path, names.PARTITION_METADATA)
        try:
            metadata = log.metadata
        except CheckpointError as error:
            yield of_file("KD-META-PARTITION", path, str(error), log, self.ids)
            return
        if log.name is None or log.name.topic == names.CLUSTER_METADATA_TOPIC:
            return
        if metadata is None:
            finding = of_file("KD-META-PARTITION-MISSING", path, "there is no such file", log, self.ids)
            is_known = directory is not None and self._of_kraft(directory) and self.ids.of(log) is not None
            is_needed = placing is not None or is_known
            yield finding._replace(severity=ERROR) if is_needed and log.name.state == names.LIVE else finding
        elif log.name.state not in (names.DELETE, names.STRAY):
            # their topic's name may be cut short, or the topic be an earlier one of that name
            yield from self._compared_id(log, log.name.topic, path, metadata.topic_id, owner)

    def _of_kraft(self, directory: LogDirectory) -> bool:
        """Return whether a log directory is formatted for KRaft: brokers with ZooKeeper write version 0."""
        if directory.path not in self._is_kraft:
            meta = None
            with suppress(OSError, CheckpointError):
                meta = directory.meta_properties()
            self._is_kraft[directory.path] = meta is not None and meta.version > 0
        return self._is_kraft[directory.path]

    def _compared_id(self, log: PartitionLog, topic: str, path: str, own: bytes, owner: Owner) -> Iterator[Finding]:
        """Yield which partitions of the topic have another id than the others, once two have been met that differ."""
        key = owner[0] if owner else None, topic
        topic_id, other = self._topic_ids.setdefault(key, (own, path))
        known = self.ids.of(log) if topic_id != own else None
        if topic_id == own or (known is not None and known.is_clusters):
            return
        if known is None:
            text = f"the topic id is {format_uuid(own)}, in {other} it is {format_uuid(topic_id)}"
            yield of_unknown_id(path, text, topic)
        elif own != known.topic_id:
            self._blamed.add(log.path)
            yield of_other_id(path, own, known)
        else:
            self._topic_ids[key] = own, path
            for folder, wrong in self.ids.partitions(log).items():
                if wrong != own and folder not in self._blamed:
                    self._blamed.add(folder)
                    yield of_other_id(os.path.join(folder, names.PARTITION_METADATA), wrong, known)

    def cleaned(self, checkpoint: str, partitions: Iterable[tuple[str, int]], owner: Owner) -> Iterator[Finding]:
        """Yield partitions in the cleaner's checkpoint of a log directory that another one's has as well."""
        if owner is None:
            return
        for topic, number in partitions:
            other = self._cleaned.setdefault((owner, (topic, number)), checkpoint)
            if other != checkpoint:
                yield found("KD-CKPT-CLEANER-TWICE", checkpoint, f"{topic}-{number} has a line here and in {other}")

    def differs(self, directory: LogDirectory, owner: Owner) -> Iterator[Finding]:
        """Yield whether a log directory is of the same broker as the first one, and goes with it."""
        if owner is None:
            return
        path = os.path.join(directory.path, names.META_PROPERTIES)
        meta = directory.meta_properties()
        fault = self._together.add(directory.path, meta) if meta else None
        if fault is not None:
            ways = OTHER_CLUSTER if fault.is_of_clusters else None
            yield found("KD-META-PROPERTIES", path, fault.text, effect=REFUSES)._replace(ways=ways)
            return
        if owner.node_id is None:
            text = f"Error: node ID not found in {directory.path}"
            yield found("KD-META-PROPERTIES", path, text, effect=REFUSES)
            return
        first, other = self._first = self._first or (owner, path)
        if first is not None and first != owner:
            text = f"node {owner[1]} of cluster {owner[0]}, in {other} it is node {first[1]} of cluster {first[0]}"
            yield found("KD-META-NODES", path, text)


def owner_of(directory: LogDirectory) -> tuple[Owner, list[Finding]]:
    """Return the broker that a log directory belongs to, and what is wrong with its meta.properties."""
    path = os.path.join(directory.path, names.META_PROPERTIES)
    try:
        owner = identity_of(directory)
        missing = not_formatted(directory) if owner is None else None
        return owner, [found("KD-META-PROPERTIES", path, missing, effect=REFUSES)] if missing else []
    except OSError as error:
        return None, [unreadable(path, error)]
    except CheckpointError as error:
        effect = REFUSES if error.exception == RUNTIME else None  # of the ensemble's check, which is not caught
        return None, [found("KD-META-PROPERTIES", path, str(error), effect=effect)]


def clean_shutdown(directory: LogDirectory) -> Iterator[Finding]:
    """Yield whether .kafka_cleanshutdown can be parsed, where it is there."""
    path = os.path.join(directory.path, names.CLEAN_SHUTDOWN)
    try:
        directory.clean_shutdown_file()
    except OSError as error:
        yield unreadable(path, error)
    except CheckpointError as error:
        yield found("KD-META-SHUTDOWN", path, str(error))


def directory_names(directory: LogDirectory) -> Iterator[Finding]:
    """Yield directories of a log directory that are not a partition's, and temporary files."""
    for name, error in directory.bad_names():
        yield found("KD-DIR-NAME", os.path.join(directory.path, name), str(error))
    for name in directory.files:
        if name.endswith(f".{names.TMP}"):
            code, text = _FILE_STATES[names.TMP]
            yield found(code, os.path.join(directory.path, name), text)


def directory_state(log: PartitionLog) -> Iterator[Finding]:
    """Yield what the name of a partition directory says of it."""
    if log.name is not None and log.name.state:
        code, text = _DIRECTORY_STATES[log.name.state]
        yield found(code, log.path, text)


def partition_files(log: PartitionLog, *, was_closed: bool) -> Iterator[Finding]:
    """Yield files of a partition that no segment has, and those in a state of their own.

    Of a log that was not closed cleanly, what the broker was at when it ended is nothing to warn of: the cleaner's
    files, and indexes whose .log it had renamed for deletion before them (LogSegment.changeFileSuffixes).
    """
    for name, parsed in log.files.items():
        path = os.path.join(log.path, name)
        if _needs_offset(parsed) and names.offset_in_name(name) is None:
            yield found("KD-LOG-NAME", path, "the name does not begin with an offset")
        elif parsed.state:
            code, text = _FILE_STATES[parsed.state]
            is_expected = not was_closed and parsed.state in (names.CLEANED, names.SWAP)
            yield found(code, path, text, offset=parsed.offset, severity=NOTE if is_expected else "")
        elif parsed.kind == names.QUORUM_STATE:
            yield from _quorum_state(path)
    for name in log.orphans():
        offset, path = log.files[name].offset, os.path.join(log.path, name)
        if offset is not None:
            waits = not was_closed and names.segment_file_name(offset, f".{names.LOG}.{names.DELETED}") in log.files
            text = "its .log waits for deletion" if waits else "there is no .log of this base offset"
            yield found("KD-IDX-ORPHAN", path, text, offset=offset, severity=NOTE if waits else "")


def _needs_offset(parsed: FileName) -> bool:
    """Return whether a broker reads the offset in a file's name when it loads the log, and dies where there is none."""
    is_of_segment = parsed.state == names.LIVE and parsed.kind in names.SEGMENT_KINDS
    return is_of_segment or parsed.state in (names.CLEANED, names.SWAP)


def _quorum_state(path: str) -> Iterator[Finding]:
    try:
        parse_quorum_state(read_small(path), path)
    except OSError as error:
        yield unreadable(path, error)
    except CheckpointError as error:
        yield found("KD-KRAFT-STATE", path, str(error))
