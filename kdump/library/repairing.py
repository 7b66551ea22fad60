"""The operations that repair single files of partitions: they plan, and change nothing without `apply`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, OnError, Problem, ProblemError, check_truths, check_word

if TYPE_CHECKING:
    from kdump.operations.repair import Examine, PlanFiles, Repaired
    from kdump.operations.safety import SafetyOptions
    from kdump.operations.startup import StartupOptions
    from kdump.operations.targets import Bases, Missing, Target
    from kdump.recovery.startup import Startup
    from kdump.repair.task import Task
    from kdump.storage.partition import PartitionLog
    from kdump.topics.clusters import Clusters

from kdump.library.arguments import check_no_text, optional, plan_files, startup_options
from kdump.storage.open import Path, path_text, place_at


def rebuild_index(
    *paths: Path,
    kinds: Iterable[str] | None = None,
    wants_all: bool = False,
    apply: bool = False,
    plan_out: Path | None = None,
    apply_plan: Path | None = None,
    accept_loss: int | str | None = None,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    ignore_lock: str | None = None,
    jobs: int = 1,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan to rebuild damaged indexes from their logs and, with `apply`, do it; a Repaired for each partition.

    Paths may be files of segments. `kinds` are some of "indexes", "timeindexes" and "txnindexes" (None: all).
    `wants_all`: sound indexes, too, where Kafka's recovery of the whole log would write other entries. Indexes of a
    damaged log stay as they are: the task's `problems` say so. The rest is as for `repair`. Raises OSError,
    NameFormatError, ConfigError, and ValueError for an unknown kind or release.
    """
    from kdump.operations.safety import SafetyOptions
    from kdump.repair.indexes import examine_indexes
    from kdump.repair.task import INDEX_KINDS

    check_no_text("kinds", () if kinds is None else kinds)
    check_truths(wants_all=wants_all)
    wanted = frozenset(INDEX_KINDS if kinds is None else kinds)
    for kind in wanted:
        check_word("kinds", kind, INDEX_KINDS)

    def examine(log: PartitionLog, startup: Startup, bases: Bases) -> Task:
        return examine_indexes(log, startup, wanted, bases, wants_all=wants_all)

    circumstances = startup_options(config=config, release=release)
    safety = SafetyOptions(
        apply, "rebuild-index", keep_originals, optional(backup_dir), None, ignore_lock, jobs, accept_loss
    )
    targets = targets_at(paths, takes_files=True)
    files = plan_files(plan_out, apply_plan)
    return run_repairs(targets, examine, circumstances, _clusters(targets), safety, errors, files)


def trim(
    *paths: Path,
    apply: bool = False,
    plan_out: Path | None = None,
    apply_plan: Path | None = None,
    accept_loss: int | str | None = None,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    ignore_lock: str | None = None,
    jobs: int = 1,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan to cut logs after their last valid batch, and indexes after their last valid entry; with `apply`, do it.

    Paths may be files of segments. A Repaired for each partition: a log that has valid batches behind the damage stays
    as it is, and the task's `problems` say so. The rest is as for `repair`. Raises OSError, NameFormatError.
    """
    from kdump.operations.safety import SafetyOptions
    from kdump.operations.startup import StartupOptions
    from kdump.repair.proposal import examine_trim

    safety = SafetyOptions(apply, "trim", keep_originals, optional(backup_dir), None, ignore_lock, jobs, accept_loss)
    targets = targets_at(paths, takes_files=True)

    def examine(log: PartitionLog, _: Startup, bases: Bases) -> Task:
        return examine_trim(log, bases)

    files = plan_files(plan_out, apply_plan)
    return run_repairs(targets, examine, StartupOptions(), _clusters(targets), safety, errors, files)


def heal(
    *paths: Path,
    sources: Iterable[Path],
    apply: bool = False,
    plan_out: Path | None = None,
    apply_plan: Path | None = None,
    accept_loss: int | str | None = None,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    output: Path | None = None,
    ignore_lock: str | None = None,
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
    from kdump.operations.safety import SafetyOptions
    from kdump.topics.clusters import Clusters

    check_no_text("sources", sources)
    given, at = [path_text(path) for path in paths], [path_text(path) for path in sources]
    if not at:
        raise ValueError("sources is empty: expected the copies to take from")
    others = check_sources(at)
    clusters = Clusters.around(given)
    targets = targets_at(given, lambda directory: others.missing_in(directory, clusters))
    safety = SafetyOptions(
        apply, "repair from", keep_originals, optional(backup_dir), optional(output), ignore_lock, jobs, accept_loss
    )
    files = plan_files(plan_out, apply_plan)
    circumstances = startup_options(clean, recovery_point, log_start_offset, now, config, release)

    def examine(log: PartitionLog, startup: Startup, _: Bases) -> Task:
        return plan_heal(log, startup, others, clusters, log_start_offset)

    healed = run_repairs(targets, examine, circumstances, clusters, safety, errors, files, makes_directories=True)

    def found() -> Iterator[Repaired]:
        yield from healed
        if not others.are_used and OnError(errors) is OnError.RAISE:
            raise KdumpError("the sources have no copy of these partitions")

    return found()


def targets_at(paths: Iterable[Path], missing: Missing | None = None, *, takes_files: bool = False) -> list[Target]:
    """Return the partitions that a change is about, as `Targets` collects them. Raises OSError, NameFormatError."""
    from kdump.operations.targets import Targets

    found = Targets(missing, takes_files=takes_files)
    for path in [path_text(path) for path in paths]:
        if not found.add_absent(path):
            found.add(place_at(path))
    targets = found.all()
    if not targets:
        raise ValueError("no path is given")
    return targets


def run_repairs(  # noqa: PLR0917 - what the functions of this module have in common
    targets: list[Target],
    examine: Examine,
    circumstances: StartupOptions,
    clusters: Clusters,
    safety: SafetyOptions,
    errors: str,
    files: PlanFiles,
    *,
    makes_directories: bool = False,
) -> Iterator[Repaired]:
    """Yield what is made of the partitions; what was left alone as `errors` has it.

    The call raises ValueError, TypeError, OSError, KdumpError for options that make no sense.
    """
    from kdump.operations.repair import Repair, Repaired, repair_all
    from kdump.operations.results import Failed

    policy = OnError(errors)
    unread: list[Problem] = []
    wanted = Repair(examine, circumstances, clusters, unread.append, makes_directories=makes_directories)
    repaired = repair_all(targets, wanted, safety, files)

    def problems() -> Iterator[Repaired]:
        while unread:
            problem = unread.pop(0)
            if policy is OnError.YIELD or not problem.is_newer:
                yield Repaired(problem.path, None, error=ProblemError(problem))

    def each() -> Iterator[Repaired]:
        for _, done in repaired:
            yield from problems()
            yield Repaired(done.path, None, error=done.error) if isinstance(done, Failed) else done
        yield from problems()

    def found() -> Iterator[Repaired]:
        with closing(repaired):  # the lock goes before an error is raised
            for done in each():
                if done.error is not None and policy is OnError.RAISE:
                    raise done.error
                if done.error is None or policy is OnError.YIELD:
                    yield done

    return found()


def _clusters(targets: Iterable[Target]) -> Clusters:
    from kdump.topics.clusters import Clusters

    return Clusters({target.log_directory for target in targets})
