"""What `kdump export` does: finds the partitions, has their segments exported, and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError, Problem, RefusedError
from kdump.export.object_store import Uploaded, is_object_store
from kdump.export.options import PARQUET, ExportOptionError, ExportOptions
from kdump.export.outcome import Outcome
from kdump.export.plan import Unit
from kdump.export.run import Engine, LocalEngine, Summary
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, size_text
from kdump.operations.export import ExportRequest, export
from kdump.operations.results import Failed

from ..shell import exit_codes
from ..shell.choice import chooses, has_partition, nothing_chosen, topics_at
from ..shell.output import NO_SUCH, Output, about, complain, os_error_text
from ..shell.paths import check_not_kafkas, expand
from ..shell.progress import PathCounter, ProgressBar
from ..shell.replicas import newest, replicas_at
from ..shell.schemas import payload_decoder
from ..shell.screen import Screen
from ..shell.session import Diagnostics

if TYPE_CHECKING:
    from kdump.schemas.decoder import PayloadDecoder
    from kdump.spark.jobs import Cluster


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h: from how many bytes on free memory goes back, and how many are taken from the system at once."""


def run_export(
    paths: tuple[str, ...], topics: tuple[str, ...], request: ExportRequest, cluster: Cluster | None = None
) -> int:
    """Export what is at `paths`, on a cluster if one is given; the exit code.

    Raises click.UsageError, OSError, KdumpError.
    """
    try:
        request.check()
    except ExportOptionError as error:
        raise click.UsageError(safe(str(error))) from None
    if request.staging or not is_object_store(request.target):
        check_not_kafkas(request.staging or request.target)
    troubles = Diagnostics()
    wanted = chooses(topics)
    found = [each for each in replicas_at(paths, troubles) if wanted(each.topic) and has_partition(each.partition)]
    if not found and troubles.code:
        return troubles.code
    if not found:
        complain(nothing_chosen(topics, topics_at(paths)))
        return exit_codes.INCOMPLETE
    farthest = newest(PathCounter().over(found), troubles)
    is_all = troubles.code < exit_codes.INCOMPLETE
    report, engine = partial(_report, troubles), partial(_exported, cluster)
    results = export(farthest, request, report, engine, is_all=is_all, kept=_tell_kept)
    try:
        for each in results:
            _tell(each, request.target, troubles)
    except ExportOptionError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None
    except RefusedError as error:
        complain(safe(str(error)))
        return exit_codes.REFUSED
    return troubles.code


def decoder_of(paths: Iterable[str], schemas: str | None) -> PayloadDecoder:
    """Return what decodes by the schemas at a path, or among the PATHs. Raises KdumpError, OSError."""
    decoder = payload_decoder(expand(paths), schemas)
    if decoder is None:
        raise KdumpError("no _schemas-0 is among these PATHs: name the schemas with --schemas PATH")
    return decoder


def _exported(
    cluster: Cluster | None, units: Sequence[Unit], folder: str, options: ExportOptions
) -> Iterator[Outcome]:
    """Export units in this process or on a cluster, with a line of progress."""
    with ProgressBar(list(dict.fromkeys(each.path for unit in units for each in unit.all))) as bar:
        yield from _engine(cluster, bar, options)(units, folder, options)


def _engine(cluster: Cluster | None, bar: ProgressBar, options: ExportOptions) -> Engine:
    if cluster is None:
        if options.format == PARQUET:
            _choose_memory()
            _keep_freed_memory()
        return LocalEngine(progress=bar.add)
    from kdump.spark.jobs import SparkExport

    return SparkExport(cluster)


def _choose_memory() -> None:
    """Have Arrow take its memory by jemalloc where it can: Parquet takes a tenth less CPU than by the default.

    JSON lines would take more. It is the whole process's memory, so the library leaves it alone.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        return
    import pyarrow as pa

    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def _keep_freed_memory() -> None:
    """Have the C library keep what is freed (glibc's mallopt), which the rows of the next row group take again.

    It would give it back to the system and get it page by page, each filled with zeros: a fifth of the CPU.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    for option, size in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 256 << 20)):
        mallopt(option, size)


def _report(troubles: Diagnostics, problem: Problem) -> None:
    """Say what cannot be read, or is damaged, as it comes."""
    place = "" if problem.position is None else f"byte {problem.position}: "
    complain(about(problem.path, NO_SUCH if problem.is_missing else f"{place}{problem.text}"))
    troubles.worsen(exit_codes.INCOMPLETE if problem.is_unreadable else exit_codes.FINDINGS)


_VERDICTS = {exit_codes.OK: "Done.", exit_codes.FINDINGS: "FOUND: damaged batches were skipped."}


def _tell(done: Summary | Uploaded | Failed, url: str, troubles: Diagnostics) -> None:
    if isinstance(done, Failed):
        complain(os_error_text(done.error, done.path) if isinstance(done.error, OSError) else safe(str(done.error)))
        is_refused = isinstance(done.error, RefusedError)
        troubles.worsen(exit_codes.REFUSED if is_refused else exit_codes.INCOMPLETE)
        return
    with Output() as out:
        out.write(f"{_sent_words(done, url) if isinstance(done, Uploaded) else _written_words(done, troubles.code)}\n")


def _written_words(summary: Summary, code: int) -> str:
    Screen.current.has_said_incomplete = True
    resumed = f" ({summary.resumed} of {summary.units} parts were there already)" if summary.resumed else ""
    whole = "" if summary.is_whole else "; not complete, so there is no _SUCCESS"
    return (
        f"{_VERDICTS.get(code, 'INCOMPLETE.')} {number_words(summary.rows, 'record')} in"
        f" {number_words(summary.files, 'file')} of"
        f" {size_text(summary.bytes)} in {safe_path(summary.folder)}"
        f"{resumed}{whole}"
    )


def _sent_words(sent: Uploaded, url: str) -> str:
    already = f" ({number_words(sent.already, 'file')} already there)" if sent.already else ""
    return f"{number_words(sent.files, 'file')} of {size_text(sent.bytes)} sent to {safe(url)}{already}"


def _tell_kept(folder: str) -> None:
    complain(f"what was written is kept; to resume, repeat this with --staging {safe_path(folder)}")
