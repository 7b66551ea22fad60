"""What keeps every change safe: the lock, the watch for growing logs, interrupted changes, originals, refusals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from errno import ENOENT
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.guard import ANY_LOSS, Allowance, Dropped
from kdump.change.place import ChangeFiles, may_have_changes, new_change, new_id, place_of
from kdump.disk.entered import check_readable
from kdump.disk.locks import GrowthWatch, check_not_growing, check_not_locked, entering, holding
from kdump.disk.reading import is_directory, real_path
from kdump.errors import ArgumentError, KdumpError, RefusedError, check_number, check_truths, check_type
from kdump.formats.words import number_words, offset_words
from kdump.storage.live import internal_errors, tally
from kdump.storage.partition import PartitionLog

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.change.journal import Changes

ALL_LOSSES = "all"
"""Accept the loss of however many records."""


class SafetyOptions(NamedTuple):
    """Whether to apply, and how carefully.

    `command` is what changes are listed as. `ignore_lock` names the directory that may be changed whatever lock is
    held there. `jobs` threads plan (0: one a processor). `accept_loss` is how many valid records may be dropped
    (ALL_LOSSES: any number; None: none was named).
    """

    applies: bool = False
    command: str = "repair"
    keep_old: bool = True
    backup_dir: str | None = None
    output: str | None = None
    ignore_lock: str | None = None
    jobs: int = 1
    accept_loss: int | str | None = None

    def check(self) -> None:
        """Check what goes together. Raises ValueError, TypeError, and OSError where there is no such `backup_dir`."""
        check_truths(apply=self.applies, keep_originals=self.keep_old)
        check_number("jobs", self.jobs, 0)
        check_type("ignore_lock", self.ignore_lock, str, may_be_none=True)
        if self.accept_loss != ALL_LOSSES:
            check_number("accept_loss", self.accept_loss, 0, may_be_none=True)
        if self.backup_dir is not None:
            if not self.keep_old:
                raise ValueError("backup_dir says where originals are kept, and none are to be")
            check_is_there(self.backup_dir)

    @property
    def allowance(self) -> Allowance:
        """What the change of a partition may drop."""
        return ANY_LOSS if isinstance(self.accept_loss, str) else Allowance(self.accept_loss or 0)


class Guard:
    """What is known of the partitions of a log directory while nobody else may change them.

    `interrupted` are the changes that were (or, unless it is applied, would be) finished first, `errors` say why a
    partition must be left alone.
    """

    def __init__(self, log_directory: str, safety: SafetyOptions) -> None:
        """Begin without a change's id."""
        self.log_directory = log_directory
        self.safety = safety
        self.id = ""
        self.interrupted: dict[str, tuple[Change, ...]] = {}
        self.errors: dict[str, Exception] = {}
        self._watch: GrowthWatch | None = None
        self._lock = Lock()
        self._is_checked = False

    def files(self, path: str, *, number: int = 1) -> ChangeFiles:
        """Return the files of the change of a partition; one with another `number` for each change by this run."""
        return new_change(path, self.safety.backup_dir, self.id if number == 1 else f"{self.id}-{number}")

    def check_still(self, path: str) -> None:
        """Raise InUseError where a log grows: of all partitions the first time, then of this one. Raises OSError."""
        with self._lock:  # nothing is changed anywhere before all logs have been looked at
            if self._watch is not None:
                self._watch.check(list(_logs([path])) if self._is_checked else None)
            self._is_checked = True


@contextmanager
def guarded(
    log_directory: str, partitions: Iterable[str], safety: SafetyOptions, *, reads_beside: bool = False
) -> Iterator[Guard]:
    """Look after partitions of a log directory: finish what was interrupted, and hold the lock, if changes are applied.

    `reads_beside`: the plan says what a running broker itself will do, so it may be made beside one.
    Raises RefusedError where a broker runs, OSError, ValueError, TypeError.
    """
    safety.check()
    partitions = list(partitions)
    tally.changes_seen.update(map(os.path.abspath, partitions))
    with nullcontext() if reads_beside and not safety.applies else locked(log_directory, partitions, safety):
        guard = Guard(log_directory, safety)
        changes, real = _changes_in(log_directory, partitions, safety), os.path.realpath(log_directory)
        logs: list[str] = []
        for path in partitions:
            try:
                with internal_errors(path):
                    guard.interrupted[path] = _finished(path, real, changes, guard)
                    if safety.applies:
                        logs += _logs([path])
            except (OSError, KdumpError) as error:
                guard.errors[path] = error
        if safety.applies:
            guard.id = new_id(*{place_of(path, safety.backup_dir) for path in partitions if is_directory(path)})
            if safety.ignore_lock is None:
                guard._watch = GrowthWatch(logs)
        yield guard


def locked(log_directory: str, partitions: Iterable[str], safety: SafetyOptions) -> AbstractContextManager[None]:
    """Hold the lock of a log directory if changes are applied to it; a plan beside a broker is worth nothing.

    Raises RefusedError, OSError.
    """
    if not safety.applies:
        if safety.ignore_lock is None:
            check_not_locked(log_directory)
        return nullcontext()
    return held_unless(safety.ignore_lock, log_directory, partitions, os.stat(log_directory))


def held_unless(
    ignore_lock: str | None, log_directory: str, partitions: Iterable[str], like: os.stat_result | None
) -> AbstractContextManager[None]:
    """Hold the lock of a log directory, made `like` others where it is missing, unless that directory is named.

    Raises RefusedError, OSError.
    """
    partitions = list(partitions)
    if ignore_lock is None:
        return holding(log_directory, partitions, like)
    given = [os.path.basename(path) for path in (log_directory, *partitions)]
    if ignore_lock not in given:
        partition = f", the partition directory {given[1]}" if len(given) == 2 else ""
        raise ArgumentError("ignore_lock", ignore_lock, f"the directory is called {given[0]}{partition}")
    return entering(log_directory, partitions)


def _changes_in(log_directory: str, partitions: list[str], safety: SafetyOptions) -> Changes | None:
    """Return the changes of a log directory; None where nothing is to be changed and there are none. Raises OSError."""
    if not safety.applies and safety.backup_dir is None and not may_have_changes(log_directory, partitions):
        return None
    from kdump.change.journal import Changes

    return Changes(log_directory)


def _finished(path: str, log_directory: str, changes: Changes | None, guard: Guard) -> tuple[Change, ...]:
    """Finish what was interrupted in a partition, or say what would be finished.

    `log_directory` is the real path of the one it has to be in. Raises OSError, KdumpError.
    """
    safety = guard.safety
    if os.path.dirname(real_path(path, log_directory)) != log_directory:
        raise RefusedError(f"{path}: a symbolic link that leads out of {guard.log_directory}: repair it there")
    if safety.applies and is_directory(path):
        check_readable(path)
    if changes is None:
        return ()
    from kdump.change.apply import clear_leftovers
    from kdump.change.interrupted import check_finishable, finish_interrupted

    found = [change for change in changes.of(path, safety.backup_dir) if change.is_interrupted]
    for change in found:
        check_finishable(change)
    if safety.applies:
        if found and safety.ignore_lock is None:
            check_not_growing(_logs([path]))
        if found:
            finish_interrupted(path, safety.backup_dir)
        else:
            clear_leftovers(path, safety.backup_dir, changes)
    return tuple(found)


def check_is_there(backup_dir: str) -> None:
    """Raise FileNotFoundError where there is no directory to keep originals in."""
    if not is_directory(backup_dir):
        raise FileNotFoundError(ENOENT, "no such directory", backup_dir)


def check_backup_dir(safety: SafetyOptions, path: str) -> None:
    """Raise RefusedError where what is replaced cannot be kept in the directory that was given. Raises OSError."""
    backups = safety.backup_dir
    if backups is None:
        return
    if os.path.dirname(os.path.realpath(backups)) == os.path.dirname(path):
        raise RefusedError(f"{backups} is in the log directory, where the broker treats every directory as a partition")
    if os.stat(backups).st_dev != os.stat(path).st_dev:
        raise RefusedError(
            f"{backups} is in another file system than {path}: files could not be put in place from there in one step"
        )


def check_loss(path: str, dropped: Dropped, safety: SafetyOptions) -> None:
    """Raise RefusedError where a plan drops valid records, unless as many as it drops were named."""
    if safety.allowance.allows(dropped):
        return
    lost = dropped.lost
    number, offsets = number_words(lost.records, "valid record"), offset_words(lost.first_offset, lost.last_offset)
    raise RefusedError(
        f"this plan drops {number} of {os.path.basename(path)} ({offsets}). Other ways, safest first: kdump doctor"
        f" {path}. To drop them all the same: --accept-loss {lost.records}"
    )


def _logs(partitions: Iterable[str]) -> Iterator[str]:
    """Yield the .log files of partition directories; one that is not there has none. Raises OSError."""
    for path in partitions:
        yield from (segment.log_path for segment in PartitionLog(path, may_be_absent=True).segments)
