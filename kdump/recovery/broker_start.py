"""What a broker makes of a log directory apart from its logs: the marker, the checkpoints, the names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kdump.errors import (
    CONFIG_EXCEPTION,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    IO_EXCEPTION,
    KAFKA,
    RUNTIME,
    STORAGE,
    CheckpointError,
    Problem,
)
from kdump.findings.remedies import NOT_FORMATTED
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.formats.words import listed, number_words
from kdump.recovery.outcome import Failure
from kdump.recovery.startup import LastShutdown
from kdump.releases import (
    NEEDS_METADATA_3_3,
    KafkaRelease,
    metadata_version_level,
    metadata_version_name,
    newest_metadata_version,
)
from kdump.settings.node import SERVER_PROPERTIES
from kdump.settings.sources import TopicSettings
from kdump.settings.start import StartSettings
from kdump.settings.table import BY_NAME, CLEANER_MAP_BYTES, MIN_SEGMENT_BYTES
from kdump.storage.broker import BrokerIdentity, PartitionPlaces, no_meta_properties, not_formatted
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog

Broker = BrokerIdentity | None

_SHOWN_TOPICS = 5
_MIN_CLEANER_MAP = 1 << 20
"""A cleaner thread's offset map is larger (KafkaConfig)."""

_PENDING = {
    names.DELETE: "it waits for its deletion: it is loaded without recovery, and a minute later"
    " (file.delete.delay.ms) deleted with all its files",
    names.STRAY: "it was set aside: it is loaded, serves nobody, and stays until an operator removes it",
    names.FUTURE: "it is the target of a move between log directories, which continues once it is loaded",
}
_CONSEQUENCES = {
    names.RECOVERY_POINT_CHECKPOINT: "the broker treats it as empty, so after an unclean shutdown every segment is"
    " checked",
    names.LOG_START_CHECKPOINT: "the broker treats it as empty, so deleted records whose segments are still there come"
    " back",
    names.REPLICATION_CHECKPOINT: "the broker treats it as empty, so every high watermark starts at 0",
    names.CLEANER_CHECKPOINT: "the thread of the log cleaner ends there, so the broker compacts nothing",
}
CONTROLLERS_FILES = frozenset({names.META_PROPERTIES, names.BOOTSTRAP_CHECKPOINT, names.CLUSTER_METADATA_DIR})
"""What a controller that is no broker reads in a log directory."""
_READ_FIRST = (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT)
_OLDEST_FROM_4_0 = "3.3-IV3"
ALREADY_OFFLINE = "is already offline due to a previous IO exception."


class DirectoryState(NamedTuple):
    """What a log directory says of the last shutdown, and what is wrong with it as a whole.

    `failures` are those of the directory itself: a checkpoint in which Kafka's reader ends in an IOException takes it
    offline. `warnings` name checkpoints that the broker treats as empty. `problems` are files that could not be read
    here, which says nothing of the broker. `broker` is the cluster id and the node id of meta.properties, None without.
    `is_controller`: it is that of a controller and no broker, which loads the cluster metadata log alone.
    `never_started`: it was formatted, and nothing has run on it.
    """

    path: str
    clean: bool
    broker: Broker = None
    checkpoints: Checkpoints = Checkpoints("")
    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    is_controller: bool = False
    never_started: bool = False

    @property
    def has_fault(self) -> bool:
        """Whether the broker finds the directory faulty before it loads a log, but only acts on that later."""
        return any(failure.file in _READ_FIRST for failure in self.failures)

    def shutdown_of(self, log: PartitionLog) -> LastShutdown:
        """Return what a broker that starts takes for a log's last shutdown.

        The cluster metadata log is loaded by the controller, which trusts neither marker nor checkpoints.
        """
        if os.path.basename(os.path.abspath(log.path)) == names.CLUSTER_METADATA_DIR:
            return LastShutdown(clean=False)
        said = self.checkpoints.of(log.name)
        return LastShutdown(self.clean, said.recovery_point or 0, said.log_start or 0)

    def high_watermark_of(self, log: PartitionLog) -> int | None:
        """Return the last high watermark that was written down for a log; None without one."""
        return self.checkpoints.of(log.name).high_watermark


def pending_state(log: PartitionLog) -> str | None:
    """Return what becomes of a log besides being loaded, by the name of its directory; None for a live one."""
    return _PENDING.get(log.name.state) if log.name else None


def directory_state(directory: LogDirectory, *, is_controller: bool = False) -> DirectoryState:
    """Look at a log directory as a broker does, or a controller alone. What cannot be read is a problem of its own."""
    files = _SmallFiles(directory)
    broker = files.broker()
    checkpoints = Checkpoints("")
    if is_controller:  # KafkaRaftServer has no LogManager then: of all the rest it does not even read the names
        files.warnings += _left_alone(directory)
    else:
        checkpoints = files.checkpoints()
        bad_names = directory.bad_names()
        files.failures += (Failure(KAFKA, str(error), name, offline=False) for name, error in bad_names)
    return DirectoryState(
        directory.path,
        directory.clean_shutdown,
        broker,
        checkpoints,
        tuple(files.failures),
        tuple(files.warnings),
        tuple(files.problems),
        is_controller,
        directory.never_started,
    )


def already_offline(path: str, partition: str) -> Failure:
    """Return what ends the process where a broker loads a log in a directory that it has found a fault in before.

    The KafkaStorageException has no IOException as its cause then, and LogManager.loadLogs lets it pass.
    """
    return Failure(STORAGE, f"The log dir {os.path.abspath(path)} {ALREADY_OFFLINE}", partition, offline=False)


def metadata_directory_failed(path: str, failure: Failure) -> Failure:
    """Return what ends the process where the directory that a failure takes offline has the cluster's metadata log.

    ReplicaManager.handleLogDirFailure, and KafkaRaftServer.initializeLogDirs where meta.properties cannot be read.
    """
    text = f"Shutdown broker because the metadata log dir {os.path.abspath(path)} has failed: {failure.text}"
    return Failure(failure.exception, text, failure.file, offline=False)


def unknown_metadata_version(release: KafkaRelease, level: int, *, with_unstable: bool = False) -> Failure | None:
    """Return what ends a broker of this release where the cluster's metadata.version is none of its own.

    `with_unstable`: its server.properties switch unstable features on.
    """
    oldest = metadata_version_level(_OLDEST_FROM_4_0) if release.has(NEEDS_METADATA_3_3) else 1
    known = range(oldest, newest_metadata_version(release, with_unstable=with_unstable) + 1)
    if level in known:
        return None
    name = metadata_version_name(level) or "newer than this kdump"
    text = (
        f"metadata.version is {level} ({name}), and Kafka {release.minor} runs with {known.start} to {known.stop - 1}:"
        " its broker ends as soon as it reads that"
    )
    return Failure(ILLEGAL_ARGUMENT, text, names.CLUSTER_METADATA_DIR, offline=False)


def not_together(text: str) -> Failure:
    """Return what ends the process of a broker whose log directories do not go together, in its words."""
    return Failure(RUNTIME, text, names.META_PROPERTIES, offline=False)


def not_formatted_directory(path: str) -> Failure:
    """Return what ends the process of a broker of which a log directory has no meta.properties, or is not there."""
    return Failure(RUNTIME, no_meta_properties(path), path, offline=False, remedies=NOT_FORMATTED)


def small_segments(release: KafkaRelease, topics: Sequence[str]) -> Failure:
    """Return what ends the process of a broker of this release where the segment.bytes of topics is below its least."""
    text = (
        f"segment.bytes of {listed(topics, _SHOWN_TOPICS)} is below {MIN_SEGMENT_BYTES}, the least that Kafka"
        f" {release.minor} takes: its broker ends as soon as it reads that. Raise it with the release that ran before"
    )
    return Failure(CONFIG_EXCEPTION, text, names.CLUSTER_METADATA_DIR, offline=False)


def refused_properties(release: KafkaRelease, properties: Mapping[str, str]) -> Iterator[Failure]:
    """Yield what ends the process of a broker of this release that is given properties which others take.

    Raises ConfigError for values that none takes.
    """
    for name, text in properties.items():
        if name in BY_NAME and BY_NAME[name].is_too_small(text, release):
            least = BY_NAME[name].setting.raised[name].least
            why = f"{name} is {text.strip()}: Kafka {release.minor} takes {least} and more"
            yield Failure(CONFIG_EXCEPTION, why, SERVER_PROPERTIES, offline=False)
    memory, threads = StartSettings.of(TopicSettings.of(properties))
    if memory // threads <= _MIN_CLEANER_MAP:
        why = f"{CLEANER_MAP_BYTES.name} is {memory}: Kafka wants more than 1 MiB for each of {threads} cleaner threads"
        yield Failure(ILLEGAL_ARGUMENT, why, SERVER_PROPERTIES, offline=False)


def duplicate_failures(places: Iterable[tuple[Broker, str, PartitionDirName]]) -> list[Failure]:
    """Return what a broker says of partitions in two of its directories; given are broker, path and parsed name."""
    seen = PartitionPlaces()
    failures = []
    for broker, path, name in places:
        before = seen.add(broker, name, path)
        if before is not None:
            text = (
                f"Duplicate log directories for {name.topic}-{name.partition} are found in both {before} and {path}:"
                " one of them has to go, rather the one of the disk that failed last"
            )
            failures.append(Failure(ILLEGAL_STATE, text, path, offline=False))
    return failures


def _left_alone(directory: LogDirectory) -> Iterable[str]:
    number = sum(name != names.CLUSTER_METADATA_DIR for name in directory.partition_names)
    if number:
        others = number_words(number, "other partition")
        yield (
            f"a controller loads {names.CLUSTER_METADATA_DIR} only: it leaves {others} alone."
            " If this node is a broker too, name its server.properties: --config FILE"
        )


class _SmallFiles:
    """Reads the small files of a log directory and keeps what is wrong with them."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.failures: list[Failure] = []
        self.warnings: list[str] = []
        self.problems: list[Problem] = []

    def checkpoints(self) -> Checkpoints:
        """Return the checkpoints; without lines where they cannot be read.

        Kafka's CheckpointFileWithFailureHandler takes an IOException for the disk's, other exceptions only the caller
        sees, who goes on without the checkpoint.
        """
        found = Checkpoints.read(self.directory.path, _CONSEQUENCES)
        for name, error in found.errors.items():
            if isinstance(error, OSError):
                self.problems.append(Problem.unreadable(found.path(name), error))
            elif error.is_io:
                self.failures.append(Failure(STORAGE, str(error), name, offline=True))
            else:
                self.warnings.append(f"{error}: {_CONSEQUENCES[name]}")
        return found

    def broker(self) -> Broker:
        """Return the cluster id and node id of meta.properties; None without."""
        name = names.META_PROPERTIES
        if name in self.directory.directories:
            self.failures.append(Failure(IO_EXCEPTION, "Is a directory", name, offline=True))
            return None
        try:
            meta = self.directory.meta_properties()
        except CheckpointError as error:
            is_caught = error.exception != RUNTIME  # MetaPropertiesEnsemble's loader, not its check
            self.failures.append(Failure(error.exception, str(error), name, offline=is_caught))
            return None
        except OSError as error:
            self.problems.append(Problem.unreadable(os.path.join(self.directory.path, name), error))
            return None
        path = self.directory.path
        if meta is None:
            text = not_formatted(self.directory)
            if text is None:
                self.warnings.append(f"there is no {name}: a broker does not start on what was not formatted")
            else:
                self.failures.append(Failure(RUNTIME, text, name, offline=False))
            return None
        if meta.node_id is None:
            self.failures.append(Failure(RUNTIME, f"Error: node ID not found in {path}", name, offline=False))
        return BrokerIdentity(meta.cluster_id, meta.node_id)
