"""Messages written as tables: a line a field, as in the message descriptions of Kafka, a struct's fields indented.

    OffsetFetchRequest 1-10 flexible 6+
      groupId   string              1-7
      topics    []OffsetFetchTopic  1-7  nullable 2-7
        name    string              1-7
      cursor    Cursor                   nullable 0+  tag 0  default null  ignorable

Versions are "0+" unless given; the rest is as for `description.Field`, with JSON's null, true and false as defaults.
A struct that a message has above already need not be told again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.formats.schemas.description import PACKERS, Field, Schema
from kdump.releases import KafkaRelease

_WORDS = {"null": None, "true": True, "false": False}
_SCALARS = frozenset((*PACKERS, "string", "bytes"))
_Row = tuple[int, list[str]]


def messages(text: str) -> dict[str, Schema]:
    """Return the messages of a table by name. Raises ValueError where a line does not say what a field is."""
    rows = [(len(line) - len(line.lstrip()), line.split()) for line in text.splitlines() if line.strip()]
    found = {}
    while rows:
        depth, (name, versions, word, flexible) = rows.pop(0)
        if word != "flexible":
            raise ValueError(f"{name}: expected the flexible versions, found {word}")
        found[name] = Schema(name, versions, flexible, *_fields(rows, depth, {}))
    return found


def _fields(rows: list[_Row], above: int, structs: dict[str, tuple[Field, ...]]) -> Iterator[Field]:
    """Yield the rows indented deeper than `above`, and take them away; `structs` are those of the message so far."""
    while rows and rows[0][0] > above:
        depth, (name, kind, *words) = rows.pop(0)
        versions = words.pop(0) if words and words[0][0].isdecimal() else "0+"
        options = _options(words)
        struct = kind.removeprefix("[]")
        if struct not in _SCALARS:
            own = tuple(_fields(rows, depth, structs))
            if not own and struct not in structs:
                raise ValueError(f"{name}: a {struct} has no fields")
            options["fields"] = structs[struct] = own or structs[struct]
        yield Field(name, kind, versions, **options)


def _options(words: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    while words:
        match words.pop(0):
            case "ignorable":
                options["ignorable"] = True
            case "nullable":
                options["nullable"] = words.pop(0)
            case "tag" | "default" as word:
                value = words.pop(0)
                options[word] = _WORDS[value] if value in _WORDS else int(value)
            case "since":
                options["since"] = KafkaRelease.parse(words.pop(0))
            case word:
                raise ValueError(f"{word!r} says nothing about a field")
    return options
