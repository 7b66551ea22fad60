"""What `kdump compact` does: it has partitions cleaned, in the plan, in place or into a copy, and tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import click

from kdump.disk.reading import is_named
from kdump.formats.printable import safe, safe_path
from kdump.operations import compact as operation
from kdump.operations.compact import Compacted, PassedOver
from kdump.operations.rails import SafetyOptions
from kdump.operations.results import Failed, Interrupted
from kdump.operations.targets import PartitionGroup

from ..shell import exit_codes
from ..shell.groups import grouped
from ..shell.output import note
from ..shell.paths import check_not_kafkas
from ..shell.progress import ProgressBar
from ..shell.rows import output_for
from ..shell.screen import Screen
from ..shell.session import Failures

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    request: operation.CompactRequest
    format: str = "text"
    applies: bool = False
    output: str | None = None
    keep_old: bool = True


def compact(paths: Iterable[str], options: Options) -> int:
    """Look at what is at `paths`, and clean; the exit code. Raises click.UsageError."""
    failures = Failures()
    places = grouped(paths, failures)
    if options.output is not None and len(places) > 1:
        raise click.UsageError("--output takes partitions of one log directory only.")
    if options.output is not None and not is_named(options.output):  # what is there is refused anyway
        check_not_kafkas(options.output)
    twice = [path for place in places for path in place.partitions] * 2  # read for the keys, and to be written anew
    with ProgressBar(twice) as bar, output_for(options.format) as out:
        is_all = len(twice) <= 2 or Screen.current.verbosity > 0
        printer = _printer(out.write, options, is_all=is_all)
        failures.before = out.flush
        for place in places:
            with failures.told(place.log_directory):
                _group(place, options, printer, failures, bar)
        printer.end(is_complete=failures.code <= exit_codes.FINDINGS)
    return failures.code


def _printer(write: Callable[[str], None], options: Options, *, is_all: bool) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(write)
    from .text import Text

    return Text(write, options.request.now, is_all=is_all)


def _group(group: PartitionGroup, options: Options, printer: Printer, failures: Failures, bar: ProgressBar) -> None:
    """Take the partitions of one log directory."""
    rails = SafetyOptions(options.applies, "compact", options.keep_old, output=options.output)
    for event in operation.compact(group, options.request, rails, bar.add):
        bar.hide()
        if isinstance(event, Compacted):
            printer.partition(event)
            if event.cleaning is not None and not event.is_done and options.output is None:
                failures.worsen(exit_codes.FINDINGS)
        elif isinstance(event, PassedOver):
            printer.passed_over(event.path, event.why)
        elif isinstance(event, Interrupted):
            what = "is finished now" if event.is_finished else "--apply finishes it"
            change = event.change
            note(f"{safe_path(event.path)}: change {change.id} ({safe(change.command)}) was interrupted; {what}")
        elif isinstance(event, Failed):
            failures.tell(event.error, event.path)
        else:
            note(safe(event.text))
