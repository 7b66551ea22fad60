"""Diagnostics that the core reports, as lines on stderr, and the exit code that they come to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.change.unfinished import unfinished_in
from kdump.errors import BrokerRunsError, HoldsLogDirectoriesError, KdumpError, KdumpRunsError, Problem, RefusedError
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import count_text, number_words
from kdump.storage.around import directory_around
from kdump.storage.directory import LogDirectory
from kdump.storage.live import is_deleted, tally, was_deleted
from kdump.storage.partition import PartitionLog

from . import exit_codes
from .output import Output, about, as_given, complain, error_text, holds_text, note, os_error_text, say
from .screen import Screen
from .words import interrupted_words

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.operations.results import Interrupted


class Complaints:
    """The exit code of a run so far, and what is said on stderr; `before` is called before something is said."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.code = exit_codes.OK
        self.before = before

    def complain(self, text: str, code: int = exit_codes.INCOMPLETE) -> None:
        """Say what could not be done, and exit with `code` if nothing is worse; the text must be safe."""
        self.before()
        complain(text, is_one_of_many=True)
        self.worsen(code)

    def report(self, problem: Problem) -> None:
        """Say what is wrong with a file or directory."""
        if problem.is_unreadable:
            tally.cannot_read(problem.path)
        self.complain(f"{safe_path(problem.path)}: {safe(problem.text)}")

    def worsen(self, code: int) -> None:
        """Exit with `code`, unless something worse is known."""
        self.code = max(self.code, code)


class Diagnostics(Complaints):
    """Prints what is reported to it."""

    def __init__(self) -> None:
        super().__init__()
        self._newer: set[str] = set()

    def __call__(self, problem: Problem) -> None:
        """Tell of one, unless a running broker has deleted what it is about.

        What a newer release wrote is told once for each file, and is no finding.
        """
        if problem.is_newer:
            if problem.path not in self._newer:
                self._newer.add(problem.path)
                place = f"{safe_path(problem.path)}: byte {problem.position}: {safe(problem.text)}"
                say(f"kdump: note: {place}: newer than this kdump, skipped")
            return
        if problem.is_missing and is_deleted(problem.path):
            return
        if problem.is_unreadable:
            tally.cannot_read(problem.path)
        place = "" if problem.position is None else f"byte {problem.position}: "
        complain(about(problem.path, f"{place}{problem.text}"), is_one_of_many=True)
        self.worsen(exit_codes.INCOMPLETE if problem.is_unreadable else exit_codes.FINDINGS)


class Failures(Complaints):
    """Tells what fails, and keeps the exit code that it comes to; `reason` is what was told last ("": nothing).

    `finished` are the interrupted changes that were finished, with the paths of their partitions.
    """

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(before)
        self.reason = ""
        self.finished: list[tuple[str, Change]] = []
        self._given: dict[str, str] = {}

    def name(self, path: str) -> None:
        """Name this directory, or what is in it, as the command line does in all that is said of it."""
        self._given[os.path.abspath(path)] = path

    def given(self, path: str) -> str:
        """Return a directory as the command line names it."""
        return self._given.get(os.path.abspath(path), path)

    def complain(self, text: str, code: int = exit_codes.INCOMPLETE) -> None:
        """Say what could not be done, which is then the reason."""
        super().complain(text, code)
        self.reason = text

    def _spoken(self, text: str) -> str:
        return safe(as_given(text, self._given))

    def say_interrupted(self, event: Interrupted) -> None:
        """Say that a change was interrupted; one that --apply would finish is work that was only shown."""
        note(f"{safe_path(event.path)}: {interrupted_words(event.change, is_finished=event.is_finished)}")
        if event.is_finished:
            self.finished.append((event.path, event.change))
        else:
            self.worsen(exit_codes.FINDINGS)

    def report_error(self, error: Exception, path: str) -> None:
        """Say why something was left alone, by what it comes to; what is no error of reading or Kafka's is raised."""
        if isinstance(error, RefusedError):
            self.before()
            self.reason = self._spoken(error_text(error))
            say_refused(error, self.reason)
            self.worsen(exit_codes.REFUSED)
        elif isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            if not was_deleted(path, error):
                tally.cannot_read(path)
                self.complain(self._spoken(os_error_text(error, path)))
        elif isinstance(error, HoldsLogDirectoriesError):
            self.complain(about(error.path, holds_text(error)))
        elif isinstance(error, KdumpError):
            self.complain(self._spoken(str(error)))
        else:
            raise error

    @contextmanager
    def reporting(self, path: str) -> Iterator[None]:
        """Tell what fails in here, and go on behind it."""
        try:
            yield
        except (OSError, KdumpError) as error:
            self.report_error(error, path)


def say_refused(error: KdumpError, text: str = "") -> None:
    """Say on stderr what a safety check refused, and that nothing was changed where a broker is the reason.

    `text` stands for that of the error, with paths as they were given.
    """
    is_printed = complain(text or safe(str(error)), is_one_of_many=True, who="Refused")
    if not is_printed:
        return
    if isinstance(error, BrokerRunsError):
        say("  Nothing was changed. Stop the broker, then run this again.")
    elif isinstance(error, KdumpRunsError):
        say("  Nothing was changed. Wait until it has ended, then run this again.")


def say_if_refused(out: Output, work: Callable[[], object]) -> int:
    """Do the work; the exit code. What a safety check refuses is said behind what is printed already."""
    try:
        work()
    except RefusedError as error:
        out.flush()
        say_refused(error)
        return exit_codes.REFUSED
    return exit_codes.OK


def say_circumstances(code: int) -> None:
    """Say on stderr, at the end of a run, what it could not reach: growing ends of logs, what is unreadable."""
    shortest_last = sorted(tally.brokers, key=lambda name: (len(name), name), reverse=True)
    named = {os.path.realpath(directory): directory for directory in shortest_last}  # each is told once
    for directory in sorted(named.values()):
        if not Screen.current.is_quiet:
            holder = tally.brokers[directory]
            runs = "a broker is running on"
            if holder.is_kdump:
                runs = f"another kdump (process {holder.process}) is changing"
            fact = f"{runs} {safe_path(_as_given(directory))}"
            if not any(text.startswith(f"{fact} (") for text in Screen.current.complaints):  # as refused before
                say(f"Note: {fact}.{_left_out(directory)}")
    for path in sorted(tally.replacing) if not Screen.current.is_quiet else ():
        text = "a replacement of segments was not finished. kdump reads the files as after the broker has finished it"
        say(f"Note: {safe_path(tally.named.get(path, path))}: {text}.")
    _note_unmentioned()
    if code == exit_codes.INCOMPLETE and Screen.current.has_said_incomplete:
        pass  # it is the verdict on stdout
    elif code == exit_codes.INCOMPLETE and tally.unreadable and not Screen.current.is_in_vain:
        partitions = number_words(len(tally.partitions), "partition")
        say(f"INCOMPLETE. {count_text(len(tally.unreadable))} of {partitions} could not be read.")
    elif code == exit_codes.INCOMPLETE and tally.unreached and tally.partitions:
        unreached = number_words(len(tally.unreached), "PATH")
        say(f"INCOMPLETE. {unreached} could not be read; the rest was.")
    _say_internal_errors()
    tally.clear()


def _say_internal_errors() -> None:
    """Say what kdump itself has failed with where nothing has said it yet, and what to do about it."""
    if not tally.internal_errors:
        return
    from .unexpected import report_words

    for error in tally.internal_errors:
        if not any(str(error.strerror) in text for text in Screen.current.complaints):
            complain(os_error_text(error, ""), is_one_of_many=True)
    say(report_words())


def _as_given(directory: str) -> str:
    """Return a directory as the command line has it, where a word of it is that directory or a path in it."""
    if os.path.isabs(directory):
        for word in Screen.current.words:
            for named in (word, directory_around(word)):
                if os.path.abspath(named) == directory:
                    return named
    return directory


def _left_out(directory: str) -> str:
    root = os.path.abspath(directory)
    growing = sum(os.path.dirname(path) == root for path in tally.growing)
    gone = sum(path.startswith(f"{root}{os.sep}") for path in tally.deleted)
    said = ""
    if growing:
        said += f" The growing end of {number_words(growing, 'log')} was skipped."
    if gone:
        said += f" It deleted {number_words(gone, 'file or directory', 'files or directories')} meanwhile."
    return said


def note_unfinished(place: LogDirectory | PartitionLog) -> None:
    """Say on stderr which changes of a log directory's partitions, or of one partition, were interrupted."""
    if isinstance(place, LogDirectory):
        log_directory = place.path
        partitions = [os.path.join(place.path, name) for name in place.partition_names]
    else:
        log_directory, partitions = os.path.dirname(os.path.abspath(place.path)), [place.path]
    _note_changes(log_directory, partitions)


def _note_unmentioned() -> None:
    """Say the same of the partitions that were read, and of which nothing has asked for changes."""
    by_directory: dict[str, list[str]] = {}
    for path in sorted(tally.partitions - tally.changes_seen):
        by_directory.setdefault(os.path.dirname(path), []).append(tally.named.get(path, path))
    for log_directory, partitions in by_directory.items():
        _note_changes(log_directory, partitions)


def _note_changes(log_directory: str, partitions: list[str]) -> None:
    try:
        for path, text in unfinished_in(log_directory, partitions):
            note(f"{safe_path(path)}: {safe(text)}: {command_line('kdump', 'undo', path)} shows the ways out")
    except OSError as error:
        note(os_error_text(error, log_directory))
