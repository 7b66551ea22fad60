"""What the jars of a release say of it: feature levels, settings, limits, message descriptions, texts of classes."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.kafka.jars import class_path

_FACTS = Path(__file__).resolve().parent / "java" / "Facts.java"

_MESSAGES = re.compile(r"common/(message|metadata)/\w+\.json|common/\w+\.json")
_STORAGE = re.compile(
    r"(org/apache/kafka/(storage/internals/log|raft|tools/DumpLogSegments|metadata/util|coordinator/common/runtime)"
    r"|kafka/(log|server/Log|server/Kafka|tools/DumpLog|raft))[\w/$]*\.class"
)
"""The classes whose texts kdump imitates or explains: storage, loading, cleaning, the quorum, kafka-dump-log."""


class FactsError(Exception):
    """A release whose classes do not say what is looked for."""


@dataclass
class Facts:
    """What one release says; `settings` have type and default by scope and name, `texts` the strings of each class."""

    release: str
    levels: dict[int, str] = field(default_factory=dict)
    production: int = 0
    features: dict[str, int] = field(default_factory=dict)
    defaults: dict[str, dict[int, int]] = field(default_factory=dict)
    settings: dict[tuple[str, str], tuple[str, str | None]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    messages: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def minor(self) -> str:
        """The minor release, as 4.0."""
        return ".".join(self.release.split(".")[:2])


def facts_of(release: str) -> Facts:
    """Read a release's jars. Raises JarError, FactsError."""
    jars = class_path(release)
    facts = Facts(release)
    for kind, *row in _rows(release, jars):
        match kind:
            case "level" if row[0] > 0:
                facts.levels[row[0]] = row[1]
            case "production":
                facts.production = row[0]
            case "feature":
                facts.features[row[0]] = row[2]
            case "default":
                facts.defaults.setdefault(row[0], {})[row[1]] = row[2]
            case "setting":
                facts.settings[row[0], row[1]] = row[2], row[3]
            case "limit":
                facts.limits[row[0]] = row[1]
    for jar in jars:
        if jar.name.startswith("kafka"):
            with ZipFile(jar) as archive:
                _read_jar(archive, facts)
    if not (facts.levels and facts.settings and facts.messages and facts.texts):
        raise FactsError(f"{release}: its classes do not say what is looked for: see {_FACTS}")
    return facts


def _rows(release: str, jars: Iterable[Path]) -> Iterator[list[Any]]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, jars)), str(_FACTS)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FactsError(f"{release}: {done.stderr[-2000:]}")
    yield from (json.loads(line) for line in done.stdout.splitlines())


def _read_jar(archive: ZipFile, facts: Facts) -> None:
    for name in archive.namelist():
        if _MESSAGES.fullmatch(name):
            text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
            message = json.loads(text)
            if "validVersions" in message and message["validVersions"] != "none":
                facts.messages[message["name"]] = list(_table(message))
        elif _STORAGE.fullmatch(name):
            facts.texts[name.removesuffix(".class")] = frozenset(_strings(archive.read(name)))


def _table(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a message, as `kdump.formats.schemas.tables` reads them; a comment with what it has not."""
    flexible = message.get("flexibleVersions", "none")
    number = message.get("apiKey", "")
    yield f"{message['name']} {message['validVersions']} flexible {flexible}  # {message['type']} {number}"
    structs = {struct_["name"]: struct_["fields"] for struct_ in message.get("commonStructs", ())}
    yield from _fields(message["fields"], structs, 1)


def _fields(fields: Iterable[Mapping[str, Any]], structs: Mapping[str, Any], depth: int) -> Iterator[str]:
    for row in fields:
        name = row["name"][0].lower() + row["name"][1:]
        versions = row.get("versions") or row.get("taggedVersions", "0+")
        words = [name, row["type"], versions]
        if "nullableVersions" in row:
            words += ["nullable", row["nullableVersions"]]
        if "tag" in row:
            words += ["tag", str(row["tag"])]
        if row.get("taggedVersions", versions) != versions:
            words += ["tagged", row["taggedVersions"]]
        if "default" in row:
            words += ["default", str(row["default"]).lower() or '""']
        if row.get("ignorable"):
            words += ["ignorable"]
        yield "  " * depth + " ".join(words)
        own = row.get("fields") or structs.get(row["type"].removeprefix("[]"), ())
        yield from _fields(own, structs, depth + 1)


_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""The bytes after the tag of each kind of constant but the texts (JVM specification, 4.4)."""


def _strings(data: bytes) -> Iterator[str]:
    """Yield the texts of a class that are constants of its code, those of concatenations with a mark for each value."""
    (count,) = struct.unpack_from(">H", data, 8)
    at, number, texts, used = 10, 1, {}, []
    while number < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            if tag == 8:
                used.append(struct.unpack_from(">H", data, at + 1)[0])
            at += 1 + _SIZES[tag]
        number += 2 if tag in (5, 6) else 1
    for index in used:
        text = texts[index].replace("\x01", "{}")
        if " " in text.strip():
            yield text
