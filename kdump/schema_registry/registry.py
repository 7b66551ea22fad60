"""The schemas of a registry, as the records of its topic (`_schemas`) add up to them.

The topic is compacted: the last record of a key wins. What was deleted still decodes what was written with it, so a
schema is kept by its id even where its version is deleted softly (`deleted`, DELETE_SUBJECT) or for good (a tombstone:
null, or with Karapace an empty value), as long as compaction has left an earlier record of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import md5
from typing import Any, NamedTuple

from kdump.formats.printable import safe
from kdump.schema_registry.errors import SchemaError, UnknownSchemaError

SCHEMA, DELETE_SUBJECT, CLEAR_SUBJECT = "SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT"
"""The types of keys that say something about schemas; all others (CONFIG, MODE, NOOP, CONTEXT) are skipped."""

MAX_INT = (1 << 31) - 1
MAX_REFERENCES = 1000
"""Schemas that one schema may lead to, itself included."""


class SchemaType(StrEnum):
    """What a schema is written in, as the registry names it."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class State(StrEnum):
    """Whether a version is there for clients; DELETED: softly, REMOVED: for good."""

    ACTIVE = "active"
    DELETED = "deleted"
    REMOVED = "removed"


class Reference(NamedTuple):
    """What a schema's text uses under `name`, and where it is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema under its id, which is one of a context (`""`: the default one)."""

    id: int
    type: str
    text: str
    references: tuple[Reference, ...] = ()
    context: str = ""
    guid: bytes | None = None
    """16 bytes; None where rules or metadata go into it, which kdump cannot write as the registry does."""


@dataclass(slots=True)
class Version:
    """A version of a subject."""

    subject: str
    version: int
    schema: Schema
    state: State = State.ACTIVE


@dataclass(slots=True)
class Registry:
    """The schemas and subjects. `problems` says what could not be understood of the records."""

    versions: dict[tuple[str, int], Version] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Further texts that a schema may import by name, such as the .proto files of a folder."""
    _ids: dict[int, dict[str, Schema]] = field(default_factory=dict)
    _guids: dict[bytes, Schema] = field(default_factory=dict)
    _subjects: dict[int, set[str]] = field(default_factory=dict)
    _bound: set[tuple[int, str]] = field(default_factory=set)
    """Ids with the subjects that have or had them, these without their contexts."""
    _names: set[str] = field(default_factory=set)
    """The subjects without their contexts."""
    _numbers: dict[str, set[int]] = field(default_factory=dict)
    """The versions of each subject."""

    def __bool__(self) -> bool:
        return bool(self._ids)

    @property
    def schemas(self) -> Iterator[Schema]:
        """All schemas, by id."""
        for number in sorted(self._ids):
            yield from self._ids[number].values()

    def of_subject(self, subject: str) -> list[Version]:
        """Return the versions of a subject, oldest first; those removed for good included."""
        return [self.versions[subject, number] for number in sorted(self._numbers.get(subject, ()))]

    def latest(self, subject: str) -> Version | None:
        """Return the newest version that is not deleted, else the newest one."""
        found = self.of_subject(subject)
        active = [each for each in found if each.state is State.ACTIVE]
        newest = active or found
        return newest[-1] if newest else None

    def by_id(self, number: int, subject: str = "") -> Schema | None:
        """Return the schema of an id.

        Where several contexts have the id, it is that of a context in which `subject` has it, else the default one.
        """
        found = self._ids.get(number)
        if not found:
            return None
        if len(found) > 1:
            named = self._subjects.get(number, set())
            for context in sorted(found):  # the default one first: clients that name none use it
                if (f":.{context}:{subject}" if context else subject) in named:
                    return found[context]
            return found.get("") or next(iter(found.values()))
        return next(iter(found.values()))

    def by_guid(self, guid: bytes) -> Schema | None:
        """Return the schema of a GUID (16 bytes)."""
        return self._guids.get(guid)

    def is_bound(self, schema: Schema, subject: str) -> bool:
        """Return whether the subject has or had the schema; its name is without the context."""
        return (schema.id, subject) in self._bound

    def knows_subject(self, subject: str) -> bool:
        """Return whether there is or was such a subject, in any context."""
        return subject in self._names

    def referenced(self, schema: Schema) -> list[tuple[str, Schema]]:
        """Return what a schema leads to, each before what uses it, with the name that its user has for it.

        Raises SchemaError: a reference that is not there, a circle, too many.
        """
        found: dict[tuple[str, int, str], tuple[str, Schema]] = {}
        self._refer(schema, found, (), set())
        return list(found.values())

    def _refer(
        self,
        schema: Schema,
        found: dict[tuple[str, int, str], tuple[str, Schema]],
        above: tuple[Schema, ...],
        done: set[tuple[str, int]],
    ) -> None:
        if len(above) > MAX_REFERENCES or len(found) > MAX_REFERENCES:
            raise SchemaError(f"schema {schema.id} leads to more than {MAX_REFERENCES} others")
        for reference in schema.references:
            version = self._version(reference, schema.context)
            if version is None:
                raise UnknownSchemaError(
                    f"schema {schema.id} refers to {reference.name} ({reference.subject} version {reference.version}),"
                    " which is not among the schemas"
                )
            if version.schema in above or version.schema is schema:
                raise SchemaError(f"schema {schema.id} refers to itself through {reference.name}")
            place = version.subject, version.version
            if place not in done:
                self._refer(version.schema, found, (*above, schema), done)
                done.add(place)
            found.setdefault((*place, reference.name), (reference.name, version.schema))

    def _version(self, reference: Reference, context: str) -> Version | None:
        names = [reference.subject]
        if context and not reference.subject.startswith(":."):
            names.insert(0, f":.{context}:{reference.subject}")
        for name in names:
            if reference.version == -1:  # the latest
                return self.latest(name)
            found = self.versions.get((name, reference.version))
            if found is not None:
                return found
        return None

    def add_record(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record of the topic. What cannot be understood goes into `problems`."""
        try:
            said = _json_object(key, "key")
            kind = said.get("keytype")
            subject, version = said.get("subject"), said.get("version")
            if kind == SCHEMA and isinstance(subject, str) and isinstance(version, int):
                self._take(subject, version, value)
            elif kind == DELETE_SUBJECT and value:
                subject = subject if isinstance(subject, str) else ""
                self._delete_subject(subject, _json_object(value, "value").get("version"))
            elif kind == CLEAR_SUBJECT and isinstance(subject, str):
                for each in self.of_subject(subject):
                    each.state = State.REMOVED
        except SchemaError as error:
            self.problems.append(str(error))

    def _take(self, subject: str, version: int, value: bytes | None) -> None:
        if not value:
            if (known := self.versions.get((subject, version))) is not None:
                known.state = State.REMOVED
            return
        self.add_version(_json_object(value, "value"), subject, version)

    def add_version(self, said: dict[str, Any], subject: str, version: int) -> None:
        """Take a version as the registry's REST or its topic gives it. Raises SchemaError."""
        number, text = said.get("id"), said.get("schema")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_INT:
            raise SchemaError(f"{subject} version {version}: its id is {number!r:.40}")
        if not isinstance(text, str):
            raise SchemaError(f"{subject} version {version}: it has no schema")
        references = _references(said.get("references"))
        has_more = bool(said.get("metadata") or said.get("ruleSet"))
        schema = Schema(
            number,
            str(said.get("schemaType") or SchemaType.AVRO),
            text,
            references,
            context_of(subject),
            _given_guid(said.get("guid")) or (None if has_more else guid_of(text, references)),
        )
        known = self._ids.setdefault(number, {}).setdefault(schema.context, schema)
        if (known.text, known.type, known.references) == (schema.text, schema.type, schema.references):
            schema = known
        else:
            self._ids[number][schema.context] = schema
        if schema.guid:
            self._guids[schema.guid] = schema
        self._subjects.setdefault(number, set()).add(subject)
        self._bound.add((number, bare_subject(subject)))
        self._names.add(bare_subject(subject))
        self._numbers.setdefault(subject, set()).add(version)
        state = State.DELETED if said.get("deleted") is True else State.ACTIVE
        self.versions[subject, version] = Version(subject, version, schema, state)

    def _delete_subject(self, subject: str, last: object) -> None:
        for each in self.of_subject(subject):
            if isinstance(last, int) and each.version <= last and each.state is State.ACTIVE:
                each.state = State.DELETED


def context_of(subject: str) -> str:
    """Return the context that a subject's name begins with (`:.name:`); empty for the default one."""
    if subject.startswith(":."):
        name, found, _ = subject[2:].partition(":")
        if found:
            return name
    return ""


def bare_subject(subject: str) -> str:
    """Return a subject's name without its context."""
    context = context_of(subject)
    return subject[len(context) + 3 :] if subject.startswith(f":.{context}:") else subject


def guid_of(text: str, references: Iterable[Reference]) -> bytes:
    """Return the GUID of a schema without rules and metadata, 16 bytes: an MD5 (the registry's MD5.ofSchema)."""
    digest = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode("utf-8", "surrogatepass"))
        digest.update(subject.encode("utf-8", "surrogatepass"))
        digest.update((version & 0xFFFFFFFF).to_bytes(4, "big"))
    return digest.digest()


def _given_guid(text: object) -> bytes | None:
    from uuid import UUID

    try:
        return UUID(text).bytes if isinstance(text, str) else None
    except ValueError:
        return None


def _references(found: object) -> tuple[Reference, ...]:
    if not found:
        return ()
    if not isinstance(found, list):
        raise SchemaError("its references are no list")
    references = []
    for each in found:
        if not isinstance(each, dict) or not isinstance(each.get("version"), int):
            raise SchemaError("a reference is not one")
        references.append(Reference(str(each.get("name")), str(each.get("subject")), each["version"]))
    return tuple(references)


def _beginning(data: bytes | None) -> str:
    """Return the first bytes of a key or value as text in quotes."""
    return f"'{safe((data or b'')[:60].decode('utf-8', 'backslashreplace'))}'"


def _json_object(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError):
        raise SchemaError(f"the {what} of a record is not JSON: {_beginning(data)}") from None
    if not isinstance(found, dict):
        raise SchemaError(f"the {what} of a record is not a JSON object: {_beginning(data)}")
    return found
