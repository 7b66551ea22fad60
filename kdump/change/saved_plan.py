"""Plans in a file: what was shown can be applied later, if nothing has changed until then."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kdump.change.plan import REPLACE, Plan
from kdump.change.states import files_of, offsets_of
from kdump.disk import durable
from kdump.disk.reading import read_small
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError, RefusedError
from kdump.formats.words import listed
from kdump.storage.planned import content_of

VERSION = 1
MAX_BYTES = 1 << 30
_FIELDS = {"path", "operations", "files", "offsets", "newContent"}


class SavedPlans(NamedTuple):
    """What a plan file says: the command, and each partition's plan by its path."""

    path: str
    command: str
    partitions: Mapping[str, Mapping[str, Any]]


def plan_row(plan: Plan) -> dict[str, Any]:
    """Return a plan with the files and offsets it was made for, and a digest of all new content. Raises OSError."""
    from hashlib import blake2b  # as in kdump.change.states: only when it is needed

    path = os.path.abspath(plan.path)
    digest = blake2b(digest_size=16)
    for operation in plan.operations:
        if operation.action == REPLACE:
            for piece in content_of(path, plan.recipes[operation.name]):
                digest.update(piece)
    return {
        "path": path,
        "operations": [operation._asdict() for operation in plan.operations],
        "files": {name: list(state) for name, state in sorted(files_of(path).items())},
        "offsets": offsets_of(path),
        "newContent": digest.hexdigest(),
    }


def save(path: str, command: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a plan file. Raises OSError."""
    import json

    partitions = list(rows)
    document = {"type": "kdump.plan", "version": VERSION, "command": command, "partitions": partitions}
    rights = rights_of(row["path"] for row in partitions)
    durable.replace_alone(path, json.dumps(document, indent=1).encode() + b"\n", durable=True, rights=rights)


def load(path: str) -> SavedPlans:
    """Read a plan file. Raises OSError, KdumpError where it is none that this release can read."""
    import json

    try:
        document = json.loads(read_small(path, MAX_BYTES))
        if (document["type"], document["version"]) == ("kdump.plan", VERSION):
            rows = {row["path"]: row for row in document["partitions"]}
            if all(row.keys() >= _FIELDS and isinstance(row["files"], dict) for row in rows.values()):
                return SavedPlans(path, str(document["command"]), rows)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise KdumpError(f"{path}: not a plan file that this release of kdump can read")


def check_same(saved: SavedPlans, plan: Plan) -> None:
    """Raise RefusedError where the plan made now is not the one that was saved. Raises OSError."""
    now = plan_row(plan)
    was = saved.partitions.get(now["path"])
    if was is None:
        raise RefusedError(f"{now['path']}: this partition is not in {saved.path}")
    names = sorted({*was["files"], *now["files"]})
    changed = [name for name in names if was["files"].get(name) != now["files"].get(name)]
    if changed:
        raise RefusedError(f"{now['path']}: {listed(changed, 1)} changed since the plan {saved.path} was made")
    if was["offsets"] != now["offsets"]:
        raise RefusedError(f"{now['path']}: its checkpoints changed since the plan {saved.path} was made")
    if any(was[key] != now[key] for key in ("operations", "newContent")):
        raise RefusedError(f"{now['path']}: the plan differs from {saved.path}. Are the options the same?")
