"""What `kdump dump` does: file after file, or, with --follow, whatever comes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kdump.formats.printable import safe_path
from kdump.operations.dump import Dump, DumpedLogs, DumpRequest, Job, NothingToFollowError, jobs_of
from kdump.storage.directory import LogDirectory
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place

from ..shell.output import note
from ..shell.rows import OutputFormat, output_for
from ..shell.schemas import payload_decoder
from .met import Met, format_of
from .options import Options, columns, nothing_in, row_type


def dump(
    places: list[Place],
    options: Options,
    lone: Sequence[LoneLog] = (),
    unreached: Sequence[tuple[str, OSError]] = (),
) -> int:
    """Dump what `places` are and some `lone` logs; the exit code. Of what is `unreached` it is said why.

    Raises click.UsageError, OutputError.
    """
    request = options.request
    _check(request, places)
    unreadable: list[tuple[str, OSError]] = []
    unreached = list(unreached)
    jobs: list[Job] = list(lone)
    for place in places:
        before = len(unreadable)
        try:
            found = jobs_of(place, request, unreadable)
        except FileNotFoundError as error:
            unreached.append((place.path, error))
            continue
        if not found and len(unreadable) == before and not (request.follow and isinstance(place, LogDirectory)):
            note(nothing_in(place, request))
        jobs += found
    types = {row_type(job, request) for job in jobs}
    if options.format is OutputFormat.CSV and len(types) > 1:
        raise click.UsageError(
            f"--format csv prints rows of one kind, and these files have {', '.join(sorted(types))}: dump them one"
            " kind at a time, or with --format jsonl"
        )
    payloads = None if request.raw else payload_decoder(places, options.schemas)
    with output_for(options.format) as out:
        if options.format is OutputFormat.CSV:
            out.write(f"{','.join(columns(jobs, request, schemas=payloads is not None))}\n")
        met = Met(out, format_of(out, options, schemas=payloads is not None), options)
        for path, reason in unreached:
            met.tell(path, reason)
        for path, reason in unreadable:
            met.failed(path, reason)
        try:
            met.print(Dump(request, DumpedLogs(), met.problem, payloads).run(jobs, places))
        except NothingToFollowError:
            what = "--follow follows logs, and there is none among the files given"
            raise click.UsageError(what) from None
        met.end()
    return met.code


def _check(request: DumpRequest, places: list[Place]) -> None:
    """Refuse what --kept does not go with. Raises click.UsageError."""
    if not request.kept:
        return
    if request.follow:
        raise click.UsageError("--kept shows what changes cut out of logs, which does not grow: leave out --follow")
    for place in places:
        if isinstance(place, KafkaFile):
            what = f"--kept shows what changes keep of directories, and {safe_path(place.path)} is a file"
            raise click.UsageError(what)
