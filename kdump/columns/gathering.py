"""Records of a segment, gathered into columns; of what library these are, who gathers them decides."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from kdump import kernels
from kdump.columns.names import HEADERS, KEY, NO_LABELS, RECORD_NEEDS, VALUE, Labels, check_names
from kdump.errors import OnError
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.query.selection import EVERYTHING, Picks, Selection
from kdump.storage.damage import Damage
from kdump.storage.decoded import DecodedRows, decoded
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.txns.states import TransactionStates

if TYPE_CHECKING:
    from kdump.kernels.portable.columns import Buffers

MAX_ROWS = 1 << 17
MAX_BYTES = 8 << 20

Made = TypeVar("Made")


class Tables(ABC, Generic[Made]):
    """Gathers records into batches of certain columns.

    A batch is complete with `most_rows` rows or `most_bytes` bytes of keys, values and headers.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Labels = NO_LABELS,
        *,
        control: bool = False,
        most_rows: int = MAX_ROWS,
        most_bytes: int = MAX_BYTES,
        transactions: TransactionStates | None = None,
    ) -> None:
        """`names` are of RECORD_NEEDS; with `control` the markers of Kafka's own are records too.

        `transactions` are those of the partition, for the column of that name: without them it is that of the
        directory in which the labels' `path` is.

        Raises KdumpError for a column that there is not.
        """
        check_names(names, RECORD_NEEDS)
        self.labels = labels
        self._transactions = transactions
        self._names = tuple(names)
        self._needs = list(dict.fromkeys(need for name in names for need in RECORD_NEEDS[name]))
        self._columns = kernels.RecordColumns(
            self._needs,
            KEY in names,
            VALUE in names,
            HEADERS in names,
            control=control,
            most_rows=most_rows,
            most_bytes=most_bytes,
        )

    def add(self, rows: DecodedRows, picks: Picks) -> Iterator[Made]:
        """Gather the records `picks` of those decoded; the batches that fill up."""
        block, first, _, records, payloads = rows
        done = self._columns.add(block, records, first, payloads, picks)
        while done < len(picks):
            yield self.take()
            done = self._columns.add(block, records, first, payloads, picks, done)

    def rest(self) -> Iterator[Made]:
        """Yield the last batch, if anything is left for one."""
        if self._columns.length:
            yield self.take()

    def take(self) -> Made:
        """Return what has been gathered so far."""
        return self._made(self._columns.take())

    @abstractmethod
    def _made(self, taken: Buffers) -> Made:
        """Return the batch that the kernels' columns make."""

    @property
    def transactions(self) -> TransactionStates:
        """The transactions of the partition."""
        if self._transactions is None:
            folder = os.path.dirname(self.labels.path or "") or "."
            self._transactions = TransactionStates(PartitionLog(folder))
        return self._transactions


def read_records(
    segment: Segment,
    log: LogFile,
    tables: Tables[Made],
    selection: Selection = EVERYTHING,
    start: int = 0,
    stop: int | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
) -> Iterator[Made | Damage]:
    """Yield the records in bytes `start` (a batch's first) to `stop` of `log` that are wanted, and the damage met.

    What is left in `tables` at the end continues with the next range; `tables.rest()` gives it after the last one.
    `limit` bounds the bytes that a batch may decompress to. Raises OSError.
    """
    found = decoded(log, segment.base_offset, start, stop, errors=OnError.YIELD, choice=selection, limit=limit)
    for rows in found:
        if isinstance(rows, Damage):
            yield rows
            continue
        yield from tables.add(rows, selection.pick(rows.records, rows.source_of))
        yield from rows.bad_messages(log.path)
