"""What the PATHs of a command line are: files of Kafka's, partition directories, log directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from kdump.disk.reading import is_directory, is_file, is_named, read_small
from kdump.errors import HoldsLogDirectoriesError, KdumpError, NameFormatError, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.storage import open as storage
from kdump.storage.directory import LogDirectory
from kdump.storage.live import tally
from kdump.storage.open import KafkaFile, Place, check_file, open_directory, partition_of
from kdump.storage.partition import PartitionLog

from .output import NO_SUCH, holds_text

_Found = TypeVar("_Found")

def expand(paths: Iterable[str]) -> list[Place]:
    """Return what each of the PATHs is, in their order; a quoted pattern stands for the names that it matches.

    Raises FileNotFoundError for a path or pattern that nothing has, and for what is not Kafka's.
    """
    found: list[Place] = []
    for path in paths:
        try:
            found += map(place_at, matches(path))
        except OSError:
            tally.unreached.add(path)
            raise
    return found


def directories(paths: Iterable[str]) -> list[PartitionLog | LogDirectory]:
    """Return what each of the PATHs is. Raises as `expand` does, and click.UsageError for a file."""
    found: list[PartitionLog | LogDirectory] = []
    for place in expand(paths):
        if isinstance(place, KafkaFile):
            raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory that it is in")
        found.append(place)
    return found


def check_directories(paths: Iterable[str]) -> None:
    """Raise click.UsageError for a PATH that is one of Kafka's files, where directories are asked for."""
    for path in filter(is_file, paths):
        with suppress(OSError):
            directories([path])


def reached(
    paths: Iterable[str], find: Callable[[list[str]], Sequence[_Found]], report: Callable[[OSError, str], None]
) -> Iterator[_Found]:
    """Yield what `find` (`expand`, `directories`) has of each PATH; of one that cannot be reached only that is told."""
    for path in paths:
        try:
            found = find([path])
        except OSError as error:
            report(error, path)
        else:
            yield from found


def place_at(path: str) -> Place:
    """Return what one path is. Raises as `expand` does."""
    try:
        return open_directory(path) if is_directory(path) else kafka_file(path)
    except HoldsLogDirectoriesError as error:
        raise FileNotFoundError(2, holds_text(error), path) from None
    except NameFormatError as error:
        raise FileNotFoundError(2, error.text, path) from None


def kafka_file(path: str) -> KafkaFile:
    """Return the file at `path`. Raises NameFormatError where its name is not one that Kafka gives."""
    try:
        check_file(path)
    except NameFormatError as error:
        hint = "; kdump dump --as log reads a log of any name" if is_file(path) else ""
        raise NameFormatError(f"{error.text}{hint}", error.path) from None
    found = storage.kafka_file(path)
    if found.partition is not None:
        tally.met(os.path.dirname(path) or os.curdir)
    return found


def place_of(folder: str) -> dict[str, Any]:
    """Return the fields that every row in JSON about a partition directory has."""
    name = partition_of(folder)
    return {"topic": name.topic if name else None, "partition": name.partition if name else None, "path": folder}


def matches(path: str) -> Iterator[str]:
    """Yield the path itself or, where nothing has it, what it matches as a pattern. Raises FileNotFoundError."""
    if is_named(path):
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
    """Raise click.UsageError for something to be written, a file or a directory, that is inside what Kafka keeps."""
    _checked(storage.check_not_kafkas, target)


def check_target(path: str) -> None:
    """Raise KdumpError where a file cannot be written, click.UsageError where it would be among Kafka's own."""
    from kdump.change import checks

    _checked(checks.check_target, path)


def _checked(check: Callable[[str], None], target: str) -> None:
    try:
        check(target)
    except RefusedError as error:
        raise click.UsageError(f"{safe_path(str(error))}.") from None


def properties_of(config_file: str) -> dict[str, str]:
    """Return what is in a properties file. Raises click.BadParameter where Kafka would not take it for one, OSError."""
    from kdump.formats.java_properties import parse_properties

    try:
        return parse_properties(read_small(config_file), config_file)
    except KdumpError as error:
        raise bad_config(config_file, error) from None


def bad_config(path: str, error: KdumpError) -> click.BadParameter:
    """Return that Kafka would not take a file of `--config`."""
    return click.BadParameter(f"{safe_path(path)}: {safe(str(error))}", param_hint="--config")


def log_directories_of(config_file: str) -> tuple[str, ...]:
    """Return the log.dirs (or log.dir) of a server.properties. Raises click.UsageError where it names none, OSError."""
    from kdump.settings.node import log_directories

    paths = log_directories(properties_of(config_file))
    if not paths:
        raise click.UsageError(f"{safe_path(config_file)} has no log.dirs: give PATHs.")
    return paths
