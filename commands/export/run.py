"""What `kdump export` does: finds the partitions, has their segments exported, and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError, RefusedError
from kdump.export.journal import Result
from kdump.export.options import PARQUET, ExportOptionError, ExportOptions
from kdump.export.outcome import Failure
from kdump.export.plan import Unit, plan
from kdump.export.run import Engine, LocalEngine, Summary, export
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, size_text
from kdump.named_tuples import NamedTuple
from kdump.storage.live import held
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.choice import chooses, has_partition, nothing_chosen, topics_at
from ..shell.output import Output, complain, os_error_text
from ..shell.paths import Place, check_not_kafkas, expand
from ..shell.progress import PathCounter, ProgressBar
from ..shell.replicas import newest, replicas_at
from ..shell.schemas import payload_decoder
from ..shell.screen import Screen
from ..shell.session import Diagnostics

if TYPE_CHECKING:
    from kdump.columns.decoding import TopicColumns
    from kdump.spark.jobs import Cluster


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h: from how many bytes on free memory goes back, and how many are taken from the system at once."""


class Decoding(NamedTuple):
    """What --decode, --schemas and --schema-id ask for."""

    kind: str
    schemas: str | None
    schema_id: int | None


def run_export(
    paths: tuple[str, ...],
    folder: str,
    topics: tuple[str, ...],
    options: ExportOptions,
    cluster: Cluster | None = None,
    decoding: Decoding | None = None,
) -> int:
    """Export what is at `paths` into `folder`, on a cluster if one is given; the exit code.

    Raises click.UsageError, OSError, KdumpError.
    """
    _check_columns(options)
    check_not_kafkas(folder)
    troubles = Diagnostics()
    wanted = chooses(topics)
    found = [each for each in replicas_at(paths, troubles) if wanted(each.topic) and has_partition(each.partition)]
    if not found and troubles.code:
        return troubles.code
    if not found:
        complain(nothing_chosen(topics, topics_at(paths)))
        return exit_codes.INCOMPLETE
    with ExitStack() as holds:
        # all of them until the end: parts of one are read by several threads, after parts of others
        logs = [holds.enter_context(held(each.log.path)) for each in newest(PathCounter().over(found), troubles)]
        there = [log for log in logs if log is not None]
        if decoding is not None:
            options = replace(options, decoding=_topics_decoded(expand(paths), there, decoding))
        try:
            units = plan(there, options)
        except ExportOptionError as error:
            raise click.UsageError(f"{safe(str(error))}.") from None
        return _export(units, folder, options, cluster, troubles)


def _topics_decoded(
    places: Iterable[Place], logs: Iterable[PartitionLog], decoding: Decoding
) -> dict[str, TopicColumns]:
    """Return how the records of each topic are decoded. Raises KdumpError, OSError."""
    from kdump.columns.decoding import Decode, topic_columns

    decoder = payload_decoder(places, decoding.schemas)
    if decoder is None:
        raise KdumpError("no _schemas-0 is among these PATHs: name the schemas with --schemas PATH")
    by_topic: dict[str, list[PartitionLog]] = {}
    for log in logs:
        if log.name and not log.name.topic.startswith("_"):
            by_topic.setdefault(log.name.topic, []).append(log)
    kind = Decode(decoding.kind)
    return {topic: topic_columns(decoder, topic, some, kind, decoding.schema_id) for topic, some in by_topic.items()}


def _export(
    units: list[Unit], folder: str, options: ExportOptions, cluster: Cluster | None, troubles: Diagnostics
) -> int:
    with ProgressBar(list(dict.fromkeys(each.path for unit in units for each in unit.all))) as bar:
        report = _Report(troubles, bar)
        try:
            is_all = troubles.code < exit_codes.INCOMPLETE
            summary = export(units, folder, options, _engine(cluster, bar, options), report, is_all=is_all)
        except RefusedError as error:
            complain(safe(str(error)))
            return exit_codes.REFUSED
    _tell(summary, folder, troubles.code)
    return troubles.code


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


class _Report:
    """Says what is wrong with units, as they come."""

    def __init__(self, troubles: Diagnostics, bar: ProgressBar) -> None:
        self._troubles = troubles
        self._bar = bar

    def __call__(self, unit: Unit, outcome: Result | Failure) -> None:
        if isinstance(outcome, Result):
            for lost in outcome.damage:
                path = next((each.path for each in unit.all if os.path.abspath(each.path) == lost.path), lost.path)
                self._say(f"{safe_path(path)}: byte {lost.position}: {safe(lost.text)}", exit_codes.FINDINGS)
        elif isinstance(outcome, OSError):
            self._say(os_error_text(outcome, unit.path), exit_codes.INCOMPLETE)
        else:
            self._say(f"{safe_path(unit.path)}: {safe(str(outcome))}", exit_codes.INCOMPLETE)

    def _say(self, text: str, code: int) -> None:
        self._bar.hide()
        complain(text)
        self._troubles.worsen(code)


def _check_columns(options: ExportOptions) -> None:
    """Raise KdumpError without pyarrow, click.UsageError for a column that there is not."""
    try:
        from kdump.columns.fields import RECORD_FIELDS, check_names
    except ImportError as error:
        raise KdumpError(f"exporting needs pyarrow ({error}): pip install 'kafka-kdump[columns]'") from None
    try:
        check_names(options.columns, RECORD_FIELDS)
    except KdumpError as error:
        raise click.UsageError(safe(str(error))) from None


_VERDICTS = {exit_codes.OK: "Done.", exit_codes.FINDINGS: "FOUND: damaged batches were skipped."}


def _tell(summary: Summary, folder: str, code: int) -> None:
    Screen.current.has_said_incomplete = True
    resumed = f" ({summary.resumed} of {summary.units} parts were there already)" if summary.resumed else ""
    whole = "" if summary.is_whole else "; not complete, so there is no _SUCCESS"
    with Output() as out:
        out.write(
            f"{_VERDICTS.get(code, 'INCOMPLETE.')} {number_words(summary.rows, 'record')} in"
            f" {number_words(summary.files, 'file')} of"
            f" {size_text(summary.bytes)} in {safe_path(folder)}"
            f"{resumed}{whole}\n"
        )
