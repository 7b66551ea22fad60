"""The strategies of a repair: what each of them makes of a partition, as a plan.

- safe: repairs what can be repaired without dropping a valid batch; where that is not enough, somebody has to decide.
- truncate: leaves the log as a broker's recovery would, which cuts it at the first damage.
- salvage: keeps every valid batch, also those after damage.
- fix-bit: flips the one bit back that explains a damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kdump.change.plan import Cut, Plan, make_plan
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.mend.as_broker import as_if_killed, reasons
from kdump.mend.needed import builds_epochs, needed
from kdump.mend.survey import Survey, is_end, survey, was_closed
from kdump.mend.task import FIX_BIT, SAFE, SALVAGE, TRUNCATE_LOG, Request, Task
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import Recipe

if TYPE_CHECKING:
    from kdump.formats.producer_snapshot import ProducerEntry
    from kdump.mend.decision import Damaged
    from kdump.mend.salvage_partition import Salvaged
    from kdump.mend.salvaged_files import GivenUp

MAX_SEARCHED = 100
"""So many damaged ranges of a partition are searched for a flipped bit."""


def plan_safe(log: PartitionLog, startup: Startup, request: Request) -> Task:
    """Return the plan that drops no valid batch, or the decision that it takes. Raises OSError."""
    # somebody who has to decide has to know of records that salvage cannot read
    found = survey(log, startup, deep=False, deepens=True, limit=request.limit)
    is_deleted = log.name is not None and log.name.state == names.DELETE
    if not found or is_deleted:
        outcome = load_log(log, startup)
        if outcome.ok and is_deleted:  # a broker does that a minute after its start
            return Task(log.path, Plan(log.path, (), {}), outcome=outcome)
        if _is_sound(found, outcome):
            return _planned(log, startup, request, found, outcome)
    from kdump.mend.salvage_partition import salvage_partition

    saved = salvage_partition(log, startup, found, request.limit, request.lost_markers)
    if saved.outcome.files is None:
        return Task(log.path, None, outcome=saved.outcome, salvaged=saved)
    if saved.drops_only_tails and _lasts_alone(log, saved, found):
        damaged = _damaged(log, saved.given_up)
        if not any(each.flipped for each in damaged):
            task = _planned(log, startup, request, found, saved.outcome)
            return task._replace(cuts=_cuts(saved, task))
    return _undecided(log, saved)


def plan_truncate(log: PartitionLog, startup: Startup, request: Request) -> Task:
    """Return the plan that does what a broker's recovery does; where the log is damaged, whatever the shutdown was.

    Raises OSError.
    """
    found = survey(log, startup, deep=False, limit=request.limit)
    checks = as_if_killed(startup) if found.damage else startup
    outcome = load_log(log, checks)
    if _is_at_rest(log, startup, request, found, outcome):
        return Task(log.path, Plan(log.path, (), {}), _extent(outcome), outcome=outcome)
    if outcome.hides:  # by an index, which recovery rebuilds
        checks = as_if_killed(startup)
        outcome = load_log(log, checks)
    if outcome.files is None:
        return Task(log.path, None, outcome=outcome)
    files: Mapping[str, Recipe] = outcome.files
    why = reasons(outcome)
    if checks.clean or checks.recovery_point:  # else a broker rebuilds all indexes
        from kdump.mend.indexes import with_indexes

        files, why = with_indexes(log, startup, outcome, found)
    plan = make_plan(log.path, files, why, outcome.present)
    if was_closed(log, startup) and request.kinds is None:
        plan = needed(plan, log, found, clean=True)
    return Task(log.path, plan, _extent(outcome), outcome=outcome)


def plan_salvage(log: PartitionLog, startup: Startup, request: Request) -> Task:
    """Return the plan that keeps every valid batch. Raises OSError."""
    from kdump.mend.salvage_partition import Salvaged, salvage_partition

    found = survey(log, startup, deep=True, limit=request.limit)
    outcome = None if found or _has_misnamed_log(log) else load_log(log, startup)
    if outcome is not None and _is_sound(found, outcome):
        open_now: tuple[ProducerEntry, ...] = ()
        if outcome.has_open_txn:
            from kdump.mend.load_result import open_txns

            open_now = tuple(open_txns(log, outcome))
        saved = Salvaged(outcome, (), None, None, (), open_now)
    else:
        saved = salvage_partition(log, startup, found, request.limit, request.lost_markers)
    if saved.outcome.files is None:
        return Task(log.path, None, cuts=saved.cuts, outcome=saved.outcome, salvaged=saved)
    task = _planned(log, startup, request, found, saved.outcome)
    cuts = _cuts(saved, task)
    return task._replace(cuts=cuts, salvaged=saved._replace(cuts=cuts))


def _cuts(saved: Salvaged, task: Task) -> tuple[Cut, ...]:
    """Return what a plan takes out of files; one beside the logs may be made again with what it had."""
    changed = {operation.name for operation in task.plan.operations} if task.plan else set()
    return tuple(cut for cut in saved.cuts if cut.file in changed or parse_file_name(cut.file).kind == names.LOG)


def plan_fix_bit(log: PartitionLog, startup: Startup, request: Request) -> Task:
    """Return the plan that flips the bits back that explain the damage, and changes nothing else. Raises OSError."""
    from kdump.change.splice import spliced

    found = survey(log, startup, deep=False, limit=request.limit)
    nothing = Plan(log.path, (), {})
    if not found.damage:
        return Task(log.path, nothing)
    from kdump.mend.salvage_partition import salvage_partition

    damaged = _damaged(log, salvage_partition(log, startup, found, request.limit).given_up)
    fixed = tuple(each for each in damaged if each.flipped)
    problems = tuple(
        f"{log.path}/{each.range.file}: no single flipped bit explains the damage at byte {each.range.start}"
        for each in damaged
        if not each.flipped
    )
    if not fixed:
        return Task(log.path, None, problems=problems or (f"{log.path}: no flipped bit explains what is damaged",))
    directory = PlannedPartition(log)
    for name in dict.fromkeys(each.range.file for each in fixed):
        bits = [each.flipped for each in fixed if each.range.file == name and each.flipped]
        bytes_ = [(bit.position, bit.position + 1, bytes((bit.byte,))) for bit in bits]
        directory.put(name, spliced(directory.files[name], bytes_))
    why = {each.range.file: "flip the bit back" for each in fixed}
    plan = make_plan(log.path, directory.files, why)
    return Task(log.path, plan, problems=problems, fixed=fixed)


def _has_misnamed_log(log: PartitionLog) -> bool:
    """Return whether a log has another name than the one that a broker reads its segment by."""
    logs = ((name, parsed.offset) for name, parsed in log.files.items() if parsed.is_live_log)
    return any(base is not None and name != names.segment_file_name(base, f".{names.LOG}") for name, base in logs)


def _is_sound(found: Survey, outcome: LoadOutcome) -> bool:
    """Return whether neither verification nor a broker's loading finds anything wrong."""
    return not found and outcome.ok and not outcome.loss.has_data


def _planned(log: PartitionLog, startup: Startup, request: Request, found: Survey, outcome: LoadOutcome) -> Task:
    """Return the plan for an outcome, as far as needed; kinds of files asked for get all that loading does."""
    assert outcome.files is not None
    if _is_at_rest(log, startup, request, found, outcome):
        return Task(log.path, Plan(log.path, (), {}), _extent(outcome), outcome=outcome)
    plan = make_plan(log.path, outcome.files, reasons(outcome), outcome.present)
    if request.kinds is None:
        plan = needed(plan, log, found, clean=was_closed(log, startup))
    return Task(log.path, plan, _extent(outcome), outcome=outcome)


def _is_at_rest(
    log: PartitionLog, startup: Startup, request: Request, found: Survey, outcome: LoadOutcome
) -> bool:
    """Return whether nothing is wrong, and nothing routine to do, as with most partitions of a broker that stopped."""
    is_sound = was_closed(log, startup) and request.kinds is None and _is_sound(found, outcome)
    return is_sound and not builds_epochs(log, outcome.files or {})


def _extent(outcome: LoadOutcome) -> tuple[int, int]:
    return outcome.log_start_offset, outcome.log_end_offset


def _lasts_alone(log: PartitionLog, saved: Salvaged, found: Survey) -> bool:
    """Return whether nothing is given up, or all damage that was found is the incomplete end of the last segment."""
    has_no_bounds = all(each.last_offset is None for each in saved.given_up)
    return not saved.given_up or (has_no_bounds and all(is_end(log, finding) for finding in found.damage))


def _undecided(log: PartitionLog, saved: Salvaged) -> Task:
    """Return the task of a partition that is left alone until somebody decides."""
    from kdump.mend.decision import Decision
    from kdump.mend.salvaged_files import GivenUp

    cuts = (cut for cut in saved.cuts if parse_file_name(cut.file).kind == names.LOG)
    ranges: Sequence[GivenUp] = saved.given_up or tuple(
        GivenUp(cut.file, cut.start, cut.stop, None, None, cut.why, is_valid=True) for cut in cuts
    )
    ranges = sorted(ranges, key=lambda each: (each.file, each.start))
    damaged = tuple(_damaged(log, ranges))
    decision = Decision(damaged, saved.kafka_drops, saved.dropped, saved.rewritten, swap_loss=saved.swap_loss)
    return Task(log.path, Plan(log.path, (), {}), decision=decision)


def _damaged(log: PartitionLog, ranges: Iterable[GivenUp]) -> list[Damaged]:
    """Return the damaged ranges, each with the flipped bit that explains it."""
    from kdump.mend.decision import Damaged

    directory = PlannedPartition(log)
    bases = [segment.base_offset for segment in log.segments]
    found = []
    for number, each in enumerate(ranges):
        base = parse_file_name(each.file).offset
        flipped = None
        if number < MAX_SEARCHED and base in bases and directory.exists(each.file):
            from kdump.mend.flipped_bit import flipped_bit_in

            flipped = flipped_bit_in(log, each.file, each.start, each.stop)
        found.append(Damaged(each, flipped))
    return found


PLANNERS: dict[str, Callable[[PartitionLog, Startup, Request], Task]] = {
    SAFE: plan_safe,
    TRUNCATE_LOG: plan_truncate,
    SALVAGE: plan_salvage,
    FIX_BIT: plan_fix_bit,
}
