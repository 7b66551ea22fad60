"""Change what an offset checkpoint of a log directory says of one partition, and nothing else in it."""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from kdump.change.plan import CHECKPOINT, Operation
from kdump.disk import durable
from kdump.disk.entered import check_may_change
from kdump.errors import CheckpointError
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.names import (
    LIVE,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    parse_partition_dir,
)
from kdump.storage.checkpoints import Checkpoints, Offsets, read_entries, read_offsets

_FILES = Lock()
"""Held while a checkpoint is read and written: several partitions, each in its thread, share it."""


class _Parsed(NamedTuple):
    """What a checkpoint said when it had this size, inode, and time of change; None where it cannot be parsed.

    No copy preserves the time of change.
    """

    state: tuple[int, int, int]
    offsets: Offsets | None


_PARSED: dict[str, _Parsed] = {}
"""The checkpoints that were read last: thousands of partitions ask for them one by one."""
_MAX_PARSED = 16


def put_offset(partition_directory: str, name: str, offset: int) -> None:
    """Let the checkpoint `name` have this offset (absolute) for a partition; below 0 it has none.

    Raises OSError, CheckpointError where the file cannot be parsed, NameFormatError for the directory's name.
    """
    log_directory, directory_name = os.path.split(os.path.abspath(partition_directory))
    partition = parse_partition_dir(directory_name, partition_directory)
    path = os.path.join(log_directory, name)
    like = durable.file_in(os.stat(partition_directory))
    with _FILES:
        check_may_change(path)
        with suppress(FileNotFoundError):
            like = os.lstat(path)
        entries = read_entries(path)
        changed = _with(entries, OffsetCheckpointEntry(partition.topic, partition.partition, offset))
        if changed == entries:
            return
        durable.write_file(path, (format_offset_checkpoint(changed),), like, part=f"{path}.kdump")
        durable.sync_directory(log_directory)


def within_log(partition_directory: str, log_end_offset: int, known: Checkpoints | None = None) -> list[Operation]:
    """Return what to change in checkpoints so that none leads beyond the end (absolute offset) of a partition's log.

    A recovery point and a high watermark beyond it are moved there. A log start offset beyond it, with which a broker
    would drop the whole log, and a cleaner offset beyond it are dropped. A file that cannot be parsed, which a broker
    takes for empty and writes again, is left to it. The checkpoints are read unless they are `known`. Raises OSError.
    """
    log_directory, directory_name = os.path.split(os.path.abspath(partition_directory))
    parsed = parse_partition_dir(directory_name, partition_directory)
    if parsed.state != LIVE:
        return []
    operations = []
    partition, prefix = (parsed.topic, parsed.partition), os.path.join(log_directory, "")
    lines = known.readable().lines if known is not None else None
    for name in OFFSET_CHECKPOINTS:
        offsets = _parsed(prefix + name) if lines is None else lines.get(name)
        offset = (offsets or {}).get(partition, -1)
        if offset > log_end_offset:
            stays = name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT)
            why = f"{offset} is above the log end offset {log_end_offset}: {'set to it' if stays else 'removed'}"
            operations.append(Operation(CHECKPOINT, name, log_end_offset if stays else -1, old_size=offset, why=why))
    return operations


def offset_in(path: str, topic: str, partition: int) -> int | None:
    """Return the offset (absolute) that a checkpoint has for a partition; -1 for none, None where it cannot be parsed.

    Raises OSError.
    """
    offsets = _parsed(path)
    return None if offsets is None else offsets.get((topic, partition), -1)


def _parsed(path: str) -> Offsets | None:
    """Return what a checkpoint says; None where it cannot be parsed. Raises OSError."""
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return {}
    state = info.st_size, info.st_ino, info.st_ctime_ns
    known = _PARSED.get(path)
    if known is not None and known.state == state:
        return known.offsets
    offsets: Offsets | None = None
    with suppress(CheckpointError):
        offsets = read_offsets(path)
    if len(_PARSED) >= _MAX_PARSED:
        _PARSED.clear()
    _PARSED[path] = _Parsed(state, offsets)
    return offsets


def _with(entries: list[OffsetCheckpointEntry], new: OffsetCheckpointEntry) -> list[OffsetCheckpointEntry]:
    """Return the entries with this one in the place of the old one, or behind all others."""
    others = [each for each in entries if each[:2] != new[:2]]
    if new.offset < 0:
        return others
    at = next((number for number, each in enumerate(entries) if each[:2] == new[:2]), len(others))
    return [*others[:at], new, *others[at:]]
