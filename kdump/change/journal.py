"""The journal of one change of one partition: what is to be done, what the files were, and what they are afterwards.

It is one JSON document, put in place whole: with it the change is begun and can be finished, or taken back, from the
files of the change alone. It is written again when the change is done, undone or closed. docs/repair.md has the fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from kdump.change import place
from kdump.change.place import ChangeFiles, change_files, log_directory_of, places_of
from kdump.change.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Cut, Operation
from kdump.change.states import ANY_TIME, FileState, PartitionState
from kdump.disk import durable
from kdump.disk.reading import read_small
from kdump.errors import KdumpError

VERSION = 2
MAX_BYTES = 1 << 28
_PART = "part"
_LEAST_BLOCK = 4096


class ChangeState(StrEnum):
    """How far a change is."""

    INTERRUPTED = "interrupted"
    DONE = "done"
    UNDONE = "undone"
    CLOSED = "closed"
    """It was interrupted, the partition was changed since, and it stays as it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation and the files that it takes from and keeps at: names in the change's directory, or paths.

    `staged` is the new file that a REPLACE puts in place, `kept` takes the file that goes or, of a TRUNCATE, the bytes
    that are cut off. `new` is what the new file is. "" and None where there is no such file.
    """

    operation: Operation
    staged: str = ""
    kept: str = ""
    new: FileState | None = None


@dataclass(frozen=True, slots=True)
class KeptCut:
    """Bytes that salvage took out of a log, and the name of the file that has them."""

    cut: Cut
    file: str


@dataclass(frozen=True)
class Change:
    """A change of the partition directory `path` by `command`, begun at `begun` (ms).

    `before` is the partition when it was begun, `after` when it was done, with the digests of the files that it made
    and the log end offset (absolute; None where it is not known). `undoes` is the id of the change that this one takes
    back. `made_directory`: the partition directory was made for it. Unless `keeps_old`, nothing but what was cut out is
    kept once it is done.
    """

    files: ChangeFiles
    path: str
    command: str
    begun: int
    steps: tuple[Step, ...]
    before: PartitionState
    cuts: tuple[KeptCut, ...] = ()
    keeps_old: bool = True
    undoes: str = ""
    state: ChangeState = ChangeState.INTERRUPTED
    after: PartitionState | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    log_end_offset: int | None = None
    made_directory: bool = False

    @property
    def id(self) -> str:
        """The id of the change; changes of several partitions by one run share it."""
        return self.files.id

    def file(self, name: str) -> str:
        """The path of a file that a step or a cut names."""
        return os.path.join(self.files.directory, name)

    @cached_property
    def kept_bytes(self) -> int:
        """How many bytes of the disk the files use that it keeps."""
        return sum(_used(path) for path in self.files.all() if path != self.files.path(place.JOURNAL))

    @property
    def all_bytes(self) -> int:
        """How many bytes of the disk its files use, the journal's too."""
        return sum(map(_used, self.files.all()))

    def allowed(self) -> dict[str, set[FileState | None]]:
        """What each file may be while the change is carried out; None: not there."""
        now: dict[str, FileState | None] = dict(self.before.files)
        allowed: dict[str, set[FileState | None]] = {name: {state} for name, state in now.items()}

        def becomes(name: str, state: FileState | None) -> None:
            allowed.setdefault(name, {now.get(name)}).add(state)
            now[name] = state

        for step in self.steps:
            operation = step.operation
            if operation.action == REMOVE:
                becomes(operation.name, None)
            elif operation.action == REPLACE:
                becomes(operation.name, step.new)
            elif operation.action == RENAME:
                moved = now.get(operation.source)
                becomes(operation.source, None)
                becomes(operation.name, moved)
            elif operation.action == TRUNCATE:
                was = now.get(operation.name)
                # between the cut and its modification time there may have been a kill
                becomes(operation.name, FileState(operation.size, ANY_TIME))
                now[operation.name] = FileState(operation.size, was.modified if was else ANY_TIME)
        return allowed


def _used(path: str) -> int:
    with suppress(FileNotFoundError):
        info = os.lstat(path)
        # a file that was just written, or is small, may have no block of its own yet
        return min(info.st_size, max(info.st_blocks * 512, _LEAST_BLOCK))
    return 0


def write(change: Change, *, role: str = place.JOURNAL) -> None:
    """Put the journal of a change in place, onto the disk. Raises OSError."""
    target, part = change.files.path(role), change.files.path(_PART)
    with suppress(FileNotFoundError):
        os.remove(part)
    like = durable.file_in(os.stat(change.path))
    durable.write_file(part, (_encoded(change),), like, allow_other_owner=True)
    os.replace(part, target)
    durable.sync_directory(change.files.directory)


def read(files: ChangeFiles, *, role: str = place.JOURNAL) -> Change:
    """The change that the files belong to. Raises OSError, KdumpError where this release cannot read the journal."""
    path = files.path(role)
    try:
        return _decoded(json.loads(read_small(path, MAX_BYTES)), files)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise KdumpError(f"{path}: not a journal of a change that this release of kdump can read") from None


def _encoded(change: Change) -> bytes:
    row: dict[str, Any] = {"version": VERSION, "id": change.id, "path": _relative(change)}
    row |= {"command": change.command, "begun": change.begun, "state": change.state}
    row |= {"undoes": change.undoes, "keepsOld": change.keeps_old, "logEndOffset": change.log_end_offset}
    row |= {"before": change.before._asdict(), "after": change.after._asdict() if change.after else None}
    row |= {"digests": dict(change.digests)} | ({"madeDirectory": True} if change.made_directory else {})
    row["steps"] = [asdict(step) | {"operation": step.operation._asdict()} for step in change.steps]
    row["cuts"] = [{"cut": kept.cut._asdict(), "file": kept.file} for kept in change.cuts]
    return json.dumps(row).encode()


def _relative(change: Change) -> str:
    """The path of the partition from the directory of the change, so that both can be moved together."""
    directory, parent = change.files.directory, os.path.dirname(change.path)
    return os.path.relpath(change.path, directory) if directory.startswith(parent) else change.path


def _decoded(row: Mapping[str, Any], files: ChangeFiles) -> Change:
    if row["version"] != VERSION:
        raise ValueError
    path = os.path.normpath(os.path.join(files.directory, row["path"]))
    named = [step["operation"][each] for step in row["steps"] for each in ("name", "source")]
    own = [step[each] for step in row["steps"] for each in ("staged", "kept")] + [each["file"] for each in row["cuts"]]
    if any(os.path.basename(name) != name for name in named):
        raise ValueError
    if any(name and not os.path.basename(name).startswith(place.PREFIX) for name in own):
        raise ValueError
    return Change(
        files._replace(partition=os.path.basename(path)),
        path,
        str(row["command"]),
        int(row["begun"]),
        tuple(
            Step(Operation(**step["operation"]), step["staged"], step["kept"], _file_state(step["new"]))
            for step in row["steps"]
        ),
        _state(row["before"]),
        tuple(KeptCut(Cut(**each["cut"]), each["file"]) for each in row["cuts"]),
        bool(row["keepsOld"]),
        str(row["undoes"]),
        ChangeState(row["state"]),
        _state(row["after"]) if row["after"] else None,
        row["digests"],
        row["logEndOffset"],
        bool(row.get("madeDirectory")),
    )


def _file_state(row: Any) -> FileState | None:
    return None if row is None else FileState(int(row[0]), int(row[1]))


def _state(row: Mapping[str, Any]) -> PartitionState:
    files = {name: FileState(int(size), int(modified)) for name, (size, modified) in row["files"].items()}
    return PartitionState(files, {name: int(offset) for name, offset in row["offsets"].items()}, bool(row["was_clean"]))


class Changes:
    """The changes of a log directory's partitions; its names are listed once.

    `unreadable` are the errors of journals that `all` had to pass over.
    """

    def __init__(self, log_directory: str) -> None:
        """List them. Raises OSError."""
        self._log_directory = os.path.abspath(log_directory)
        self._listed = _by_partition(self._log_directory)
        self.unreadable: list[KdumpError] = []

    def of(self, partition_directory: str, backup_dir: str | None = None) -> list[Change]:
        """The changes of a partition directory, the oldest first. Raises OSError, KdumpError."""
        path = os.path.realpath(partition_directory)
        found = [read(files) for files, is_begun in self._files_of(path, backup_dir) if is_begun and _is_whole(files)]
        return sorted((change for change in found if os.path.realpath(change.path) == path), key=_age)

    def leftovers_of(self, partition_directory: str, backup_dir: str | None = None) -> list[ChangeFiles]:
        """The files of changes of a partition that were interrupted before they changed anything. Raises OSError."""
        path = os.path.realpath(partition_directory)
        return [files for files, is_begun in self._files_of(path, backup_dir) if not is_begun]

    def all(self) -> list[Change]:
        """The changes whose files lie in the log directory itself, the oldest first. Raises OSError."""
        found = []
        for files in (files for listed in self._listed.values() for files, is_begun in listed.items() if is_begun):
            try:
                found += [read(files)] if _is_whole(files) else []
            except KdumpError as error:
                self.unreadable.append(error)
        return sorted(found, key=_age)

    def _files_of(self, path: str, backup_dir: str | None) -> Iterator[tuple[ChangeFiles, bool]]:
        label = place.label_of(os.path.basename(path))
        yield from self._listed.get(label, {}).items()
        for directory in places_of(path, backup_dir):
            if directory != self._log_directory and os.path.isdir(directory):
                yield from _by_partition(directory).get(label, {}).items()


def _by_partition(directory: str) -> dict[str, dict[ChangeFiles, bool]]:
    """The changes whose files lie in a directory, by partition; whether each was begun. Raises OSError."""
    found: dict[str, dict[ChangeFiles, bool]] = {}
    for files, role in change_files(directory):
        known = found.setdefault(files.partition, {})
        known[files] = known.get(files, False) or role == place.JOURNAL
    return found


def _age(change: Change) -> tuple[str, int, str, str, int]:
    """The order of changes: by id, which is a time and perhaps a number; those of one run by partition."""
    stamp, _, number = change.id.partition("-")
    topic, _, partition = os.path.basename(change.path).rpartition("-")
    return stamp, _whole(number, 0), change.id, topic, _whole(partition, -1)


def _whole(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default


def _is_whole(files: ChangeFiles) -> bool:
    return os.path.exists(files.path(place.JOURNAL))


def changes_of(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """The changes of one partition, the oldest first. Raises OSError, KdumpError."""
    return Changes(log_directory_of(os.path.realpath(partition_directory))).of(partition_directory, backup_dir)


def unfinished(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """The interrupted changes of a partition, the oldest first. Raises OSError, KdumpError."""
    return [each for each in changes_of(partition_directory, backup_dir) if each.state == ChangeState.INTERRUPTED]


def ended(change: Change, state: ChangeState) -> Change:
    """Write down that a change is in this state now. Raises OSError."""
    changed = replace(change, state=state)
    write(changed)
    return changed
