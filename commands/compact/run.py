"""What `kdump compact` does: partition by partition, it looks, cleans on paper, in place or into a copy, and tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import click

from kdump.change.interrupted import check_finishable
from kdump.change.journal import unfinished
from kdump.change.place import new_change
from kdump.clean.apply import (
    check_output,
    clean_in_place,
    clean_into,
    copy_directory_files,
)
from kdump.clean.cleaning import Cleaning, clean
from kdump.clean.eligibility import not_compacted
from kdump.clean.staging import Staging
from kdump.clean.state import PartitionState, look
from kdump.errors import KdumpError, RefusedError
from kdump.operations.rails import Guard, Rails, check_unlocked, guarded
from kdump.operations.targets import PartitionGroup
from kdump.operations.topic_settings import topic_settings, unusable
from kdump.releases import NEWEST, KafkaRelease
from kdump.settings.sources import PropertyFile, Settings, TopicSettings
from kdump.settings.views import CleaningSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.groups import grouped
from ..shell.options import output_for
from ..shell.output import note, safe, safe_path
from ..shell.paths import check_not_kafkas
from ..shell.progress import ProgressBar
from ..shell.session import Failures


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; None where the release that wrote the directory is to be asked."""

    now: int
    files: tuple[PropertyFile, ...] = ()
    min_cleanable_ratio: float | None = None
    converts_legacy: bool | None = None
    release: KafkaRelease | None = None
    format: str = "text"
    applies: bool = False
    output: str | None = None
    keep_old: bool = True
    passes: int = 1
    exact_keys: bool = False

    def config(self, settings: TopicSettings, written_by: KafkaRelease) -> CleaningSettings:
        """The settings that those of a topic come to, in a directory of a release. Raises ConfigError."""
        config = CleaningSettings.of(settings, self.release or written_by, converts_legacy=self.converts_legacy)
        ratio = config.min_cleanable_ratio if self.min_cleanable_ratio is None else self.min_cleanable_ratio
        return replace(config, min_cleanable_ratio=ratio)


class Found(NamedTuple):
    """A partition and what became of it: `cleaning` is None where the cleaner is not due.

    `is_done`: it was cleaned, not only on paper; `kept` is the id of the change that keeps the originals. `output` is
    the directory that was written. `number` is that of the pass, from 1 on. `failure` says why it could not be cleaned.
    `capacity` is how many keys the offset map has room for, None where that depends on their lengths.
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


class Printer(Protocol):
    """What prints the findings."""

    def partition(self, found: Found) -> None:
        """One pass over a partition."""

    def passed_over(self, path: str, why: str) -> None:
        """A partition that is none for the cleaner."""

    def end(self) -> None:
        """Nothing comes any more."""


def compact(paths: Iterable[str], options: Options) -> int:
    """Look at what is at `paths`, and clean; the exit code. Raises click.UsageError."""
    failures = Failures()
    places = grouped(paths, failures)
    if options.output is not None and len(places) > 1:
        raise click.UsageError("--output takes partitions of one log directory only.")
    twice = [path for place in places for path in place.partitions] * 2  # read for the keys, and to be written anew
    with ProgressBar(twice) as bar, output_for(options.format) as out:
        run = _Run(options, _printer(out.write, options), failures, bar)
        failures.before = out.flush
        for place in places:
            run.place(place)
        run.end()
    return failures.code


def _printer(write: Callable[[str], None], options: Options) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(write)
    from .text import Text

    return Text(write, options.now)


class _Run:
    def __init__(self, options: Options, printer: Printer, failures: Failures, bar: ProgressBar) -> None:
        self._options = options
        self._printer = printer
        self._failures = failures
        self._bar = bar
        self._read = 0
        self._settings = Settings()
        self._release = NEWEST
        self._noted: set[str] = set()

    def place(self, place: PartitionGroup) -> None:
        """The partitions of one log directory."""
        with self._failures.told(place.log_directory):
            known = topic_settings(LogDirectory(place.log_directory), self._options.files)
            self._settings, self._release = known.settings, known.release
            for each in known.notes:
                note(safe(each.text))
            if self._options.output is not None:
                check_unlocked(place.log_directory)
                self._copy(place, self._options.output)
                return
            rails = Rails(self._options.applies, "compact", self._options.keep_old)
            with guarded(os.path.realpath(place.log_directory), place.partitions, rails) as guard:
                for path in place.partitions:
                    with self._failures.told(path):
                        self._passes(place, path, guard)

    def end(self) -> None:
        """All has been looked at."""
        self._printer.end()

    def _passes(self, place: PartitionGroup, path: str, guard: Guard) -> None:
        """One pass over a partition, or several."""
        if path in guard.errors:
            raise guard.errors[path]
        for change in guard.interrupted[path]:
            what = "is finished now" if guard.rails.applies else "--apply finishes it"
            note(f"{safe_path(path)}: change {change.id} ({safe(change.command)}) was interrupted; {what}")
        for number in range(1, self._options.passes + 1):
            found = self._partition(place, PartitionLog(path), number, guard)
            if not _goes_on(found):
                break

    def _copy(self, place: PartitionGroup, output: str) -> None:
        """Passes over partitions, of which the first one writes them into another directory."""
        check_output(output)
        check_not_kafkas(output)
        copied: dict[str, Cleaning | PartitionState] = {}
        for path in place.partitions:
            with self._failures.told(path):
                for change in unfinished(path):
                    check_finishable(change)
                    raise RefusedError(
                        f"{path}: change {change.id} ({change.command}) was interrupted; finish it first, with --apply"
                        " and without --output"
                    )
                found = self._partition(place, PartitionLog(path), 1)
                number = 1
                while found is not None and found.output is not None:
                    copied[path] = found.cleaning or found.state
                    if number == self._options.passes or not _goes_on(found):
                        break
                    number += 1
                    copy_directory_files(place.log_directory, output, list(copied.values()))
                    found = self._partition(PartitionGroup(output, place.is_whole), PartitionLog(found.output), number)
        if copied:
            copy_directory_files(place.log_directory, output, list(copied.values()))

    def _checkpoints(self, path: str) -> Checkpoints:
        checkpoints = Checkpoints.read(path).readable()
        for each in unusable(checkpoints):
            if each.text not in self._noted:
                note(safe(each.text))
                self._noted.add(each.text)
        return checkpoints

    def _partition(
        self, place: PartitionGroup, log: PartitionLog, number: int, guard: Guard | None = None
    ) -> Found | None:
        """One pass over a partition; None where it is none for the cleaner. Without a guard it is a copy's."""
        check_has_kafka_files(log)
        options = self._options
        known = self._checkpoints(place.log_directory).of(log.name)
        topic = log.name.topic if log.name else ""
        config = options.config(self._settings.of(topic), self._release)
        why = not_compacted(config, was_cleaned=known.cleaner is not None, is_named=not place.is_whole)
        if why:
            self._printer.passed_over(log.path, why)
            return None
        if options.applies and (log.name is None or log.name.state):
            raise RefusedError(f"{log.path}: not named as a partition in use, so no checkpoint could name it")
        state = look(log, known, config, options.now)
        if number > 1 and not state.is_due(config):
            return None
        try:
            capacity = None if options.exact_keys else config.map_keys
            found = self._clean(guard, state, config, number)._replace(number=number, capacity=capacity)
        except (OSError, KdumpError) as error:
            self._bar.hide()
            if not isinstance(error, BrokenPipeError):
                self._printer.partition(Found(state, config, None, number=number, failure=str(error)))
            raise
        self._bar.add(state.segments[0].segment.log_path, max(0, 2 * state.size - self._read))
        self._bar.hide()
        self._printer.partition(found)
        return found

    def _clean(self, guard: Guard | None, state: PartitionState, config: CleaningSettings, number: int) -> Found:
        """Clean a partition as it was asked for, if it is due."""
        options = self._options
        is_due = state.is_due(config)
        self._read = 0
        name = os.path.basename(os.path.abspath(state.log.path))
        clean = self._cleaner(state, config, guarded=options.applies or options.output is not None)
        if options.output is not None and number == 1:
            cleaning = clean_into(state, clean if is_due else None, options.output)
            return Found(state, config, cleaning, is_due, None, os.path.join(options.output, name))
        if not is_due:
            return Found(state, config, None)
        if not options.applies and options.output is None:
            self._failures.worsen(exit_codes.FINDINGS)
            return Found(state, config, clean(Staging(None)))
        path = os.path.abspath(state.log.path)
        if guard is None:
            assert options.output is not None
            cleaning = clean_in_place(state, clean, new_change(path), keep_old=False)
            return Found(state, config, cleaning, True, None, os.path.join(options.output, name))
        if number == 1:
            guard.check_still(path)
        files = guard.files(path, number=number)
        cleaning = clean_in_place(state, clean, files, keep_old=options.keep_old)
        return Found(state, config, cleaning, True, files.id if options.keep_old else None)

    def _cleaner(
        self, state: PartitionState, config: CleaningSettings, *, guarded: bool
    ) -> Callable[[Staging], Cleaning]:
        """What cleans the partition; `guarded`: only if it does not look as if the topic were not compacted at all."""
        options = self._options

        def run(staging: Staging) -> Cleaning:
            cleaning = clean(
                state, config, options.now, staging, exact_keys=options.exact_keys, progress=self._progress
            )
            if guarded and cleaning.counts.keyless and not config.is_compacted:
                raise RefusedError(
                    f"{state.log.path}: cleaning would drop records without a key, {cleaning.counts.keyless} in all and"
                    f" the first at offset {cleaning.counts.first_keyless}: is the topic compacted at all? If so, say"
                    " it with cleanup.policy=compact in --config"
                )
            return cleaning

        return run

    def _progress(self, path: str, size: int) -> None:
        self._read += size
        self._bar.add(path, size)


def _goes_on(found: Found | None) -> bool:
    """Whether another pass follows: there was no room for all keys."""
    return found is not None and found.is_done and found.cleaning is not None and found.cleaning.is_full
