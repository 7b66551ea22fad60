"""`kdump export --lost`: the records that a choice of leader loses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kdump.errors import RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.operations.lost_records import lost_records

from ..shell import exit_codes
from ..shell.output import Output
from ..shell.paths import check_not_kafkas
from ..shell.replicas import directories_at
from ..shell.session import Diagnostics, tell_refused


def export_lost(paths: Iterable[str], leader: int, folder: str, chosen: Callable[[str], bool]) -> int:
    """Write what each partition loses if this broker leads it into a folder; the exit code.

    Raises click.UsageError, OSError, KdumpError.
    """
    check_not_kafkas(folder)
    troubles = Diagnostics()
    places = directories_at(paths, troubles)
    if troubles.code >= exit_codes.INCOMPLETE:
        return troubles.code
    total = partitions = 0
    try:
        with Output() as out:
            for lost in lost_records(places, leader, folder, time.time_ns() // 1_000_000, troubles, chosen):
                if lost.path is None:
                    continue
                partitions += 1
                total += lost.records
                name = f"{safe(lost.topic)}-{lost.partition}"
                out.write(f"{name}: {number_words(lost.records, 'record')} in {safe_path(lost.path)}\n")
            if partitions:
                where = f"{number_words(total, 'record')} of {number_words(partitions, 'partition')}"
                out.write(f"Done. {where} would be lost if broker {leader} leads.\n")
            else:
                out.write(f"Nothing to do. If broker {leader} leads, no record is lost.\n")
    except RefusedError as error:
        tell_refused(error)
        return exit_codes.REFUSED
    return troubles.code
