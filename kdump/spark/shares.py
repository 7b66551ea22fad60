"""Split a verification between Spark's tasks: consecutive partitions, about as many bytes for each task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.check.work import PartitionRange
from kdump.formats import names
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog


def partition_sizes(place: PartitionLog | LogDirectory, cost: int) -> Iterator[int]:
    """Yield the bytes to read of each partition there, in the order in which a verification meets them.

    `cost` is what a partition costs beside its bytes, in bytes.
    """
    if isinstance(place, PartitionLog):
        yield cost + _log_bytes(place.path)
        return
    for name in place.partition_names:
        yield cost + _log_bytes(os.path.join(place.path, name))


def shares(sizes: Sequence[int], most: float) -> list[PartitionRange]:
    """Return consecutive partitions of these sizes, cut where `most` bytes are reached; at least one share."""
    cuts = [0]
    done = 0
    for number, size in enumerate(sizes[:-1], 1):
        done += size
        if done >= most:
            cuts.append(number)
            done = 0
    return [PartitionRange(first, stop) for first, stop in zip(cuts, [*cuts[1:], None], strict=True)]


def _log_bytes(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(f".{names.LOG}"))
    except OSError:  # which is for the verification to say
        return 0
