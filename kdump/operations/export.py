"""Export the records of partitions, into a directory or a place in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kdump.errors import KdumpError, Problem, RefusedError, Report
from kdump.exports.object_store import Uploaded, check_library, is_object_store, staging_directory, upload
from kdump.exports.options import ExportFormat, ExportOptionError, ExportOptions
from kdump.exports.outcome import Exported
from kdump.exports.plan import plan
from kdump.exports.run import Engine, LocalEngine, Summary
from kdump.exports.run import export as export_units
from kdump.operations.results import Failed
from kdump.storage.live import held
from kdump.storage.open import check_not_kafkas
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica

if TYPE_CHECKING:
    from kdump.columns.decoding import TopicColumns
    from kdump.schema_registry.decoder import PayloadDecoder


class Decoding(NamedTuple):
    """How keys and values are decoded: by which schemas, into what, and values by which schema of a reader.

    `decoder` is asked for once there is something to decode. `kind` is one of columns.names.Decode: columns by
    default, and JSON whatever it is where the files are text.
    """

    decoder: Callable[[], PayloadDecoder]
    kind: str | None = None
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is written, and where to.

    `target` is a directory, or the URL of a place in an object store; then `staging` is the directory in which the
    files are written before they are sent, None for a temporary one.
    """

    target: str
    options: ExportOptions
    decoding: Decoding | None = None
    staging: str | None = None

    def check(self) -> None:
        """Raise ExportOptionError for a column that there is not, KdumpError without a library that is needed."""
        if is_object_store(self.target):
            check_library()
        try:
            from kdump.columns.fields import RECORD_FIELDS
            from kdump.columns.names import check_names
        except ImportError as error:
            raise KdumpError(f"exporting needs pyarrow ({error}): pip install 'kafka-kdump[columns]'") from None
        try:
            check_names(self.options.columns, RECORD_FIELDS)
        except KdumpError as error:
            raise ExportOptionError(str(error)) from None


def export(
    found: Iterable[Replica],
    request: ExportRequest,
    report: Report,
    engine: Engine | None = None,
    *,
    is_all: bool = True,
    kept: Callable[[str], object] = lambda _: None,
) -> Iterator[Exported | Summary | Uploaded | Failed]:
    """Write the records of partitions, of each of one replica; yield its units, what they came to, what was sent.

    `is_all`: they are all that was asked for, none could not be read. An export is sent to an object store unless it
    lacks what cannot be read; `kept` hears of a temporary directory that a later run can resume with. What fails while
    it is sent is yielded. Raises ExportOptionError, RefusedError, KdumpError, OSError.
    """
    request.check()
    if not is_object_store(request.target):
        yield from _written(found, request, request.target, report, engine, is_all=is_all)
        return
    with staging_directory(request.staging, kept) as staging:
        for each in _written(found, request, staging.path, report, engine, is_all=is_all):
            yield each
            if isinstance(each, Summary) and (each.failures or not is_all):
                return
        try:
            yield upload(staging.path, request.target)
            staging.is_done = True
        except (KdumpError, OSError) as error:
            staging.is_done = isinstance(error, RefusedError)
            yield Failed(staging.path if isinstance(error, OSError) else request.target, error)


def _written(
    found: Iterable[Replica],
    request: ExportRequest,
    folder: str,
    report: Report,
    engine: Engine | None,
    *,
    is_all: bool,
) -> Iterator[Exported | Summary]:
    """Export replicas into a directory, and report what is wrong with their units. Raises as `export` does."""
    check_not_kafkas(folder)
    with ExitStack() as holds:
        # all of them until the end: parts of one are read by several threads, after parts of others
        logs = [log for each in found if (log := holds.enter_context(held(each.log.path))) is not None]
        options = request.options
        if request.decoding is not None:
            options = replace(options, decoding=_topics_decoded(logs, options.format, request.decoding))
        for each in export_units(plan(logs, options), folder, options, engine or LocalEngine(), is_all=is_all):
            if isinstance(each, Exported):
                _report_unit(report, each)
            yield each


def _report_unit(report: Report, found: Exported) -> None:
    for lost in found.damage:
        report(Problem(lost.path, lost.position, lost.text))
    if found.failure is not None:
        report(found.failure)


def _topics_decoded(logs: Iterable[PartitionLog], format_: str, decoding: Decoding) -> dict[str, TopicColumns]:
    """Return how the records of each topic are decoded. Raises KdumpError, OSError."""
    from kdump.columns.decoding import topic_columns
    from kdump.columns.names import Decode

    decoder = decoding.decoder()
    kind = Decode(decoding.kind or Decode.COLUMNS) if format_ == ExportFormat.PARQUET else Decode.JSON
    by_topic: dict[str, list[PartitionLog]] = {}
    for log in logs:
        if log.name and not log.name.topic.startswith("_"):
            by_topic.setdefault(log.name.topic, []).append(log)
    return {topic: topic_columns(decoder, topic, some, kind, decoding.schema_id) for topic, some in by_topic.items()}
