"""The operations across the disks of several nodes: copies, the quorum of a cluster, and a dead cluster's new life."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.errors import OnError, Problem, Report

if TYPE_CHECKING:
    from kdump.operations.compared import PartitionReplicas

from kdump.library.arguments import Path, clock, places_of, results_of


def replicas(
    *paths: Path, now: int | None = None, errors: str = OnError.RAISE
) -> Iterator[PartitionReplicas | Problem]:
    """Yield each partition with its copies compared, and what each choice of leader would lose.

    Paths are log directories of several brokers, or partition directories; an empty directory is the disk of a broker
    that has lost all. `now` is the brokers' clock (ms). What a broker would make of a copy at its next start counts.
    Raises OSError, NameFormatError.
    """
    from kdump.operations.replicas import Replicas, is_empty

    given = [os.fspath(path) for path in paths]
    empty = [path for path in given if is_empty(path)]
    places = places_of(path for path in given if path not in empty)

    def found(report: Report) -> Iterable[PartitionReplicas]:
        return Replicas(places, clock(now), report, empty=len(empty)).partitions()

    return results_of(found, errors)
