"""From a path to what it is: a file of a segment, a partition directory or a log directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from kdump.disk.reading import is_directory, is_there, list_directory
from kdump.errors import HoldsLogDirectoriesError, NameFormatError, RefusedError, check_several
from kdump.formats import names
from kdump.formats.names import FileName, PartitionDirName, is_partition_dir, parse_file_name
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment

NOT_A_FILE = "neither a file nor a directory"
_NOT_KAFKAS = "neither a partition directory (no <base offset>.log in it) nor a log directory (no <topic>-<partition>)"


class KafkaFile(NamedTuple):
    """A single file, with what its name and that of its directory say (None: not a partition's directory)."""

    path: str
    name: FileName
    partition: PartitionDirName | None


Place = KafkaFile | PartitionLog | LogDirectory
"""What a path may be."""


Path = str | os.PathLike[str]


def path_text(path: Path, name: str = "path") -> str:
    """Return a path, the argument of this `name`, as text.

    Raises TypeError for anything but str and os.PathLike of it: bytes are no path here.
    """
    given: object = path
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"{name} is {path!r}: expected str or os.PathLike, not bytes")
    return text


def path_texts(paths: Iterable[Path], name: str = "paths") -> list[str]:
    """Return paths, the argument of this `name`, as text. Raises TypeError, and ValueError where there is none."""
    check_several(name, paths)
    found = [path_text(path, name) for path in paths]
    if not found:
        raise ValueError(f"{name} is empty: expected one path or more")
    return found


def open_segment(path: Path) -> Segment:
    """Return the segment of a .log file. Raises NameFormatError, and FileNotFoundError where there is no such file."""
    path = path_text(path)
    if not is_there(path):
        raise FileNotFoundError(2, "No such file", path)
    return Segment(path)


def open_log(path: Path) -> PartitionLog:
    """Return the log in a partition directory. Raises OSError, NameFormatError for a directory that is none."""
    found = open_directory(path)
    if isinstance(found, LogDirectory):
        raise NameFormatError(f"{found.path} is a log directory: expected a partition directory")
    return found


def open_directory(path: Path) -> PartitionLog | LogDirectory:
    """Return what a directory is, by its name and by what is in it.

    Raises OSError, NameFormatError where it has neither a segment nor a partition directory in it, and
    HoldsLogDirectoriesError where log directories are in it.
    """
    path = path_text(path)
    partition = PartitionLog(path)
    if partition.segments:
        return partition
    directory = LogDirectory(path)
    check_is_not_around(directory)
    if directory.partition_names or names.META_PROPERTIES in directory.files:
        return directory
    kinds = {parsed.kind for parsed in partition.files.values() if parsed.is_kafkas}
    if is_partition_dir(os.path.basename(os.path.abspath(path))) or kinds.intersection(names.SEGMENT_KINDS):
        return partition
    if kinds:
        return directory
    raise NameFormatError(_NOT_KAFKAS, path)


def place_at(path: Path) -> Place:
    """Return what is at a path. Raises as `open_directory` and `kafka_file` do."""
    text = path_text(path)
    return open_directory(text) if is_directory(text) else kafka_file(text)


def kafka_file(path: str) -> KafkaFile:
    """Return the file at `path`. Raises OSError, and NameFormatError where its name is not one that Kafka gives."""
    parsed = check_file(path)
    if parsed.kind in names.SEGMENT_KINDS and parsed.offset is None:
        name = names.segment_file_name(0, f".{parsed.kind}")
        raise NameFormatError(f"the name of a .{parsed.kind} file begins with an offset, as in {name}", path)
    return KafkaFile(path, parsed, partition_of(os.path.dirname(path) or os.curdir))


def partition_of(folder: str) -> PartitionDirName | None:
    """Return what the name of a directory says of the partition in it; None where it is not a partition's."""
    try:
        return names.parse_partition_dir(os.path.basename(os.path.abspath(folder)))
    except NameFormatError:
        return None


def check_file(path: str) -> FileName:
    """Return what the name of a file says. Raises OSError, and NameFormatError for a file that is not Kafka's."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not os.path.islink(path):
            raise
        text = f"a symbolic link to {os.readlink(path)}, which does not exist"
        raise FileNotFoundError(2, text, path) from None
    if not stat.S_ISREG(mode):
        raise NameFormatError(NOT_A_FILE, path)
    parsed = parse_file_name(os.path.basename(path))
    if parsed.kind in (names.OTHER, names.LOCK):
        raise NameFormatError("not the name of a file that Kafka writes", path)
    return parsed


def check_is_not_around(directory: LogDirectory) -> None:
    """Raise HoldsLogDirectoriesError for a directory that is no log directory and has such in it. Raises OSError."""
    inner = log_directories_in(directory)
    if inner:
        raise HoldsLogDirectoriesError(directory.path, [os.path.join(directory.path, name) for name in inner])


def check_has_kafka_files(log: PartitionLog) -> None:
    """Refuse to change a directory in which no file is Kafka's: a name such as `dbus-1` makes none a partition.

    An empty directory counts as a partition if the one around it is a log directory: a broker that was killed while
    it created a topic leaves one. Raises RefusedError, OSError.
    """
    if any(parsed.is_kafkas for parsed in log.files.values()):
        return
    around = os.path.join(os.path.dirname(os.path.abspath(log.path)), names.META_PROPERTIES)
    if (is_directory(log.path) and os.listdir(log.path)) or not is_there(around):
        raise RefusedError(f"{log.path} has no Kafka files. Nothing was changed.")


def _has_brokers_files(directory: LogDirectory) -> bool:
    return any(parse_file_name(name).is_kafkas for name in directory.files)


def log_directories_in(directory: LogDirectory) -> list[str]:
    """Return the names of log directories in one that is none; one such as `disk-1` looks like a partition's."""
    if _has_brokers_files(directory):
        return []
    inner = [
        name
        for name in directory.directories
        if is_there(os.path.join(directory.path, name, names.META_PROPERTIES))
    ]
    return inner if inner and set(inner).issuperset(directory.partition_names) else []


def directory_of_kafka(target: str) -> str | None:
    """Return the partition or log directory that a file or directory to be written would be in; None in no such one."""
    at = os.path.realpath(target)
    while not is_directory(at) and at != os.path.dirname(at):
        at = os.path.dirname(at)
    for place in (at, os.path.dirname(at)):
        try:
            files = list_directory(place)[1]
        except OSError:
            continue
        if any(map(_is_kafkas, files)):
            return place
    return None


def check_not_kafkas(target: str) -> None:
    """Raise RefusedError for something to be written, a file or a directory, that would be inside what Kafka keeps.

    A broker does not start with directories of others there, and a file might take the place of one of Kafka's.
    """
    inside = directory_of_kafka(target)
    if inside is not None:
        raise RefusedError(f"{target} is in Kafka's own {inside}: give another directory")


def _is_kafkas(name: str) -> bool:
    """Return whether only a partition or log directory has a file of this name."""
    parsed = parse_file_name(name)
    return parsed.kind in names.LOG_DIRECTORY_FILES or (parsed.kind in names.SEGMENT_KINDS and parsed.is_kafkas)
