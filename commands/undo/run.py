"""What `kdump undo` does with each PATH: list, take back, end or prune changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kdump.change.change import Change
from kdump.change.undo import Verdict
from kdump.disk.reading import is_directory
from kdump.errors import HoldsLogDirectoriesError, KdumpError, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.operations.results import Failed
from kdump.operations.undo import changes_called, close_change, delete_originals, list_changes, prunable, undo_all

from ..shell import exit_codes
from ..shell.output import NO_SUCH, Output, about, holds_text, os_error_text
from ..shell.paths import directories, matches
from ..shell.progress import PathCounter
from ..shell.session import Complaints, tell_refused
from .asked import Shown, UndoArgs

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


def undo(paths: tuple[str, ...], asked: UndoArgs, out: Output, format_: str) -> int:
    """Do what is asked for; the exit code."""
    shown = Shown(paths)
    run = _Run(asked, out, shown, _printer(out.write, asked, paths, shown, format_))
    for path in run.found(paths):
        with run.told(path):
            run.path(path)
    run.end()
    return run.code


def _printer(
    write: Callable[[str], None], asked: UndoArgs, paths: tuple[str, ...], shown: Shown, format_: str
) -> Printer:
    if format_ == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(write, asked, shown)
    from .text import Text

    return Text(write, asked, paths, shown)


class _Run(Complaints):
    def __init__(self, asked: UndoArgs, out: Output, shown: Shown, printer: Printer) -> None:
        super().__init__(out.flush)
        self._asked = asked
        self._shown = shown
        self._printer = printer
        self._now = time.time_ns() // 1_000_000
        self._reason = ""
        self._has_found = False

    def found(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths; a pattern is what it matches, a partition that is gone is found by its changes."""
        for path in paths:
            try:
                yield from matches(path)
            except FileNotFoundError:
                if is_directory(os.path.dirname(os.path.abspath(path))):
                    yield path
                else:
                    self.complain(f"{safe_path(path)} {NO_SUCH}")

    def path(self, path: str) -> None:
        """Take one PATH. Raises OSError, KdumpError."""
        asked = self._asked
        listing = list_changes(path, asked.backup_dir)
        if not listing.changes and not listing.old:
            directories([path])  # what is Kafka's has no changes then; of what is not, it is said
        for error in listing.unreadable:
            with self.told(path):
                raise error
        if asked.prune:
            old_ones = list(prunable(listing, self._now - asked.older_than, asked.id))
            for kept in PathCounter("change").over(old_ones):
                with self.told(path):
                    size = kept.all_bytes if isinstance(kept, Change) else kept.size
                    if asked.applies:
                        delete_originals(kept, asked.rails)
                    self._did()
                    self._printer.pruned(kept, size)
        elif asked.id is None:
            self._printer.listed(listing.changes, listing.old)
            is_bad = any(each.judged.verdict == Verdict.INTERRUPTED for each in listing.changes)
            if is_bad or any(backup.is_interrupted for backup in listing.old):
                self.worsen(exit_codes.FINDINGS)
        else:
            chosen = changes_called(listing, asked.id)
            if asked.close:
                self._close(chosen)
            else:
                self._undo(chosen)
            self._has_found |= bool(chosen)

    def _close(self, chosen: list[Change]) -> None:
        for change in PathCounter("change").over(chosen):
            with self.told(change.path):
                close_change(change, self._asked.rails)
                self._printer.closed(change)
                self._did()

    def _undo(self, chosen: list[Change]) -> None:
        for event in undo_all(chosen, self._asked.rails, PathCounter("change").over):
            if isinstance(event, Failed):
                with self.told(event.path):
                    raise event.error
            else:
                self._printer.undone(event)
                self._did()

    def _did(self) -> None:
        self._has_found = True
        if not self._asked.applies:
            self.worsen(exit_codes.FINDINGS)

    @contextmanager
    def told(self, path: str) -> Iterator[None]:
        """Tell what fails in here, and go on behind it."""
        try:
            yield
        except RefusedError as error:
            self.before()
            self._reason = safe(self._shown.spoken(str(error)))
            tell_refused(error, self._reason)
            self.worsen(exit_codes.REFUSED)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.complain(self._shown.spoken(os_error_text(error, path)))
        except HoldsLogDirectoriesError as error:
            self.complain(about(error.path, holds_text(error)))
        except KdumpError as error:
            self.complain(safe(self._shown.spoken(str(error))))

    def end(self) -> None:
        """Say what came of it."""
        if self._asked.id is not None and not self._asked.prune and not self._has_found and not self._reason:
            text = f"there is no change '{safe(self._asked.id)}' here. Without --change, undo lists them"
            self.complain(text)
        self._printer.end(self._reason)

    def complain(self, text: str, code: int = exit_codes.INCOMPLETE) -> None:
        """Say what could not be done, which is then why nothing was."""
        super().complain(text, code)
        self._reason = text
