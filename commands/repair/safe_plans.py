"""Plans that drop no valid batch, a line each; those that do what the broker's next start does are one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, TRUNCATE, Operation
from kdump.formats import names
from kdump.formats.names import FileKind, parse_file_name
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import byte_words, number_words
from kdump.named_tuples import NamedTuple
from kdump.operations.repair import Repaired
from kdump.operations.safe_plans import SafePlan, safe_plan
from kdump.recovery.outcome import Loss
from kdump.repair.task import Task

from ..shell.line_budget import LineBudget, more_similar

_MAX_WIDTH = 40
_NOUNS: dict[str, tuple[str, str]] = {
    FileKind.OFFSET_INDEX: ("offset index", "offset indexes"),
    FileKind.TIME_INDEX: ("time index", "time indexes"),
    FileKind.TXN_INDEX: ("transaction index", "transaction indexes"),
    FileKind.PRODUCER_SNAPSHOT: ("producer snapshot", "producer snapshots"),
}


class SafeLine(NamedTuple):
    """What is said of a plan that drops and gives up nothing that is valid.

    `work` is what it does beyond the broker's next start ("" for nothing), `files` the kinds of the files that it
    removes (True) and writes.
    """

    path: str
    work: str
    files: frozenset[tuple[bool, str]]


def safe_line(done: Repaired, task: Task) -> SafeLine | None:
    """Return what is to be said of a plan in a line; None where it drops something, or more has to be told of it."""
    plan = safe_plan(done, task)
    if plan is None:
        return None
    what = frozenset((each.action == REMOVE, parse_file_name(each.name).kind) for each in plan.operations)
    return SafeLine(safe_path(done.path), "" if plan.is_routine else _work(plan, task), what)


def safe_lines(plans: Sequence[SafeLine], budget: LineBudget) -> Iterator[str]:
    """Yield a line for each plan that does more than the broker's next start, and one for all the others."""
    yield f"Safe: {number_words(len(plans), 'partition')}"
    routine = [plan for plan in plans if not plan.work]
    others = [plan for plan in plans if plan.work]
    label = number_words(len(routine), "partition")
    width = min(max(map(len, (label, *(plan.path for plan in others)))), _MAX_WIDTH)
    listed = [plan for plan in others if budget.takes()]
    yield from (f"  {plan.path:<{width}}   {plan.work}" for plan in listed)
    if len(listed) < len(others):
        yield f"  {more_similar(len(others) - len(listed))}"
    if routine:
        yield f"  {label:<{width}}   {_together(routine)}"


def routine_line(plans: Sequence[SafeLine]) -> str:
    """Return what plans that do no more than the broker's next start did together."""
    return f"{number_words(len(plans), 'partition')}   {_together(plans)}"


def _loss_words(loss: Loss) -> str:
    """Return what is cut of the log."""
    what = "an incomplete batch" if loss.has_data else "zeros that were never written"
    return f"cut {what} ({byte_words(loss.bytes)})"


def _work(plan: SafePlan, task: Task) -> str:
    """Return what a plan does beyond the work of the broker's next start."""
    parts = [] if plan.loss is None else [_loss_words(plan.loss)]
    found: Counter[tuple[str, str]] = Counter()
    for each in plan.operations:
        kind = parse_file_name(each.name).kind
        if each.action == CHECKPOINT:
            parts.append(f"set {each.name} to {each.size}")
        elif kind in _NOUNS and each.action != RENAME:
            is_first = each.action == REMOVE and each.name in plan.rewritten
            found[(_verb(each, kind), kind)] += each.name not in plan.written and not is_first
        elif each.name not in plan.written and not (kind == FileKind.LOG and parts):
            parts.append(f"{_VERBS.get(each.action, 'write')} {each.name}")
    parts += (f"{verb} {number_words(count, *_NOUNS[kind])}" for (verb, kind), count in found.items() if count)
    end = f"; log end offset {task.extent[1]}" if plan.loss and task.extent else ""
    return safe(", ".join(dict.fromkeys(parts)) + end)


_VERBS = {REMOVE: "remove", RENAME: "rename", TRUNCATE: "cut"}


def _verb(operation: Operation, kind: str) -> str:
    if operation.action == REMOVE:
        return "remove"
    return "rebuild" if kind in names.INDEX_KINDS else "write"


def _together(plans: Sequence[SafeLine]) -> str:
    """Return what the routine plans do."""
    files = frozenset().union(*(plan.files for plan in plans))
    written = {kind for is_removed, kind in files if not is_removed}
    parts = ["trim preallocated index files"] if not written.isdisjoint(names.INDEX_KINDS) else []
    parts += ["write producer snapshots"] if FileKind.PRODUCER_SNAPSHOT in written else []
    parts += ["write leader-epoch-checkpoint"] if FileKind.OTHER in written else []
    parts += ["remove leftover files"] if any(is_removed for is_removed, _ in files) else []
    return f"{', '.join(parts)} (as the broker does at its next start)"
