"""The tables of Kafka's generated messages: a `Schema` is made of `Field`s, and `SchemaError` says what breaks it.

`reader`, `writer` and `json_form` interpret the tables; a topic's module holds them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from kdump.errors import RUNTIME, UNSUPPORTED_VERSION, KdumpError, NewerError
from kdump.releases import KafkaRelease

PACKERS = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "float64": struct.Struct(">d"),
    "uuid": struct.Struct(">16s"),
}
_DEFAULTS: dict[str, object] = {"bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b""}
_TYPE_DEFAULT = object()
UNKNOWN_TAGS = "unknownTaggedFields"
"""The key under which a struct's value keeps, by tag, the bytes of the tagged fields that its table does not have."""
_OPEN = 0x7FFF  # the end of a version range such as 3+


class SchemaError(KdumpError):
    """A record's bytes do not follow its schema, or a value cannot be written with it.

    `found`          what is wrong; Kafka's own text where it has one
    `path`           the field, as in members[2].clientId; empty for the whole struct
    `position`       byte position in the data given, or None when encoding
    `kafka_message`  what getMessage() of the exception gives that Kafka's reader throws here; None where it has no text
    `java_class`     that exception's class
    """

    def __init__(
        self,
        found: str,
        position: int | None = None,
        *,
        kafka_message: str | None = None,
        java_class: str = RUNTIME,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.path = ""
        self.position = position
        self.kafka_message = kafka_message
        self.java_class = java_class

    def within(self, step: str) -> None:
        """Put a field's name or an element's index in front of the path, on the way out of a struct."""
        self.path = f"{step}{'' if not self.path or self.path[0] == '[' else '.'}{self.path}"

    def __str__(self) -> str:
        places = [f"field {self.path}"] if self.path else []
        if self.position is not None:
            places.append(f"byte {self.position}")
        return f"{self.found} ({', '.join(places)})" if places else self.found


class NewerRecordError(SchemaError, NewerError):
    """A record's type or version is not known yet: a release that is newer than this kdump wrote it."""


class Field:
    """One field of a struct: a row of the table.

    name        camelCase, as in Kafka's JSON
    kind        a scalar type, the name of a struct, or either after `[]`
    versions    those that have the field: "0+", "1", "2-3"
    nullable    the versions in which it may be null
    tag         number of a tagged field
    default     what versions without the field, or a tagged section without it, stand for
    ignorable   whether another value than the default may be dropped where a version lacks the field
    since       the first release that has this tagged field in a version that older ones have without it
    fields      of the struct
    """

    def __init__(
        self,
        name: str,
        kind: str,
        versions: str = "0+",
        *,
        nullable: str = "",
        tag: int | None = None,
        default: object = _TYPE_DEFAULT,
        ignorable: bool = False,
        since: KafkaRelease | None = None,
        fields: tuple[Field, ...] | None = None,
    ) -> None:
        self.name = name
        self.array = kind.startswith("[]")
        self.kind = kind[2:] if self.array else kind
        self.first, self.last = _version_range(versions)
        self.null_first, self.null_last = _version_range(nullable) if nullable else (0, -1)
        self.tag = tag
        self.default = default
        self.ignorable = ignorable
        self.since = since
        self.fields = fields

    def is_known_to(self, release: KafkaRelease | None) -> bool:
        """Return whether a release has the field; None stands for the newest one known."""
        return release is None or self.since is None or self.since <= release

    def initial(self) -> Any:
        """Return the default, as a fresh object."""
        if self.default is not _TYPE_DEFAULT:
            return self.default
        if self.array:
            return []
        if self.fields is not None:
            return {field.name: field.initial() for field in self.fields}
        return _DEFAULTS.get(self.kind, 0)


class Schema:
    """A message: its name, its versions as "0-3", the first flexible version as "1+" or "none", its fields in order.

    `since` gives the first release that has a version, for those that came after Kafka 3.9.
    """

    __slots__ = ("_layouts", "_since", "fields", "first", "flexible", "last", "name")

    def __init__(
        self,
        name: str,
        versions: str,
        flexible: str,
        *fields: Field,
        since: Mapping[int, KafkaRelease] | None = None,
    ) -> None:
        self.name = name
        self.first, self.last = _version_range(versions)
        self.flexible = _OPEN + 1 if flexible == "none" else _version_range(flexible)[0]
        self.fields = fields
        self._since = since or {}
        self._layouts: dict[tuple[int, KafkaRelease | None], Layout] = {}

    def check_version(self, version: int, position: int | None = None) -> None:
        """Raise SchemaError for a version that this schema does not describe; NewerRecordError for a higher one."""
        if not self.first <= version <= self.last:
            known = f"{self.first} to {self.last} are" if self.first != self.last else f"only {self.first} is"
            found = f"Unknown version {version} of {self.name}: {known} known"
            kind = NewerRecordError if version > self.last else SchemaError
            raise kind(found, position, java_class=UNSUPPORTED_VERSION)

    def last_of(self, release: KafkaRelease | None) -> int:
        """Return the highest version that a release has; None stands for the newest one known."""
        newer = [version for version, since in self._since.items() if release is not None and release < since]
        return min(newer) - 1 if newer else self.last

    def layout(self, version: int, release: KafkaRelease | None = None) -> Layout:
        """Return the fields of a version in a release; one out of range is read as the nearest, as Kafka does."""
        version = min(max(version, self.first), self.last_of(release))
        layout = self._layouts.get((version, release))
        if layout is None:
            layout = Layout(self.name, self.fields, version, version >= self.flexible, release)
            self._layouts[version, release] = layout
        return layout


class Layout:
    """A struct at one version in one release.

    `columns` are its fields in order, `plain` those that are not tagged, `tagged` the others by tag; `absent` are the
    fields and `foreign_tags` the tags that only other versions have.
    """

    __slots__ = ("_fresh", "_template", "absent", "columns", "flexible", "foreign_tags", "name", "plain", "tagged")

    def __init__(
        self, name: str, fields: tuple[Field, ...], version: int, flexible: bool, release: KafkaRelease | None
    ) -> None:
        fields = tuple(field for field in fields if field.is_known_to(release))
        self.name = name
        self.flexible = flexible
        self.columns = tuple(Column(f, version, flexible, release) for f in fields if f.first <= version <= f.last)
        self.plain = tuple(column for column in self.columns if column.tag is None)
        self.tagged = {column.tag: column for column in self.columns if column.tag is not None}
        self.absent = tuple(field for field in fields if not field.first <= version <= field.last)
        self.foreign_tags = {field.tag for field in self.absent if field.tag is not None}
        self._template = {field.name: field.initial() for field in fields}
        always_read = {column.name for column in self.plain}
        self._fresh = tuple(
            field
            for field in fields
            if field.name not in always_read and isinstance(self._template[field.name], (list, dict))
        )

    def blank(self) -> dict[str, Any]:
        """Return a dict of all fields with their defaults, in schema order."""
        value = self._template.copy()
        for field in self._fresh:
            value[field.name] = field.initial()
        return value

    def has(self, name: str) -> bool:
        """Return whether the struct has a field of that name, in this version or another."""
        return name in self._template


class Column:
    """A field at one version. `packer` is that of a type of fixed size, `layout` that of a struct."""

    __slots__ = ("array", "field", "flexible", "kind", "layout", "name", "nullable", "packer", "tag")

    def __init__(self, field: Field, version: int, flexible: bool, release: KafkaRelease | None) -> None:
        self.field = field
        self.name = field.name
        self.kind = field.kind
        self.array = field.array
        self.tag = field.tag
        self.flexible = flexible
        self.nullable = field.null_first <= version <= field.null_last
        self.packer = PACKERS.get(field.kind)
        nested = field.fields
        self.layout = None if nested is None else Layout(field.kind, nested, version, flexible, release)

    @property
    def endless(self) -> bool:
        """Whether the table gives no last version: Kafka then refuses the struct beyond the message's versions."""
        return self.field.last == _OPEN


def _version_range(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), _OPEN
    first, dash, last = text.partition("-")
    return int(first), int(last if dash else first)
