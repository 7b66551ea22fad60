"""Copies of the metadata log, those of dead controllers and of brokers alike, and the newest of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from kdump.cluster.disks import Disk
from kdump.disk.reading import read_small
from kdump.errors import CheckpointError, KdumpError, Problem
from kdump.formats import names
from kdump.formats.metadata_files import QuorumState, parse_quorum_state
from kdump.storage.damage import AT_THE_END, Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import scan
from kdump.topics.metadata_log import MetadataState, state_of_directory


@dataclass(slots=True)
class MetadataCopy:
    """One copy of the metadata log, in the directory `path`.

    `state` is None where it gives none; `problems` say what is wrong with it, what is newer than kdump included.
    `quorum` is its quorum-state, None without one that can be read.
    """

    disk: Disk
    path: str
    state: MetadataState | None = None
    quorum: QuorumState | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether its state can be relied on."""
        return self.state is not None and not any(not problem.is_newer for problem in self.problems)

    @property
    def rank(self) -> tuple[int, int]:
        """Last epoch and log end offset: who has more of them wins an election (Kafka: OffsetAndEpoch)."""
        return (self.state.epoch, self.state.end_offset) if self.state else (-1, -1)

    @property
    def highest_epoch(self) -> int:
        """The highest epoch that anything in the directory names."""
        return max(self.rank[0], self.quorum.leader_epoch if self.quorum else -1)


def read_metadata_copies(disks: Iterable[Disk]) -> list[MetadataCopy]:
    """Read all copies in these log directories. Raises OSError."""
    return [_read(disk, path) for disk in disks if (path := disk.metadata_path)]


def _read(disk: Disk, path: str) -> MetadataCopy:
    copy = MetadataCopy(disk, path)
    log = PartitionLog(path)
    try:
        copy.state = state_of_directory(log, copy.problems.append)
        tail = _incomplete_tail(log)
        copy.problems = [each for each in copy.problems if (each.path, each.position) != tail]
    except KdumpError as error:
        copy.problems.append(Problem(path, None, str(error)))
    if names.QUORUM_STATE in log.files:
        file = os.path.join(path, names.QUORUM_STATE)
        try:
            copy.quorum = parse_quorum_state(read_small(file), file)
        except CheckpointError as error:
            copy.problems.append(Problem(file, None, str(error)))
    return copy


def _incomplete_tail(log: PartitionLog) -> tuple[str, int] | None:
    """Return where the last segment ends inside a batch, or in zeros, as after a power cut: every start cuts that."""
    if not log.segments:
        return None
    last = log.segments[-1]
    tail = None
    with last.open_log() as file:
        for part in scan(file, last.base_offset, whole=False):
            tail = part if isinstance(part, Damage) and part.kind in AT_THE_END else None
    return (last.log_path, tail.position) if tail else None


def newest(copies: Iterable[MetadataCopy]) -> MetadataCopy | None:
    """Return the copy that would win an election; None where no copy gives a state."""
    return max((copy for copy in copies if copy.state), key=lambda copy: copy.rank, default=None)
