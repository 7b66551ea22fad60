"""Plans of repairs that drop no valid batch, and what of them the broker's next start does anyway."""

from __future__ import annotations

from typing import NamedTuple

from kdump.change.plan import REMOVE, REPLACE, Operation
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.mend.task import Task
from kdump.operations.repair import Repaired
from kdump.recovery.outcome import DELETE, RECOVER, TRIM, WRITE, Loss


class SafePlan(NamedTuple):
    """A plan that drops and gives up nothing that is valid, and that needs no more to be said of it.

    `loss` is what it cuts off the end of the log, `written` the files that the broker's next start writes, trims or
    deletes in any case, and `rewritten` those that are removed before the log changes and written again.
    """

    operations: tuple[Operation, ...]
    loss: Loss | None
    written: frozenset[str]
    rewritten: frozenset[str]

    @property
    def is_routine(self) -> bool:
        """Whether it does nothing but the work of the broker's next start."""
        return self.loss is None and all(each.name in self.written for each in self.operations)


def safe_plan(done: Repaired, task: Task) -> SafePlan | None:
    """Return the plan of a task if it is one; None where it drops something, or more has to be told of it."""
    if task.dropped.lost.batches or task.salvaged is not None or task.plan is None:
        return None
    if done.interrupted or task.failure or task.problems or task.fixed or task.notes:
        return None
    operations = tuple(task.plan.operations)
    loss = task.outcome.loss if task.outcome else None
    removed = {each.name for each in operations if each.action == REMOVE}
    replaced = {each.name for each in operations if each.action == REPLACE}
    written = frozenset(_written_by_broker(task, operations) - {names.PARTITION_METADATA})
    return SafePlan(operations, loss if loss and loss.bytes else None, written, frozenset(removed & replaced))


def _written_by_broker(task: Task, operations: tuple[Operation, ...]) -> set[str]:
    """Return the files that the broker's next start writes, trims or deletes in any case."""
    steps = task.outcome.steps if task.outcome else ()
    recovered = (parse_file_name(step.file).offset or 0 for step in steps if step.action == RECOVER)
    last = None if task.was_closed else max(recovered, default=None)
    found = {step.file for step in steps if step.action in (TRIM, DELETE)}
    for operation in operations:
        name = parse_file_name(operation.name)
        if name.kind in names.INDEX_KINDS:  # of the segment that was written to it was preallocated
            is_routine = name.offset == last and operation.size < operation.old_size
        else:
            is_routine = any(step.file == operation.name and step.action == WRITE for step in steps)
        if is_routine:
            found.add(operation.name)
    return found
