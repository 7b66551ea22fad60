"""The columns of records as pyarrow has them: their types, and how they are made of the kernels' columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from kdump.columns import arrays
from kdump.columns.names import (
    ATTRIBUTES,
    HEADERS,
    KEY,
    LABELS,
    MAGIC,
    NO_LABELS,
    RECORD_NEEDS,
    TRANSACTION,
    VALUE,
    Labels,
    check_names,
)
from kdump.named_tuples import NamedTuple

__all__ = [
    "HEADERS", "KEY", "LABELS", "NO_LABELS", "RECORD_FIELDS", "TRANSACTION", "VALUE", "Field", "Labels", "Numbers",
    "check_names", "plain",
]  # fmt: skip

Numbers = Mapping[str, pa.Array]


Make = Callable[[Numbers], pa.Array]


class Field(NamedTuple):
    """A column: its type, the kernels' columns that it needs, and how it is made of them."""

    kind: pa.DataType
    needs: tuple[str, ...] = ()
    make: Make | None = None


def plain(name: str, kind: pa.DataType | None = None) -> Field:
    """Return a column of the kernels as it is, or as a narrower type."""

    def make(numbers: Numbers) -> pa.Array:
        return numbers[name] if kind is None else numbers[name].cast(kind, safe=False)

    return Field(kind or pa.int64(), (name,), make)


_MAKES: dict[str, tuple[pa.DataType, Make | None]] = {
    "topic": (pa.string(), None),
    "partition": (pa.int32(), None),
    "timestamp": (arrays.MILLISECONDS, lambda n: arrays.timestamps(n["timestamp"], arrays.MILLISECONDS)),
    "timestamp_us": (arrays.MICROSECONDS, lambda n: arrays.timestamps(n["timestamp"], arrays.MICROSECONDS)),
    "timestamp_type": (pa.int32(), lambda n: arrays.timestamp_types(n[ATTRIBUTES], n[MAGIC])),
    KEY: (pa.binary(), None),
    VALUE: (pa.binary(), None),
    HEADERS: (arrays.HEADERS, None),
    "is_transactional": (pa.bool_(), lambda n: arrays.are_transactional(n[ATTRIBUTES], n[MAGIC])),
    "is_control": (pa.bool_(), lambda n: arrays.are_control(n[ATTRIBUTES], n[MAGIC])),
    TRANSACTION: (pa.string(), None),
    "codec": (pa.string(), lambda n: arrays.codec_names(n[ATTRIBUTES])),
    "path": (pa.string(), None),
}
_NARROW = ("header_count", "sequence", "producer_epoch", "leader_epoch", "magic")


def _field(name: str, needs: tuple[str, ...]) -> Field:
    if name in _MAKES:
        kind, make = _MAKES[name]
        return Field(kind, needs, make)
    return plain(needs[0], pa.int32() if name in _NARROW else None)


RECORD_FIELDS: dict[str, Field] = {name: _field(name, needs) for name, needs in RECORD_NEEDS.items()}
"""The columns of records; `columns.names` says what they are."""
