"""`kdump export --lost`: the records that a choice of leader loses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kdump.errors import KdumpError, Problem, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.operations.lost_records import check_folder, write_lost
from kdump.operations.replicas import Replicas

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
    try:
        check_folder(folder)
    except RefusedError as error:
        tell_refused(error)
        return exit_codes.REFUSED
    with Output() as out:
        total = partitions = count = 0
        for found in Replicas(places, time.time_ns() // 1_000_000, troubles).partitions(chosen):
            count += 1
            try:
                lost = write_lost(found, leader, folder, troubles)
            except KdumpError as error:
                troubles(Problem(found.copies[0].path, None, str(error), is_unreadable=True))
                continue
            if lost.path is not None:
                partitions += 1
                total += lost.records
                name = f"{safe(lost.topic)}-{lost.partition}"
                out.write(f"{name}: {number_words(lost.records, 'record')} in {safe_path(lost.path)}\n")
        if not count:
            raise KdumpError("there is no such partition in these PATHs")
        if partitions:
            where = f"{number_words(total, 'record')} of {number_words(partitions, 'partition')}"
            out.write(f"Done. {where} would be lost if broker {leader} leads.\n")
        else:
            out.write(f"Nothing to do. If broker {leader} leads, no record is lost.\n")
    return troubles.code
