"""`kdump trim`: cut logs to their last valid batch and indexes to their valid entries."""

from __future__ import annotations

from typing import Any

import click

from kdump.operations.repair_planners import of_ends
from kdump.operations.startup import StartupOptions

from .command import repair_options, run


@click.command("trim")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@repair_options
def command(paths: tuple[str, ...], **options: Any) -> int:
    """Show how many bytes follow the valid content of files, and with --apply cut them.

    PATHs are files of segments, partition directories or log directories. kdump cuts a .log after its last valid batch
    (incomplete batches, zeros of a preallocated file), an index after its last valid entry. It leaves a .log alone that
    has valid batches after the damage, or a complete damaged batch at its end: see `kdump repair`.

    Exits as `kdump repair` does.

    \b
    Examples:
      kdump trim /var/lib/kafka/data/orders-3
      kdump trim /var/lib/kafka/data --apply
    """
    return run(paths, of_ends(), StartupOptions(), **options)
