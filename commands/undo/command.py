"""`kdump undo`: list what changes have kept, take one back, delete originals that are not needed any more."""

from __future__ import annotations

import click

from ..shell.completing import change_ids
from ..shell.options import apply_option, ignore_lock_option, verbose_option
from ..shell.rows import format_option, output_for
from ..shell.values import read_by, time_span
from .asked import UndoArgs
from .run import undo


@click.command("undo")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--change", "id_", metavar="ID", shell_complete=change_ids,
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
def command(
    paths: tuple[str, ...],
    id_: str | None = None,
    applies: bool = False,
    prune: bool = False,
    older_than: int | None = None,
    close: bool = False,
    backup_dir: str | None = None,
    force: str | None = None,
    verbose: bool = False,
    format_: str = "text",
) -> int:
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
    if older_than is not None and not prune:
        raise click.UsageError("--older-than goes with --prune")
    if close and (id_ is None or prune):
        raise click.UsageError("--close goes with --change ID")
    if applies and not prune and id_ is None:
        raise click.UsageError("--apply goes with --change ID or --prune")
    asked = UndoArgs(id_, applies, prune, older_than or 0, close, backup_dir, force, verbose)
    with output_for(format_) as out:
        return undo(paths, asked, out, format_)
