"""What the PATHs of a command line are: files of Kafka's, partition directories, log directories."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from kdump.disk.reading import read_small
from kdump.errors import HoldsLogDirectoriesError, KdumpError, NameFormatError
from kdump.formats import names
from kdump.formats.java_properties import parse_properties
from kdump.formats.names import FileName, PartitionDirName, parse_file_name, parse_partition_dir
from kdump.formats.printable import safe, safe_path
from kdump.storage.directory import LogDirectory
from kdump.storage.open import directory_of_kafka, open_directory
from kdump.storage.partition import PartitionLog

from .output import NO_SUCH


class KafkaFile(NamedTuple):
    """A single file, with what its name and that of its directory say (None: not a partition's directory)."""

    path: str
    name: FileName
    partition: PartitionDirName | None


Place = KafkaFile | PartitionLog | LogDirectory

NOT_KAFKAS = (
    "neither a partition directory (there is no <base offset>.log in it) nor a log directory (no directory"
    " <topic>-<partition>)"
)


def expand(paths: Iterable[str], unreadable: list[tuple[str, OSError]] | None = None) -> list[Place]:
    """What each of the PATHs is, in their order; a quoted pattern stands for the names that it matches.

    With a list for the `unreadable` ones they do not keep the others back. Raises FileNotFoundError for a path or
    pattern that nothing has, and for a directory that is not Kafka's; click.UsageError for such a file; OSError.
    """
    places: list[Place] = []
    failed: list[tuple[str, OSError]] = []
    for path in paths:
        try:
            places += [place_at(found) for found in matches(path)]
        except FileNotFoundError:
            raise
        except OSError as error:
            if unreadable is None:
                raise
            failed.append((path, error))
    if failed and not places:
        raise failed[0][1]
    if unreadable is not None:
        unreadable += failed
    return places


def place_at(path: str) -> Place:
    """What one path is. Raises as `expand` does."""
    if os.path.isdir(path):
        try:
            return open_directory(path)
        except HoldsLogDirectoriesError as error:
            raise FileNotFoundError(2, str(error).removeprefix(f"{path}: "), path) from None
        except NameFormatError:
            raise FileNotFoundError(2, NOT_KAFKAS, path) from None
    return kafka_file(path)


def kafka_file(path: str) -> KafkaFile:
    """The file at `path`. Raises click.UsageError where its name is not one that Kafka gives."""
    folder, name = os.path.split(os.path.abspath(path))
    says = parse_file_name(name)
    if says.kind in (names.OTHER, names.LOCK):
        raise click.UsageError(f"{safe_path(path)}: not the name of a file with content that Kafka writes;"
            " kdump dump --as log reads a log of any name")
    if says.kind in names.SEGMENT_KINDS and says.offset is None:
        raise click.UsageError(
            f"{safe_path(path)}: the name of a .{says.kind} file begins with an offset, as in"
            f" {names.segment_file_name(0, f'.{says.kind}')}"
        )
    return KafkaFile(path, says, partition_of(folder))


def partition_of(folder: str) -> PartitionDirName | None:
    """What the name of a directory says of the partition in it; None where it is not a partition's."""
    try:
        return parse_partition_dir(os.path.basename(os.path.abspath(folder)))
    except NameFormatError:
        return None


def matches(path: str) -> Iterator[str]:
    """The path itself or, where nothing has it, what it matches as a pattern. Raises FileNotFoundError."""
    if os.path.lexists(path):
        yield path
        return
    import glob

    is_pattern = glob.has_magic(path)
    found = sorted(glob.glob(path)) if is_pattern else []
    if not found:
        text = "nothing matches this pattern" if is_pattern else NO_SUCH
        raise FileNotFoundError(2, text, safe_path(path))
    yield from found


def check_not_kafkas(target: str) -> None:
    """Raises click.UsageError for something to be written, a file or a directory, that is inside what Kafka keeps.

    A broker does not start with directories of others there, and a file might take the place of one of Kafka's.
    """
    inside = directory_of_kafka(target)
    if inside is not None:
        raise click.UsageError(f"{safe_path(target)} is in Kafka's own {safe_path(inside)}: give another directory.")


def log_directories_of(config_file: str) -> tuple[str, ...]:
    """The log.dirs (or log.dir) of a server.properties. Raises click.UsageError where it names none, OSError."""
    try:
        properties = parse_properties(read_small(config_file), config_file)
    except KdumpError as error:
        raise click.UsageError(f"{safe_path(config_file)}: {safe(str(error))}") from None
    found = properties.get("log.dirs") or properties.get("log.dir") or ""
    paths = tuple(path.strip() for path in found.split(",") if path.strip())
    if not paths:
        raise click.UsageError(f"{safe_path(config_file)} has no log.dirs: give PATHs.")
    return paths
