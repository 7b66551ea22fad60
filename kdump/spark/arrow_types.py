"""Arrow's types for those of Spark, by their names in DDL."""

from __future__ import annotations

import pyarrow as pa

SCALARS = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def arrow_type(ddl: str) -> pa.DataType:
    """Return the type of a column of scalars, or of lists of them."""
    if ddl.startswith("ARRAY<"):
        return pa.list_(pa.field("element", SCALARS[ddl[len("ARRAY<") : -1]]))
    return SCALARS[ddl]
