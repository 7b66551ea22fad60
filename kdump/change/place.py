"""Where the files of changes lie, and their names.

Plain files in the log directory: a broker takes every directory there for a partition, but looks at no file that it
does not know; what lies there stays when the topic is deleted or the replica is moved to another disk, and is in the
file system of the partitions. docs/decisions/kept-originals.md says what was tried.

    .kdump-ID+PARTITION+journal      the plan, what the files were and are, and how far the change is
    .kdump-ID+PARTITION+staging      the same before anything is changed
    .kdump-ID+PARTITION+new+NAME     a new file that waits for its place
    .kdump-ID+PARTITION+old+NAME     the file that was removed or replaced
    .kdump-ID+PARTITION+tail+NAME    the bytes that were cut off the end of NAME
    .kdump-ID+PARTITION+cut+NAME     bytes that salvage took out of NAME
    .kdump-ID+PARTITION+elsewhere    where the others lie, if the user gave them a directory (--backup-dir)

A partition directory that is in no log directory, or in another file system than that, has them in a folder of its own.
A change of a log directory itself, of the files beside the partitions and the names of these, has them in it as well.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple
from zlib import crc32

from kdump.disk.entered import check_owner, entered
from kdump.disk.locks import entering, is_log_directory
from kdump.disk.reading import is_directory, is_named, real_path

PREFIX = ".kdump-"
IN_PARTITION = ".kdump"
"""The folder of a partition directory that is in no log directory."""

JOURNAL = "journal"
STAGING = "staging"
NEW = "new"
OLD = "old"
TAIL = "tail"
CUT = "cut"
ELSEWHERE = "elsewhere"

_SEPARATOR = "+"
_MAX_NAME = 100
"""Characters of a name that is part of another; names of files have at most 255 bytes."""
_PLAIN = r"[A-Za-z0-9._-]+"
_FILE = r"(?s:\.kdump-(\d{8}T\d{6}(?:-\d+)?)\+([^+]+)\+(\w+)(?:\+.*)?)"


class ChangeFiles(NamedTuple):
    """The files of one change of one partition: where they lie, the change's id, the partition directory's name."""

    directory: str
    id: str
    partition: str

    def path(self, role: str, name: str = "") -> str:
        """Return the path of the file with this role for the file `name` of the partition."""
        end = f"{_SEPARATOR}{label_of(name)}" if name else ""
        return os.path.join(self.directory, f"{self.prefix}{role}{end}")

    @property
    def prefix(self) -> str:
        """How the names of all of them begin."""
        return f"{PREFIX}{self.id}{_SEPARATOR}{label_of(self.partition)}{_SEPARATOR}"

    def all(self) -> list[str]:
        """Return the paths of those that are there; the journal last. Raises OSError."""
        found = [name for name in _names(self.directory) if name.startswith(self.prefix)]
        last = {os.path.basename(self.path(role)): rank for rank, role in enumerate((STAGING, JOURNAL), 1)}
        return [os.path.join(self.directory, name) for name in sorted(found, key=lambda name: last.get(name, 0))]


def label_of(name: str) -> str:
    """Return a name, or what stands for one that is long or has characters that no name of Kafka's has."""
    if len(name) <= _MAX_NAME and re.fullmatch(_PLAIN, name):
        return name
    plain = "".join(character if re.fullmatch(_PLAIN, character) else "_" for character in name[: _MAX_NAME - 10])
    return f"{plain}-{crc32(os.fsencode(name)):08x}"


def place_of(partition_directory: str, backup_dir: str | None = None) -> str:
    """Return the directory, perhaps still to be made, that takes a partition's new change. Raises OSError."""
    path = os.path.abspath(partition_directory)
    if backup_dir is not None:
        return os.path.join(os.path.realpath(backup_dir), os.path.basename(path))
    if is_log_directory(path):
        return path
    parent = os.path.dirname(path)
    if is_log_directory(parent) and _device(parent) == _device(path):
        return parent
    return os.path.join(path, IN_PARTITION)


def _device(path: str) -> int:
    """Return the file system that a directory is in; one that is still to be made will be in that around it."""
    return os.stat(path if is_named(path) else os.path.dirname(path)).st_dev


def log_directory_of(path: str) -> str:
    """Return the log directory of a partition directory; a log directory itself is its own."""
    path = os.path.abspath(path)
    return path if is_log_directory(path) else os.path.dirname(path)


def places_of(partition_directory: str, backup_dir: str | None = None) -> list[str]:
    """Return the directories in which files of changes of a partition may lie."""
    path = os.path.abspath(partition_directory)
    return [path] if is_log_directory(path) else places_of_partition(path, backup_dir)


def places_of_partition(path: str, backup_dir: str | None = None) -> list[str]:
    """Return the same of an absolute path that is no log directory itself."""
    places = [os.path.dirname(path), os.path.join(path, IN_PARTITION)]
    if backup_dir is not None:
        places.append(place_of(path, backup_dir))
    return places


@contextmanager
def at_work(partition_directory: str, *directories: str) -> Iterator[None]:
    """Have a partition directory, and directories with files of its changes, reached from where they are now.

    Raises OSError, RefusedError where root would write for one user as another.
    """
    path = os.path.abspath(partition_directory)
    log_directory = log_directory_of(path)
    inside = os.path.join(log_directory if is_log_directory(log_directory) else path, "")
    outside = {each for each in directories if not os.path.join(each, "").startswith(inside)}
    with entering(log_directory, [path]), entered(*outside):
        for directory in outside:
            check_owner(directory, path)
        yield


def may_have_changes(log_directory: str, partition_directories: Iterable[str]) -> bool:
    """Return whether there is any file of a change where those of partitions in a log directory lie.

    There may be some where nobody can look: who asks for the changes of that partition hears why. Raises OSError for
    the log directory.
    """
    if _names(log_directory):
        return True
    real = os.path.realpath(log_directory)
    for path in (real_path(each, real) for each in partition_directories):
        places = places_of_partition(path) if os.path.dirname(path) == real else places_of(path)
        try:
            if any(place != real and is_directory(place) and _names(place) for place in places):
                return True
        except OSError:
            return True
    return False


def note_of(files: ChangeFiles, partition_directory: str) -> str | None:
    """Return the file that says where a change's files lie; None where they are looked for anyway. Raises OSError."""
    if files.directory in places_of(partition_directory):
        return None
    return files._replace(directory=place_of(partition_directory)).path(ELSEWHERE)


def new_change(partition_directory: str, backup_dir: str | None = None, id_: str | None = None) -> ChangeFiles:
    """Return the files of the next change of a partition directory; nothing is made yet. Raises OSError."""
    place = place_of(partition_directory, backup_dir)
    return ChangeFiles(place, id_ or new_id(place), os.path.basename(os.path.abspath(partition_directory)))


def new_id(*places: str) -> str:
    """Return the id of a change that begins now: the time (UTC), and a number where there is one of that time already.

    Raises OSError.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    taken = {files.id for place in places for files, _ in change_files(place)}
    ids = (stamp if number == 1 else f"{stamp}-{number}" for number in count(1))
    return next(id_ for id_ in ids if id_ not in taken)


def change_files(place: str) -> Iterator[tuple[ChangeFiles, str]]:
    """Yield the files of changes in a directory, sorted, each with its role. Raises OSError.

    The name of the partition may be a shortened one.
    """
    for name in sorted(_names(place)):
        if found := re.fullmatch(_FILE, name):
            yield ChangeFiles(place, found[1], found[2]), found[3]


def is_change_file(name: str) -> bool:
    """Return whether a file of a log directory belongs to a change."""
    return re.fullmatch(_FILE, name) is not None


def _names(place: str) -> list[str]:
    try:
        return [name for name in os.listdir(place) if name.startswith(PREFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []
