"""What a dump finds, as values of their own: a row for each batch, record and entry of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.blocks import content_at
from kdump.errors import KdumpError, Problem, Report
from kdump.interchange.rows import Content, Contents, Origin, Value
from kdump.operations.dump import DamagedLog, Event, FileRows, Found, LogBegun
from kdump.operations.results import Failed
from kdump.query.sweep import Selected
from kdump.storage.damage import Damage
from kdump.storage.records import Batch, Record, header_pairs
from kdump.storage.txn_state import TxnState


class BatchRow(NamedTuple):
    """A batch of the log at `origin`, and how its transaction ended."""

    origin: Origin
    batch: Batch
    transaction: TxnState


class RecordRow(NamedTuple):
    """A record of a batch; `key` and `value` are decoded where an internal topic or a schema says how.

    They are a dict then, or a Payload (kdump.interchange.rows); the record has the bytes.
    """

    origin: Origin
    batch: Batch
    transaction: TxnState
    record: Record
    key: Content
    value: Content


class FileRow(NamedTuple):
    """An entry of a file that is no log: the `type` of it, and its fields by name."""

    origin: Origin
    type: str
    fields: dict[str, Value]


Row = BatchRow | RecordRow | FileRow


def rows(events: Iterable[Event], report: Report, *, batches_only: bool = False) -> Iterator[Row | Damage]:
    """Yield what is found; `report` hears of what cannot be read. Records have their batch, which is no row then."""
    origin: Origin | None = None
    for event in events:
        if isinstance(event, Found):
            assert origin is not None
            if batches_only:
                yield BatchRow(origin, event.batch, event.transaction)
            elif event.selected is not None:
                for record, (key, value) in _records(event.selected, event.contents):
                    yield RecordRow(origin, event.batch, event.transaction, record, key, value)
        elif isinstance(event, LogBegun):
            origin = event.origin
        elif isinstance(event, DamagedLog):
            yield event.damage._replace(path=event.path)
        elif isinstance(event, FileRows):
            yield from _file_rows(event, report)
        elif isinstance(event, Failed):
            report(Problem.failed(event.path, event.error))


def _records(selected: Selected, contents: Iterable[Contents] | None) -> Iterator[tuple[Record, Contents]]:
    source = selected.source
    decoded = None if contents is None else iter(contents)
    for offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
        key, value = content_at(source, key_at, key_size), content_at(source, value_at, value_size)
        headers = tuple(header_pairs(source, headers_at, count)) if count else ()
        record = Record(offset, timestamp, key, value, headers, sequence, selected.row)
        yield record, (key, value) if decoded is None else next(decoded)


def _file_rows(found: FileRows, report: Report) -> Iterator[FileRow]:
    names = found.table.columns
    try:
        for row in found.rows:
            yield FileRow(found.origin, found.table.type, dict(zip(names, row, strict=True)))
    except (OSError, KdumpError) as error:
        report(Problem.failed(found.origin.path, error))
