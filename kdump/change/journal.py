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
from kdump.change.states import UNREAD, FileState, PartitionState
from kdump.disk import durable
from kdump.disk.entered import read_own
from kdump.disk.reading import is_directory, is_named, is_there, real_path
from kdump.errors import KdumpError, RefusedError
from kdump.formats.names import OFFSET_CHECKPOINTS

VERSION = 2
MAX_BYTES = 1 << 28
_PART = "part"
_NOT_OURS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What comes of reading a document that no kdump wrote."""
_LATEST = 253_402_300_799_999  # ms, the end of the year 9999
_MAX_SIZE = (1 << 63) - 1


class _LeadsOutError(ValueError):
    """A document names what is not the change's: a partition elsewhere, a file in another directory."""


def _refused(path: str) -> RefusedError:
    return RefusedError(
        f"{path}: names what does not belong to the change of which it is by its own name: kdump does nothing that it"
        " says"
    )


def write(change: Change, *, role: str = place.JOURNAL) -> None:
    """Put the journal of a change in place, onto the disk. Raises OSError."""
    if role == place.STAGING:
        _note_place(change)
    _put(change.files.path(role), change.files.path(_PART), _encoded(change))
    if change.state != ChangeState.INTERRUPTED:
        _note_place(change)


def _put(target: str, part: str, content: bytes) -> None:
    """Write it as a file of the owner of its directory: that of another user is not believed."""
    like = durable.file_in(os.stat(os.path.dirname(target)))
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
        _put(note, part, json.dumps(row).encode())


def _noted(note: str) -> tuple[str, ChangeState]:
    """Return the directory that a note names, and how far the change was. Raises OSError, KdumpError."""
    try:
        row = json.loads(read_own(note, MAX_BYTES))
        directory = _end_of(os.path.dirname(note), _path(row["directory"]))
        return directory, ChangeState(row["state"])
    except _LeadsOutError:
        raise _refused(note) from None
    except _NOT_OURS:
        raise KdumpError(f"{note}: not a note that this release of kdump can read") from None


def read(files: ChangeFiles, *, role: str = place.JOURNAL) -> Change:
    """Return the change of the files. Raises OSError, KdumpError where this release cannot read the journal."""
    path = files.path(role)
    try:
        return _decoded(json.loads(read_own(path, MAX_BYTES)), files)
    except _LeadsOutError:
        raise _refused(path) from None
    except _NOT_OURS:
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


def _decoded(row: Mapping[str, Any], files: ChangeFiles) -> Change:
    """Return the change of a document: of its own files, and of a partition that is where its files may lie."""
    path = _end_of(files.directory, _path(row["path"]))
    is_directorys_own = path == files.directory  # which may have another name by now
    if row["version"] != VERSION:
        raise ValueError
    is_of_name = is_directorys_own or place.label_of(os.path.basename(path)) == place.label_of(files.partition)
    if not is_of_name or row["id"] != files.id:
        raise _LeadsOutError
    undoes = _text(row["undoes"])
    cuts = tuple(KeptCut(_cut(kept["cut"]), _own_file(kept["file"], files.prefix)) for kept in row["cuts"])
    return Change(
        files._replace(partition=os.path.basename(path)),
        path,
        _text(row["command"]),
        _number(row["begun"], 0, _LATEST),
        tuple(_step(step, files, undoes) for step in row["steps"]),
        _state(row["before"]),
        cuts,
        bool(row["keepsOld"]),
        undoes,
        ChangeState(row["state"]),
        _state(row["after"]) if row["after"] else None,
        {_name(name): _text(digest) for name, digest in row["digests"].items()},
        None if row["logEndOffset"] is None else _number(row["logEndOffset"]),
        bool(row.get("madeDirectory")),
    )


def _step(row: Mapping[str, Any], files: ChangeFiles, undoes: str) -> Step:
    operation = Operation(**row["operation"])
    operation = operation._replace(action=Action(operation.action))
    is_checkpoint = operation.action == Action.CHECKPOINT
    _name(operation.name)
    _number(operation.size, -1 if is_checkpoint else 0)
    _number(operation.inode)
    _number(operation.old_size, -1)
    _text(operation.why)
    if operation.source or operation.action == Action.RENAME:
        _name(operation.source)
    if is_checkpoint and operation.name not in OFFSET_CHECKPOINTS:
        raise _LeadsOutError
    staged, kept = row["staged"], row["kept"]
    prefixes = [files.prefix, *([files._replace(id=undoes).prefix] if undoes else [])]
    new = row["new"]
    return Step(
        operation,
        _own_file(staged, *prefixes) if staged or operation.action == Action.REPLACE else "",
        _own_file(kept, files.prefix) if kept else "",
        None if new is None else _file_state(new),
    )


def _cut(row: Mapping[str, Any]) -> Cut:
    cut = Cut(**row)
    _name(cut.file)
    _number(cut.start)
    _number(cut.stop)
    _text(cut.why)
    return cut


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _path(value: Any) -> str:
    if "\0" in _text(value):
        raise _LeadsOutError
    return str(value)


def _name(value: Any) -> str:
    """Return the name of a file, which leads nowhere else. Raises ValueError, TypeError for anything else."""
    if value in ("", os.curdir, os.pardir) or os.path.basename(_path(value)) != value:
        raise _LeadsOutError
    return str(value)


def _own_file(value: Any, *prefixes: str) -> str:
    """Return the name of a file of a change, or the path of one that lies elsewhere. Raises ValueError, TypeError."""
    if not os.path.basename(_path(value)).startswith(prefixes):
        raise _LeadsOutError
    return str(value)


def _number(value: Any, least: int = 0, most: int = _MAX_SIZE) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError
    return value


def _file_state(row: Any) -> FileState:
    size, modified = row
    return FileState(_number(size), _number(modified, -_MAX_SIZE))


def _state(row: Mapping[str, Any]) -> PartitionState:
    files = {_name(name): _file_state(state) for name, state in row["files"].items()}
    return PartitionState(
        files, {_name(name): _number(offset, UNREAD) for name, offset in row["offsets"].items()}, bool(row["was_clean"])
    )


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
                    found += [self._known(change)] if change else []
            except KdumpError as error:
                self.unreadable.append(error)
        return sorted(found, key=_age)

    def _known(self, change: Change) -> Change:
        """Return a change of which the log directory knows: the partition is in it, wherever the originals are.

        Raises RefusedError where it is of something else.
        """
        directory = change.files.directory
        if directory != self._log_directory and not directory.startswith(os.path.join(self._log_directory, "")):
            return change._replace(path=os.path.join(self._log_directory, os.path.basename(change.path)))
        if os.path.realpath(change.path) != self._real and os.path.realpath(os.path.dirname(change.path)) != self._real:
            raise RefusedError(
                f"{change.files.path(place.JOURNAL)}: is of {change.path}, which is no directory in"
                f" {self._log_directory}: kdump does nothing that it says"
            )
        return change

    def _files_of(self, path: str, backup_dir: str | None) -> dict[ChangeFiles, bool]:
        """Return the changes of a partition, and whether each was begun. Raises OSError, KdumpError."""
        label = place.label_of(os.path.basename(path))
        found = [self._listed.get(label, {})]
        is_inside = os.path.dirname(path) == self._real  # so it is a partition's
        for directory in (places_of_partition if is_inside else places_of)(path, backup_dir):
            try:
                is_another = directory != self._log_directory and is_directory(directory)
            except PermissionError as error:  # which names the folder that may be in it
                raise PermissionError(error.errno, error.strerror, path) from None
            if is_another:
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
        return change._replace(path=path)
    is_moved = os.path.basename(recorded) == os.path.basename(path) and not is_directory(recorded)
    return change._replace(path=path) if is_moved else None


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
