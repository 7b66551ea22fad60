"""Salvage a partition directory in a test, and look at what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kdump
from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS
from kdump.change.place import new_change
from kdump.change.plan import Plan
from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.findings.kind import ERROR
from kdump.mend.load_result import holding
from kdump.mend.proposal import examine
from kdump.mend.salvage_partition import Salvaged
from kdump.mend.task import OPEN, SALVAGE, LostMarkers, Request, Task
from kdump.recovery.startup import Startup
from tests.repair.damaged import STARTUP


def examined(partition: Path, startup: Startup = STARTUP, lost_markers: LostMarkers = OPEN) -> Task:
    """What salvage would do; nothing is changed."""
    return examine(kdump.open_log(str(partition)), startup, Request(SALVAGE, lost_markers=lost_markers))


def salvage(partition: Path, startup: Startup = STARTUP, lost_markers: LostMarkers = OPEN) -> Salvaged:
    """Salvage a partition directory; nothing is kept but what is cut out."""
    task = examined(partition, startup, lost_markers)
    assert task.salvaged is not None
    assert task.plan is not None, task.failure
    salvaged = task.salvaged
    if salvaged.kept is None:
        kept = holding(kdump.open_log(str(partition)), salvaged.outcome)
        salvaged = salvaged._replace(kept=kept, kafka_keeps=kept)
    if task.plan:
        apply(task.plan, task)
    return salvaged


def apply(plan: Plan, task: Task) -> None:
    """Carry out a task's plan without a backup."""
    apply_plan(plan, new_change(plan.path), keep_old=False, cuts=task.cuts, allowance=ANY_LOSS)


def errors(partition: Path, startup: Startup = STARTUP) -> list[str]:
    """What verification, records included, calls an error."""
    found = Verification(Options(deep=True, now=startup.now)).run([str(partition)])
    return [str((finding.code, finding.path, finding.message)) for finding in found if finding.severity == ERROR]


def batches(partition: Path) -> Iterator[bytes]:
    """The batches of a partition's logs, byte for byte, up to the first damage of each log."""
    for segment in kdump.open_log(str(partition)).segments:
        with segment.open_log() as log:
            for block in log.blocks():
                for row in range(block.length):
                    start = block.position[row] - block.data_position
                    yield bytes(block.data[start : start + block.size[row]])


def content(folder: Path) -> dict[str, bytes]:
    """The files of a partition directory, those of backups not among them."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
