"""The folder of one repair: the plan on disk, the new files that wait for their place, and what they replaced.

    plan.jsonl      the operations, one a line, after a line that names the partition directory; its presence means that
                    the changes were begun and can be finished from here alone
    new/NAME        a new file, complete and on disk before the plan is
    old/NAME        the file that was replaced, removed or renamed over
    old/NAME.cut-N  the bytes that were cut off NAME, which they follow at byte N
    done            the repair is complete

A folder with a plan and without `done` is an interrupted repair.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from kdump.errors import KdumpError
from kdump.repair.plan import Operation, Plan

BACKUP_FOLDER = ".kdump-backup"
PLAN = "plan.jsonl"
NEW = "new"
OLD = "old"
DONE = "done"
VERSION = 1


def write_plan(folder: str, plan: Plan) -> str:
    """Write the plan beside its final name, on disk; the caller renames it there. Raises OSError."""
    part = os.path.join(folder, PLAN + ".part")
    with open(part, "w", encoding="utf-8", errors="surrogateescape") as out:
        out.write(json.dumps({"version": VERSION, "path": plan.path}) + "\n")
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


def unfinished(log_directory: str, partition_directory: str) -> Iterator[str]:
    """The folders of interrupted repairs of a partition directory. Raises OSError, KdumpError."""
    backups = os.path.join(log_directory, BACKUP_FOLDER)
    name = os.path.basename(partition_directory)
    for time in sorted(os.listdir(backups)) if os.path.isdir(backups) else ():
        folder = os.path.join(backups, time, name)
        if os.path.exists(os.path.join(folder, PLAN)) and not os.path.exists(os.path.join(folder, DONE)):
            yield folder


def leftovers(log_directory: str, partition_directory: str) -> Iterator[str]:
    """The folders of repairs that were interrupted before they changed anything. Raises OSError."""
    backups = os.path.join(log_directory, BACKUP_FOLDER)
    name = os.path.basename(partition_directory)
    for time in sorted(os.listdir(backups)) if os.path.isdir(backups) else ():
        folder = os.path.join(backups, time, name)
        if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, PLAN)):
            yield folder
