"""The journal of one change of one partition: what is to be done, what the files were, and what they are afterwards.

It is one JSON document, put in place whole: with it the change is begun and can be finished, or taken back, from the
files of the change alone. It is written again when the change is done, undone or closed. docs/repair.md has the fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from kdump.change import place
from kdump.change.change import Change, ChangeState, KeptCut, Step
from kdump.change.place import ChangeFiles, change_files, log_directory_of, places_of, places_of_partition
from kdump.change.plan import Action, Cut, Operation
from kdump.change.states import FileState, PartitionState
from kdump.disk import durable
from kdump.disk.reading import is_directory, is_named, is_there, read_small, real_path
from kdump.errors import KdumpError

VERSION = 2
MAX_BYTES = 1 << 28
_PART = "part"


def write(change: Change, *, role: str = place.JOURNAL) -> None:
    """Put the journal of a change in place, onto the disk. Raises OSError."""
    if role == place.STAGING:
        _note_place(change)
    _put(change.files.path(role), change.files.path(_PART), _encoded(change), change.path)
    if change.state != ChangeState.INTERRUPTED:
        _note_place(change)


def _put(target: str, part: str, content: bytes, partition_directory: str) -> None:
    like = durable.file_in(os.stat(partition_directory))
    durable.write_file(target, (content,), like, part=part, allow_other_owner=True)
    durable.sync_directory(os.path.dirname(target))


def _note_place(change: Change) -> None:
    """Note in the log directory where the change is, and how far, if nobody would look for it there. Raises OSError."""
    note = place.note_of(change.files, change.path)
    if note is not None:
        folder = os.path.dirname(note)
        durable.make_directories(folder)
        row = {"directory": _way(folder, change.files.directory), "state": change.state}
        part = change.files._replace(directory=folder).path(_PART)
        _put(note, part, json.dumps(row).encode(), change.path)


def _noted(note: str) -> tuple[str, ChangeState]:
    """Return the directory that a note names, and how far the change was. Raises OSError, KdumpError."""
    try:
        row = json.loads(read_small(note, MAX_BYTES))
        return _end_of(os.path.dirname(note), str(row["directory"])), ChangeState(row["state"])
    except (ValueError, TypeError, KeyError):
        raise KdumpError(f"{note}: not a note that this release of kdump can read") from None


def read(files: ChangeFiles, *, role: str = place.JOURNAL) -> Change:
    """Return the change of the files. Raises OSError, KdumpError where this release cannot read the journal."""
    path = files.path(role)
    try:
        return _decoded(json.loads(read_small(path, MAX_BYTES)), files)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise KdumpError(f"{path}: not a journal of a change that this release of kdump can read") from None


def _way(start: str, path: str) -> str:
    """Return the way from a directory to a path, so that both can be mounted elsewhere together."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(start))


def _end_of(start: str, way: str) -> str:
    leads_out = way.startswith(os.path.join(os.pardir, ""))
    return os.path.normpath(os.path.join(os.path.realpath(start) if leads_out else start, way))


def _encoded(change: Change) -> bytes:
    row: dict[str, Any] = {"version": VERSION, "id": change.id, "path": _way(change.files.directory, change.path)}
    row |= {"command": change.command, "begun": change.begun, "state": change.state}
    row |= {"undoes": change.undoes, "keepsOld": change.keeps_old, "logEndOffset": change.log_end_offset}
    row |= {"before": change.before._asdict(), "after": change.after._asdict() if change.after else None}
    row |= {"digests": dict(change.digests)} | ({"madeDirectory": True} if change.made_directory else {})
    row["steps"] = [step._asdict() | {"operation": step.operation._asdict()} for step in change.steps]
    row["cuts"] = [{"cut": kept.cut._asdict(), "file": kept.file} for kept in change.cuts]
    return json.dumps(row).encode()


def _operation(row: Mapping[str, Any]) -> Operation:
    return Operation(**row)._replace(action=Action(row["action"]))


def _decoded(row: Mapping[str, Any], files: ChangeFiles) -> Change:
    if row["version"] != VERSION:
        raise ValueError
    path = _end_of(files.directory, row["path"])
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
            Step(_operation(step["operation"]), step["staged"], step["kept"], _file_state(step["new"]))
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
        self._real = os.path.realpath(log_directory)
        self._listed = _by_partition(self._log_directory)
        self.unreadable: list[KdumpError] = []

    def of(self, partition_directory: str, backup_dir: str | None = None) -> list[Change]:
        """Return the changes of a partition directory, the oldest first. Raises OSError, KdumpError."""
        path = real_path(partition_directory, self._real)
        whole = [files for files, is_begun in self._files_of(path, backup_dir).items() if is_begun and _is_whole(files)]
        return sorted((change for files in whole if (change := _of_partition(read(files), path))), key=_age)

    def leftovers_of(self, partition_directory: str, backup_dir: str | None = None) -> list[ChangeFiles]:
        """Return the files of changes of a partition that were interrupted before they changed anything.

        Raises OSError, KdumpError.
        """
        path = real_path(partition_directory, self._real)
        return [files for files, is_begun in self._files_of(path, backup_dir).items() if not is_begun]

    def all(self) -> list[Change]:
        """Return the changes that the log directory has, or knows the place of, the oldest first. Raises OSError."""
        found = []
        for files in (files for listed in self._listed.values() for files in listed):
            try:
                for each, is_begun in _where_noted(files, self._listed[files.partition][files]).items():
                    change = read(each) if is_begun and _is_whole(each) else None
                    found += [_known_in(self._log_directory, change)] if change else []
            except KdumpError as error:
                self.unreadable.append(error)
        return sorted(found, key=_age)

    def _files_of(self, path: str, backup_dir: str | None) -> dict[ChangeFiles, bool]:
        """Return the changes of a partition, and whether each was begun. Raises OSError, KdumpError."""
        label = place.label_of(os.path.basename(path))
        found = [self._listed.get(label, {})]
        is_inside = os.path.dirname(path) == self._real  # so it is a partition's
        for directory in (places_of_partition if is_inside else places_of)(path, backup_dir):
            if directory != self._log_directory and is_directory(directory):
                found.append(_by_partition(directory).get(label, {}))
        return {
            each: is_begun
            for listed in found
            for files, role in listed.items()
            for each, is_begun in _where_noted(files, role).items()
        }


def _by_partition(directory: str) -> dict[str, dict[ChangeFiles, str]]:
    """Return by partition the changes with files or note in a directory; the role that tells most. Raises OSError."""
    found: dict[str, dict[ChangeFiles, str]] = {}
    for files, role in change_files(directory):
        known = found.setdefault(files.partition, {})
        if known.get(files) != place.JOURNAL:
            known[files] = role if role in (place.JOURNAL, place.ELSEWHERE) else known.get(files, role)
    return found


def _where_noted(files: ChangeFiles, role: str) -> dict[ChangeFiles, bool]:
    """Return the files of a change where they lie, and whether it was begun. Raises OSError, KdumpError.

    Of a note that leads nowhere it is the note itself, if nothing can be missing.
    """
    if role != place.ELSEWHERE:
        return {files: role == place.JOURNAL}
    note = files.path(place.ELSEWHERE)
    if not is_named(note):  # it was removed since it was listed
        return {}
    directory, state = _noted(note)
    there = files._replace(directory=directory)
    if there.all():
        return {there: _is_whole(there)}
    if state == ChangeState.INTERRUPTED and not is_directory(directory):
        raise KdumpError(
            f"{directory}: does not exist, and change {files.id} of {files.partition} needs it to be finished."
            f" Restore it; or, to keep the partition as it is now, remove {note}"
        )
    return {files: False}


def _of_partition(change: Change, path: str) -> Change | None:
    """Return a change as one of the partition directory `path`; None if it is another's.

    What was changed elsewhere, in a directory that is not there any more, is taken for this one by its name: that it is
    what the change left is found out by its files.
    """
    recorded = os.path.realpath(change.path)
    if recorded == path:
        return change
    is_moved = os.path.basename(recorded) == os.path.basename(path) and not is_directory(recorded)
    return change._replace(path=path) if is_moved else None


def _known_in(log_directory: str, change: Change) -> Change:
    """Return a change of which a log directory knows: the partition is in it, wherever the originals are."""
    if change.files.directory.startswith(os.path.join(log_directory, "")) or change.files.directory == log_directory:
        return change
    return change._replace(path=os.path.join(log_directory, os.path.basename(change.path)))


def _age(change: Change) -> tuple[str, int, str, str, int]:
    """Return the order of changes: by id, which is a time and perhaps a number; those of one run by partition."""
    stamp, _, number = change.id.partition("-")
    topic, _, partition = os.path.basename(change.path).rpartition("-")
    return stamp, _whole(number, 0), change.id, topic, _whole(partition, -1)


def _whole(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default


def _is_whole(files: ChangeFiles) -> bool:
    return is_there(files.path(place.JOURNAL))


def changes_of(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """Return the changes of one partition, the oldest first. Raises OSError, KdumpError."""
    return Changes(log_directory_of(os.path.realpath(partition_directory))).of(partition_directory, backup_dir)


def unfinished(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """Return the interrupted changes of a partition, the oldest first. Raises OSError, KdumpError."""
    return [each for each in changes_of(partition_directory, backup_dir) if each.is_interrupted]


def ended(change: Change, state: ChangeState) -> Change:
    """Write down that a change is in this state now. Raises OSError."""
    changed = change._replace(state=state)
    write(changed)
    return changed
