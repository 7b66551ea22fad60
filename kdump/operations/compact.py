"""What the log cleaner does with the partitions of a log directory, in the plan, in place or into a copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kdump.change.interrupted import check_finishable
from kdump.change.journal import unfinished
from kdump.change.place import new_change
from kdump.clean.apply import check_output, clean_in_place, clean_into, copy_directory_files
from kdump.clean.cleaning import Cleaning, clean
from kdump.clean.staging import Staging
from kdump.clean.state import PartitionState, examine_partition, not_compacted
from kdump.disk.entered import check_way
from kdump.disk.locks import check_not_locked
from kdump.errors import KdumpError, RefusedError, check_number
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.safety import Guard, SafetyOptions, guarded
from kdump.operations.targets import PartitionGroup
from kdump.operations.topic_settings import topic_settings, unusable
from kdump.releases import KafkaRelease
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.sources import PropertyFile, TopicSettings
from kdump.storage.checkpoints import Checkpoints, checkpoint_versions
from kdump.storage.live import held
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """What is asked of the cleaner at the time `now` (ms); None where the release that wrote the directory is to tell.

    `files` are settings beside those of the cluster's metadata. With `applies` or `output` up to `passes` passes follow
    each other where one has no room for all keys.
    """

    now: int
    files: tuple[PropertyFile, ...] = ()
    min_cleanable_ratio: float | None = None
    converts_legacy: bool | None = None
    release: KafkaRelease | None = None
    passes: int = 1
    compares_keys: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError."""
        check_number("passes", self.passes, 1)
        check_number("min_cleanable_ratio", self.min_cleanable_ratio, 0.0, 1.0, may_be_none=True)

    def config(self, settings: TopicSettings, written_by: KafkaRelease) -> CleaningSettings:
        """Return the settings that those of a topic come to, in a directory of a release. Raises ConfigError."""
        config = CleaningSettings.of(settings, self.release or written_by, converts_legacy=self.converts_legacy)
        ratio = config.min_cleanable_ratio if self.min_cleanable_ratio is None else self.min_cleanable_ratio
        return config._replace(min_cleanable_ratio=ratio)


class Compacted(NamedTuple):
    """A partition and what became of it: `cleaning` is None where the cleaner is not due.

    `is_done`: it was cleaned, not in the plan only; `kept` is the id of the change that keeps the originals. `output`
    is the directory that was written. `number` is that of the pass, from 1 on. `failure` says why it could not be
    cleaned. `capacity` is how many keys the offset map has room for, None where that depends on their lengths.
    """

    state: PartitionState
    config: CleaningSettings
    cleaning: Cleaning | None
    is_done: bool = False
    kept: str | None = None
    output: str | None = None
    number: int = 1
    failure: str | None = None
    capacity: int | None = None


class Skipped(NamedTuple):
    """A partition that is not one for the cleaner, and why."""

    path: str
    why: str


Event = Compacted | Skipped | Interrupted | Failed | Note
Progress = Callable[[str, int], object]


def compact(
    group: PartitionGroup, request: CompactRequest, safety: SafetyOptions, progress: Progress = lambda _, __: None
) -> Iterator[Event]:
    """Say what the cleaner makes of partitions and, if `safety` says so, do it: where they are, or in `safety.output`.

    Each pass comes as it was done. `progress` hears of bytes read of a log, twice those of each partition in all.
    Raises RefusedError, KdumpError, OSError where all of the log directory is left alone.
    """
    yield from _Run(group, request, safety, progress).run()


class _Run:
    def __init__(
        self, group: PartitionGroup, request: CompactRequest, safety: SafetyOptions, progress: Progress
    ) -> None:
        self._group = group
        self._request = request
        self._safety = safety
        self._progress = progress
        self._read = 0
        self._noted: set[str] = set()
        self._known: tuple[object, Checkpoints] | None = None

    def run(self) -> Iterator[Event]:
        group = self._group
        known = topic_settings(group, self._request.files)
        self._settings, self._release = known.settings, known.release
        yield from known.notes
        if self._safety.output is not None:
            check_not_locked(group.log_directory)
            yield from self._copy(group, self._safety.output)
            return
        if self._safety.applies:
            check_way(group.log_directory)
        with guarded(os.path.realpath(group.log_directory), group.partitions, self._safety, reads_beside=True) as guard:
            for path in group.partitions:
                try:
                    yield from self._passes(group, path, guard)
                except (OSError, KdumpError) as error:
                    yield Failed(path, error)

    def _passes(self, place: PartitionGroup, path: str, guard: Guard) -> Iterator[Event]:
        if path in guard.errors:
            raise guard.errors[path]
        for change in guard.interrupted[path]:
            yield Interrupted(path, change, guard.safety.applies)
        for number in range(1, self._request.passes + 1):
            with held(path) as log:
                if log is None:
                    return
                found = yield from self._partition(place, log, number, guard)
            if not _goes_on(found):
                break

    def _copy(self, place: PartitionGroup, output: str) -> Iterator[Event]:
        """Yield passes over partitions, of which the first one writes them into another directory."""
        check_output(output)
        copied: dict[str, Cleaning | PartitionState] = {}
        for path in place.partitions:
            try:
                for change in unfinished(path):
                    check_finishable(change)
                    raise RefusedError(
                        f"{path}: change {change.id} ({change.command}) was interrupted; finish it first, with --apply"
                        " and without --output"
                    )
                found = yield from self._partition(place, PartitionLog(path), 1)
                number = 1
                while found is not None and found.output is not None:
                    copied[path] = found.cleaning or found.state
                    if number == self._request.passes or not _goes_on(found):
                        break
                    number += 1
                    copy_directory_files(place.log_directory, output, list(copied.values()))
                    there = place._replace(log_directory=output)
                    found = yield from self._partition(there, PartitionLog(found.output), number)
            except (OSError, KdumpError) as error:
                yield Failed(path, error)
        if copied:
            copy_directory_files(place.log_directory, output, list(copied.values()))

    def _checkpoints(self, path: str) -> Generator[Event, None, Checkpoints]:
        """Yield what the checkpoints of a directory say; read again only if one of them has changed."""
        version = checkpoint_versions(path)
        if self._known is not None and self._known[0] == version:
            return self._known[1]
        checkpoints = Checkpoints.read(path).readable()
        self._known = version, checkpoints
        for each in unusable(checkpoints):
            if each.text not in self._noted:
                yield each
                self._noted.add(each.text)
        return checkpoints

    def _partition(
        self, place: PartitionGroup, log: PartitionLog, number: int, guard: Guard | None = None
    ) -> Generator[Event, None, Compacted | None]:
        """Yield one pass over a partition; None where it is none for the cleaner. Without a guard it is a copy's."""
        check_has_kafka_files(log)
        request = self._request
        known = (yield from self._checkpoints(place.log_directory)).of(log.name)
        topic = log.name.topic if log.name else ""
        config = request.config(self._settings.of(topic), self._release)
        why = not_compacted(config, was_cleaned=known.cleaner is not None, is_named=not place.is_whole)
        if why:
            yield Skipped(log.path, why)
            return None
        if self._safety.applies and (log.name is None or log.name.state):
            raise RefusedError(f"{log.path}: not named as a partition in use, so no checkpoint could name it")
        state = examine_partition(log, known, config, request.now)
        if number > 1 and not state.is_due(config):
            return None
        try:
            capacity = None if request.compares_keys else config.map_keys
            found = self._clean(guard, state, config, number)._replace(number=number, capacity=capacity)
        except (OSError, KdumpError) as error:
            yield Compacted(state, config, None, number=number, failure=str(error))
            raise
        self._note_progress(state.segments[0].segment.log_path, max(0, 2 * state.size - self._read))
        yield found
        return found

    def _clean(self, guard: Guard | None, state: PartitionState, config: CleaningSettings, number: int) -> Compacted:
        is_due = state.is_due(config)
        self._read = 0
        name = os.path.basename(os.path.abspath(state.log.path))
        clean = self._cleaner(state, config, guarded=self._safety.applies or self._safety.output is not None)
        if self._safety.output is not None and number == 1:
            cleaning = clean_into(state, clean if is_due else None, self._safety.output)
            return Compacted(state, config, cleaning, is_due, None, os.path.join(self._safety.output, name))
        if not is_due:
            return Compacted(state, config, None)
        if not self._safety.applies and self._safety.output is None:
            return Compacted(state, config, clean(Staging(None)))
        path = os.path.abspath(state.log.path)
        if guard is None:
            assert self._safety.output is not None
            cleaning = clean_in_place(state, clean, new_change(path), keep_old=False)
            return Compacted(state, config, cleaning, True, None, os.path.join(self._safety.output, name))
        if number == 1:
            guard.check_still(path)
        files = guard.files(path, number=number)
        cleaning = clean_in_place(state, clean, files, keep_old=self._safety.keep_old)
        return Compacted(state, config, cleaning, True, files.id if self._safety.keep_old else None)

    def _cleaner(
        self, state: PartitionState, config: CleaningSettings, *, guarded: bool
    ) -> Callable[[Staging], Cleaning]:
        """Return what cleans the partition; `guarded`: only if the topic looks compacted at all."""
        request = self._request

        def run(staging: Staging) -> Cleaning:
            cleaning = clean(
                state, config, request.now, staging, compares_keys=request.compares_keys, progress=self._note_progress
            )
            if guarded and cleaning.counts.keyless and not config.is_compacted:
                raise RefusedError(
                    f"{state.log.path}: cleaning would drop records without a key, {cleaning.counts.keyless} in all and"
                    f" the first at offset {cleaning.counts.first_keyless}: is the topic compacted? If so, give"
                    " --config with cleanup.policy=compact"
                )
            return cleaning

        return run

    def _note_progress(self, path: str, size: int) -> None:
        self._read += size
        self._progress(path, size)


def _goes_on(found: Compacted | None) -> bool:
    """Return whether another pass follows: there was no room for all keys."""
    return found is not None and found.is_done and found.cleaning is not None and found.cleaning.is_full
