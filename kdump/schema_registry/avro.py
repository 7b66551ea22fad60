"""Avro: values of the writer's schema, by fastavro.

A schema is rewritten before fastavro sees it: what it refers to is put in its place, names are full, and the types
whose values JSON or Arrow have another form for get a logical type of our own, by which fastavro calls the function
that makes that form (`shown`: JSON; `native`: values that Arrow takes). So the branch of a union decides, not a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from kdump.formats.encode import varint
from kdump.schema_registry.avro_depth import MAX_DEPTH, check_depth, named_types
from kdump.schema_registry.avro_values import READERS, Form
from kdump.schema_registry.errors import ExtraMissingError, SchemaError
from kdump.schema_registry.nesting import MAX_NESTING, check_nesting, nesting

Json = Any
PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = ("record", "error", "enum", "fixed")
_OF_NOTHING, _OF_NOTHING_EACH, _PER_BYTE = 1000, 16, 16
"""Values that one value may hold beyond those that its bytes allow for: alone, and where there are many of it.

Records of records can double with every definition, and take no bytes.
"""
_NO_NAMESPACE = "no_namespace_"
"""Stands for the null namespace, so that every name is a full one."""


class AvroSchema:
    """A schema with all that it refers to, ready to decode with. Raises SchemaError."""

    def __init__(self, text: str, references: Iterable[str] = (), form: Form = Form.SHOWN) -> None:
        """Take `references`, the texts of the schemas that it leads to, each before what uses it."""
        definitions: dict[str, Json] = {}
        for each in references:
            _define(load(each), "", definitions)
        self.rewriter = Rewriter(definitions, form)
        self.json = self.rewriter.rewrite(load(text))
        self._may_be_deep = self.rewriter.is_recursive or nesting(self.json) > MAX_NESTING
        self._parsed = _parse(self.json)
        if form is Form.NATIVE:
            _set_defaults(self._parsed, named_types(self._parsed))
        self._is_bytes = (self.json.get("type") if isinstance(self.json, dict) else self.json) == "bytes"
        """All of a payload is the value then: Confluent's serializers write no length (NonRecordContainer and
        AbstractKafkaAvroSerializer in Java, AvroSerializer in Python), and their deserializers expect none."""

    def decode(self, payload: bytes, reader: AvroSchema | None = None) -> Any:
        """Return the value of a payload, as the reader's schema has it if one is given. Raises SchemaError."""
        if self.rewriter.is_recursive and len(payload) > MAX_DEPTH:
            check_depth(self.json, payload)
        if self._is_bytes:
            payload = varint(len(payload)) + payload
        stream = BytesIO(payload)
        try:
            value = _fastavro().schemaless_reader(stream, self._parsed, reader._parsed if reader else None)
        except SchemaError:
            raise
        except Exception as error:  # fastavro raises whatever its parts do, of bytes that are not what they should be
            why = f"{type(error).__name__}: {error}" if str(error) else "it breaks off"
            if type(error).__name__ == "SchemaResolutionError":
                raise SchemaError(f"it cannot be read by the schema of the column: {error}") from None
            raise SchemaError(f"not what its Avro schema says: {why}") from None
        left = len(payload) - stream.tell()
        if left:
            raise SchemaError(f"not what its Avro schema says: {left} bytes are left")
        if self._may_be_deep:
            check_nesting(value)
        return value


class _Sized(NamedTuple):
    """A schema as fastavro gets it, with what a value of it takes at least: bytes, and values within each other."""

    schema: Json
    least: int
    values: int = 1


class Rewriter:
    """Rewrites schemas; `is_recursive` when one of them has come upon itself."""

    def __init__(self, definitions: Mapping[str, Json], form: Form) -> None:
        self.is_recursive = False
        self._definitions = definitions
        self._form = form
        self._sizes: dict[str, _Sized] = {}  # of named types that are complete
        self._open: set[str] = set()
        self._direct: frozenset[str] = frozenset()  # records that are around, with nothing between that could end them

    def rewrite(self, schema: Json) -> Json:
        """Return the schema as fastavro gets it. Raises SchemaError."""
        try:
            return self._any(schema, "").schema
        except RecursionError:
            raise SchemaError("a schema that is nested too deeply") from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SchemaError(f"no Avro schema: {type(error).__name__}: {error}") from None

    def _any(self, schema: Json, namespace: str) -> _Sized:
        if isinstance(schema, list):
            return _Sized([self._inner(branch, namespace).schema for branch in schema], 1)
        if isinstance(schema, str):
            return self._primitive({"type": schema}) if schema in PRIMITIVES else self._reference(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._any(kind, namespace)
        if kind in PRIMITIVES:
            return self._primitive(schema)
        if kind == "array":
            items = self._inner(schema["items"], namespace)
            if not items.least:
                raise SchemaError("an array of items that take no bytes, whose number nothing bounds")
            return _Sized({"type": "array", "items": _bounded(items, _OF_NOTHING_EACH).schema}, 1)
        if kind == "map":
            values = self._inner(schema["values"], namespace)
            return _Sized({"type": "map", "values": _bounded(values, _OF_NOTHING_EACH).schema}, 1)
        if kind in _NAMED:
            return self._named(kind, schema, namespace)
        return self._reference(kind, namespace)

    def _inner(self, schema: Json, namespace: str) -> _Sized:
        """Rewrite what there need not be any of."""
        around, self._direct = self._direct, frozenset()
        found = self._any(schema, namespace)
        self._direct = around
        return found

    def _primitive(self, schema: Json) -> _Sized:
        kind, logical = schema["type"], _logical_name(schema)
        least = {"null": 0, "float": 4, "double": 8}.get(kind, 1)
        name = f"{kind}-kdump-{self._form}-{logical}" if logical else ""
        if not logical or name not in READERS:
            name = f"{kind}-kdump-{self._form}-plain"
            if name not in READERS:
                return _Sized(kind, least)
        return _Sized({**_decimals(schema), "type": kind, "logicalType": name.removeprefix(f"{kind}-")}, least)

    def _reference(self, name: str, namespace: str) -> _Sized:
        for full in dict.fromkeys((full_name(name, namespace), full_name(name, ""))):
            if full in self._direct:
                raise SchemaError(f"{full} holds itself, without end")
            if full in self._open:
                self.is_recursive = True
                return _Sized(full, 1)
            if full in self._sizes:
                return self._sizes[full]
            if full in self._definitions:
                definition, around = self._definitions[full]
                return self._any(definition, around)
        raise SchemaError(f"the type {name!r:.60} is not defined")

    def _named(self, kind: str, schema: Json, namespace: str) -> _Sized:
        full = full_name(schema["name"], schema.get("namespace", namespace))
        inner = full.rpartition(".")[0]
        if full in self._sizes:  # defined again, as happens where texts are put together
            return self._sizes[full]
        made: Json = {"type": kind, "name": full}
        aliases = schema.get("aliases")
        if aliases:
            made["aliases"] = [full_name(alias, inner) for alias in aliases]
        least, values = 1, 1
        if kind == "enum":
            made["symbols"] = schema["symbols"]
            if "default" in schema:
                made["default"] = schema["default"]
        elif kind == "fixed":
            made |= {"size": schema["size"], **self._fixed_logical(schema)}
            least = int(schema["size"])
        else:
            made["type"] = "record"
            self._open.add(full)
            around, self._direct = self._direct, self._direct | {full}
            fields = [(field, self._any(field["type"], inner)) for field in schema["fields"]]
            self._open.remove(full)
            self._direct = around
            made["fields"] = [_field(field, shown.schema) for field, shown in fields]
            least = sum(shown.least for _, shown in fields)
            values += sum(shown.values for _, shown in fields)
        self._sizes[full] = _bounded(_Sized(full, least, values), _OF_NOTHING)
        return _Sized(made, least, values)

    def _fixed_logical(self, schema: Json) -> Json:
        name = f"fixed-kdump-{self._form}-{_logical_name(schema) or 'plain'}"
        if name not in READERS:
            name = f"fixed-kdump-{self._form}-plain"
        if name not in READERS:
            return {}
        return {**_decimals(schema), "logicalType": name.removeprefix("fixed-")}


def _bounded(found: _Sized, most: int) -> _Sized:
    """Return what was found. Raises SchemaError where a few bytes would make more values than anybody wants."""
    if found.values > most + _PER_BYTE * found.least:
        raise SchemaError(f"a type whose values hold {found.values:,} others in {found.least:,} bytes")
    return found


def _set_defaults(parsed: Json, named: dict[str, Json]) -> None:
    """Make the defaults of a reader's schema values as they are read: fastavro gives them as they are written."""
    if isinstance(parsed, list):
        for branch in parsed:
            _set_defaults(branch, named)
    elif isinstance(parsed, dict):
        for field in parsed.get("fields", ()):
            _set_defaults(field["type"], named)
            if "default" in field:
                field["default"] = _default(field["type"], field["default"], named)
        for inner in ("items", "values"):
            _set_defaults(parsed.get(inner), named)


def _default(schema: Json, value: Json, named: dict[str, Json]) -> Any:
    if isinstance(schema, list):  # a default is of the first branch
        if value is None:
            return None
        return _default(next((branch for branch in schema if branch != "null"), "null"), value, named)
    if isinstance(schema, str):
        if schema not in named:
            return value.encode("latin-1", "replace") if schema == "bytes" and isinstance(value, str) else value
        schema = named[schema]
    kind = schema["type"]
    if kind == "record" and isinstance(value, dict):
        fields = {field["name"]: field for field in schema["fields"]}
        made = {name: _default(fields[name]["type"], each, named) for name, each in value.items() if name in fields}
        return {name: made.get(name, field.get("default")) for name, field in fields.items()}
    if kind == "array" and isinstance(value, list):
        return [_default(schema["items"], each, named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _default(schema["values"], each, named) for name, each in value.items()}
    if kind in ("bytes", "fixed") and isinstance(value, str):
        value = value.encode("latin-1", "replace")
    read = READERS.get(f"{kind}-{schema.get('logicalType')}")
    return read(value, schema) if read and value is not None else value


def load(text: str) -> Json:
    """Return a schema's text as JSON; a bare name is one too. Raises SchemaError."""
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("no Avro schema: not JSON") from None


def full_name(name: str, namespace: str | None) -> str:
    """Return a type's name with its namespace."""
    if "." in name:
        return name
    return f"{namespace or _NO_NAMESPACE}.{name}"


def _define(schema: Json, namespace: str, definitions: dict[str, Json]) -> None:
    """Note the named types of a schema, with the namespace around them; the first one of a name counts."""
    if isinstance(schema, list):
        for branch in schema:
            _define(branch, namespace, definitions)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _NAMED and isinstance(schema.get("name"), str):
            full = full_name(schema["name"], schema.get("namespace", namespace))
            definitions.setdefault(full, (schema, namespace))
            for field in schema.get("fields") or ():
                if isinstance(field, dict):
                    _define(field.get("type"), full.rpartition(".")[0], definitions)
        else:
            for inner in (kind, schema.get("items"), schema.get("values")):
                _define(inner, namespace, definitions)


def _field(field: Json, shown: Json) -> Json:
    made = {"name": field["name"], "type": shown}
    for more in ("default", "aliases"):
        if more in field:
            made[more] = field[more]
    return made


def _logical_name(schema: Json) -> str:
    name = schema.get("logicalType")
    return name if isinstance(name, str) else ""


def _decimals(schema: Json) -> Json:
    return {name: schema[name] for name in ("precision", "scale") if isinstance(schema.get(name), int)}


@cache
def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ExtraMissingError("decoding Avro", error) from None
    fastavro.read.LOGICAL_READERS.update(READERS)  # under names of our own: nobody else meets them
    return fastavro


def _parse(schema: Json) -> Any:
    try:
        return _fastavro().parse_schema(schema)
    except ExtraMissingError:
        raise
    except Exception as error:  # of fastavro's own kinds, and others for schemas that are none
        raise SchemaError(f"no Avro schema: {type(error).__name__}: {error}") from None
