"""What the tests serve: a specification with every codec, a transaction of each fate, and offsets that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kdump.fixture.make import make
from kdump.formats.batch import CONTROL
from kdump.storage.open import open_log
from kdump.storage.records import Record, records_of
from kdump.storage.scan import Run, scan

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def spec(**more: Any) -> dict[str, Any]:
    """A specification; `more` replaces what is at its top."""
    value = {"shape": "json", "size": [40, 90]}
    headers = [{"name": "trace", "value": {"shape": "sequence", "text": "t"}}]
    return {
        "seed": "serve",
        "clock": 1_700_000_000_000,
        "producers": {"payer": {"id": 4000, "transactional": True}, "late": {"id": 4001, "transactional": True}},
        "topics": [
            *(
                {
                    "name": f"codec-{codec}",
                    "partitions": 2,
                    "config": {"segment.bytes": 6000},
                    "steps": [
                        {"append": {"records": 60, "batch_records": 7, "codec": codec, "value": value,
                                    "key": {"shape": "key", "distinct": 5}, "headers": headers}},
                        {"leader_epoch": 1},
                        {"append": {"records": 20, "batch_records": 3, "codec": codec, "value": value}},
                    ],
                }
                for codec in CODECS
            ),
            {
                "name": "payments",
                "steps": [
                    {"append": {"records": 4, "batch_records": 2, "producer": "payer", "value": value}},
                    {"commit": "payer"},
                    {"append": {"records": 3, "producer": "payer", "value": value}},
                    {"abort": "payer"},
                    {"append": {"records": 2, "value": value}},
                    {"append": {"records": 2, "producer": "late", "value": value}},
                    {"append": {"records": 2, "value": value}},
                ],
            },
            {"name": "nothing"},
            {
                "name": "trimmed",
                "config": {"segment.bytes": 1000},
                "steps": [
                    {"append": {"records": 50, "batch_records": 5, "value": value}},
                    {"delete_records": 23},
                ],
            },
        ],
        **more,
    }  # fmt: skip


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    partition: str
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def build(path: Path, faults: Iterable[str] = (), **more: Any) -> Path:
    """Make log directories of the specification."""
    return Path(make(spec(**more), path, faults).path)


def records_in(log_dir: Path, starts: dict[str, int] | None = None) -> list[Seen]:
    """All records on the disk that are no markers, by partition and offset; `starts` are log start offsets."""
    return sorted(_records(log_dir, starts or {}), key=lambda seen: (seen.partition, seen.offset))


def _records(log_dir: Path, starts: dict[str, int]) -> Iterator[Seen]:
    for path in sorted(log_dir.iterdir()):
        if not path.is_dir() or path.name.startswith("__"):
            continue
        for segment in open_log(str(path)).segments:
            with segment.open_log() as log:
                for part in scan(log, segment.base_offset):
                    if isinstance(part, Run):
                        yield from _records_of(path.name, part, starts.get(path.name, 0))


def _records_of(partition: str, run: Run, start: int) -> Iterator[Seen]:
    for item in records_of(run.block, run.first, run.stop):
        assert isinstance(item, Record), item
        if run.block.attributes[item.row] & CONTROL and run.block.magic[item.row] == 2:
            continue
        if item.offset >= start:
            headers = tuple((key.decode(), value) for key, value in item.headers)
            yield Seen(partition, item.offset, item.timestamp, item.key, item.value, headers)
