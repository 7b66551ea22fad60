"""What a broker makes of a log directory apart from its logs: the marker, the checkpoints, the names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from kdump.errors import ILLEGAL_STATE, KAFKA, STORAGE, CheckpointError, NameFormatError
from kdump.formats import names
from kdump.formats.names import PartitionDirName, parse_partition_dir
from kdump.recovery.outcome import Failure
from kdump.storage.broker import BrokerIdentity, PartitionPlaces
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog

Offsets = dict[tuple[str, int], int]
Broker = BrokerIdentity | None

_FATES = {
    names.DELETE: "it waits for its deletion: it is loaded without recovery, and a minute later"
    " (file.delete.delay.ms) deleted with all its files",
    names.STRAY: "it was set aside: it is loaded, serves nobody, and stays until an operator removes it",
    names.FUTURE: "it is the target of a move between log directories, which goes on once it is loaded",
}
_CONSEQUENCES = {
    names.RECOVERY_POINT_CHECKPOINT: "so after an unclean shutdown every segment is checked",
    names.LOG_START_CHECKPOINT: "so deleted records whose segments are still there come back",
    names.REPLICATION_CHECKPOINT: "so every high watermark starts at 0",
}


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """What a log directory says of the last shutdown, and what is wrong with it as a whole.

    `recovery_points`, `log_starts` and `high_watermarks` map (topic, partition) to an absolute offset. `warnings` name
    the checkpoints that cannot be read: the broker goes on as if they were empty. `broker` is the cluster id and the
    node id of meta.properties, None without.
    """

    path: str
    clean: bool
    broker: Broker = None
    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)
    high_watermarks: Offsets = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()

    def shutdown_of(self, log: PartitionLog) -> tuple[bool, int, int]:
        """Whether a log counts as closed in order, its recovery point and its log start offset.

        The cluster metadata log is loaded by the controller, which trusts neither marker nor checkpoints.
        """
        if os.path.basename(os.path.abspath(log.path)) == names.CLUSTER_METADATA_DIR:
            return False, 0, 0
        key = _key(log)
        return self.clean, self.recovery_points.get(key, 0), self.log_starts.get(key, 0)

    def high_watermark_of(self, log: PartitionLog) -> int | None:
        """The last high watermark that was written down for a log; None without one."""
        return self.high_watermarks.get(_key(log))


def fate_of(log: PartitionLog) -> str | None:
    """What becomes of a log besides being loaded, by the name of its directory; None for a live one."""
    return _FATES.get(log.name.state) if log.name else None


def directory_state(directory: LogDirectory) -> DirectoryState:
    """Look at a log directory as a broker does. Raises OSError."""
    warnings: list[str] = []
    broker, bad_properties = _broker(directory, warnings)
    return DirectoryState(
        directory.path,
        directory.clean_shutdown,
        broker,
        _checkpoint(directory, names.RECOVERY_POINT_CHECKPOINT, warnings),
        _checkpoint(directory, names.LOG_START_CHECKPOINT, warnings),
        _checkpoint(directory, names.REPLICATION_CHECKPOINT, warnings),
        (*_bad_names(directory), *bad_properties),
        tuple(warnings),
    )


def duplicate_failures(places: Iterable[tuple[Broker, str, PartitionDirName]]) -> list[Failure]:
    """What a broker says of partitions that it has in two directories; given are broker, path and parsed name."""
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


def _checkpoint(directory: LogDirectory, name: str, warnings: list[str]) -> Offsets:
    try:
        return directory.checkpoint(name)
    except CheckpointError as error:
        warnings.append(f"{error}: the broker takes it for empty, {_CONSEQUENCES[name]}")
        return {}


def _key(log: PartitionLog) -> tuple[str, int]:
    return (log.name.topic, log.name.partition) if log.name else ("", -1)


def _bad_names(directory: LogDirectory) -> Iterable[Failure]:
    for name in directory.directories:
        if name == names.REMOTE_LOG_INDEX_CACHE_DIR:
            continue
        try:
            parse_partition_dir(name, os.path.join(directory.path, name))
        except NameFormatError as error:
            yield Failure(KAFKA, str(error), name, offline=False)


def _broker(directory: LogDirectory, warnings: list[str]) -> tuple[Broker, list[Failure]]:
    try:
        meta = directory.meta_properties()
    except CheckpointError as error:
        return None, [Failure(STORAGE, str(error), names.META_PROPERTIES, offline=True)]
    if meta is None:
        warnings.append(f"there is no {names.META_PROPERTIES}: a broker does not start on what was not formatted")
        return None, []
    return BrokerIdentity(meta.cluster_id, meta.node_id), []
