"""Strategy kafka: leave a partition directory as Kafka's own loading would, followed by a clean close."""

from __future__ import annotations

from kdump.change.plan import Plan, make_plan
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import RECOVER, LoadOutcome
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog


def as_if_killed(startup: Startup) -> Startup:
    """Return how a start would go if nothing had been flushed before the broker died: it recovers every segment."""
    return startup._replace(clean=False, recovery_point=0)


def plan_recovery(log: PartitionLog, startup: Startup) -> tuple[LoadOutcome, Plan | None]:
    """Return what a broker would do with the log, and the plan for it; none where loading fails. Raises OSError."""
    outcome = load_log(log, startup)
    if outcome.files is None:
        return outcome, None
    return outcome, make_plan(log.path, outcome.files, reasons(outcome), outcome.present)


def reasons(outcome: LoadOutcome) -> dict[str, str]:
    """Return why each file changes, by the first step; that a segment is checked is no reason to."""
    return {step.file: step.why for step in reversed(outcome.steps) if step.action != RECOVER}
