"""The operations that can change a log directory: they plan, and change nothing without `apply`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from kdump.errors import KdumpError, OnError, check_number, check_truths, check_type

if TYPE_CHECKING:
    from kdump.mend.task import Request
    from kdump.operations.compact import Compacted, Skipped
    from kdump.operations.repair import Repaired
    from kdump.operations.results import Failed, Interrupted, Note
    from kdump.operations.retain import Deleted
    from kdump.operations.safety import SafetyOptions
    from kdump.operations.targets import PartitionGroup
    from kdump.operations.undo import Closed, Listing, Pruned, Undone
    from kdump.retention.partition import PartitionRetention
    from kdump.settings.sources import PropertyFile
    from kdump.settings.views import View

from kdump.library.arguments import (
    clock,
    groups_of,
    optional,
    places_of,
    plan_files,
    properties_of,
    property_files,
    release_of,
    startup_options,
)
from kdump.library.repairing import run_repairs
from kdump.storage.open import Path, check_not_kafkas, path_text

_Event = TypeVar("_Event")


def repair(
    *paths: Path,
    request: Request | None = None,
    apply: bool = False,
    plan_out: Path | None = None,
    apply_plan: Path | None = None,
    accept_loss: int | str | None = None,
    keep_originals: bool = True,
    backup_dir: Path | None = None,
    output: Path | None = None,
    ignore_lock: str | None = None,
    only_copy: bool = False,
    jobs: int = 1,
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Repaired]:
    """Plan what makes partitions loadable again and, with `apply`, do it; a Repaired for each.

    `request` says by which strategy and what may change. A plan that drops valid records is refused unless
    `accept_loss` is their number (or "all", for copies and tests); a salvage of a partition that has other replicas in
    sync, unless it is the `only_copy`. Originals are kept for `undo` unless `keep_originals` is False. With `output` a
    copy of the log directory is repaired there. `ignore_lock` names a directory that is changed whatever lock is held
    there. The plans are written to the file `plan_out`; with `apply_plan`, such a file, a partition whose plan is
    another one now is refused. The circumstances of the broker's start are as for startup.
    With `errors="yield"` a partition that was left alone is a Repaired with its `error`. Raises OSError,
    NameFormatError, ConfigError, RefusedError, and ValueError for an unknown release.
    """
    from kdump.mend.task import Request
    from kdump.operations.repair_planners import by_request
    from kdump.operations.safety import SafetyOptions

    check_truths(only_copy=only_copy)
    request = Request() if request is None else request
    planner = by_request(request, checks_copies=not only_copy and output is None, applies=apply)
    backups, target = optional(backup_dir, "backup_dir"), optional(output, "output")
    safety = SafetyOptions(apply, planner.command, keep_originals, backups, target, ignore_lock, jobs, accept_loss)
    circumstances = startup_options(clean, recovery_point, log_start_offset, now, config, release)
    return run_repairs(paths, planner, circumstances, safety, errors, plan_files(plan_out, apply_plan))


def changes(path: Path, *, backup_dir: Path | None = None) -> Listing:
    """List the changes that are kept of a log directory or a partition directory, which may be gone.

    `unreadable` of the result is why there may be others. Raises OSError, NameFormatError.
    """
    from kdump.operations.undo import list_changes

    listing = list_changes(path_text(path), optional(backup_dir, "backup_dir"))
    if not listing.changes:
        places_of([path])
    return listing


def undo(
    path: Path,
    change: str,
    *,
    close: bool = False,
    apply: bool = False,
    backup_dir: Path | None = None,
    ignore_lock: str | None = None,
    errors: str = OnError.RAISE,
) -> list[Undone | Closed | Failed]:
    """Take back the change with this id in every partition below `path`, or say what that does.

    What takes it back is one change, whose id all of them share. With `close` the change was interrupted, and ends as
    the files are now; its originals stay kept. Where something of the changes there cannot be read, nothing is done.
    `ignore_lock` names a directory that is changed whatever lock is held there. With `errors="yield"` what cannot be
    read and what was left alone is a Failed, and the rest is done. Raises KdumpError where there is no such change,
    RefusedError where files have changed since, OSError, NameFormatError.
    """
    from kdump.operations.undo import changes_called, close_all, undo_all

    policy, safety = OnError(errors), _undoing(apply, backup_dir, ignore_lock)
    check_type("change", change, str)
    check_truths(close=close)
    listing = changes(path, backup_dir=backup_dir)
    found = changes_called(listing, change)
    done = (close_all if close else undo_all)(found, safety)
    results: list[Undone | Closed | Failed] = list(_judged(chain(_unread(path, listing), done), policy))
    if not found:
        raise KdumpError(f"{path_text(path)}: there is no change '{change}'")
    return results


def prune(
    path: Path,
    *,
    older_than_ms: int = 0,
    change: str | None = None,
    apply: bool = False,
    now: int | None = None,
    backup_dir: Path | None = None,
    ignore_lock: str | None = None,
    errors: str = OnError.RAISE,
) -> list[Pruned | Failed]:
    """Delete the originals that changes below `path` keep for `undo`, or say which; those of interrupted ones stay.

    The changes are those that were begun `older_than_ms` or longer before `now` (ms), of them with `change` the ones
    with this id. The rest is as for `undo`. Raises RefusedError, OSError, NameFormatError.
    """
    from kdump.operations.undo import prune_all

    policy, safety = OnError(errors), _undoing(apply, backup_dir, ignore_lock)
    check_number("older_than_ms", older_than_ms, 0)
    check_type("change", change, str, may_be_none=True)
    before = clock(now) - older_than_ms
    listing = changes(path, backup_dir=backup_dir)
    done = prune_all(listing, before, safety, change)
    return list(_judged(chain(_unread(path, listing), done), policy))


def _undoing(apply: bool, backup_dir: Path | None, ignore_lock: str | None) -> SafetyOptions:
    """Return how carefully changes are taken back. Raises ValueError, TypeError, OSError."""
    from kdump.operations.safety import SafetyOptions

    safety = SafetyOptions(apply, "undo", backup_dir=optional(backup_dir, "backup_dir"), ignore_lock=ignore_lock)
    safety.check()
    return safety


def _unread(path: Path, listing: Listing) -> Iterator[Failed]:
    from kdump.operations.results import Failed

    return (Failed(path_text(path), error) for error in listing.unreadable)


def retain(
    *paths: Path,
    settings: Mapping[str, str] | None = None,
    config: Path | Mapping[str, str] | None = None,
    topic_configs: Mapping[str, Path | Mapping[str, str]] | None = None,
    log_start_offset: int | None = None,
    high_watermark: int | None = None,
    tombstones: bool = True,
    apply: bool = False,
    keep_originals: bool = True,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[PartitionRetention | Deleted | Interrupted | Note | Failed]:
    """Say which segments retention deletes, when the next go and what keeps the others; with `apply`, delete them.

    A PartitionRetention for each partition and, with `apply`, a Deleted for each log directory; an Interrupted for a
    change that has to be finished first (with `apply` it is), and a Note on what does not count. `settings` are topic
    settings that win over all others, `config` is a properties file, or properties, of the server or of topics,
    `topic_configs` has those of the topics that a name or pattern stands for. Offsets are absolute, the checkpoints'
    unless given. With `errors="yield"` what was left alone is a Failed. Raises OSError, NameFormatError, ConfigError.
    """
    from kdump.operations import retain as operation
    from kdump.operations.safety import SafetyOptions
    from kdump.retention.totals import Totals
    from kdump.settings.retention import RetentionSettings

    policy = OnError(errors)
    check_truths(tombstones=tombstones)
    check_type("settings", settings, Mapping, may_be_none=True)
    groups = groups_of(paths)
    request = operation.RetainRequest(
        clock(now), property_files(config, topic_configs), properties_of(settings, "settings"), log_start_offset,
        high_watermark, tombstones,
    )  # fmt: skip
    safety = SafetyOptions(apply, "retain", keep_originals)
    safety.check()

    def results() -> Iterator[PartitionRetention | Deleted | Interrupted | Note | Failed]:
        yield from _idle_names(request.files, RetentionSettings)
        with closing(_of_groups(groups, lambda group: operation.retain(group, request, safety), policy)) as events:
            yield from (event for event in events if not isinstance(event, Totals))

    return results()


def compact(
    *paths: Path,
    config: Path | Mapping[str, str] | None = None,
    topic_configs: Mapping[str, Path | Mapping[str, str]] | None = None,
    min_cleanable_ratio: float | None = None,
    converts_old_formats: bool | None = None,
    compares_keys: bool = False,
    release: str | None = None,
    passes: int = 1,
    apply: bool = False,
    keep_originals: bool = True,
    output: Path | None = None,
    now: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Compacted | Skipped | Interrupted | Note | Failed]:
    """Say what the log cleaner makes of partitions or what keeps it from it; with `apply` or `output`, do it.

    A Compacted for each pass over a partition, a Skipped for one that is not compacted; an Interrupted for a change
    that has to be finished first (with `apply` it is), and a Note on what does not count. `config` and `topic_configs`
    are as for `retain`. `release` is the one of Kafka whose cleaner it is ("4.1"), that which wrote the directory
    unless given; `converts_old_formats` says, instead of it, whether batches of formats v0 and v1 become v2. With
    `compares_keys` keys themselves are compared, not their MD5 sums. With `output` a log directory with the cleaned
    partitions is written there. With `errors="yield"` what was left alone is a Failed. Raises OSError, NameFormatError,
    ConfigError, RefusedError, ValueError.
    """
    from kdump.operations import compact as operation
    from kdump.operations.safety import SafetyOptions
    from kdump.settings.cleaning import CleaningSettings

    policy = OnError(errors)
    check_truths(compares_keys=compares_keys, apply=apply)
    check_type("converts_old_formats", converts_old_formats, bool, may_be_none=True)
    groups = groups_of(paths)
    target = optional(output, "output")
    if target is not None:
        if apply or len(groups) > 1:
            raise ValueError("output takes the partitions of one log directory, without apply")
        check_not_kafkas(target)
    request = operation.CompactRequest(
        clock(now), property_files(config, topic_configs), min_cleanable_ratio, converts_old_formats,
        release_of(release), passes, compares_keys,
    )  # fmt: skip
    safety = SafetyOptions(apply, "compact", keep_originals, output=target)
    safety.check()

    def results() -> Iterator[Compacted | Skipped | Interrupted | Note | Failed]:
        yield from _idle_names(request.files, CleaningSettings)
        yield from _of_groups(groups, lambda group: operation.compact(group, request, safety), policy)

    return results()


def _idle_names(files: Iterable[PropertyFile], view: type[View]) -> Iterator[Note]:
    """Say which names in a `config` do not count."""
    from kdump.operations.results import Note
    from kdump.settings.names import notes_on

    for file in files:
        yield from (Note(f"{file.path}: {text}") for text in notes_on(file.properties, view.counting()))


def _of_groups(
    groups: Iterable[PartitionGroup], run: Callable[[PartitionGroup], Iterable[_Event]], policy: OnError
) -> Generator[_Event | Failed, None, None]:
    """Yield what an operation tells of each group; what was left alone, perhaps a whole group, as the policy has it."""
    from kdump.operations.results import Failed

    def of_group(group: PartitionGroup) -> Generator[_Event | Failed, None, None]:
        try:
            yield from run(group)
        except (OSError, KdumpError) as error:
            yield Failed(group.log_directory, error)

    for group in groups:
        with closing(of_group(group)) as events:  # the lock goes before an error is raised
            yield from _judged(events, policy)


def _judged(events: Iterable[_Event], policy: OnError) -> Iterator[_Event]:
    """Yield what an operation tells; of what was left alone as the policy has it."""
    from kdump.operations.results import Failed

    for event in events:
        if isinstance(event, Failed):
            if policy is OnError.RAISE:
                raise event.error
            if policy is OnError.SKIP:
                continue
        yield event
