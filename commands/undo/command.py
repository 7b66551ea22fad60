"""`kdump undo`: list what changes have kept, take one back, delete originals that are not needed any more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.change.undo import Verdict
from kdump.disk.reading import is_directory
from kdump.formats.printable import safe, safe_path
from kdump.formats.time_units import wall_clock
from kdump.operations.results import Failed
from kdump.operations.safety import SafetyOptions
from kdump.operations.undo import Closed, Pruned, Undone, changes_called, close_all, list_changes, prune_all, undo_all

from ..shell import exit_codes
from ..shell.completing import change_ids
from ..shell.options import apply_option, ignore_lock_option, verbose_option
from ..shell.output import NO_SUCH, Output
from ..shell.paths import directories, matches
from ..shell.progress import PathCounter
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Failures
from ..shell.values import read_by, time_span

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@dataclass(frozen=True, slots=True)
class UndoArgs:
    """What the command line asks for; `older_than` is in ms."""

    id: str | None
    applies: bool
    prune: bool
    older_than: int
    close: bool
    backup_dir: str | None
    force: str | None
    verbose: bool


@click.command("undo")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--change", "id", metavar="ID", shell_complete=change_ids,
    help="The change to undo, by its id in the list.")
@apply_option
@click.option("--prune", is_flag=True, help="Delete the originals of changes; those of interrupted ones stay.")
@click.option(
    "--older-than", callback=read_by(time_span), metavar="AGE", help="With --prune: of changes older than 1d, 12h, 30m."
)
@click.option(
    "--close", is_flag=True,
    help="With --change: end an interrupted change as the files are now; its originals stay kept.",
)
@click.option(
    "--backup-dir", type=click.Path(exists=True, file_okay=False), metavar="DIR",
    help="Also look for changes in the --backup-dir of the command that made them.",
)
@ignore_lock_option
@verbose_option
@format_option
def command(paths: tuple[str, ...], older_than: int | None, format_: OutputFormat, **options: Any) -> int:
    """List the changes whose originals kdump keeps; with --change, undo one.

    Every repair, rebuild-index, trim, compact, retain and undo with --apply is a change. Its originals are files
    .kdump-* in the log directory. They stay there when the topic is deleted or the replica is moved.

    kdump undoes a change only if every file of the partition is still as the change left it, so that no later record is
    lost. It keeps what undo replaces as a change of its own. The command that began an interrupted change finishes it;
    undo takes it back. If its partition was changed since, neither works: --close ends it.

    Exits with 0 when done, 1 when it only showed a plan with work in it or a change is interrupted, 3 when something
    could not be read, 4 when it was refused.

    \b
    Examples:
      kdump undo /var/lib/kafka/data
      kdump undo /var/lib/kafka/data/orders-3 --change 20260131T120000 --apply
      kdump undo /var/lib/kafka/data --prune --older-than 7d --apply
    """
    asked = UndoArgs(older_than=older_than or 0, **options)
    if older_than is not None and not asked.prune:
        raise click.UsageError("--older-than goes with --prune")
    if asked.close and (asked.id is None or asked.prune):
        raise click.UsageError("--close goes with --change ID")
    if asked.applies and not asked.prune and asked.id is None:
        raise click.UsageError("--apply goes with --change ID or --prune")
    with output_for(format_) as out:
        run = _Run(paths, asked, out, format_)
        for path in run.found(paths):
            with run.reporting(path):
                run.path(path)
        run.end()
    return run.code


class _Run(Failures):
    def __init__(self, paths: tuple[str, ...], asked: UndoArgs, out: Output, format_: OutputFormat) -> None:
        super().__init__(out.flush)
        self._asked = asked
        self._paths = {os.path.realpath(path): path for path in paths}
        parents = {os.path.dirname(os.path.realpath(path)): os.path.dirname(path) or os.curdir for path in paths}
        self._given = parents | self._paths
        self._safety = SafetyOptions(asked.applies, "undo", backup_dir=asked.backup_dir, ignore_lock=asked.force)
        self._printer: Printer = printer_of(__package__, format_, out.write, asked, self._shown, paths)
        self._has_found = False

    def _shown(self, path: str) -> str:
        """Return a path with what was given in front, if it is one of those or below one."""
        for real, given in self._paths.items():
            if path == real or path.startswith(os.path.join(real, "")):
                return os.path.join(given, os.path.relpath(path, real)) if path != real else given
        return path

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
        if not listing.changes:
            directories([path])  # what is Kafka's has no changes then; of what is not, it is said
        for error in listing.unreadable:
            self.report_error(error, path)
        over = PathCounter("change").over
        if asked.prune:
            before = wall_clock() - asked.older_than
            self._show_all(prune_all(listing, before, self._safety, asked.id, over))
        elif asked.id is None:
            self._printer.listed(listing.changes)
            if any(each.judged.verdict == Verdict.INTERRUPTED for each in listing.changes):
                self.worsen(exit_codes.FINDINGS)
        else:
            chosen = changes_called(listing, asked.id)
            self._has_found |= bool(chosen)
            self._show_all((close_all if asked.close else undo_all)(chosen, self._safety, over))

    def _show_all(self, events: Iterable[Undone | Closed | Pruned | Failed]) -> None:
        for event in events:
            if isinstance(event, Failed):
                self.report_error(event.error, event.path)
                continue
            if isinstance(event, Undone):
                self._printer.undone(event)
            elif isinstance(event, Closed):
                self._printer.closed(event)
            else:
                self._printer.pruned(event)
            self._has_found = True
            if not self._asked.applies:
                self.worsen(exit_codes.FINDINGS)

    def end(self) -> None:
        """Say what came of it."""
        if self._asked.id is not None and not self._asked.prune and not self._has_found and not self.reason:
            self.complain(f"there is no change '{safe(self._asked.id)}' here. Without --change, undo lists them")
        self._printer.end(self.reason)
