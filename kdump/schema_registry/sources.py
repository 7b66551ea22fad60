"""Where schemas come from: a partition directory of the registry's topic, an export of it, or a folder of schemas.

An export is what kdump writes of the topic (dump or export: JSON lines, CSV, Parquet). In a folder each file that a
record may name ends with the id: `15.avsc`, `orders-value.15.proto`, `users.7.json`; its other .proto files can be
imported by their paths below the folder. A JSON file that holds versions as the registry's REST gives them, or a list
of them, will do as well.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from kdump.disk.reading import open_stream, read_small
from kdump.errors import KdumpError, Report
from kdump.formats.encode import NewRecord
from kdump.formats.names import SCHEMAS_TOPIC
from kdump.interchange.csv import read_csv
from kdump.interchange.jsonl import read_jsonl
from kdump.interchange.lines import Lines, Reading
from kdump.query.contents import contents_in, runs
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.registry import Registry, SchemaType
from kdump.storage.live import held
from kdump.storage.partition import PartitionLog

MAX_FILE = 64 << 20
"""Bytes of one schema file."""
MAX_FILES = 100_000

_TYPES = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF, ".json": SchemaType.JSON}
_NUMBERED = re.compile(r"(?:(?P<subject>.*)[.])?(?P<id>[0-9]{1,10})(?P<ending>[.](?:avsc|proto|json))")


def read_schemas(path: str, report: Report) -> Registry:
    """Return the schemas at a path. Damage of a log is reported, and skipped. Raises OSError, KdumpError."""
    registry = Registry()
    if not os.path.isdir(path):
        _take_records(registry, _file_records(path))
    elif any(parsed.is_live_log for parsed in PartitionLog(path).files.values()):
        _take_partition(registry, path, report)
    else:
        _take_folder(registry, path)
    if not registry:
        more = f" ({registry.problems[0]})" if registry.problems else ""
        raise KdumpError(f"{path}: there are no schemas in it{more}")
    return registry


def schemas_partition(log_directory: str) -> str | None:
    """Return the registry's topic in a log directory, if it is there under its usual name."""
    path = os.path.join(log_directory, f"{SCHEMAS_TOPIC}-0")
    return path if os.path.isdir(path) else None


def _take_partition(registry: Registry, path: str, report: Report) -> None:
    with held(path) as log:
        if log is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        for segment, run in runs(log.segments, report):
            for record in contents_in(segment, run, report):
                if record.key is not None:
                    registry.add_record(record.key, record.value)


def _take_records(registry: Registry, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    for key, value in records:
        registry.add_record(key, value)


def _file_records(path: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    if path.endswith(".parquet"):
        yield from _parquet_records(path)
        return
    with open_stream(path) as stream:
        lines = Lines(stream, path)
        reader = read_csv if path.endswith(".csv") else read_jsonl
        for item in reader(lines, Reading(lambda: -1, keeps_batches=False)):
            if isinstance(item, NewRecord):
                yield item.key, item.value


def _parquet_records(path: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    try:
        from importlib import import_module

        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise KdumpError(f"{path}: Parquet needs pyarrow ({error}): pip install 'kafka-kdump[columns]'") from None
    try:
        with open_stream(path) as stream:
            for batch in parquet.ParquetFile(stream).iter_batches(columns=["key", "value"]):
                yield from zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    except (KeyError, ValueError) as error:
        raise KdumpError(f"{path}: no export of a registry's topic: {error}") from None


def _take_folder(registry: Registry, path: str) -> None:
    for name in _files_below(path):
        ending = os.path.splitext(name)[1]
        if name.endswith((".jsonl", ".csv", ".parquet")):
            _take_records(registry, _file_records(os.path.join(path, name)))
            continue
        if ending not in _TYPES:
            continue
        text = _text(os.path.join(path, name))
        numbered = _NUMBERED.fullmatch(os.path.basename(name))
        if numbered:
            said = {"id": int(numbered["id"]), "schema": text, "schemaType": _TYPES[ending]}
            registry.add_version(said, numbered["subject"] or name, int(numbered["id"]))
        elif ending == ".json":
            _take_answers(registry, text, name)
        elif ending == ".proto":
            registry.files[name.replace(os.sep, "/")] = text


def _take_answers(registry: Registry, text: str, name: str) -> None:
    """Take versions as the registry's REST gives them (GET /schemas, GET /subjects/S/versions/N)."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError(f"{name}: not JSON") from None
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, dict) and isinstance(each.get("subject"), str) and isinstance(each.get("version"), int):
            registry.add_version(each, each["subject"], each["version"])


def _files_below(path: str) -> Iterator[str]:
    count = 0
    for folder, directories, files in os.walk(path):
        directories.sort()
        for name in sorted(files):
            count += 1
            if count > MAX_FILES:
                raise KdumpError(f"{path}: more than {MAX_FILES:,} files are no folder of schemas")
            yield os.path.relpath(os.path.join(folder, name), path)


def _text(path: str) -> str:
    data = read_small(path, MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise SchemaError(f"{path}: more than {MAX_FILE >> 20} MiB are no schema")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: not UTF-8 at byte {error.start}") from None
