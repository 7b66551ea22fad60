"""Carry out retention on the partitions of a log directory, under the rails that every change to one has.

The folder of a run is `.kdump-backup/<time>/` in each partition directory. An interrupted
run is finished before the next one looks at anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.change import journal
from kdump.change.apply import apply_plan, clear_leftovers, finish
from kdump.change.plan import Plan
from kdump.errors import RefusedError
from kdump.retention.partition import PartitionRetention
from kdump.retention.policy import LOG_START


def check_allowed(found: PartitionRetention) -> None:
    """Raise RefusedError where retention of a partition must not be carried out from here."""
    path = found.log.path
    if not found.has_work:
        return
    if found.log.name is not None and not found.is_live:
        raise RefusedError(f"{path}: this replica is being moved or deleted, or was set aside")
    if found.config.remote_storage:
        raise RefusedError(
            f"{path}: the topic is tiered, and what of it has been copied to remote storage is not known here"
        )
    if found.problems:
        raise RefusedError(f"{found.problems[0]}: repair it first")
    if not found.settings.is_known and any(reason != LOG_START for reason in found.reasons):
        raise RefusedError(
            f"{path}: nothing says what this topic's retention is, and Kafka's defaults may not be it: give --config,"
            " or --retention-ms, --retention-bytes or --cleanup-policy"
        )


def interrupted(partitions: Iterable[str]) -> Iterator[str]:
    """The folders of runs that `finish_interrupted` would finish. Raises OSError."""
    for path in partitions:
        yield from journal.unfinished(os.path.abspath(path))


def finish_interrupted(partitions: Iterable[str], *, keep_old: bool) -> list[str]:
    """Finish what an interrupted run began; the folders of what was finished.

    `partitions` are the paths of the partition directories. Raises OSError, KdumpError.
    """
    done = []
    for path in map(os.path.abspath, partitions):
        for folder in list(journal.unfinished(path)):
            finish(folder, keep_old=keep_old)
            done.append(folder)
        clear_leftovers(path)
    return done


def carry_out(plans: Iterable[Plan], *, keep_old: bool = True) -> str:
    """Carry out the plans of partitions; the folder, relative to each, that keeps what went (unless not `keep_old`).

    Raises OSError, KdumpError, RefusedError where there is not enough space.
    """
    stamp = journal.new_stamp()
    for plan in plans:
        apply_plan(plan, journal.new_folder(plan.path, stamp=stamp), keep_old=keep_old)
    return os.path.join(journal.BACKUP_FOLDER, stamp)
