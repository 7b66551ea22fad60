"""The schemas that a read decodes with: read once in each process."""

from __future__ import annotations

import os
from functools import lru_cache

from kdump.schema_registry.decoder import PayloadDecoder, check_libraries
from kdump.schema_registry.sources import read_schemas, schemas_partition
from kdump.spark.options import OptionError, ReadOptions
from kdump.spark.places import expand


def payload_decoder(options: ReadOptions) -> PayloadDecoder:
    """Return what decodes keys and values. Raises OptionError without schemas, KdumpError, OSError."""
    path = options.schemas or next(filter(None, map(_schemas_at, expand(options.paths))), None)
    if path is None:
        raise OptionError("decode needs schemas: no _schemas-0 is in the path, so give the option schemas")
    return _decoder(path, _age(path))


def _schemas_at(path: str) -> str | None:
    return schemas_partition(path) or schemas_partition(os.path.dirname(path))


def _age(path: str) -> tuple[int, ...]:
    """Return what changes when the schemas do."""
    if not os.path.isdir(path):
        return (os.stat(path).st_mtime_ns,)
    return tuple(sorted(entry.stat().st_mtime_ns for entry in os.scandir(path) if entry.is_file()))


@lru_cache(8)
def _decoder(path: str, _changed: tuple[int, ...]) -> PayloadDecoder:
    registry = read_schemas(path, lambda _problem: None)
    check_libraries(registry)
    return PayloadDecoder(registry)
