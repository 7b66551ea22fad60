"""What `kdump dump` meets in the files that it dumps: batches and records, printed, and what is wrong, said."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import KdumpError, Problem
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.interchange.rows import Format
from kdump.operations.dump import DamagedLog, Event, FileRows, Found, LogBegun, Waiting, ZeroTail
from kdump.operations.results import Failed
from kdump.storage.live import tally, was_deleted

from ..shell import exit_codes
from ..shell.output import Output, complain, note, os_error_text


class Met:
    """Prints what is met in the files that are dumped, and says what is wrong with them; `code` is the exit code."""

    def __init__(self, out: Output, printer: Format, *, is_text: bool) -> None:
        self.code = exit_codes.OK
        self._out = out
        self._printer = printer
        self._is_text = is_text
        self._damaged = self._hidden = 0
        self._newer: set[str] = set()  # logs with records that are newer than kdump

    def print(self, events: Iterable[Event]) -> None:
        """Print what is found, as it comes."""
        for event in events:
            if isinstance(event, Found):
                if event.starts:
                    self._printer.batch(event.batch, event.transaction)
                if event.selected is not None:
                    self._printer.records(event.batch, event.transaction, event.selected, event.contents)
            elif isinstance(event, LogBegun):
                self._printer.begin(event.origin._replace(path=safe_path(event.origin.path)), event.size)
            else:
                self._seldom(event)

    def _seldom(self, event: DamagedLog | ZeroTail | FileRows | Waiting | Failed) -> None:
        if isinstance(event, DamagedLog):
            self._damage(event)
        elif isinstance(event, ZeroTail):
            self._out.flush()
            note(f"{safe_path(event.path)}: byte {event.damage.position}: {safe(event.damage.text)}")
        elif isinstance(event, FileRows):
            self._table(event)
        elif isinstance(event, Failed):
            assert isinstance(event.error, OSError)
            self.failed(event.path, event.error)
        else:
            self._out.flush()

    def end(self) -> None:
        """Print the answer where damage was met: stdout may be all that somebody reads."""
        if not self._damaged or not self._is_text:
            return
        see = " See what can be read: --include-damaged" if self._hidden else ""
        self._out.write(f"\nFOUND: {number_words(self._damaged, 'damaged range')}.{see}\n")

    def _damage(self, found: DamagedLog) -> None:
        damage = found.damage
        self._damaged += 1
        self._hidden += found.hides
        onward = f"the dump continues at byte {damage.resumed}"
        if damage.resumed >= found.size:
            onward = "nothing that can be trusted follows"
        see = " (--include-damaged shows what can be read)" if found.hides else ""
        self._report(f"{safe_path(found.path)}: byte {damage.position}: {safe(damage.text)}{see}; {onward}")

    def problem(self, problem: Problem) -> None:
        """Say what is wrong with a file; of what is newer than kdump in a log once."""
        place = "" if problem.position is None else f"byte {problem.position}: "
        text = f"{safe_path(problem.path)}: {place}{safe(problem.text)}"
        if not problem.is_newer:
            self._report(text)
        elif problem.path not in self._newer:
            self._newer.add(problem.path)
            self._out.flush()
            note(f"{text}: newer than this kdump, printed as it is")

    def _report(self, text: str) -> None:
        """Say what is wrong with the data, after what was printed before it."""
        self._out.flush()
        complain(text)
        self.code = max(self.code, exit_codes.FINDINGS)

    def failed(self, path: str, error: OSError) -> None:
        """Say that a file cannot be read, unless a running broker has deleted it."""
        if was_deleted(path, error):
            return
        tally.cannot_read(path)
        self.report(path, error)

    def report(self, path: str, error: OSError) -> None:
        """Say why nothing of a file or PATH is printed."""
        self._out.flush()
        complain(os_error_text(error, path))
        self.code = exit_codes.INCOMPLETE

    def _table(self, found: FileRows) -> None:
        path = found.origin.path
        try:
            self._printer.table(found.table, found.origin._replace(path=safe_path(path)), found.rows)
        except KdumpError as error:
            self.problem(Problem(path, None, str(error)))
        except OSError as error:
            self.failed(path, error)
