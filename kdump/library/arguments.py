"""What the functions of the library are given, and what becomes of problems on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from kdump.errors import (
    KdumpError,
    NameFormatError,
    OnError,
    Problem,
    ProblemError,
    Report,
    check_number,
    check_several,
    check_type,
    check_word,
)
from kdump.formats import names
from kdump.formats.time_units import wall_clock
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Path, open_directory, path_text, path_texts
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, replicas

if TYPE_CHECKING:
    from kdump.operations.repair import PlanFiles
    from kdump.operations.startup import StartupOptions
    from kdump.operations.targets import PartitionGroup
    from kdump.releases import KafkaRelease
    from kdump.schema_registry.decoder import PayloadDecoder
    from kdump.settings.sources import PropertyFile

_Item = TypeVar("_Item")


def optional(path: Path | None, name: str) -> str | None:
    """Return the path that the argument `name` has as text, None where there is none. Raises TypeError."""
    return None if path is None else path_text(path, name)


def payload_decoder(schemas: str, report: Report) -> PayloadDecoder:
    """Return what decodes by the schemas at a path. Raises OSError, KdumpError; ExtraMissingError without a library."""
    from kdump.schema_registry.decoder import PayloadDecoder, check_libraries
    from kdump.schema_registry.sources import read_schemas

    registry = read_schemas(schemas, report)
    check_libraries(registry)
    return PayloadDecoder(registry)


def plan_files(plan_out: Path | None, apply_plan: Path | None) -> PlanFiles:
    """Return the files of plans that a repair writes and reads. Raises TypeError."""
    from kdump.operations.repair import PlanFiles

    return PlanFiles(optional(plan_out, "plan_out"), optional(apply_plan, "apply_plan"))


def clock(now: int | None) -> int:
    """Return the time (ms) that is given, else that of this machine. Raises TypeError."""
    check_number("now", now, may_be_none=True)
    return wall_clock() if now is None else now


def judge(problem: Problem, policy: OnError, pending: list[Problem]) -> None:
    """Raise a problem, drop it, or put it with those to be yielded. Raises ProblemError."""
    if policy is OnError.RAISE and not problem.is_newer:
        raise ProblemError(problem)
    if policy is OnError.YIELD:
        pending.append(problem)


def results_of(found: Callable[[Report], Iterable[_Item]], errors: str) -> Iterator[_Item | Problem]:
    """Return what is found, with the problems met on the way as `errors` has it. Raises ValueError at the call.

    A problem is raised between results: operations go on behind errors, and would take it for one of those.
    """
    policy = OnError(errors)
    met: list[Problem] = []

    def drained() -> list[Problem]:
        pending: list[Problem] = []
        while met:
            judge(met.pop(0), policy, pending)
        return pending

    def results() -> Iterator[_Item | Problem]:
        for item in found(met.append):
            yield from drained()
            yield item
        yield from drained()

    return results()


def places_of(paths: Iterable[Path]) -> list[PartitionLog | LogDirectory]:
    """Return what is at paths. Raises OSError, NameFormatError, ValueError, TypeError."""
    found = []
    for path in path_texts(paths):
        if os.path.isfile(path):
            raise NameFormatError(f"{path} is a file: expected a partition directory or a log directory")
        found.append(open_directory(path))
    return found


def topics_of(place: PartitionLog | LogDirectory) -> Iterator[str]:
    """Yield the topic of each partition."""
    if isinstance(place, PartitionLog):
        if place.name is not None:
            yield place.name.topic
        return
    for name in place.partition_names:
        yield names.parse_partition_dir(name).topic


def replicas_of(paths: Iterable[Path], report: Report) -> list[Replica]:
    """Return the replicas in directories. Raises OSError, NameFormatError."""
    return list(replicas(places_of(paths), report))


def of_replicas(
    paths: Iterable[Path],
    found: Callable[[list[Replica], Report], Iterable[_Item]],
    errors: str,
    topic: str | None = None,
) -> Iterator[_Item | Problem]:
    """Yield what is found of the replicas in directories, as `results_of`.

    The call raises OSError, NameFormatError; KdumpError where none is of the `topic` that has to be there.
    """
    OnError(errors)  # what is wrong with it is said first
    places = places_of(paths)
    if topic is not None and topic not in {each for place in places for each in topics_of(place)}:
        raise KdumpError(f"there is no partition of {topic} in these paths")
    return results_of(lambda report: found(list(replicas(places, report)), report), errors)


def startup_options(
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
) -> StartupOptions:
    """Return what is said of a broker's start. Raises OSError, ConfigError, CheckpointError, ValueError."""
    from kdump.operations.startup import StartupOptions

    said = StartupOptions(
        clean, recovery_point, log_start_offset, clock(now), properties_of(config), release_of(release)
    )
    said.check()
    return said


def properties_of(config: Path | Mapping[str, str] | None, name: str = "config") -> Mapping[str, str]:
    """Return properties, of a file or as given, that are valid. Raises OSError, ConfigError, CheckpointError."""
    from kdump.settings.sources import TopicSettings

    if config is None:
        return {}
    found = read_properties(config, name)
    TopicSettings.of(found).check()
    return found


def read_properties(config: Path | Mapping[str, str], name: str = "config") -> Mapping[str, str]:
    """Return properties, of a file or as given in the argument `name`. Raises OSError, CheckpointError, TypeError."""
    from kdump.disk.reading import read_small
    from kdump.formats.java_properties import parse_properties

    if not isinstance(config, Mapping):
        path = path_text(config, name)
        return parse_properties(read_small(path), path)
    check_texts(name, config)
    return config


def check_texts(name: str, given: Mapping[str, str]) -> None:
    """Raise TypeError where the keys or the values of an argument are no texts."""
    check_type(name, given, Mapping)
    for key, text in given.items():
        check_type(f"a name in {name}", key, str)
        check_type(f"{key} in {name}", text, str)


def check_words(name: str, given: object, known: Iterable[str] = (), *, may_be_none: bool = False) -> tuple[str, ...]:
    """Return the words of an argument. Raises TypeError for what is none, ValueError where they are not `known`."""
    if given is None and may_be_none:
        return ()
    check_several(name, given)
    words = tuple(cast("Iterable[str]", given))
    for word in words:
        check_type(name, word, str)
        if known:
            check_word(name, word, known)
    return words


def release_of(release: str | None) -> KafkaRelease | None:
    """Return a release of Kafka. Raises ValueError, TypeError."""
    from kdump.releases import KafkaRelease

    check_type("release", release, str, may_be_none=True)
    try:
        return None if release is None else KafkaRelease.parse(release)
    except ValueError as error:
        raise ValueError(f"release: {error}") from None


def property_files(
    config: Path | Mapping[str, str] | None, topics: Mapping[str, Path | Mapping[str, str]] | None = None
) -> tuple[PropertyFile, ...]:
    """Return properties as layers of settings, those of `topics` by name or pattern.

    Raises OSError, ConfigError, CheckpointError.
    """
    from kdump.settings.sources import PropertyFile

    check_type("topic_configs", topics, Mapping, may_be_none=True)
    given: list[tuple[str | None, Path | Mapping[str, str], str]] = [] if config is None else [(None, config, "config")]
    for topic, each in (topics or {}).items():
        check_type("a name in topic_configs", topic, str)
        given.append((topic, each, "topic_configs"))
    return tuple(
        PropertyFile("config" if isinstance(each, Mapping) else path_text(each, name), topic, properties_of(each, name))
        for topic, each, name in given
    )


def groups_of(paths: Iterable[Path]) -> list[PartitionGroup]:
    """Return the partitions by log directory. Raises OSError, NameFormatError."""
    from kdump.operations.targets import PartitionGroups

    found = PartitionGroups()
    for place in places_of(paths):
        found.add(place)
    return found.all()
