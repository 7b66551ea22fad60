"""Kafka's log directories as a LazyFrame: `kdump.polars.scan("/data")`.

Only the topics, partitions, offsets and times of the scan are read, and of a query the columns that it uses, up to its
limit. Polars filters what was read. Needs polars (`pip install 'kafka-kdump[polars]'`), and pyarrow where there is no
compiled kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import polars as pl
from polars.io.plugins import register_io_source

from kdump.columns.scanning import DEFAULT_COLUMNS, Scan
from kdump.columns.scanning import scan as scan_records
from kdump.errors import OnError
from kdump.query.selection import Selection
from kdump.txns.isolation_level import Isolation


def scan(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    topics: Sequence[str] = (),
    partitions: Iterable[int] = (),
    selection: Selection | None = None,
    isolation: str = Isolation.READ_UNCOMMITTED,
    errors: str = OnError.RAISE,
) -> pl.LazyFrame:
    """Return the records in log directories and partition directories, read when the query is collected.

    `columns` are of kdump.columns.names.RECORD_NEEDS, `topics` names or patterns, `isolation` an isolation.level of
    Kafka's. Segments and batches outside the offsets and times of `selection` are not read. Damage ends the query with
    an error; with `errors="skip"` it is left out. Raises KdumpError for a column that there is not, ValueError for an
    isolation level.
    """
    records = scan_records(
        paths, columns=columns, topics=topics, partitions=partitions, selection=selection, isolation=isolation,
        errors=errors,
    )  # fmt: skip

    def source(
        names: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        return _frames(records, names, predicate, rows)

    return register_io_source(source, schema=pl.DataFrame(records.no_rows()).schema, validate_schema=True)


def _frames(
    records: Scan, names: list[str] | None, predicate: pl.Expr | None, rows: int | None
) -> Iterator[pl.DataFrame]:
    wanted = list(records.columns) if names is None else names
    needed = {*wanted, *(predicate.meta.root_names() if predicate is not None else ())}
    read = [name for name in records.columns if name in needed]
    for batch in replace(records, columns=tuple(read)).rows():
        frame = pl.DataFrame(batch) if read else pl.DataFrame(height=batch.num_rows)
        if predicate is not None:
            frame = frame.filter(predicate)
        if rows is not None:
            frame = frame.head(rows)
            rows -= frame.height
        yield frame.select(wanted)
        if rows == 0:
            return
