"""The table of settings, held against what the jars of each release say of every name in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kdump.errors import ConfigError
from kdump.formats.java_text import INT_MAX, LONG_MAX, LONG_MIN
from kdump.releases import KafkaRelease
from kdump.settings import table
from kdump.settings.names import is_known
from kdump.settings.table import BY_NAME, Flag, Fraction, Listed, Named, Number, Words
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

_WORDS = (
    *("", "true", "FALSE", "delete", "compact", "compact,delete", "Compact", "producer", "gzip", "none", "lz4", "zstd"),
    *("snappy", "uncompressed", "CreateTime", "LogAppendTime", "NoTimestampType", "0.5", "-0.1", "1.1", "1e0", "3.0"),
    *("2.8-IV1", "1:2,3:4", "*", " 7 "),
)
_NUMBERS = (
    LONG_MIN, -INT_MAX - 2, -INT_MAX - 1, -131_073, -131_072, -3, -2, -1, 0, 1, 2, 3, 4, 9, 10, 13, 14, 17, 18, 22, 23,
    (1 << 20) - 1, 1 << 20, (1 << 20) + 1, INT_MAX, INT_MAX + 1, LONG_MAX, LONG_MAX + 1,
)  # fmt: skip
TEXTS = (*_WORDS, *map(str, _NUMBERS))


def _none(_text: str) -> bool:
    return False


_OWN: Mapping[str, Callable[[str], bool]] = {
    # the cleaner of kdump works with as little memory as it is given; `startup` says what brokers say of it
    table.CLEANER_MAP_BYTES.name: lambda text: text.strip().isdigit() and int(text) <= 1 << 20,
    # brokers take these, and clean nothing
    table.CLEANER_BUFFER_BYTES.name: lambda text: text.strip().isdigit() and int(text) < 34,
    table.CLEANER_LOAD_FACTOR.name: lambda text: "." in text or text.strip().lstrip("-").isdigit() or "e" in text,
    # that many threads have not a MiB each
    table.CLEANER_THREADS.name: lambda text: text.isdigit() and int(text) >= 128,
    # before 4.1 it is the opening of the metadata log that refuses these; `startup` says so
    table.METADATA_SEGMENT_BYTES.name: lambda text: text.strip().isdigit() and 12 <= int(text) < 8 << 20,
    # of throttled replicas nothing is in a log directory
    table.FOLLOWER_THROTTLED.name: lambda text: True,
    table.LEADER_THROTTLED.name: lambda text: True,
}
"""Texts that kdump takes otherwise than Kafka on purpose, by setting."""

_TYPES = {Flag: ("BOOLEAN",), Fraction: ("DOUBLE",), Words: ("LIST",), Listed: ("LIST",)}


def _type_of(named: Named[Any]) -> tuple[str, ...]:
    if isinstance(named.kind, Number):
        return ("LONG",) if named.kind.most > INT_MAX else ("INT",)
    return _TYPES.get(type(named.kind), ("STRING",))


def _is_refused(named: Named[Any], text: str, release: KafkaRelease) -> bool:
    try:
        named.value(text)
    except ConfigError:
        return True
    return named.is_too_small(text, release)


def _default_of(named: Named[Any], text: str | None) -> Any:
    """Return Kafka's default as a value; None where the server has none under this name, so that another one counts."""
    return None if text is None else named.value(text)


@pytest.fixture(scope="module")
def settings(release: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with Kit(release, MADE, tmp_path_factory.mktemp("kit") / "log") as kit:
        told = kit.tool("Settings", *TEXTS)
    return [json.loads(line) for line in told.out.splitlines() if line.startswith(b"{")]


def test_the_table_is_kafkas(release: str, settings: list[dict[str, Any]], tally: Tally) -> None:
    """Names, types, defaults and ranges, of topics and of servers."""
    known = KafkaRelease.parse(release)
    with tally.of(release, Column.READ) as compare:
        by_scope = {(row["scope"], row["name"]): row for row in settings}
        for (scope, name), row in by_scope.items():
            compare.holds(f"{scope} {name} has no place in kdump.settings", is_known(name))
            if name not in BY_NAME:
                continue
            named = BY_NAME[name]
            compare.same(f"{scope} {name}: type", _type_of(named), (row["type"],))
            default = _default_of(named, row["default"])
            if default is not None:
                compare.same(f"{scope} {name}: default", named.setting.default_in(known), default)
            own = _OWN.get(name, _none)
            for text in TEXTS:
                if not own(text):
                    refused = text in row["refused"]
                    compare.same(f"{scope} {name}={text!r}: refused", _is_refused(named, text, known), refused)
        for name, named in BY_NAME.items():
            scopes = {scope for scope, told in by_scope if told == name}
            wanted = {"topic" if named.is_topics else "server"} if named.setting.is_in(known) else set()
            has_both = wanted <= scopes and bool(wanted) == bool(scopes)  # some names topics and servers share
            compare.holds(f"{name}: kdump has it of {wanted}, Kafka of {scopes}", has_both)
