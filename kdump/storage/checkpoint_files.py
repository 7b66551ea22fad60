"""The content of checkpoint files: offsets of all partitions of a log directory, leader epochs of one."""

from __future__ import annotations

from kdump.disk.reading import read_small
from kdump.errors import CheckpointError
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs

MAX_BYTES = 1 << 26
"""Kafka reads files of any size; a line of a topic with the longest name has 280 bytes."""


def read_checkpoint(path: str) -> bytes:
    """Return the content of a checkpoint file. Raises OSError, CheckpointError."""
    data = read_small(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CheckpointError(f"{path}: more than {MAX_BYTES} bytes are too many for a checkpoint")
    return data


def read_leader_epochs(path: str) -> list[EpochEntry]:
    """Return the entries of a leader-epoch-checkpoint in the file's order. Raises OSError, CheckpointError."""
    return parse_leader_epochs(read_checkpoint(path), path)
