"""One partition to repair: what a request makes of it, before anything is changed."""

from __future__ import annotations

import os

from kdump.change.checkpoint_lines import within_log
from kdump.change.plan import Operation, Plan, narrowed
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.uuids import parse_uuid
from kdump.formats.words import offset_range
from kdump.mend.partition_metadata import with_partition_metadata
from kdump.mend.strategies import PLANNERS
from kdump.mend.task import (
    CHECKPOINTS,
    FIX_BIT,
    INDEX_KINDS,
    SAFE,
    Request,
    Task,
    changed_log,
    first_damage,
    not_rebuilt,
)
from kdump.recovery.startup import Startup
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog
from kdump.topics.topic_ids import TopicIds

_MARKS = {names.RECOVERY_POINT_CHECKPOINT: "recovery point", names.REPLICATION_CHECKPOINT: "high watermark"}


def examine(log: PartitionLog, startup: Startup, request: Request, topic_ids: TopicIds | None = None) -> Task:
    """Return what a repair would do with a partition; its topic id is restored by `topic_ids`, where they are given.

    Raises OSError; RefusedError without Kafka files.
    """
    check_has_kafka_files(log)
    task = PLANNERS[request.strategy](log, startup, request)
    if topic_ids is not None and request.kinds is None and request.strategy != FIX_BIT:
        task = with_partition_metadata(task, log, topic_ids, parse_uuid(request.topic_id) if request.topic_id else None)
    if startup.clean:
        task = task._replace(was_closed=True)
    if request.kinds is not None:
        task = _narrowed(task, log, request.kinds)
    wants_checkpoints = request.kinds is None or CHECKPOINTS in request.kinds
    if task.plan is None or task.extent is None or log.name is None or not wants_checkpoints:
        return task
    try:
        lines = within_log(log.path, task.extent[1], startup.checkpoints)
    except OSError:
        if changed_log(task.plan):
            raise
        return task  # what cannot be read is said once; no log ends elsewhere than before
    notes: tuple[str, ...] = ()
    if request.strategy == SAFE and request.kinds is None and not changed_log(task.plan):
        lines, notes = _without_marks(lines, task.extent[1])
    plan = task.plan._replace(operations=(*lines, *task.plan.operations))  # checkpoints change first
    return task._replace(plan=plan, notes=(*task.notes, *notes))


def _without_marks(lines: list[Operation], end: int) -> tuple[list[Operation], tuple[str, ...]]:
    """Return the changes to checkpoints of a log that stays as it is and ends at `end`, and what is said of the rest.

    Records that were flushed or committed are gone already, and another replica may have them: only those lines tell.
    """
    marks = [line for line in lines if line.name in _MARKS]
    if not marks:
        return lines, ()
    said = " and ".join(f"{_MARKS[line.name]} {line.old_size}" for line in marks)
    note = (
        f"offsets {offset_range(end, max(line.old_size for line in marks) - 1)} are not on this disk; kept: {said}."
        " Another in-sync replica sends them when this broker runs. If there is no other copy: --only checkpoints"
    )
    return [line for line in lines if line.name not in _MARKS], (note,)


def examine_trim(log: PartitionLog, bases: frozenset[int] | None) -> Task:
    """Return what it takes to trim a partition; the segments with these base offsets only, unless None.

    Raises OSError, RefusedError for a directory without Kafka files.
    """
    from kdump.mend.trim import plan_trim

    check_has_kafka_files(log)
    plan, problems = plan_trim(log, bases)
    return Task(log.path, plan, problems=tuple(problems))


def _narrowed(task: Task, log: PartitionLog, kinds: frozenset[str]) -> Task:
    """Return the part of a task that changes files of these kinds; none where the rest of it must not be left out."""
    if task.plan is None:
        return task
    if not log.segments:  # a broker gives such a log its first segment
        return task._replace(plan=task.plan._replace(operations=()))
    touched = "" if "log" in kinds else changed_log(task.plan)
    if touched:
        name, why = first_damage(task.outcome) or (touched, "")
        text = not_rebuilt(task.path, f"{name}: {why}" if why else name)
        return task._replace(plan=None, extent=None, problems=(text,))
    plan = narrowed(task.plan, kinds, log.files)
    left = _index_left(task.plan, plan)
    if left:
        text = f"{os.path.join(task.path, left)}: it has to change with its log: allow {', '.join(INDEX_KINDS)}, too"
        return task._replace(plan=None, extent=None, problems=(text,))
    return task._replace(plan=plan)


def _index_left(plan: Plan, part: Plan) -> str:
    """Return the first index of a changed log that a plan changes and the narrower plan does not."""
    chosen = {operation.name for operation in part.operations}
    logs = {parsed.offset for parsed in map(parse_file_name, chosen) if parsed.is_live_log}
    for operation in plan.operations:
        parsed = parse_file_name(operation.name)
        if parsed.kind in names.INDEX_KINDS and parsed.offset in logs and operation.name not in chosen:
            return operation.name
    return ""
