"""Logs to read as columns, and the same records read one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"

MAX_MS = (1 << 63) // 1000 - 1


class Row(NamedTuple):
    """A record as every engine has to give it; headers None where there are none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None


class Case(NamedTuple):
    """A log directory that Kafka wrote; `damage` says what was done to it then."""

    name: str
    folder: Path
    damage: str | None


def cases(root: Path = FIXTURES) -> list[Case]:
    """The cases below a folder that has cases.jsonl and corpus/."""
    lines = (root / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    found = (json.loads(line) for line in lines)
    return [Case(case["case"], root / "corpus" / case["dir"], case.get("damage")) for case in found]


def sound_cases(root: Path = FIXTURES) -> list[Case]:
    """Those that nothing was done to."""
    return [case for case in cases(root) if case.damage is None]


def records_of(folder: Path) -> Iterator[Record]:
    """The records of a partition, one by one."""
    return (item for item in PartitionLog(str(folder)).records() if isinstance(item, Record))


def expected_rows(folder: Path) -> list[Row]:
    """The records of a partition as rows."""
    return [
        Row(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((name.decode("utf-8", "replace"), value) for name, value in record.headers) or None,
        )
        for record in records_of(folder)
    ]


def row_of(found: dict[str, Any]) -> Row:
    """A row of the columns layer, whose timestamp is milliseconds."""
    headers = found["headers"]
    pairs = None if headers is None else tuple((header["key"], header["value"]) for header in headers)
    return Row(found["offset"], found["timestamp"], found["key"], found["value"], pairs)


def in_microseconds(rows: Iterable[Row]) -> list[Row]:
    """The rows as Spark has them: a timestamp that has no microseconds is null (here: 0)."""
    return [row._replace(timestamp=row.timestamp * 1000 if abs(row.timestamp) <= MAX_MS else 0) for row in rows]
