"""The columns of records as pyarrow has them: their types, and how they are made of the kernels' columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from kdump.columns import arrays, names
from kdump.columns.arrays import have_flag
from kdump.columns.names import FLAGS, RECORD_KINDS, RECORD_NEEDS, Kind
from kdump.formats.batch import CONTROL, TRANSACTIONAL

Numbers = Mapping[str, pa.Array]
Make = Callable[[Numbers], pa.Array]

TYPES: dict[Kind, pa.DataType] = {
    names.INT32: pa.int32(),
    names.INT64: pa.int64(),
    names.BOOL: pa.bool_(),
    names.TEXT: pa.string(),
    names.BYTES: pa.binary(),
    names.MILLISECONDS: arrays.MILLISECONDS,
    names.MICROSECONDS: arrays.MICROSECONDS,
    names.HEADER_LISTS: arrays.HEADERS,
}


class Field(NamedTuple):
    """A column: its type, the kernels' columns that it needs, and how it is made of them."""

    kind: pa.DataType
    needs: tuple[str, ...] = ()
    make: Make | None = None


def plain(name: str, kind: Kind = names.INT64) -> Field:
    """Return a column of the kernels as it is, or as a narrower type."""

    def make(numbers: Numbers) -> pa.Array:
        return numbers[name] if kind is names.INT64 else numbers[name].cast(TYPES[kind], safe=False)

    return Field(TYPES[kind], (name,), make)


def time(name: str, kind: Kind = names.MILLISECONDS) -> Field:
    """Return a column of timestamps."""
    return Field(TYPES[kind], (name,), lambda numbers: arrays.timestamps(numbers[name], TYPES[kind]))


def flag_fields(attributes: str, magic: str) -> dict[str, Field]:
    """Return the columns that are made of the attributes and the magic of batches, by the kernels' names for these."""
    flags = (attributes, magic)
    return {
        "timestamp_type": Field(pa.int32(), flags, lambda n: arrays.timestamp_types(n[attributes], n[magic])),
        "is_transactional": Field(pa.bool_(), flags, lambda n: have_flag(n[attributes], n[magic], TRANSACTIONAL)),
        "is_control": Field(pa.bool_(), flags, lambda n: have_flag(n[attributes], n[magic], CONTROL)),
        "codec": Field(pa.string(), (attributes,), lambda n: arrays.codec_names(n[attributes])),
    }


_MADE = {
    "timestamp": time("timestamp"),
    "timestamp_us": time("timestamp", names.MICROSECONDS),
    names.TRANSACTION: Field(pa.string(), RECORD_NEEDS[names.TRANSACTION]),
    **flag_fields(*FLAGS),
}


def _field(name: str, needs: tuple[str, ...]) -> Field:
    if name in _MADE:
        return _MADE[name]
    return plain(needs[0], RECORD_KINDS[name]) if needs else Field(TYPES[RECORD_KINDS[name]])


RECORD_FIELDS: dict[str, Field] = {name: _field(name, needs) for name, needs in RECORD_NEEDS.items()}
"""The columns of records; `columns.names` says what they are."""
