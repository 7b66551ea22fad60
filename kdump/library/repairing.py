"""The operations that repair single files of partitions: they plan, and change nothing without `apply`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, OnError, Problem, ProblemError, check_truths

if TYPE_CHECKING:
    from kdump.operations.repair import PlanFiles, Planner, Repair, Repaired
    from kdump.operations.safety import SafetyOptions
    from kdump.operations.startup import StartupOptions
    from kdump.operations.targets import Target

from kdump.library.arguments import check_words, optional, plan_files, startup_options
from kdump.storage.open import Path, path_texts, place_at


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
    from kdump.mend.task import INDEX_KINDS
    from kdump.operations.repair_planners import of_indexes
    from kdump.operations.safety import SafetyOptions

    check_truths(wants_all=wants_all)
    wanted = frozenset(INDEX_KINDS if kinds is None else check_words("kinds", kinds, INDEX_KINDS))
    planner = of_indexes(wanted, wants_all=wants_all)
    backups = optional(backup_dir, "backup_dir")
    safety = SafetyOptions(apply, planner.command, keep_originals, backups, None, ignore_lock, jobs, accept_loss)
    circumstances = startup_options(config=config, release=release)
    return run_repairs(paths, planner, circumstances, safety, errors, plan_files(plan_out, apply_plan))


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
    from kdump.operations.repair_planners import of_ends
    from kdump.operations.safety import SafetyOptions
    from kdump.operations.startup import StartupOptions

    planner = of_ends()
    backups = optional(backup_dir, "backup_dir")
    safety = SafetyOptions(apply, planner.command, keep_originals, backups, None, ignore_lock, jobs, accept_loss)
    return run_repairs(paths, planner, StartupOptions(), safety, errors, plan_files(plan_out, apply_plan))


def heal(
    *paths: Path,
    sources: Iterable[Path],
    unproved: bool = False,
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
    its files do not show that. With `unproved` it takes also what nothing shows to be of the partition. The rest is as
    for `repair`. Raises OSError, NameFormatError, ConfigError, RefusedError, and KdumpError at the end where no source
    has a copy of these partitions, unless errors are skipped or yielded.
    """
    from kdump.operations.heal_sources import check_sources
    from kdump.operations.repair_planners import from_copies
    from kdump.operations.safety import SafetyOptions

    others = check_sources(path_texts(sources, "sources"))
    check_truths(unproved=unproved)
    planner = from_copies(others, log_start_offset, unproved=unproved)
    backups, target = optional(backup_dir, "backup_dir"), optional(output, "output")
    safety = SafetyOptions(apply, planner.command, keep_originals, backups, target, ignore_lock, jobs, accept_loss)
    circumstances = startup_options(clean, recovery_point, log_start_offset, now, config, release)
    healed = run_repairs(paths, planner, circumstances, safety, errors, plan_files(plan_out, apply_plan))

    def found() -> Iterator[Repaired]:
        yield from healed
        if not others.are_used and OnError(errors) is OnError.RAISE:
            raise KdumpError("the sources have no copy of these partitions")

    return found()


def run_repairs(
    paths: Iterable[Path],
    planner: Planner,
    circumstances: StartupOptions,
    safety: SafetyOptions,
    errors: str,
    files: PlanFiles,
) -> Iterator[Repaired]:
    """Yield what is made of the partitions at paths; what was left alone as `errors` has it.

    The call raises ValueError, TypeError, OSError, KdumpError for paths and options that make no sense.
    """
    from kdump.operations.repair import Repair, Repaired, repair_all
    from kdump.operations.results import Failed
    from kdump.topics.clusters import Clusters

    policy = OnError(errors)
    unread: list[Problem] = []
    given = path_texts(paths)
    wanted = Repair(planner, circumstances, Clusters.around(given), unread.append)
    repaired = repair_all(_targets(wanted, given), wanted, safety, files)

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


def _targets(wanted: Repair, paths: Sequence[str]) -> list[Target]:
    targets = wanted.targets()
    for path in paths:
        if not targets.add_absent(path):
            targets.add(place_at(path))
    return targets.all()
