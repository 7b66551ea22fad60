"""Apply retention on the partitions of a log directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.change.apply import apply_plan
from kdump.change.change import Change
from kdump.change.place import ChangeFiles, new_change
from kdump.change.plan import Plan
from kdump.errors import RefusedError
from kdump.retention.partition import PartitionRetention
from kdump.retention.policy import LOG_START


def check_allowed(found: PartitionRetention) -> None:
    """Raise RefusedError where retention of a partition must not be applied from here."""
    path = found.log.path
    if not found.has_work:
        return
    if found.log.name is not None and not found.is_live:
        raise RefusedError(f"{path}: this replica is being moved or deleted, or was set aside")
    if found.config.has_remote_storage:
        raise RefusedError(
            f"{path}: the topic is tiered, and what of it has been copied to remote storage is not known here"
        )
    if found.problems:
        raise RefusedError(f"{found.problems[0]}. Repair it first")
    if not found.settings.is_known and any(reason != LOG_START for reason in found.reasons):
        raise RefusedError(
            f"{path}: kdump does not know this topic's retention, and Kafka's defaults may be wrong for it: give"
            " --config, or --retention-ms, --retention-bytes or --cleanup-policy"
        )


def carry_out(
    plans: Iterable[Plan], files: Callable[[str], ChangeFiles] = new_change, *, keep_old: bool = True
) -> list[Change]:
    """Apply the plans of partitions; the changes, whose `files` keep what went (unless not `keep_old`).

    Raises OSError, KdumpError, RefusedError where there is not enough space.
    """
    return [apply_plan(plan, files(plan.path), command="retain", keep_old=keep_old) for plan in plans]
