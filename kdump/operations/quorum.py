"""Look at the copies of a quorum's log, and give a dynamic quorum other voters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from kdump.change.apply import apply_plan
from kdump.change.change import Change
from kdump.change.place import new_change, new_id, place_of
from kdump.cluster.disks import read_disks
from kdump.cluster.metadata_copies import read_metadata_copies
from kdump.cluster.quorum import Quorum, read_quorum
from kdump.cluster.set_voters import NewVoters, change_plan
from kdump.cluster.wanted import Refusal
from kdump.disk.locks import GrowthWatch
from kdump.errors import KdumpError, RefusedError, Report
from kdump.operations.safety import SafetyOptions, locked
from kdump.storage.partition import PartitionLog


def quorum_at(paths: Sequence[str], report: Report) -> Quorum:
    """Read all copies of the metadata log in log directories. Raises OSError, KdumpError where there is none."""
    disks = read_disks(paths, report)
    clusters = {disk.cluster_id for disk in disks if disk.cluster_id is not None}
    if len(clusters) > 1:
        raise KdumpError(f"log directories of different clusters: {', '.join(sorted(clusters))}")
    copies = read_metadata_copies(disks)
    if not copies:
        raise KdumpError("there is no copy of the metadata log in these log directories")
    return read_quorum(copies)


def apply_voters(plan: NewVoters, now: int) -> list[Change]:
    """Append the record to every copy that leads, as of a time in ms; nothing where the voters are these already.

    Raises RefusedError, OSError.
    """
    if plan.refusals:
        first: Refusal = plan.refusals[0]
        raise RefusedError(f"{first.subject}: {first.reason}")
    if plan.is_done:
        return []
    safety = SafetyOptions(applies=True, command="quorum")
    logs = [segment.log_path for copy in plan.leaders for segment in PartitionLog(copy.path).segments]
    still = GrowthWatch(logs)
    with ExitStack() as stack:
        for copy in plan.leaders:
            stack.enter_context(locked(copy.disk.path, [], safety))
        still.check()
        changes = [change_plan(plan, copy, now) for copy in plan.leaders]
        id_ = new_id(*(place_of(change.path) for change in changes))
        return [
            apply_plan(change, new_change(change.path, None, id_), command="quorum set-voters") for change in changes
        ]
