"""The tables of records and requests, held against the descriptions in the jars of the newest release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kdump.formats import names
from kdump.formats.schemas.decoding import tables_of
from kdump.formats.schemas.description import Layout, Schema
from kdump.formats.schemas.framing import CoordinatorTopic
from kdump.server.protocol import cluster, data, groups, transactions

_LAST = 0x7FFF


class Described(NamedTuple):
    """A message of messages.txt: its versions, the first flexible one, its number, and the lines of its fields."""

    first: int
    last: int
    flexible: int
    number: int
    lines: list[str]


def _range(text: str) -> tuple[int, int]:
    if text == "none":
        return _LAST + 1, _LAST + 1
    first, dash, last = text.partition("-")
    return int(first.rstrip("+")), _LAST if first.endswith("+") else int(last if dash else first)


def _described() -> dict[str, Described]:
    messages: dict[str, Described] = {}
    for line in (Path(__file__).parent / "messages.txt").read_text().splitlines():
        if head := re.fullmatch(r"(\w+) (\S+) flexible (\S+)  # [\w-]+ ?(\d*)", line):
            first, last = _range(head[2])
            messages[head[1]] = current = Described(first, last, _range(head[3])[0], int(head[4] or -1), [])
        elif not line.startswith("#"):
            current.lines.append(line)
    return messages


DESCRIBED = _described()


def _fields(lines: list[str], version: int, flexible: bool) -> Iterator[tuple[int, str, str, str]]:
    """Yield the fields of a version: depth, name, type of a scalar, and how it is tagged or may be null."""
    hidden = _LAST
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        name, kind, versions, *words = line.split()
        hidden = _LAST if depth <= hidden else hidden
        first, last = _range(versions)
        if depth > hidden or not first <= version <= last:
            hidden = min(hidden, depth)
            continue
        nullable = "nullable" in words and _range(words[words.index("nullable") + 1])
        tag = words[words.index("tag") + 1] if "tag" in words and flexible else ""
        if "tagged" in words:
            since, until = _range(words[words.index("tagged") + 1])
            tag = tag if since <= version <= until else ""
        null = " null" if nullable and nullable[0] <= version <= nullable[1] else ""
        shown = kind.replace("records", "bytes")
        yield depth, name, re.sub(r"[A-Z]\w*", "struct", shown), f"{tag}{null}"


def _columns(layout: Layout, depth: int = 1) -> Iterator[tuple[int, str, str, str]]:
    for column in layout.columns:
        kind = "struct" if column.layout else column.kind
        null = " null" if column.nullable else ""
        yield depth, column.name, f"{'[]' * column.array}{kind}", f"{'' if column.tag is None else column.tag}{null}"
        if column.layout:
            yield from _columns(column.layout, depth + 1)


def _records() -> Iterator[tuple[str, Schema]]:
    for topic in (
        names.CLUSTER_METADATA_TOPIC,
        names.CONSUMER_OFFSETS_TOPIC,
        names.TRANSACTION_STATE_TOPIC,
        names.SHARE_GROUP_STATE_TOPIC,
        names.REMOTE_LOG_METADATA_TOPIC,
    ):
        tables = tables_of(topic)
        assert tables is not None
        if isinstance(tables, CoordinatorTopic):
            for kind in tables.kinds.values():
                yield kind.key.name, kind.key
                yield kind.layouts[-1].name, kind.layouts[-1]
        else:
            yield from ((schema.name, schema) for schema in tables.schemas.values())


def _requests() -> Iterator[tuple[str, Schema]]:
    tables: tuple[Mapping[str, Schema], ...] = tuple(m.MESSAGES for m in (cluster, data, groups, transactions))
    yield from (item for table in tables for item in table.items())


RECORDS = dict(_records())


@pytest.mark.parametrize("name", [name for name in RECORDS if name in DESCRIBED])
def test_a_record_is_read_as_the_newest_release_describes_it(name: str) -> None:
    schema, described = RECORDS[name], DESCRIBED[name]
    assert schema.last >= described.last
    for version in range(described.first, described.last + 1):
        layout = schema.layout(version)
        wanted = list(_fields(described.lines, version, version >= described.flexible))
        assert layout.flexible == (version >= described.flexible)
        assert sorted(_columns(layout)) == sorted(wanted)


def test_no_metadata_record_of_the_newest_release_is_unknown() -> None:
    tables = tables_of(names.CLUSTER_METADATA_TOPIC)
    assert tables is not None
    assert not isinstance(tables, CoordinatorTopic)
    text = (Path(__file__).parent / "messages.txt").read_text()
    described = {int(number) for number in re.findall(r"# metadata (\d+)", text)}
    assert described <= tables.schemas.keys()


@pytest.mark.parametrize("name", [name for name, _ in _requests() if name in DESCRIBED])
def test_a_request_is_read_as_the_newest_release_describes_it(name: str) -> None:
    """In the versions that kdump serves."""
    schema, described = dict(_requests())[name], DESCRIBED[name]
    assert schema.last <= described.last
    for version in range(max(schema.first, described.first), schema.last + 1):
        wanted = list(_fields(described.lines, version, version >= described.flexible))
        assert sorted(_columns(schema.layout(version))) == sorted(wanted)
