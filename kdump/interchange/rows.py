"""What is dumped, whatever it is written as: keys and values, tables of other files, and who renders them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from kdump.query.sweep import Selected
from kdump.storage.records import Batch
from kdump.storage.txn_state import TxnState

Write = Callable[[str], object]
Value = int | str | bool | None


class Payload(NamedTuple):
    """A key or value that names a schema: what JSON can hold of it, the schema's id, and the name of its message.

    `value` has the bytes where an `error` says why they do not decode.
    """

    value: Any
    schema_id: int | None
    message: str | None = None
    error: str | None = None
    is_unknown: bool = False
    """Whether the error is that the schema is not at hand."""


Content = bytes | dict[str, Any] | Payload | None
"""A key or value: as it is, or what it was decoded to."""

Contents = tuple[Content, Content]


class Origin(NamedTuple):
    """The file that is dumped. `topic` and `partition` are None where its directory does not name them.

    `number` is the offset in its name: a segment's base offset, or a producer snapshot's; None where it has none.
    `note` is for people.
    """

    path: str
    topic: str | None
    partition: int | None
    number: int | None
    note: str = ""


class Table(NamedTuple):
    """The rows of a file that is no log: a name for one of them, and names for its values.

    With `within` a row belongs to the partition that the file is in; `number` names the offset in the file's name.
    """

    type: str
    columns: tuple[str, ...]
    within: bool = True
    number: str | None = None

    def all_columns(self) -> tuple[str, ...]:
        """Return the names of all values of a row, those that say where it is from included."""
        return ("file", *(("topic", "partition") if self.within else ()), *filter(None, [self.number]), *self.columns)

    def origin_values(self, origin: Origin) -> list[Value]:
        """Return the values that say where a row is from."""
        values: list[Value] = [origin.path]
        if self.within:
            values += [origin.topic, origin.partition]
        if self.number:
            values.append(origin.number)
        return values


class Format(Protocol):
    """Renders what is dumped; every method prints whole lines."""

    def begin(self, origin: Origin, size: int) -> None:
        """Begin a log of `size` bytes."""

    def batch(self, batch: Batch, transaction: TxnState) -> None:
        """Take a batch of the log, in a transaction of this state."""

    def records(
        self, batch: Batch, transaction: TxnState, selected: Selected, contents: Sequence[Contents] | None = None
    ) -> None:
        """Take records of the batch; with `contents` these are what the records hold, in their order."""

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """Take the rows of a file that is no log."""


def batch_values(batch: Batch, transaction: TxnState) -> tuple[Value, ...]:
    """Return the values of BATCH_COLUMNS from `position` on."""
    return (
        batch.position,
        batch.size,
        None if batch.is_wrapper else batch.base_offset,
        batch.last_offset,
        batch.magic,
        batch.codec,
        batch.crc,
        batch.valid,
        batch.timestamp_type,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.delete_horizon,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
        None if batch.is_wrapper else batch.record_count,
        batch.leader_epoch,
        batch.is_transactional,
        batch.is_control,
        transaction,
    )
