"""Plan repairs in this process, beside verifying the same files: a large segment, sound and damaged, and many small
partitions after a clean shutdown.

Nothing is changed. Salvage decodes every record, as `kdump verify --deep` does, so it is compared with that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import data
import lookups
import verifying
from processes import RunError

import kdump
from kdump.formats import names
from kdump.library.arguments import targets_of
from kdump.operations.rails import Rails
from kdump.operations.repair import Repair, repair
from kdump.operations.startup import StartupOptions
from kdump.repair.proposal import SAFE, SALVAGE, Request, Task, examine_trim
from kdump.topics.clusters import Clusters

PARTITIONS = 3000
TURNS = 3
DAMAGE = b"\xff\xfe\xfd\xf1"

LARGE_DEEP, LARGE_SALVAGE = "large-batches: verify --deep", "large-batches: plan of salvage"
BAD_DEEP, BAD_SALVAGE = "damaged large-batches: verify --deep", "damaged large-batches: plan of salvage"
SMALL, SMALL_SAFE = "3,000 partitions: verify", "3,000 partitions: plan of repair"
SMALL_DEEP, SMALL_SALVAGE = "3,000 partitions: verify --deep", "3,000 partitions: plan of salvage"
SMALL_TRIM = "3,000 partitions: plan of trim"

RATIOS = (
    (SMALL_SAFE, SMALL, "repair, 3,000 partitions: CPU against verify", 2.0),
    (SMALL_TRIM, SMALL, "trim, 3,000 partitions: CPU against verify", 2.0),
    (SMALL_SALVAGE, SMALL_DEEP, "salvage, 3,000 partitions: CPU against verify --deep", 2.0),
    (LARGE_SALVAGE, LARGE_DEEP, "salvage, a sound segment: CPU against verify --deep", 2.0),
    (BAD_SALVAGE, BAD_DEEP, "salvage, a damaged segment: CPU against verify --deep", 4.5),
)
"""What is compared with what, what it is called, and the goal."""


def measure(folder: Path, divisor: int, repeat: int) -> dict[str, verifying.Seconds]:
    """What each job takes. Raises RunError for a plan that is not what it must be."""
    large = lookups.with_indexes(data.generate(data.LARGE, folder, divisor))
    bad = damaged(large, folder / "damaged-0")
    small = verifying.small_partitions(folder / f"planned-{PARTITIONS // divisor}", max(10, PARTITIONS // divisor))
    (small / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    single = {
        LARGE_DEEP: lambda: verifying.check(large, deep=True),
        LARGE_SALVAGE: lambda: plan(large, SALVAGE),
        BAD_DEEP: lambda: find(bad),
        BAD_SALVAGE: lambda: plan(bad, SALVAGE, is_damaged=True),
    }
    many = {
        SMALL: lambda: verifying.check(small),
        SMALL_DEEP: lambda: verifying.check(small, deep=True),
        SMALL_SAFE: lambda: plan(small, SAFE),
        SMALL_SALVAGE: lambda: plan(small, SALVAGE),
        SMALL_TRIM: lambda: trim(small),
    }
    return {**verifying.timed(single, repeat), **verifying.timed(many, min(repeat, TURNS))}


def ratios(seconds: dict[str, verifying.Seconds]) -> Iterator[tuple[str, float, float]]:
    """What each comparison is called, the ratio of CPU seconds, and the goal."""
    for job, beside, title, goal in RATIOS:
        yield title, seconds[job].cpu / seconds[beside].cpu, goal


def damaged(partition: Path, copy: Path) -> Path:
    """A copy of a partition with a few bytes in the middle of its log overwritten."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(partition, copy)
    log = verifying.log_of(copy)
    with open(log, "r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(DAMAGE)
    return copy


def find(partition: Path) -> None:
    """Verify a damaged partition."""
    if "KD-LOG-CRC" not in [finding.code for finding in kdump.verify(partition, deep=True)]:
        raise RunError(f"{partition}: the damage is not found")


def plan(path: Path, strategy: str, *, is_damaged: bool = False) -> None:
    """Plan a repair, and change nothing."""
    for done in kdump.repair(path, request=Request(strategy), now=data.BASE_TIMESTAMP):
        if done.task is None or done.task.plan is None or bool(done.task.cuts) != is_damaged:
            raise RunError(f"{done.path}: not the plan that it needs")


def trim(log_directory: Path) -> None:
    """Plan what `kdump trim` does, and change nothing."""
    wanted = Repair(lambda log, _, bases: examine_trim(log, bases), StartupOptions(), Clusters(()), _fail)
    for target in targets_of([log_directory]):
        for done in repair(target, wanted, Rails(applies=False, command="trim")):
            _check_trimmed(done.path, done.task)


def _check_trimmed(path: str, task: Task | None) -> None:
    if task is None or task.plan is None or task.problems:
        raise RunError(f"{path}: cannot be trimmed")


def _fail(problem: object) -> None:
    raise RunError(str(problem))
