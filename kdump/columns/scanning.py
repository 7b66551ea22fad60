"""Records of whole partitions as one Arrow stream, read when it is asked for, by several threads.

    records = scan("/data", topics=["orders*"], columns=("offset", "timestamp", "value"))
    polars.from_arrow(records); duckdb.sql("select count(*) from records"); pyarrow.table(records)

What takes a stream is whatever speaks the Arrow C stream interface (`__arrow_c_stream__`); it needs no pyarrow. With
the compiled kernels neither does this: the stream is made of their own buffers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kdump import kernels
from kdump.columns import plain
from kdump.columns.gathering import Tables, read_records
from kdump.columns.names import RECORD_NEEDS, Labels, check_names
from kdump.errors import KdumpError, OnError, Problem
from kdump.query.selection import EVERYTHING, Selection
from kdump.query.split_points import parts
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.decoded import DamagedError
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.storage.open import open_directory, path_text
from kdump.storage.parallel import ordered, processors
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import replicas
from kdump.storage.segment import Segment
from kdump.txns.isolation import isolated
from kdump.txns.isolation_level import Isolation
from kdump.txns.states import TransactionStates

if TYPE_CHECKING:
    import pyarrow as pa

Made = TypeVar("Made")

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
PART_BYTES = 16 << 20
"""Bytes of a log that one thread reads at a time."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The records of partitions: which (`topics` are patterns, `partitions` numbers), and which columns of them.

    Damage raises DamagedError when it is met, unless it is skipped.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    topics: tuple[str, ...] = ()
    partitions: frozenset[int] = frozenset()
    selection: Selection = EVERYTHING
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    errors: OnError = OnError.RAISE

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types, as pyarrow has them. Raises KdumpError for one that there is not."""
        import pyarrow as pa

        from kdump.columns.fields import RECORD_FIELDS

        check_names(self.columns, RECORD_NEEDS)
        return pa.schema([pa.field(name, RECORD_FIELDS[name].kind) for name in self.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as pyarrow has them, partition by partition, in order of their offsets.

        Raises KdumpError, OSError.
        """
        from kdump.columns.records import RecordTables

        return self._gathered(RecordTables)

    def rows(self) -> Iterator[plain.Rows | pa.RecordBatch]:
        """Yield the rows in batches that have `num_rows`, and streams of Arrow's of their own. Raises as above."""
        return self._gathered(plain.PlainTables) if self._is_plain else self.batches()

    def no_rows(self) -> plain.Rows | pa.RecordBatch:
        """Return a batch without rows."""
        return plain.no_rows(self.columns) if self._is_plain else self.schema.empty_table()

    @property
    def _is_plain(self) -> bool:
        """Whether the kernels' own buffers are handed on; the portable ones have no way to do that."""
        return kernels.active == "native"

    def _gathered(self, make: Callable[..., Tables[Made]]) -> Iterator[Made]:
        with ExitStack() as holds:
            found_parts = self._parts(holds)
            for _, found in ordered(found_parts, lambda part: self._read(part, make), lambda _: True, processors()):
                if isinstance(found, BaseException):
                    raise found
                yield from found or ()

    def __arrow_c_schema__(self) -> Any:
        """Return the columns, by Arrow's C data interface."""
        return plain.schema(plain.row_kind(self.columns)) if self._is_plain else self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows, by Arrow's C stream interface; they are read again each time."""
        if self._is_plain:
            return plain.stream(plain.row_kind(self.columns), self._gathered(plain.PlainTables))
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)

    def _parts(self, holds: ExitStack) -> Iterator[_Part]:
        for log in self._logs():
            now = holds.enter_context(held(log.path))
            if now is None or not now.segments:
                continue
            states = TransactionStates(now)
            selection = isolated(self.selection, now, self.isolation, states)
            name = now.name
            for segment in selection.segments(now):
                labels = Labels(name and name.topic, name and name.partition, segment.log_path)
                with segment.open_log() as file:
                    size, first = file.size, selection.start(segment, file)
                for start, stop in parts(segment.log_path, size, PART_BYTES):
                    if stop > first:
                        is_last = segment is now.segments[-1] and stop == size
                        yield _Part(segment, max(start, first), stop, selection, states, labels, is_last)

    def _logs(self) -> Iterator[PartitionLog]:
        def raise_problem(problem: Problem) -> None:
            raise KdumpError(f"{problem.path}: {problem.text}")

        places: list[PartitionLog | LogDirectory] = [open_directory(path) for path in self.paths]
        for replica in replicas(places, raise_problem):
            if self.topics and not any(fnmatchcase(replica.topic, pattern) for pattern in self.topics):
                continue
            if not self.partitions or replica.partition in self.partitions:
                yield replica.log

    def _read(self, part: _Part, make: Callable[..., Tables[Made]]) -> list[Made]:
        segment = part.segment
        tables = make(self.columns, part.labels, transactions=part.states)
        found = []
        with segment.open_log() as file:
            for rows in read_records(segment, file, tables, part.selection, part.start, part.stop):
                if not isinstance(rows, Damage):
                    found.append(rows)
                elif not (self.errors is OnError.SKIP or (part.is_last and is_zero_tail(rows, file))):
                    raise DamagedError(rows)
        return [*found, *tables.rest()]


class _Part(NamedTuple):
    """Bytes `start` to `stop` of a segment's log."""

    segment: Segment
    start: int
    stop: int
    selection: Selection
    states: TransactionStates
    labels: Labels
    is_last: bool


def scan(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    topics: Sequence[str] = (),
    partitions: Iterable[int] = (),
    selection: Selection | None = None,
    isolation: str = Isolation.READ_UNCOMMITTED,
    errors: str = OnError.RAISE,
) -> Scan:
    """Return the records in log directories and partition directories.

    `columns` are of kdump.columns.names.RECORD_NEEDS, `topics` names or patterns, `isolation` is an isolation.level of
    Kafka's; with `errors="skip"` damage is left out. Raises KdumpError for a column that there is not, ValueError for
    an isolation level.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    check_names(columns, RECORD_NEEDS)
    return Scan(
        tuple(path_text(path) for path in given),
        tuple(columns),
        tuple(topics),
        frozenset(partitions),
        selection or EVERYTHING,
        Isolation(isolation),
        OnError.beside_one_result(errors),
    )
