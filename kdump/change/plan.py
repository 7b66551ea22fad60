"""From the files that a partition directory shall have to an ordered list of operations that leads there.

A plan is plain data: it can be shown, written as JSON and read back. Operations name files of the partition directory
and the inodes that they were made for, so that carrying out a plan again, after it was interrupted anywhere, does
nothing twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from kdump.disk.reading import FileStatus, ReadOnlyFile, is_named
from kdump.formats import names
from kdump.formats.names import FileName, parse_file_name
from kdump.storage.recipe import NewContent, Recipe, SourceBytes


class Action(StrEnum):
    """What an operation does."""

    REMOVE = "remove"
    """A file goes."""
    TRUNCATE = "truncate"
    """A file is cut to its first `size` bytes."""
    RENAME = "rename"
    """The file `source` becomes `name`."""
    REPLACE = "replace"
    """A new file is put in the place of `name`."""
    CHECKPOINT = "checkpoint"
    """The partition's offset in the log directory's checkpoint `name` becomes `size`."""


REMOVE, TRUNCATE, RENAME, REPLACE, CHECKPOINT = Action


_ACTIONS = (REMOVE, REPLACE, RENAME, TRUNCATE)
_UNKNOWN: Mapping[str, FileStatus] = {}


class Operation(NamedTuple):
    """One change to one file.

    `size` is the file's size in bytes afterwards, `inode` that of the file which is removed, cut or renamed (0: none),
    `old_size` what that file has now (-1: there is none), `source` the file that a rename takes. `why` is for people.
    Of a CHECKPOINT, `size` and `old_size` are offsets (absolute).
    """

    action: Action
    name: str
    size: int = 0
    inode: int = 0
    old_size: int = -1
    source: str = ""
    why: str = ""


class Cut(NamedTuple):
    """Bytes of the file `file`, from `start` up to `stop`, that a repaired log does not have any more, and why."""

    file: str
    start: int
    stop: int
    why: str


class Plan(NamedTuple):
    """All changes to the partition directory `path`, in order; `recipes` tell what REPLACE puts in place."""

    path: str
    operations: tuple[Operation, ...]
    recipes: Mapping[str, Recipe]

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.operations)


def make_plan(
    path: str, wanted: Mapping[str, Recipe], reasons: Mapping[str, str], known: Mapping[str, FileStatus] = _UNKNOWN
) -> Plan:
    """Return the changes that turn the files of directory `path` into `wanted`; `reasons` say why, by file name.

    What the system says of the files that are `known` is not asked for again: `wanted` was made from them.

    In between no index leads astray: one that has to change with its .log goes before that, and comes after. Without
    it a broker rebuilds the segment's indexes. Leader epochs beyond the end of a log do no harm: they go at the end.
    Raises OSError.
    """
    present = _present(path, known)
    uses = Counter(recipe.name for recipe in wanted.values() if isinstance(recipe, SourceBytes))
    changes: list[Operation] = []
    by_name = {
        name: list(_changes(name, _as_prefix(path, name, recipe, present), present, wanted.keys(), uses))
        for name, recipe in wanted.items()
        if uses[name] > 1 or name not in present or recipe != SourceBytes(name, 0, present[name].size)
    }
    kept = (parse_file_name(name) for name, found in by_name.items() if found)
    logs = {parsed.offset for parsed in kept if parsed.is_live_log}
    for name, found in sorted(by_name.items()):
        parsed = parse_file_name(name)
        if found and name in present and parsed.kind in _BOUND_TO_LOG and parsed.offset in logs:
            found = _rebuilt(name, found, wanted[name].size, present[name])
        changes += [change._replace(why=change.why or reasons.get(name, "")) for change in found]
    renamed = {change.source for change in changes if change.action == RENAME}
    changes += [
        Operation(REMOVE, name, 0, info.inode, info.size, why=reasons.get(name, ""))
        for name, info in present.items()
        if name not in wanted and name not in renamed
    ]
    changes.sort(key=lambda change: change.name, reverse=True)
    changes.sort(key=_turn)
    return Plan(
        path, tuple(changes), {change.name: wanted[change.name] for change in changes if change.action == REPLACE}
    )


def _present(path: str, known: Mapping[str, FileStatus]) -> dict[str, FileStatus]:
    """Return what the system says of a directory's files (of links, of themselves). Raises OSError.

    Nothing where the directory is to be made.
    """
    if not is_named(path):
        return {}
    with os.scandir(path) as entries:
        return {
            entry.name: known[entry.name]
            if entry.name in known and not entry.is_symlink()
            else FileStatus.of(entry.stat(follow_symlinks=False))
            for entry in entries
            if entry.is_file()
        }


_BOUND_TO_LOG = (names.OFFSET_INDEX, names.TIME_INDEX)
"""The indexes that tell of positions and of the last batch."""


def _turn(change: Operation) -> tuple[int, int]:
    """Return when a change is made: removals, logs, what tells of logs; of segments always the last first."""
    if change.action == REMOVE:
        rank = 0 if parse_file_name(change.name).is_live_log else 1
    elif parse_file_name(change.name).is_live_log:
        rank = 2
    else:
        rank = 4 if change.name == names.LEADER_EPOCH_CHECKPOINT else 3
    return rank, _ACTIONS.index(change.action)


def _rebuilt(name: str, found: list[Operation], size: int, old: FileStatus) -> list[Operation]:
    """Return the same changes of an index, without the old one in between."""
    gone = Operation(REMOVE, name, 0, old.inode, old.size, why="rebuilt after its log has changed")
    if [change.action for change in found] == [RENAME]:
        return [gone, *found]
    return [gone, Operation(REPLACE, name, size, old.inode, old.size)]


def _as_prefix(path: str, name: str, recipe: Recipe, present: Mapping[str, FileStatus]) -> Recipe:
    """Return the recipe, or where that file starts with all of its new content, the one that only cuts it."""
    if not isinstance(recipe, NewContent) or recipe.size > len(recipe.data) or name not in present:
        return recipe
    with ReadOnlyFile(os.path.join(path, name)) as file:
        same = file.size >= recipe.size and file.read(0, recipe.size) == recipe.data[: recipe.size]
    return SourceBytes(name, 0, recipe.size) if same else recipe


def _changes(
    name: str,
    recipe: Recipe,
    present: Mapping[str, FileStatus],
    wanted: Collection[str],
    uses: Mapping[str, int],
) -> Iterator[Operation]:
    """Yield what makes the file `name`; nothing where it is as it shall be.

    A file is renamed only where nothing else gets its name, so that renames can be made in any order.
    """
    old = present.get(name)
    old_size = old.size if old else -1
    if (
        not isinstance(recipe, SourceBytes)
        or recipe.start
        or uses[recipe.name] > 1
        or recipe.name not in present
        or (recipe.name != name and recipe.name in wanted)
    ):
        yield Operation(REPLACE, name, recipe.size, old.inode if old else 0, old_size)
        return
    source = present[recipe.name]
    if recipe.name != name:
        yield Operation(RENAME, name, source.size, source.inode, old_size, recipe.name)
    if recipe.size < source.size:
        yield Operation(TRUNCATE, name, recipe.size, source.inode, source.size)


KINDS = {
    "log": (names.LOG,),
    "indexes": (names.OFFSET_INDEX,),
    "timeindexes": (names.TIME_INDEX,),
    "txnindexes": (names.TXN_INDEX,),
    "snapshots": (names.PRODUCER_SNAPSHOT,),
    "epochs": (names.LEADER_EPOCH_CHECKPOINT,),
}
"""What a plan can be narrowed to, and the kinds of files that each means; besides there is `ORPHANS`."""

ORPHANS = "orphans"
"""Files that no live segment has: leftovers in a state of their own, and indexes without a log."""


def narrowed(plan: Plan, kinds: Iterable[str], present: Mapping[str, FileName]) -> Plan:
    """Return the part of a plan that concerns files of these kinds; `present` are the directory's files now."""
    wanted = set(kinds)
    bases = {parsed.offset for parsed in present.values() if parsed.is_live_log}

    def concerns(operation: Operation) -> bool:
        parsed = parse_file_name(operation.source or operation.name)
        if parsed.state or (parsed.kind in names.INDEX_KINDS and parsed.offset not in bases):
            return ORPHANS in wanted
        return any(parsed.kind in KINDS[kind] for kind in wanted & KINDS.keys())

    return plan._replace(operations=tuple(filter(concerns, plan.operations)))
