"""Records of a segment as Arrow record batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdump.columns import arrays
from kdump.columns.fields import RECORD_FIELDS, Numbers
from kdump.columns.gathering import Tables
from kdump.columns.names import BYTES, HEADERS, KEY, LABELS, TRANSACTION
from kdump.columns.plain import Column, byte_strings, header_lists

if TYPE_CHECKING:
    from kdump.kernels.portable.columns import Buffers


class RecordTables(Tables[pa.RecordBatch]):
    """Gathers records into Arrow record batches of certain columns; `schema` is theirs."""

    def __init__(self, names: Sequence[str], *labels: Any, **how: Any) -> None:
        """See Tables. Raises KdumpError for a column that there is not."""
        super().__init__(names, *labels, **how)
        self.schema = pa.schema([pa.field(name, RECORD_FIELDS[name].kind) for name in names])

    def _made(self, taken: Buffers) -> pa.RecordBatch:
        length, numbers, key, value, headers = taken
        made = {name: arrays.integers(buffer, length) for name, buffer in zip(self._needs, numbers, strict=True)}
        columns = []
        for name in self._names:
            field = RECORD_FIELDS[name]
            if field.make is not None:
                columns.append(field.make(made))
            elif name in LABELS:
                columns.append(arrays.constant(getattr(self.labels, name), field.kind, length))
            elif name == TRANSACTION:
                columns.append(self._states(made))
            elif name == HEADERS:
                assert headers is not None
                columns.append(_array(header_lists(headers, length), field.kind))
            else:
                buffers = key if name == KEY else value
                assert buffers is not None
                columns.append(_array(byte_strings(BYTES, buffers, length), field.kind))
        return arrays.table(columns, self.schema, length)

    def _states(self, made: Numbers) -> pa.Array:
        offsets, producer_ids, attributes, magics = (made[name] for name in RECORD_FIELDS[TRANSACTION].needs)
        return arrays.transaction_states(offsets, producer_ids, attributes, magics, self.transactions)


def _array(column: Column, kind: pa.DataType) -> pa.Array:
    """Return a column of kernel buffers as pyarrow has it, nothing copied."""
    buffers = [None if each is None else pa.py_buffer(each) for each in column.buffers]
    kinds = [kind.field(at).type for at in range(kind.num_fields)]
    children = [_array(child, each) for child, each in zip(column.children, kinds, strict=True)]
    return pa.Array.from_buffers(kind, column.length, buffers, null_count=column.nulls, children=children or None)
