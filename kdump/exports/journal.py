"""What an export has done so far, kept in the directory that it writes to.

    _kdump/export.json       what was asked for
    _kdump/<unit>.json       one for each unit that is complete: its source, rows, damage and files
    _kdump/<name>.tmp        files that are being written; they get their names when they are complete
    _SUCCESS                 there only while everything else is whole

A file is on the disk before it gets its name, and a unit's account is written after all its files have theirs: whatever
a killed run leaves behind is either in an account or done again. Names and accounts need not be on the disk before the
end: an account is believed only as far as the files are there, and one that a lost power supply left in pieces is none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kdump.disk.durable import append_file, make_directories, move, remove_file, replace_file
from kdump.disk.reading import read_small
from kdump.disk.rights import Rights
from kdump.disk.syncing import sync
from kdump.errors import KdumpError, RefusedError
from kdump.exports.options import ExportOptions
from kdump.exports.plan import Unit, segment_name

FOLDER = "_kdump"
SUCCESS = "_SUCCESS"
TEMPORARY = ".tmp"
_OPTIONS = "export.json"
_MAX_BYTES = 1 << 28


class JournalError(KdumpError):
    """The account of an export cannot be understood."""


class Written(NamedTuple):
    """A file of an export: its path below the directory, rows, and bytes."""

    path: str
    rows: int
    size: int


class Lost(NamedTuple):
    """Bytes of a log that cannot be read: their position, where reading went on, what is wrong, the log's path."""

    position: int
    resumed: int
    text: str
    path: str


class Result(NamedTuple):
    """What came of a unit: its rows, its files, and what could not be read of it."""

    rows: int
    files: tuple[Written, ...]
    damage: tuple[Lost, ...] = ()


Failure = KdumpError | OSError
Outcome = tuple[Unit, Result | Failure]
"""A unit, and what it became or why there is nothing."""


class Journal:
    """The account of one export."""

    def __init__(self, folder: str, rights: Rights) -> None:
        """`rights` are those that files and directories get which it makes."""
        self.folder = folder
        self._rights = rights
        self._own = os.path.join(folder, FOLDER)

    def open(self, options: ExportOptions, units: Iterable[Unit]) -> dict[str, Result]:
        """Begin, or continue with what a run before this one left: the results of units that are complete, by name.

        What a killed run was writing is removed. Raises OSError, JournalError, and RefusedError where something else
        is in the directory.
        """
        make_directories(self.folder, rights=self._rights)
        others = [name for name in sorted(os.listdir(self.folder)) if name not in (FOLDER, SUCCESS)]
        path = os.path.join(self._own, _OPTIONS)
        before = self._read(path)
        if before is None:
            if others:
                raise RefusedError(f"{self.folder} is not empty, and no export was begun in it: give another directory")
            make_directories(self._own, rights=self._rights)
            self._write(path, options.as_json())
            sync([path], self._own)
            return {}
        if before != options.as_json():
            changed = [name for name, value in options.as_json().items() if before.get(name) != value]
            raise RefusedError(
                f"{self.folder} has an export with other options ({', '.join(changed)}): repeat those to"
                " continue, or give another directory"
            )
        return self._done({unit.name: unit for unit in units}, options.suffix)

    def _done(self, units: Mapping[str, Unit], suffix: str) -> dict[str, Result]:
        """Return the complete units; whatever else is there of the export is removed."""
        done: dict[str, Result] = {}
        gone: list[str] = []
        segments = {segment_name(each.name) for unit in units.values() for each in unit.all}
        for unit_name, account in self._accounts():
            if account is None or (unit_name not in units and segment_name(unit_name) in segments):
                gone.append(unit_name)  # in pieces, or of a segment that is cut elsewhere since it has changed
                continue
            known, result = account
            unit = units.get(unit_name)
            if unit is None:
                raise RefusedError(
                    f"{self.folder} holds what was exported of {known['path']}, which is not among the segments of"
                    " this export: give another directory"
                )
            if known == unit.source and all(map(self._is_there, result.files)):
                done[unit.name] = result
        kept = {written.path for result in done.values() for written in result.files}
        stale = [path for path in files_of(self.folder) if path not in kept]
        unknown = [path for path in stale if segment_name(_unit_name(path, suffix)) not in segments]
        if unknown:
            raise RefusedError(
                f"{os.path.join(self.folder, unknown[0])} was not written by this export: take it out, or give another"
                " directory"
            )
        if len(done) < len(units) or stale:
            self.not_whole()
        for unit_name in (*gone, *(units.keys() - done.keys())):
            remove_file(self._path(unit_name))
        for path in stale:
            remove_file(os.path.join(self.folder, path))
        return done

    def temporary(self, name: str) -> str:
        """Return where a file is written until it is complete."""
        return os.path.join(self._own, f"{name}{TEMPORARY}")

    def sync(self, temporaries: Sequence[str]) -> None:
        """Put complete files on the disk, before they get their names. Raises OSError."""
        sync(temporaries, self._own)

    def publish(self, temporary: str, path: str) -> None:
        """Give a complete file its name, `path` below the directory. Raises OSError."""
        final = os.path.join(self.folder, path)
        make_directories(os.path.dirname(final), rights=self._rights)
        move(temporary, final)

    def complete(self, unit: Unit, result: Result) -> None:
        """Note that all files of a unit have their names. Raises OSError."""
        account = {
            "source": unit.source,
            "rows": result.rows,
            "files": [list(each) for each in result.files],
            "damage": [list(each) for each in result.damage],
        }
        self._write(self._path(unit.name), account)

    def succeed(self) -> None:
        """Say that the export is whole, once all names are on the disk. Raises OSError."""
        path = os.path.join(self.folder, SUCCESS)
        if os.path.exists(path):
            return
        accounts = [os.path.join(self._own, name) for name in os.listdir(self._own)]
        sync([*accounts, *(folder for folder, _, _ in os.walk(self.folder))], self.folder)
        append_file(path, rights=self._rights)
        sync([self.folder], self.folder)

    def not_whole(self) -> None:
        """Take back that the export is whole. Raises OSError."""
        remove_file(os.path.join(self.folder, SUCCESS))

    def _is_there(self, written: Written) -> bool:
        try:
            return os.path.getsize(os.path.join(self.folder, written.path)) == written.size
        except OSError:
            return False

    def _path(self, name: str) -> str:
        return os.path.join(self._own, f"{name}.json")

    def _accounts(self) -> Iterator[tuple[str, tuple[dict[str, Any], Result] | None]]:
        """Yield units that have an account, with what it says; what was left half written is removed."""
        for name in sorted(os.listdir(self._own)):
            path = os.path.join(self._own, name)
            if name.endswith(TEMPORARY):
                remove_file(path)
            elif name != _OPTIONS and name.endswith(".json"):
                yield name.removesuffix(".json"), self._account(path)

    def _account(self, path: str) -> tuple[dict[str, Any], Result] | None:
        """Return what an account says of its unit's source and results; None where it is in pieces. JournalError."""
        try:
            found = self._read(path) or {}
        except JournalError:
            return None
        try:
            files = tuple(Written(*each) for each in found["files"])
            source = dict(found["source"])
            damage = tuple(Lost(*(*each, source["path"])[:4]) for each in found["damage"])
            return {"path": "", **source}, Result(int(found["rows"]), files, damage)
        except (KeyError, TypeError, ValueError):
            raise JournalError(f"{path}: not the account of a unit: remove it and run the export again") from None

    @staticmethod
    def _read(path: str) -> dict[str, Any] | None:
        try:
            found = json.loads(read_small(path, _MAX_BYTES))
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise JournalError(f"{path}: not the JSON that an export keeps: give another directory")
        return found

    def _write(self, path: str, content: dict[str, Any]) -> None:
        replace_file(path, json.dumps(content, separators=(",", ":")).encode(), durable=False, rights=self._rights)


def files_of(folder: str) -> Iterator[str]:
    """Yield the files of the export in a directory, by name, as paths below it."""
    for at, directories, names in os.walk(folder):
        directories.sort()
        if at == folder:
            directories[:] = [name for name in directories if name != FOLDER]
            names = [name for name in names if name != SUCCESS]
        for name in sorted(names):
            yield os.path.relpath(os.path.join(at, name), folder)


def _unit_name(path: str, suffix: str) -> str:
    """Return the name of the unit that a file came of, which its number follows."""
    return os.path.basename(path).removesuffix(suffix).rpartition(".")[0]
