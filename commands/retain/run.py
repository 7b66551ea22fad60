"""What `kdump retain` does: log directory by log directory, it finds out what goes, and deletes it if told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kdump.formats.printable import safe, safe_path
from kdump.operations import retain as operation
from kdump.operations.rails import SafetyOptions
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.targets import PartitionGroup
from kdump.retention.partition import PartitionRetention
from kdump.retention.totals import Totals

from ..shell import exit_codes
from ..shell.choice import NO_PARTITION, is_chosen, nothing_chosen
from ..shell.groups import grouped
from ..shell.output import note
from ..shell.progress import PathCounter
from ..shell.rows import output_for
from ..shell.screen import Screen
from ..shell.session import Failures

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `segments` is None where it does not say."""

    request: operation.RetainRequest
    format: str = "text"
    topics: tuple[str, ...] = ()
    segments: bool | None = None
    applies: bool = False
    no_backup: bool = False


def retain(paths: Iterable[str], options: Options) -> int:
    """Examine what is at `paths`, and apply; the exit code. Raises click.UsageError."""
    failures = Failures()
    with output_for(options.format) as out:
        failures.before = out.flush
        run = _Run(options, _printer(out.write, options), failures)
        groups = grouped(paths, failures, lambda name: is_chosen(name, options.topics))
        for group in groups:
            with failures.told(group.log_directory):
                run.group(group)
        if groups and not run.looked and failures.code == exit_codes.OK:
            why = nothing_chosen(options.topics)
            if why != NO_PARTITION:
                failures.complain(why)
        run.end()
    return failures.code


def _printer(write: Callable[[str], None], options: Options) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(write)
    from .text import Text

    return Text(write, is_all=Screen.current.verbosity > 0, applies=options.applies)


class _Run:
    def __init__(self, options: Options, printer: Printer, failures: Failures) -> None:
        self.looked = 0
        self._options = options
        self._printer = printer
        self._failures = failures
        self._progress = PathCounter()

    def group(self, group: PartitionGroup) -> None:
        """Take one log directory."""
        options = self._options
        rails = SafetyOptions(options.applies, "retain", not options.no_backup)
        segments = not group.is_whole if options.segments is None else options.segments
        for event in operation.retain(group, options.request, rails, self._progress.over):
            if isinstance(event, PartitionRetention):
                self.looked += 1
                self._printer.partition(event, segments=segments)
                if event.has_work and not options.applies:
                    self._failures.worsen(exit_codes.FINDINGS)
            elif isinstance(event, Totals):
                self._printer.directory(group.log_directory, event)
                self._failures.before()
            elif isinstance(event, Interrupted):
                self._interrupted(event)
            elif isinstance(event, Failed):
                self._failures.tell(event.error, event.path)
            elif isinstance(event, Note):
                note(safe(event.text))
            else:
                self._printer.done(self._failures.given(group.log_directory), event.plans, event.change)

    def end(self) -> None:
        """Print the answer, unless nothing was reached."""
        if self.looked:
            self._printer.end(is_complete=self._failures.code in (exit_codes.OK, exit_codes.FINDINGS))

    def _interrupted(self, event: Interrupted) -> None:
        text = f"{safe_path(event.path)}: change {event.change.id} ({safe(event.change.command)}) was interrupted"
        if event.is_finished:
            note(f"{text}, and is finished now")
        else:
            note(f"{text}: --apply finishes it")
            self._failures.worsen(exit_codes.FINDINGS)
