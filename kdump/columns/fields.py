"""The columns that records can be read as: name, Arrow type, and which of the kernels' columns each is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from kdump.columns import arrays
from kdump.errors import KdumpError

KEY, VALUE, HEADERS = "key", "value", "headers"
TRANSACTION = "transaction"
LABELS = ("topic", "partition", "path")

Numbers = Mapping[str, pa.Array]


class Labels(NamedTuple):
    """Whose records they are: the columns `topic`, `partition` and `path` (of the .log), which are the same in all."""

    topic: str | None = None
    partition: int | None = None
    path: str | None = None


NO_LABELS = Labels()


class Field(NamedTuple):
    """A column: its type, the kernels' columns that it needs, and how it is made of them."""

    kind: pa.DataType
    needs: tuple[str, ...] = ()
    make: Callable[[Numbers], pa.Array] | None = None


def plain(name: str, kind: pa.DataType | None = None) -> Field:
    """Return a column of the kernels as it is, or as a narrower type."""

    def make(numbers: Numbers) -> pa.Array:
        return numbers[name] if kind is None else numbers[name].cast(kind, safe=False)

    return Field(kind or pa.int64(), (name,), make)


_ATTRIBUTES, _MAGIC = "batch.attributes", "batch.magic"
_FLAGS = (_ATTRIBUTES, _MAGIC)

RECORD_FIELDS: dict[str, Field] = {
    "topic": Field(pa.string()),
    "partition": Field(pa.int32()),
    "offset": plain("offset"),
    "timestamp": Field(
        arrays.MILLISECONDS, ("timestamp",), lambda n: arrays.timestamps(n["timestamp"], arrays.MILLISECONDS)
    ),
    "timestamp_us": Field(
        arrays.MICROSECONDS, ("timestamp",), lambda n: arrays.timestamps(n["timestamp"], arrays.MICROSECONDS)
    ),
    "timestamp_type": Field(pa.int32(), _FLAGS, lambda n: arrays.timestamp_types(n[_ATTRIBUTES], n[_MAGIC])),
    KEY: Field(pa.binary()),
    VALUE: Field(pa.binary()),
    HEADERS: Field(arrays.HEADERS),
    "key_size": plain("key_length"),
    "value_size": plain("value_length"),
    "header_count": plain("headers_count", pa.int32()),
    "sequence": plain("sequence", pa.int32()),
    "producer_id": plain("batch.producer_id"),
    "producer_epoch": plain("batch.producer_epoch", pa.int32()),
    "leader_epoch": plain("batch.leader_epoch", pa.int32()),
    "is_transactional": Field(pa.bool_(), _FLAGS, lambda n: arrays.are_transactional(n[_ATTRIBUTES], n[_MAGIC])),
    "is_control": Field(pa.bool_(), _FLAGS, lambda n: arrays.are_control(n[_ATTRIBUTES], n[_MAGIC])),
    TRANSACTION: Field(pa.string(), ("offset", "batch.producer_id", *_FLAGS)),
    "magic": plain(_MAGIC, pa.int32()),
    "codec": Field(pa.string(), (_ATTRIBUTES,), lambda n: arrays.codec_names(n[_ATTRIBUTES])),
    "position": plain("batch.position"),
    "path": Field(pa.string()),
}
"""The columns of records. Sizes are bytes, -1 for null; `position` is that of the batch in its file, in bytes."""


def check_names(names: Sequence[str], known: Mapping[str, Field]) -> None:
    """Raise KdumpError for a column that there is not."""
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise KdumpError(f"there is no column {name!r}: {hint}")
