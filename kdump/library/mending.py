"""The operations that mend single files of partitions: they plan, and change nothing without `apply`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, NameFormatError, OnError, Problem, ProblemError, check_word

if TYPE_CHECKING:
    from kdump.operations.rails import SafetyOptions
    from kdump.operations.repair import Examine, Repaired
    from kdump.operations.startup import StartupOptions
    from kdump.operations.targets import Bases, Target
    from kdump.recovery.startup import Startup
    from kdump.repair.task import Task
    from kdump.storage.directory import LogDirectory
    from kdump.storage.partition import PartitionLog
    from kdump.topics.clusters import Clusters

from kdump.library.arguments import optional, places_of, startup_options
from kdump.storage.open import Path, check_not_kafkas, path_text


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
    from kdump.repair.task import INDEX_KINDS

    wanted = frozenset(INDEX_KINDS if kinds is None else kinds)
    for kind in wanted:
        check_word("kinds", kind, INDEX_KINDS)

    def examine(log: PartitionLog, startup: Startup, bases: Bases) -> Task:
        return examine_indexes(log, startup, wanted, bases, wants_all=wants_all)

    circumstances = startup_options(config=config, release=release)
    rails = SafetyOptions(apply, "rebuild-index", keep_originals, optional(backup_dir), jobs=jobs)
    targets = targets_at(paths, takes_files=True)
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
    targets = targets_at(paths, takes_files=True)

    def examine(log: PartitionLog, _: Startup, bases: Bases) -> Task:
        return examine_trim(log, bases)

    return mended(targets, examine, StartupOptions(), _clusters(targets), rails, errors)


def heal(
    *paths: Path,
    sources: Iterable[Path],
    apply: bool = False,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    output: Path | None = None,
    jobs: int = 1,
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan to take what partitions lack from other copies of them and, with `apply`, do it (`kdump repair --from`).

    `sources` are log directories or partition directories of other brokers; each range comes from the first that has it
    valid. Paths may name partition directories that are to be made. `log_start_offset` is where a log is to begin, if
    its files do not show that. The rest is as for `repair`. Raises OSError, NameFormatError, ConfigError, RefusedError,
    and KdumpError at the end where no source has a copy of these partitions, unless errors are skipped or yielded.
    """
    from kdump.operations.heal import plan_heal
    from kdump.operations.heal_sources import check_sources
    from kdump.operations.rails import SafetyOptions
    from kdump.topics.clusters import Clusters

    given, at = [path_text(path) for path in paths], [path_text(path) for path in sources]
    if not at:
        raise ValueError("sources is empty: expected the copies to take from")
    others = check_sources(at)
    clusters = Clusters({os.path.dirname(os.path.abspath(path)) for path in given} | set(given))
    targets = targets_at(given, lambda directory: others.missing_in(directory, clusters))
    check_output(output, targets)
    rails = SafetyOptions(apply, "repair from", keep_originals, optional(backup_dir), optional(output), jobs=jobs)
    circumstances = startup_options(clean, recovery_point, log_start_offset, now, config, release)

    def examine(log: PartitionLog, startup: Startup, _: Bases) -> Task:
        return plan_heal(log, startup, others, clusters, log_start_offset)

    healed = mended(targets, examine, circumstances, clusters, rails, errors, makes_directories=True)

    def found() -> Iterator[Repaired]:
        yield from healed
        if not others.are_used and OnError(errors) is OnError.RAISE:
            raise KdumpError("the sources have no copy of these partitions")

    return found()


def check_output(output: Path | None, targets: Sequence[Target]) -> None:
    """Check where a repaired copy is to go. Raises RefusedError, ValueError."""
    if output is not None:
        check_not_kafkas(path_text(output))
        if len(targets) > 1:
            raise ValueError("output takes the partitions of one log directory")


def targets_at(
    paths: Iterable[Path],
    missing: Callable[[LogDirectory], Iterable[str]] | None = None,
    *,
    takes_files: bool = False,
) -> list[Target]:
    """Return the partitions that a change is about, or segments by their files. Raises OSError, NameFormatError.

    `missing` names those that a log directory lacks, and that are to be made as are absent ones that a path names.
    """
    from kdump.operations.targets import Targets, base_of, is_absent_partition
    from kdump.storage.directory import LogDirectory
    from kdump.storage.open import check_file

    found = Targets()
    for path in [path_text(path) for path in paths]:
        if takes_files and os.path.isfile(path):
            base = base_of(check_file(path))
            if base is None:
                raise NameFormatError(f"{path}: expected a .log, an index or a directory")
            found.add_partition(os.path.dirname(os.path.abspath(path)), frozenset({base}))
            continue
        if missing is not None and is_absent_partition(path):
            found.add_partition(path)
            continue
        (place,) = places_of([path])
        if isinstance(place, LogDirectory):
            found.add_directory(place)
            for name in missing(place) if missing is not None else ():
                found.add_partition(os.path.join(place.path, name))
        else:
            found.add_partition(place.path)
    targets = found.all()
    if not targets:
        raise ValueError("no path is given")
    return targets


def mended(  # noqa: C901
    targets: list[Target],
    examine: Examine,
    circumstances: StartupOptions,
    clusters: Clusters,
    rails: SafetyOptions,
    errors: str,
    *,
    makes_directories: bool = False,
) -> Iterator[Repaired]:
    """Yield what is made of the partitions; what was left alone as `errors` has it. Raises ValueError at the call."""
    from kdump.operations.repair import Repair, Repaired, repair

    policy = OnError(errors)
    rails.check()
    unread: list[Problem] = []
    wanted = Repair(examine, circumstances, clusters, unread.append, makes_directories=makes_directories)

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
