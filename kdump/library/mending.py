"""The operations that mend single files of partitions: they plan, and change nothing without `apply`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, NameFormatError, OnError, Problem, ProblemError, check_word

if TYPE_CHECKING:
    from kdump.operations.rails import SafetyOptions
    from kdump.operations.repair import Examine, Repaired
    from kdump.operations.startup import StartupOptions
    from kdump.operations.targets import Bases, Target
    from kdump.recovery.startup import Startup
    from kdump.repair.proposal import Task
    from kdump.storage.partition import PartitionLog
    from kdump.topics.clusters import Clusters

from kdump.library.arguments import optional, startup_options
from kdump.storage.open import Path, path_text


def rebuild_index(
    *paths: Path,
    kinds: Iterable[str] | None = None,
    wants_all: bool = False,
    apply: bool = False,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    jobs: int = 1,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan to build damaged indexes anew from their logs and, with `apply`, do it; a Repaired for each partition.

    Paths may be files of segments. `kinds` are some of "indexes", "timeindexes" and "txnindexes" (None: all).
    `wants_all`: sound indexes, too, where Kafka's recovery of the whole log would write other entries. Indexes of a
    damaged log stay as they are: the task's `problems` say so. The rest is as for `repair`. Raises OSError,
    NameFormatError, ConfigError, and ValueError for an unknown kind or release.
    """
    from kdump.operations.rails import SafetyOptions
    from kdump.repair.indexes import examine_indexes
    from kdump.repair.proposal import INDEX_KINDS

    wanted = frozenset(INDEX_KINDS if kinds is None else kinds)
    for kind in wanted:
        check_word("kinds", kind, INDEX_KINDS)

    def examine(log: PartitionLog, startup: Startup, bases: Bases) -> Task:
        return examine_indexes(log, startup, wanted, bases, wants_all=wants_all)

    circumstances = startup_options(config=config, release=release)
    rails = SafetyOptions(apply, "rebuild-index", keep_originals, optional(backup_dir), jobs=jobs)
    targets = segments_of(paths)
    return mended(targets, examine, circumstances, _clusters(targets), rails, errors)


def trim(
    *paths: Path,
    apply: bool = False,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    jobs: int = 1,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan to cut logs after their last valid batch, and indexes after their last valid entry; with `apply`, do it.

    Paths may be files of segments. A Repaired for each partition: a log that has valid batches behind the damage stays
    as it is, and the task's `problems` say so. The rest is as for `repair`. Raises OSError, NameFormatError.
    """
    from kdump.operations.rails import SafetyOptions
    from kdump.operations.startup import StartupOptions
    from kdump.repair.proposal import examine_trim

    rails = SafetyOptions(apply, "trim", keep_originals, optional(backup_dir), jobs=jobs)
    targets = segments_of(paths)

    def examine(log: PartitionLog, _: Startup, bases: Bases) -> Task:
        return examine_trim(log, bases)

    return mended(targets, examine, StartupOptions(), _clusters(targets), rails, errors)


def segments_of(paths: Iterable[Path]) -> list[Target]:
    """Return the partitions, and segments by their files, that a change is about. Raises OSError, NameFormatError."""
    from kdump.operations.targets import Targets, base_of
    from kdump.storage.directory import LogDirectory
    from kdump.storage.open import check_file, open_directory

    found = Targets()
    for path in [path_text(path) for path in paths]:
        if os.path.isdir(path):
            place = open_directory(path)
            if isinstance(place, LogDirectory):
                found.add_directory(place)
            else:
                found.add_partition(place.path)
            continue
        base = base_of(check_file(path))
        if base is None:
            raise NameFormatError(f"{path}: expected a .log, an index or a directory")
        found.add_partition(os.path.dirname(os.path.abspath(path)), frozenset({base}))
    targets = found.all()
    if not targets:
        raise ValueError("no path is given")
    return targets


def mended(
    targets: list[Target],
    examine: Examine,
    circumstances: StartupOptions,
    clusters: Clusters,
    rails: SafetyOptions,
    errors: str,
) -> Iterator[Repaired]:
    """Yield what is made of the partitions; what was left alone as `errors` has it. Raises ValueError at the call."""
    from kdump.operations.repair import Repair, Repaired, repair

    policy = OnError(errors)
    rails.check()
    unread: list[Problem] = []
    wanted = Repair(examine, circumstances, clusters, unread.append)

    def told() -> Iterator[Repaired]:
        while unread:
            problem = unread.pop(0)
            if policy is OnError.YIELD or not problem.is_newer:
                yield Repaired(problem.path, None, error=ProblemError(problem))

    def each_of(target: Target) -> Generator[Repaired, None, None]:
        try:
            for done in repair(target, wanted, rails):
                yield from told()
                yield done
        except (OSError, KdumpError) as error:
            yield Repaired(target.log_directory, None, error=error)
        yield from told()

    def found() -> Iterator[Repaired]:
        for target in targets:
            with closing(each_of(target)) as repaired:  # the lock goes before an error is raised
                for done in repaired:
                    if done.error is not None and policy is OnError.RAISE:
                        raise done.error
                    if done.error is None or policy is OnError.YIELD:
                        yield done

    return found()


def _clusters(targets: Iterable[Target]) -> Clusters:
    from kdump.topics.clusters import Clusters

    return Clusters({target.log_directory for target in targets})
