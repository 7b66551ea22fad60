"""From the paths of a read to the partitions in them: which directories there are, and which replica is read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kdump.errors import HoldsLogDirectoriesError, KdumpError, NameFormatError
from kdump.formats import names
from kdump.spark.options import ReadOptions, Replicas
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import log_end_offset
from kdump.storage.open import open_directory
from kdump.storage.partition import PartitionLog


class PathError(KdumpError):
    """A path that is not there, cannot be read, or has no logs."""


@contextmanager
def reading(log: PartitionLog) -> Iterator[None]:
    """Raise as a PathError what the system says against reading a log."""
    try:
        yield
    except OSError as error:
        raise PathError(f"{error.filename or log.path}: {error.strerror}") from None


class Partition(NamedTuple):
    """A partition to read; topic and number are None where the directory's name does not tell them."""

    log: PartitionLog
    topic: str | None
    number: int | None


def find_partitions(options: ReadOptions) -> list[Partition]:
    """Return the partitions that are asked for, in the order of the paths. Raises PathError."""
    found: dict[str, Partition] = {}
    for path in expand(options.paths):
        for partition in _partitions_at(path, options):
            found.setdefault(os.path.realpath(partition.log.path), partition)
    if not found:
        raise PathError(f"no partition in {', '.join(options.paths)} is one of those asked for")
    return one_replica_each(found.values()) if options.replicas is Replicas.ONE else list(found.values())


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths, patterns replaced by what they match. Raises PathError where there is nothing."""
    for path in paths:
        if os.path.lexists(path):
            yield path
            continue
        if not glob.has_magic(path):
            raise PathError(f"{path}: there is no such directory")
        matched = sorted(glob.glob(path))
        if not matched:
            raise PathError(f"{path}: nothing matches this pattern")
        yield from matched


def directory_at(path: str) -> PartitionLog | LogDirectory:
    """Return the partition directory or log directory at a path. Raises PathError."""
    try:
        return open_directory(path)
    except NotADirectoryError:
        raise PathError(f"{path} is a file: give its partition directory or a directory of those") from None
    except HoldsLogDirectoriesError as error:
        raise PathError(str(error)) from None
    except NameFormatError:
        raise PathError(
            f"{path}: there are no logs in it: neither a partition directory (with <base offset>.log) nor a log"
            " directory (with directories <topic>-<partition>)"
        ) from None
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from None


def _partitions_at(path: str, options: ReadOptions) -> Iterator[Partition]:
    place = directory_at(path)
    if isinstance(place, PartitionLog):
        name = place.name
        if (name is None and not options.chooses) or (name is not None and options.wants(name.topic, name.partition)):
            yield Partition(place, name.topic if name else None, name.partition if name else None)
        return
    for folder in place.partition_names:
        name = names.parse_partition_dir(folder)
        if name.state != names.LIVE or not options.wants(name.topic, name.partition):
            continue
        try:
            yield Partition(PartitionLog(os.path.join(path, folder)), name.topic, name.partition)
        except OSError as error:
            raise PathError(f"{os.path.join(path, folder)}: {error.strerror}") from None


def one_replica_each(partitions: Iterable[Partition]) -> list[Partition]:
    """Return, of partitions that are there several times, on disks of several brokers, the one that has most.

    That is the one with the newest leader epoch and, of those, the largest end offset: the one that an election would
    prefer; the first where they are equal.
    """
    groups: dict[tuple[str | None, int | None, str], list[Partition]] = {}
    for partition in partitions:
        own = partition.log.path if partition.topic is None else ""
        groups.setdefault((partition.topic, partition.number, own), []).append(partition)
    return [group[0] if len(group) == 1 else max(group, key=_progress) for group in groups.values()]


def _progress(partition: Partition) -> tuple[int, int]:
    epochs = partition.log.known_epochs
    end = -1
    with suppress(OSError):  # another copy is as good
        end = log_end_offset(partition.log)
    return (epochs[-1].epoch if epochs else -1, end)
