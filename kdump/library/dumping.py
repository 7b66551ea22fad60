"""The batches and records of logs, and the entries of the files beside them, as data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.errors import NameFormatError, OnError, Problem, Report, check_number, check_truths, check_type, check_word
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.library.arguments import check_words, judge, payload_decoder, results_of
from kdump.query.selection import Selection
from kdump.storage.damage import Damage
from kdump.storage.decoded import DamagedError
from kdump.storage.open import Path, path_text, path_texts, place_at
from kdump.txns.isolation_level import Isolation

if TYPE_CHECKING:
    from kdump.operations.batch_fields import BatchApart
    from kdump.operations.dump_jobs import Job
    from kdump.operations.dump_rows import Row
    from kdump.storage.open import Place


def dump(
    *paths: Path,
    selection: Selection | None = None,
    include: Iterable[str] = ("log",),
    isolation: str = Isolation.READ_UNCOMMITTED,
    batches_only: bool = False,
    limit: int | None = None,
    tail: int | None = None,
    follow: bool = False,
    raw: bool = False,
    schemas: Path | None = None,
    include_damaged: bool = False,
    kept: bool = False,
    use_indexes: bool = True,
    max_decompressed: int = DEFAULT_LIMIT,
    as_log: bool = False,
    base_offset: int | None = None,
    errors: str = OnError.RAISE,
) -> Iterator[Row | Damage | Problem]:
    """Yield a RecordRow for each record of logs, a FileRow for each entry of other files.

    With `batches_only` logs have a BatchRow for each batch instead. Paths are files, partition directories and log
    directories; of directories what `include` names is dumped: words of kdump.operations.dump_jobs.INCLUDED, or "all".
    The `selection` bounds offsets and times, and chooses by key, headers and producer; `isolation` leaves out what a
    consumer of that level does not get. At most `limit` rows in all, of each partition the last `tail`; with `follow`
    also what is appended from then on, without an end. `raw` leaves keys and values as bytes; else those of internal
    topics are decoded, and with `schemas` (a partition directory of a schema registry's topic, an export of it, or a
    folder) those of others. `include_damaged` also gives what can be read of damaged batches, `kept` what changes cut
    out of logs instead of the logs. With `as_log` paths are files of any name, .gz and .zst ones too, that begin at
    `base_offset` (None: at the number that their name begins with, else 0).

    Damage does not end it: `errors` decides whether it is raised (as DamagedError), skipped or yielded (as Damage), as
    it does about problems. Raises OSError, NameFormatError, KdumpError, ValueError, TypeError.
    """
    from kdump.operations.dump import Dump, check_follows
    from kdump.operations.dump_jobs import DumpRequest, jobs_of, kinds_of
    from kdump.operations.dump_rows import rows
    from kdump.storage.lone_log import lone_logs

    policy = OnError(errors)
    check_truths(include_damaged=include_damaged, use_indexes=use_indexes)
    check_word("isolation", isolation, Isolation)
    check_type("selection", selection, Selection, may_be_none=True)
    request = DumpRequest(
        selection or Selection(), kinds_of(check_words("include", include)), Isolation(isolation), batches_only, follow,
        use_indexes=use_indexes and not as_log, includes_damaged=include_damaged, kept=kept, tail=tail,
        max_decompressed=max_decompressed, limit=limit, raw=raw,
    )  # fmt: skip
    request.check(is_alone=as_log)
    given = _given(paths, as_log=as_log, base_offset=base_offset)
    places: list[Place] = [] if as_log else [place_at(path) for path in given]
    unreadable: list[tuple[str, OSError]] = []
    jobs: list[Job] = [job for place in places for job in jobs_of(place, request, unreadable)]
    check_follows(request, jobs, places)
    met: list[Problem] = []
    payloads = None if schemas is None else payload_decoder(path_text(schemas, "schemas"), met.append)
    for problem in met:
        judge(problem, policy, [])

    def found(report: Report) -> Iterator[Row | Damage]:
        for path, error in unreadable:
            report(Problem.unreadable(path, error))
        with ExitStack() as holds:
            alone = holds.enter_context(lone_logs(given, base_offset)) if as_log else ()
            events = Dump(request, report, payloads).run([*jobs, *alone], places)
            for row in rows(events, report, batches_only=batches_only):
                if isinstance(row, Damage):
                    if policy is OnError.RAISE:
                        raise DamagedError(row)
                    if policy is OnError.SKIP:
                        continue
                yield row

    return results_of(found, errors)


def batch_fields(path: Path, *, at: int = 0, as_log: bool = False, base_offset: int | None = None) -> BatchApart:
    """Take the batch at byte `at` of a .log apart, damaged or not: each field with its byte, bytes and meaning.

    A flipped bit that explains the damage is named. `as_log` and `base_offset` are as for `dump`. Raises OSError,
    NameFormatError, KdumpError where no batch can be there, ValueError.
    """
    from kdump.operations.batch_fields import batch_of, has_batches
    from kdump.storage.lone_log import lone_logs

    check_number("at", at, 0)
    given = _given([path_text(path)], as_log=as_log, base_offset=base_offset)
    if as_log:
        with lone_logs(given, base_offset) as (alone,):
            return batch_of(alone, at)
    place = place_at(given[0])
    if not has_batches(place):
        raise NameFormatError(f"{given[0]}: expected one .log file")
    return batch_of(place, at)


def _given(paths: Iterable[Path], *, as_log: bool, base_offset: int | None) -> Sequence[str]:
    """Return paths as text. Raises ValueError, TypeError, FileNotFoundError."""
    given = path_texts(paths)
    check_truths(as_log=as_log)
    check_number("base_offset", base_offset, 0, may_be_none=True)
    if base_offset is not None and not as_log:
        raise ValueError("base_offset goes with as_log")
    for path in given if as_log else ():
        if os.path.isdir(path):
            raise ValueError(f"{path} is a directory: as_log reads files")
        os.stat(path)
    return given
