"""Kafka's log directories as a LazyFrame: `kdump.polars.scan("/data")`.

Of a query the columns, bounds of offset, timestamp, partition and topic, and a limit reach the files: what is not asked
for is not read. Needs polars (`pip install 'kafka-kdump[polars]'`), and pyarrow where there is no compiled kernel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from kdump.columns.names import RECORD_NEEDS
from kdump.columns.scanning import DEFAULT_COLUMNS, Scan
from kdump.columns.scanning import scan as scan_records
from kdump.errors import OnError
from kdump.named_tuples import NamedTuple
from kdump.query.selection import Selection

_MIN = -(1 << 63)
_UNITS = {"Milliseconds": 1, "Microseconds": 1_000, "Nanoseconds": 1_000_000}
_FLIPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}


def scan(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    topics: Sequence[str] = (),
    isolation: str = "read_uncommitted",
    errors: str = OnError.RAISE,
) -> pl.LazyFrame:
    """Return the records in log directories and partition directories, read when the query is collected.

    `columns` are of kdump.columns.names.RECORD_NEEDS, `topics` names or patterns, `isolation` an isolation.level of
    Kafka's. Damage ends the query with an error; with `errors="skip"` it is left out. Raises KdumpError for a column
    that there is not.
    """
    records = scan_records(paths, columns=columns, topics=topics, isolation=isolation, errors=errors)

    def source(
        names: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        return _frames(records, names, predicate, rows)

    return register_io_source(source, schema=pl.DataFrame(records.no_rows()).schema, validate_schema=True)


def _frames(
    records: Scan, names: list[str] | None, predicate: pl.Expr | None, rows: int | None
) -> Iterator[pl.DataFrame]:
    wanted = list(records.columns) if names is None else names
    read = [name for name in records.columns if name in wanted]
    if predicate is not None:
        needed = predicate.meta.root_names()
        read = [name for name in records.columns if name in wanted or name in needed]
        records = _bounded(records, _bounds_in(predicate))
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


class _Bound(NamedTuple):
    """A part of a predicate that has to hold: a column compared with a value."""

    column: str
    comparison: str
    value: int | str


def _bounded(records: Scan, bounds: Iterable[_Bound]) -> Scan:
    """Return the records without those that a bound rules out; the predicate is applied to what is left."""
    selection = records.selection
    start, stop = selection.start_offset, selection.stop_offset
    since, until = selection.since, selection.until
    topics, partitions = records.topics, records.partitions
    for column, comparison, value in bounds:
        if isinstance(value, str):
            if column == "topic" and comparison == "Eq" and not topics:
                topics = (_literally(value),)
            continue
        least = {"Gt": value + 1, "GtEq": value, "Eq": value}.get(comparison)
        most = {"Lt": value, "LtEq": value + 1, "Eq": value + 1}.get(comparison)
        if column == "offset":
            start = start if least is None else max(start or 0, least)
            stop = stop if most is None else most if stop is None else min(stop, most)
        elif column == "timestamp":
            since = since if least is None else max(_MIN if since is None else since, least)
            until = until if most is None else most if until is None else min(until, most)
        elif column == "partition" and comparison == "Eq":
            partitions = partitions & {value} if partitions else frozenset((value,))
    if until is not None and since is None:
        since = _MIN  # what has no timestamp (-1) is before any
    if start is not None and start > (1 << 63) - 1:
        start = (1 << 63) - 1
    bounded = Selection(start, None if stop is None else max(stop, 0), since, until)
    return replace(records, topics=topics, partitions=partitions, selection=bounded)


def _literally(topic: str) -> str:
    """Return a pattern that only this name matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in topic)


def _bounds_in(predicate: pl.Expr) -> list[_Bound]:
    """Return the bounds that a predicate has, as far as its written form tells; none where it is not understood."""
    try:
        return list(_conjuncts(json.loads(predicate.meta.serialize(format="json"))))
    except Exception:  # polars says nothing of what this form is, nor of what it raises: then all is read
        return []


def _conjuncts(node: Any) -> Iterator[_Bound]:
    if not isinstance(node, dict):
        return
    if "Function" in node:
        yield from _between(node["Function"])
    found = node.get("BinaryExpr")
    if not found:
        return
    if found["op"] in ("And", "LogicalAnd"):
        yield from _conjuncts(found["left"])
        yield from _conjuncts(found["right"])
        return
    yield from _compared(found["left"], found["op"], found["right"])


def _between(found: Any) -> Iterator[_Bound]:
    """Yield the bounds that is_between() has."""
    function = found["function"].get("Boolean", {}) if isinstance(found["function"], dict) else {}
    if isinstance(function, dict) and "IsBetween" in function:
        column, low, high = found["input"]
        yield from _compared(column, "GtEq", low)
        yield from _compared(column, "LtEq", high)


def _compared(left: Any, comparison: str, right: Any) -> Iterator[_Bound]:
    """Yield the bound that a comparison is, if it is one of a column and a value."""
    if comparison not in _FLIPPED:
        return
    if _column(left) is None:
        left, right, comparison = right, left, _FLIPPED[comparison]
    column = _column(left)
    if column not in RECORD_NEEDS:
        return
    literal = right.get("Literal", {}) if isinstance(right, dict) else {}
    scalar = literal.get("Dyn") or literal.get("Scalar") or {}
    for kind, value in scalar.items() if isinstance(scalar, dict) else ():
        yield from _bound(str(column), comparison, kind, value)


def _column(node: Any) -> str | None:
    """Return the column that a side of a comparison is, as it is or as another type of the same values."""
    while isinstance(node, dict) and "Cast" in node:
        node = node["Cast"]["expr"]
    return node.get("Column") if isinstance(node, dict) else None


def _bound(column: str, comparison: str, kind: str, value: Any) -> Iterator[_Bound]:
    if column == "timestamp":
        if kind == "Datetime":
            yield _time_bound(comparison, value[0], _UNITS[value[1]])
    elif kind.removeprefix("U").startswith("Int") and isinstance(value, int | str):
        yield _Bound(column, comparison, int(value))
    elif kind in ("String", "Str") and isinstance(value, str):
        yield _Bound(column, comparison, value)


def _time_bound(comparison: str, value: int, unit: int) -> _Bound:
    """Return a bound in milliseconds that holds for all that the given one holds for."""
    down = value // unit
    if value % unit and comparison in ("GtEq", "Lt"):
        return _Bound("timestamp", comparison, down + 1)
    if value % unit and comparison == "Eq":
        return _Bound("timestamp", "Lt", _MIN + 1)
    return _Bound("timestamp", comparison, down)
