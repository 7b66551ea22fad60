"""The folder of one repair: the plan on disk, the new files that wait for their place, and what they replaced.

It lies in the partition directory, as .kdump-backup/<time>: a broker takes every directory in a log directory for a
partition, and does not start over one that is none, but looks at nothing but files in a partition's.

    plan.jsonl      the operations, one a line, after a line that names the partition directory; its presence means that
                    the changes were begun and can be finished from here alone
    new/NAME        a new file, complete and on disk before the plan is
    old/NAME        the file that was replaced, removed or renamed over
    old/NAME.cut-N  the bytes that were cut off NAME, which they follow at byte N
    cut/            what salvage took out of logs, a file for each stretch, and cut.jsonl, which says where it was
    done            the repair is complete
    undone          it was taken back

A folder with a plan and without `done` and `undone` is an interrupted repair.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

from kdump.change.plan import Operation, Plan
from kdump.errors import KdumpError, RefusedError

BACKUP_FOLDER = ".kdump-backup"
PLAN = "plan.jsonl"
NEW = "new"
OLD = "old"
CUT = "cut"
CUT_LIST = "cut.jsonl"
DONE = "done"
UNDONE = "undone"
VERSION = 1


def write_plan(folder: str, plan: Plan) -> str:
    """Write the plan beside its final name, on disk; the caller renames it there. Raises OSError."""
    part = os.path.join(folder, PLAN + ".part")
    with open(part, "w", encoding="utf-8", errors="surrogateescape") as out:
        out.write(json.dumps({"version": VERSION, "path": os.path.abspath(plan.path)}) + "\n")
        out.writelines(json.dumps(operation._asdict()) + "\n" for operation in plan.operations)
        out.flush()
        os.fsync(out.fileno())
    return part


def read_plan(folder: str) -> Plan:
    """The plan of a repair that was begun. Raises OSError, and KdumpError where it is none."""
    path = os.path.join(folder, PLAN)
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        try:
            head, *rows = map(json.loads, lines)
            operations = tuple(Operation(**row) for row in rows)
            if head["version"] == VERSION:
                return Plan(head["path"], operations, {})
        except (ValueError, TypeError, KeyError):
            pass
    raise KdumpError(f"{path}: not a plan that this release of kdump can read")


def check_place(folder: str, plan: Plan) -> None:
    """Raise RefusedError where a repair's folder was copied or moved with the partition directory that it lies in.

    Its plan is for other files then, by their paths and inodes.
    """
    backups, here = os.path.split(os.path.dirname(os.path.abspath(folder)))[::-1]
    if backups == BACKUP_FOLDER and os.path.realpath(here) != os.path.realpath(plan.path):
        raise RefusedError(
            f"{folder}: this repair was begun in {plan.path}, and was copied or moved from there: finish or undo it"
            " there, or remove this folder and what is in it"
        )


def new_folder(partition_directory: str, backup_dir: str | None = None, stamp: str | None = None) -> str:
    """Where the next repair of a partition directory keeps what it replaces; nothing is made yet.

    `backup_dir` is a directory to use in place of the partition's own, `stamp` the folder's name, if not the time.
    """
    return os.path.join(_backups(partition_directory, backup_dir), stamp or new_stamp())


def new_stamp() -> str:
    """A name for the folder of a repair that begins now."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 1_000_000_000:09d}"


def unfinished(partition_directory: str, backup_dir: str | None = None) -> Iterator[str]:
    """The folders of interrupted repairs of a partition directory. Raises OSError."""
    for folder in _folders(partition_directory, backup_dir):
        is_there = [os.path.exists(os.path.join(folder, each)) for each in (PLAN, DONE, UNDONE)]
        if is_there == [True, False, False]:
            yield folder


def leftovers(partition_directory: str, backup_dir: str | None = None) -> Iterator[str]:
    """The folders of repairs that were interrupted before they changed anything. Raises OSError."""
    for folder in _folders(partition_directory, backup_dir):
        if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, PLAN)):
            yield folder


def _backups(partition_directory: str, backup_dir: str | None) -> str:
    if backup_dir is None:
        return os.path.join(partition_directory, BACKUP_FOLDER)
    return os.path.join(backup_dir, os.path.basename(os.path.abspath(partition_directory)))


def _folders(partition_directory: str, backup_dir: str | None) -> Iterator[str]:
    """Where the repairs of a partition directory kept what they replaced, if they did; the oldest first."""
    backups = _backups(partition_directory, backup_dir)
    for name in sorted(os.listdir(backups)) if os.path.isdir(backups) else ():
        yield os.path.join(backups, name)
