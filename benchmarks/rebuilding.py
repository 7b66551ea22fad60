"""Make the indexes of a large segment anew in this process, beside verifying it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import data
import lookups
import verifying
from processes import RunError

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.formats import names
from kdump.mend.indexes import examine_indexes
from kdump.mend.task import INDEX_KINDS
from kdump.recovery.startup import Startup

SHALLOW, REBUILD = "large-batches: verify, in turns with the next", "large-batches: rebuild-index"


def measure(folder: Path, divisor: int, repeat: int) -> dict[str, verifying.Seconds]:
    """What both take. Raises RunError where the indexes come out other than they were."""
    large = lookups.with_indexes(data.generate(data.LARGE, folder, divisor))
    copy = folder / "rebuilt-0"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    os.link(verifying.log_of(large), verifying.log_of(copy))
    seconds = verifying.timed({SHALLOW: lambda: verifying.check(large), REBUILD: lambda: rebuild(copy)}, repeat)
    for path in copy.glob("*.*index"):
        if path.read_bytes() != (large / path.name).read_bytes():
            raise RunError(f"{path} is not as it was written")
    shutil.rmtree(copy)
    return seconds


def rebuild(partition: Path) -> None:
    """Plan and carry out what makes the indexes, of which none is there."""
    for kind in names.INDEX_KINDS:
        verifying.log_of(partition).with_suffix(f".{kind}").unlink(missing_ok=True)
    task = examine_indexes(kdump.open_log(str(partition)), Startup(now=0), frozenset(INDEX_KINDS), None, wants_all=True)
    if not task.plan or len(task.plan.operations) < 2:
        raise RunError(f"{partition}: there is nothing to rebuild")
    apply_plan(task.plan, new_change(str(partition)), keep_old=False)
