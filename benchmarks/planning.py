"""Plan repairs in this process, beside verifying the same files: a large segment after an unclean shutdown, sound and
damaged, and many small partitions after a clean and after an unclean one.

Nothing is changed. Salvage decodes every record, and so does a repair of damage, which says what salvage would lose:
they are compared with `kdump verify --deep`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import data
import lookups
import verifying
from processes import RunError

import kdump
from kdump.formats import names
from kdump.mend.task import SAFE, SALVAGE, TRUNCATE_LOG, Request
from kdump.operations.repair import Repaired
from kdump.storage.log_reader import LogFile

PARTITIONS = 3000
TURNS = 3
DAMAGE = b"\xff\xfe\xfd\xf1"
GOAL = 2.0

LARGE, BAD = "large-batches", "damaged large-batches"
CLOSED, KILLED = "3,000 partitions", "3,000 partitions after an unclean shutdown"
VERIFY, DEEP, REBUILD, TRIM = "verify", "verify --deep", "plan of rebuild-index", "plan of trim"
PLANS = {SAFE: "plan of repair", TRUNCATE_LOG: "plan of truncate", SALVAGE: "plan of salvage"}


def _ratios() -> Iterator[tuple[str, str, str, float]]:
    for what in (LARGE, BAD, CLOSED, KILLED):
        deep = (PLANS[SALVAGE], PLANS[SAFE]) if what == BAD else (PLANS[SALVAGE],)
        for job in (*PLANS.values(), REBUILD, TRIM):
            look = DEEP if job in deep else VERIFY
            yield f"{what}: {job}", f"{what}: {look}", f"{what}, {job}: CPU against {look}", GOAL


RATIOS = tuple(_ratios())
"""What is compared with what, what it is called, and the goal. What decodes every record goes by a deep look."""


def measure(folder: Path, divisor: int, repeat: int) -> dict[str, verifying.Seconds]:
    """What each job takes. Raises RunError for a plan that is not what it must be."""
    source = lookups.with_indexes(data.generate(data.LARGE, folder, divisor))
    large = copied(source, folder / "planned-large" / source.name)
    bad = damaged(source, folder / "planned-damaged" / source.name)
    killed = verifying.small_partitions(folder / f"planned-{PARTITIONS // divisor}", max(10, PARTITIONS // divisor))
    (killed / names.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    closed = copied(killed, folder / f"planned-{PARTITIONS // divisor}-closed")
    (closed / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    single = {**_jobs(LARGE, large), **_jobs(BAD, bad, is_damaged=True)}
    many = {**_jobs(CLOSED, closed), **_jobs(KILLED, killed)}
    return {**verifying.timed(single, repeat), **verifying.timed(many, min(repeat, TURNS))}


def _jobs(what: str, path: Path, *, is_damaged: bool = False) -> dict[str, Callable[[], None]]:
    look = partial(find if is_damaged else verifying.check, path)
    jobs: dict[str, Callable[[], None]] = {VERIFY: look, DEEP: partial(look, deep=True)}
    for strategy, job in PLANS.items():
        jobs[job] = partial(plan, path, strategy, is_damaged=is_damaged)
    jobs[REBUILD] = partial(mend, path, kdump.rebuild_index, is_damaged=is_damaged)
    jobs[TRIM] = partial(mend, path, kdump.trim, is_damaged=is_damaged)
    return {f"{what}: {job}": do for job, do in jobs.items()}


def ratios(seconds: dict[str, verifying.Seconds]) -> Iterator[tuple[str, float, float]]:
    """What each comparison is called, the ratio of CPU seconds, and the goal."""
    for job, beside, title, goal in RATIOS:
        yield title, seconds[job].cpu / seconds[beside].cpu, goal


def copied(directory: Path, copy: Path) -> Path:
    """A copy of a directory, after an unclean shutdown where it is a partition's."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    if not (copy / names.META_PROPERTIES).exists():
        (copy.parent / names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=abcdefghijklmnopqrstuv\n")
        (copy / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
        (copy / names.PARTITION_METADATA).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return copy


def damaged(partition: Path, copy: Path) -> Path:
    """A copy of a partition with a few bytes in the middle of its log overwritten, inside a batch's records."""
    log = verifying.log_of(copied(partition, copy))
    with LogFile(str(log)) as file:
        middle = next(block for block in file.blocks() if block.next_position > file.size // 2)
        at = middle.position[0] + middle.size[0] // 2
    with open(log, "r+b") as file:
        file.seek(at)
        file.write(DAMAGE)
    return copy


def find(partition: Path, *, deep: bool = False) -> None:
    """Verify a damaged partition."""
    if "KD-LOG-CRC" not in [finding.code for finding in kdump.verify(partition, deep=deep, jobs=1)]:
        raise RunError(f"{partition}: the damage is not found")


def plan(path: Path, strategy: str, *, is_damaged: bool = False) -> None:
    """Plan a repair, and change nothing."""
    for done in kdump.repair(path, request=Request(strategy), now=data.BASE_TIMESTAMP):
        task = done.task
        is_told = task is not None and bool(task.decision or task.cuts or task.dropped.batches)
        if task is None or task.plan is None or is_told != is_damaged:
            raise RunError(f"{done.path}: not the plan that it needs")


def mend(path: Path, planned: Callable[[Path], Iterator[Repaired]], *, is_damaged: bool = False) -> None:
    """Plan what `kdump trim` or `kdump rebuild-index` does, and change nothing."""
    for done in planned(path):
        if done.task is None or done.task.plan is None or bool(done.task.problems) != is_damaged:
            raise RunError(f"{done.path}: not the plan that it needs")
