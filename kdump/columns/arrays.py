"""Arrow arrays around buffers of the machine's own numbers and bytes, without copying.

pyarrow.compute, which takes longer to import than all of kdump, is imported where numbers differ from record to record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

import pyarrow as pa

from kdump.columns.names import MAX_MS, utf8
from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, timestamp_type
from kdump.formats.codecs import codec_name
from kdump.storage.txn_state import TxnState
from kdump.txns.states import TransactionStates

MILLISECONDS = pa.timestamp("ms", tz="UTC")
MICROSECONDS = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

_INT64 = pa.int64()


def integers(buffer: bytearray | array[int], length: int, kind: pa.DataType = _INT64) -> pa.Array:
    """Return the integers of a buffer, of 64 bits or as wide as `kind`."""
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(buffer)])


def scalar(value: str | int | None, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return a text, whole number (of 64 bits, or 32 where `kind` has them) or null, as `pa.scalar` makes it.

    That one imports pandas where it is installed, as a plain number does that is handed to a function of Arrow's:
    half a second of CPU.
    """
    if value is None:
        return pa.nulls(1, kind)[0]
    if isinstance(value, int):
        return integers(array("i" if kind == pa.int32() else "q", [value]), 1, kind or _INT64)[0]
    return strings([value])[0]


def strings(values: Iterable[str]) -> pa.Array:
    """Return a column of texts, as `pa.array` makes it, which imports pandas where that is installed."""
    data = [utf8(value).encode() for value in values]
    ends = array("i", accumulate(map(len, data), initial=0))
    return pa.Array.from_buffers(pa.string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))])


def timestamps(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return milliseconds as a timestamp type; null where it cannot hold them, as of damage that has a valid CRC."""
    times = numbers.view(MILLISECONDS)
    if kind.equals(MILLISECONDS):
        return times
    import pyarrow.compute as pc

    try:
        return times.cast(kind)
    except pa.ArrowInvalid:
        fits = pc.and_(pc.less_equal(numbers, scalar(MAX_MS)), pc.greater_equal(numbers, scalar(-MAX_MS)))
        return pc.if_else(fits, numbers, scalar(None, pa.int64())).cast(MILLISECONDS).cast(kind)


def _uniform(numbers: pa.Array) -> int | None:
    """Return the number that all of them are; None where they differ, or there are none."""
    length = len(numbers)
    is_uniform = length > 0 and numbers.slice(1).equals(numbers.slice(0, length - 1))
    return numbers[0].as_py() if is_uniform else None


def timestamp_types(attributes: pa.Array, magics: pa.Array) -> pa.Array:
    """Return Kafka's numbers of timestamp types: -1 none (v0), 0 CreateTime, 1 LogAppendTime."""
    attribute, magic = _uniform(attributes), _uniform(magics)
    if attribute is not None and magic is not None:
        return constant(timestamp_type(attribute, magic), pa.int32(), len(attributes))
    import pyarrow.compute as pc

    append = pc.shift_right(pc.bit_wise_and(attributes, scalar(LOG_APPEND_TIME)), scalar(3))
    return pc.if_else(pc.equal(magics, scalar(0)), scalar(-1), append).cast(pa.int32())


def have_flag(attributes: pa.Array, magics: pa.Array, flag: int) -> pa.Array:
    """Return whether batches have TRANSACTIONAL or CONTROL, which v2 alone can have."""
    import pyarrow.compute as pc

    flags = pc.not_equal(pc.bit_wise_and(attributes, scalar(flag)), scalar(0))
    return pc.and_(flags, pc.greater_equal(magics, scalar(2)))


def transaction_states(
    offsets: pa.Array, producer_ids: pa.Array, attributes: pa.Array, magics: pa.Array, states: TransactionStates
) -> pa.Array:
    """Return how the transactions of records ended (TxnState), asked of transactional ones alone. Raises OSError."""
    column = constant(TxnState.NONE.value, pa.string(), len(offsets))
    attribute = _uniform(attributes)
    if attribute is not None and not attribute & TRANSACTIONAL:
        return column
    import pyarrow.compute as pc

    flags = have_flag(attributes, magics, TRANSACTIONAL)
    if not pc.any(flags).as_py():
        return column
    pairs = zip(producer_ids.filter(flags).to_pylist(), offsets.filter(flags).to_pylist(), strict=True)
    found = strings(states.state_of(*pair).value for pair in pairs)
    return pc.replace_with_mask(column, flags, found)


def codec_names(attributes: pa.Array) -> pa.Array:
    """Return the names of batches' codecs; `codec N` for ids that no release knows."""
    import pyarrow.compute as pc

    known = strings([codec_name(number) for number in range(CODEC_MASK + 1)])
    return known.take(pc.bit_wise_and(attributes, scalar(CODEC_MASK)))


def floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    """Return division that rounds down; Arrow's own rounds towards zero."""
    import pyarrow.compute as pc

    by = scalar(divisor)
    quotients = pc.divide(numbers, by)
    remains = pc.subtract(numbers, pc.multiply(quotients, by))
    return pc.if_else(pc.less(remains, scalar(0)), pc.subtract(quotients, scalar(1)), quotients)


@lru_cache(16)
def _repeated(value: str | int | None, kind: pa.DataType, length: int) -> pa.Array:
    return pa.repeat(scalar(value, kind), length)


def constant(value: str | int | None, kind: pa.DataType, length: int) -> pa.Array:
    """Return a column of one value."""
    rounded = max(1 << 10, 1 << (length - 1).bit_length()) if length else 1
    return _repeated(value, kind, rounded).slice(0, length)


def table(columns: Sequence[pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """Return a record batch of `length` rows, also where there are no columns, as for counting."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), length, [None]))
