"""What retention deletes of the partitions of a log directory, and deleting it, with the checks of all changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.change.apply import apply_plan
from kdump.change.guard import Allowance, DropsError
from kdump.change.plan import Plan
from kdump.disk.entered import check_way
from kdump.errors import KdumpError, RefusedError, check_number
from kdump.formats import names
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.safety import Guard, SafetyOptions, guarded
from kdump.operations.targets import PartitionGroup
from kdump.operations.topic_settings import topic_settings, unusable
from kdump.retention.partition import Circumstances, PartitionRetention, examine
from kdump.retention.plan import check_allowed, partition_plan
from kdump.retention.segments import Shutdown
from kdump.retention.totals import Totals
from kdump.settings.names import check_given
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import PropertyFile, TopicSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, was_deleted
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog

ONLY_START = "nothing but --log-start-offset, so only that counts"


@dataclass(frozen=True, slots=True)
class RetainRequest:
    """What is asked of retention at the time `now` (ms).

    `files` and `given` are settings beside those of the cluster's metadata. Offsets are absolute; None: the
    checkpoint's. With `tombstones` compacted logs are read as a whole to count what waits for its delete horizon.
    """

    now: int
    files: tuple[PropertyFile, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    log_start_offset: int | None = None
    high_watermark: int | None = None
    tombstones: bool = True

    def __post_init__(self) -> None:
        """Raise ConfigError for what retention has no use for, or Kafka would not take; ValueError, TypeError."""
        check_given(self.given, RetentionSettings.counting())
        TopicSettings.of(self.given).check()
        check_number("log_start_offset", self.log_start_offset, 0, may_be_none=True)
        check_number("high_watermark", self.high_watermark, 0, may_be_none=True)


class Deleted(NamedTuple):
    """What was applied in a log directory; `change` is the id of the change that keeps the originals."""

    log_directory: str
    plans: Sequence[Plan]
    change: str | None


Event = PartitionRetention | Totals | Interrupted | Failed | Note | Deleted


def retain(
    group: PartitionGroup,
    request: RetainRequest,
    safety: SafetyOptions,
    over: Callable[[list[str]], Iterable[str]] = iter,
) -> Iterator[Event]:
    """Say what retention deletes of partitions and, if `safety` says so, delete it.

    Each partition comes as it was examined, then the totals of a log directory that is looked at as a whole, then what
    was done. `over` goes over the partitions' paths. Raises RefusedError, KdumpError, OSError where all of the log
    directory is left alone.
    """
    if safety.applies:
        check_way(group.log_directory)
    with guarded(os.path.realpath(group.log_directory), group.partitions, safety, reads_beside=True) as guard:
        for path, changes in guard.interrupted.items():
            for change in changes:
                yield Interrupted(path, change, safety.applies)
        for path, error in guard.errors.items():
            yield Failed(path, error)
        place = _Place(group, request, applies=safety.applies)
        yield from (Failed(group.log_directory, error) for error in place.unread)
        yield from place.notes
        found: list[PartitionRetention] = []
        for each in _examined(place, over(list(guard.interrupted))):
            if isinstance(each, PartitionRetention):
                found.append(each)
            yield each
        if group.is_whole:
            yield Totals.of(found)
        if safety.applies:
            yield from _carry_out(group, found, guard)


def _examined(place: _Place, paths: Iterable[str]) -> Iterator[PartitionRetention | Failed]:
    """Yield what retention does to the partitions that no running broker deletes meanwhile."""
    for path in paths:
        try:
            with held(path) as log:
                found = None if log is None else place.examine(log)
        except (OSError, KdumpError) as error:
            if not was_deleted(path, error):
                yield Failed(path, error)
        else:
            if found is not None:
                yield found


def _carry_out(group: PartitionGroup, found: Iterable[PartitionRetention], guard: Guard) -> Iterator[Event]:
    plans: list[tuple[Plan, Allowance]] = []
    for each in found:
        try:
            check_allowed(each)
            if each.has_work:
                plans.append((partition_plan(each), Allowance(below=each.new_log_start_offset)))
        except (OSError, KdumpError) as error:
            yield Failed(each.log.path, error)
    for plan, _ in plans:
        guard.check_still(plan.path)
    applied: list[Plan] = []
    for plan, allowance in plans:
        files = guard.files(plan.path)
        try:
            apply_plan(plan, files, command="retain", keep_old=guard.safety.keep_old, allowance=allowance)
            applied.append(plan)
        except DropsError as error:
            yield Failed(plan.path, error)
    yield Deleted(group.log_directory, applied, guard.id if applied and guard.safety.keep_old else None)


class _Place:
    """A log directory's checkpoints and the settings of its topics.

    `notes` name what of them cannot be used, `unread` what cannot be read and counts as empty in a plan.
    """

    def __init__(self, group: PartitionGroup, request: RetainRequest, *, applies: bool) -> None:
        """Read them. Raises OSError; where changes are applied, also for a checkpoint that cannot be read.

        Raises RefusedError then for one that cannot be parsed.
        """
        self._request = request
        self._checkpoints = Checkpoints.read(group.log_directory)
        if applies:
            self._checkpoints.readable()
        self.unread = [error for error in self._checkpoints.errors.values() if isinstance(error, OSError)]
        for error in self._checkpoints.errors.values():
            if applies:
                raise RefusedError(f"{error}: repair the file, or remove it: the broker treats that as an empty one")
        self._clean = LogDirectory(group.log_directory).clean_shutdown
        known = topic_settings(group, request.files, request.given)
        self._settings, self._release = known.settings, known.release
        self.notes = [*unusable(self._checkpoints), *known.notes]

    def examine(self, log: PartitionLog) -> PartitionRetention:
        """Return what retention does to a partition. Raises OSError, KdumpError."""
        request = self._request
        check_has_kafka_files(log)
        if log.name and log.name.topic == names.CLUSTER_METADATA_TOPIC:
            raise KdumpError(f"{log.path}: KRaft trims this log by its snapshots, not by retention")
        said = self._checkpoints.of(log.name)
        topic = log.name.topic if log.name else ""
        was_cleaned = said.cleaner is not None
        settings = RetentionSettings.of(self._settings.of(topic, was_cleaned=was_cleaned), self._release)
        if request.log_start_offset is not None and not settings.is_known:
            settings = settings._replace(deletes=False, sources=(ONLY_START,))
        shutdown = Shutdown(self._clean, said.recovery_point or 0)
        circumstances = Circumstances(shutdown, said, request.now, request.log_start_offset, request.high_watermark)
        return examine(log, circumstances, settings, tombstones=request.tombstones)
