"""What the class of the data source (kdump.spark.data_source.DefaultSource) is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kdump.columns.names import Decode
from kdump.spark.options import OptionError, ReadOptions, RowKind, read_options
from kdump.spark.schema import column_names, ddl, types
from kdump.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType


def schema(options: Mapping[str, str]) -> str:
    """Return the columns of a read, as DDL. Raises KdumpError."""
    return ddl(wanted(options))


def wanted(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a read; with decode=columns it is found out what the records hold. Raises KdumpError."""
    found = read_options(options)
    if found.decode is not Decode.COLUMNS or found.kind is not RowKind.RECORDS:
        return found
    from kdump.spark.typed import typed

    return replace(found, typed=typed(found))


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return a reader of everything that is there when the query is planned. Raises OptionError."""
    from kdump.spark.reader import LogReader

    settle()
    return LogReader(checked(options, schema))


def checked(options: Mapping[str, str], schema: StructType) -> ReadOptions:
    """Return the options of a read whose schema is what they say. Raises KdumpError."""
    found = wanted(options)
    names = column_names(found)
    if tuple(schema.fieldNames()) != names:
        raise OptionError(
            f"the schema has {', '.join(schema.fieldNames())}: leave it out, and choose with the option columns"
            f" (now {', '.join(names)})"
        )
    for name in found.typed.types if found.typed else ():
        if name in names and schema[name].dataType.simpleString() != types(found, quote="")[name]:
            raise OptionError(
                f"the type of {name} is another one since the read was made: there is a newer schema, or"
                " other records; load it again, or name a schema with schemaId"
            )
    return found


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return a reader of what is there and what will be. Raises OptionError."""
    from kdump.spark.stream import LogStreamReader

    found = checked(options, schema)
    if found.kind is not RowKind.RECORDS:
        raise OptionError(f"kind={found.kind} cannot be streamed: only records can")
    if found.stop.offsets or found.stop.times or found.stop.timestamp is not None:
        raise OptionError("a stream has no end: leave endingOffsets and endingTimestamp out")
    return LogStreamReader(found)


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Return a writer of partition directories. Raises OptionError, PathError."""
    from kdump.spark.write_options import check_columns, write_options
    from kdump.spark.writer import LogWriterOfRows

    found = write_options(options)
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, found.to.topic)
    return LogWriterOfRows(found, overwrite)
