"""Which partitions a run is about: those of the PATHs or of --config that --topic and --partition name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from kdump.disk.reading import is_directory, is_named
from kdump.errors import KdumpError
from kdump.formats.names import is_partition_dir, parse_partition_dir
from kdump.formats.printable import safe
from kdump.operations.choice import chooses, chosen_in

from .output import quoted
from .paths import expand, log_directories_of, matches
from .screen import Screen, all_partitions

NO_PARTITION = "there is no partition in these PATHs"
NO_PATHS_GIVEN = "Missing argument 'PATH...'. Give the log directories of a broker, or --config FILE."


def has_partition(number: int | None) -> bool:
    """Return whether --partition names a partition; all are where it is not given."""
    choice = Screen.current.has_partition
    return choice is all_partitions or (number is not None and choice(number))


def is_chosen(name: str, topics: Iterable[str]) -> bool:
    """Return whether --topic and --partition name the partition of a directory's name."""
    partition = parse_partition_dir(name)
    return chooses(topics)(partition.topic) and has_partition(partition.partition)


def nothing_chosen(topics: Collection[str], known: Iterable[str] = ()) -> str:
    """Return what is to be said where no partition of the `known` topics is one that --topic and --partition name."""
    from .usage import meant

    named = " or ".join(map(safe, topics))
    has_numbers = Screen.current.has_partition is not all_partitions
    if not named:
        return "no partition here has a number that --partition names" if has_numbers else NO_PARTITION
    numbers = " and a number that --partition names" if has_numbers else ""
    return f"no partition has a topic that matches {named}{numbers}{meant(next(iter(topics)), list(known))}"


def places_in(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the PATHs, or the one PATH, among the values of a command's parameters."""
    given = values.get("paths") or values.get("path") or ()
    return (given,) if isinstance(given, str) else tuple(given)


def given_paths(paths: tuple[str, ...], options: Mapping[str, Any], *, is_required: bool) -> tuple[str, ...]:
    """Return the PATHs, each once, or the log.dirs of --config where there are none. Raises click.UsageError."""
    if paths:
        return tuple(_each_once(paths))
    files = (options.get("config_file"), *(options.get("config_files") or ()))
    chosen = [directory for file in files if file for directory in _directories_of(file)]
    if is_required and not chosen:
        raise click.UsageError(NO_PATHS_GIVEN)
    return tuple(chosen)


def are_missing(paths: Iterable[str]) -> bool:
    """Return whether there are PATHs, and none of them exists, nor may stand for others as a pattern."""
    given = tuple(paths)
    if not given or any(path == "-" or is_named(path) for path in given):
        return False
    from glob import has_magic

    return not any(map(has_magic, given))


def _directories_of(text: str) -> tuple[str, ...]:
    """Return the log.dirs of a FILE; none of a TOPIC=FILE, which has the settings of topics."""
    topic, equals, _ = text.partition("=")
    return () if equals and os.sep not in topic else log_directories_of(text)


def _each_once(paths: tuple[str, ...]) -> Iterator[str]:
    """Yield the PATHs without those that are given twice, by themselves or as a part of a log directory."""
    known = {os.path.realpath(path) for path in paths if is_directory(path)}
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        is_inside = os.path.dirname(real) in known and is_directory(path) and is_partition_dir(os.path.basename(real))
        if path == "-" or (real not in seen and not is_inside):
            seen.add(real)
            yield path


def chosen_paths(paths: tuple[str, ...], topics: tuple[str, ...], numbers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the PATHs, of log directories the partitions that --topic and --partition name instead.

    Raises KdumpError if they name none: as a PATH that does not exist, this is not a wrong command line.
    """
    if not topics and not numbers:
        return paths
    chosen = tuple(found for path in paths for found in _partitions_at(path, topics))
    if not chosen:
        raise KdumpError(nothing_chosen(topics, topics_at(paths)))
    options = (*(("--topic", text) for text in topics), *(("--partition", text) for text in numbers))
    Screen.current.narrowed = paths
    Screen.current.asked = (*paths, *(word for option in options for word in option))
    return chosen


def check_chosen(paths: tuple[str, ...], topics: tuple[str, ...], numbers: tuple[str, ...]) -> None:
    """Raise KdumpError if --topic and --partition name no partition at the PATHs."""
    is_asked = bool(topics or numbers) and bool(paths)
    if is_asked and not any(True for path in paths for _ in _partitions_at(path, topics)):
        raise KdumpError(nothing_chosen(topics, topics_at(paths)))


def topics_at(paths: Iterable[str]) -> set[str]:
    """Return the topics of the partitions in some log directories, as far as they can be listed."""
    found: set[str] = set()
    for path in paths:
        with suppress(OSError):
            found |= {parse_partition_dir(name).topic for name in os.listdir(path) if is_partition_dir(name)}
    return found


def asked_paths(paths: Iterable[str]) -> str:
    """Return the PATHs for a command line to continue with: those that were given, with --topic and --partition."""
    return " ".join(map(quoted, Screen.current.asked or paths))


def _partitions_at(path: str, topics: tuple[str, ...]) -> Iterator[str]:
    try:
        places = expand([path])
    except (OSError, KdumpError):
        yield path  # the command itself says what is wrong with it
        return
    for found, place in zip(matches(path), places, strict=True):
        yield from chosen_in(place, found, chooses(topics), has_partition)
