""".proto files (proto2, proto3, editions) as descriptors of the protobuf library.

As much of the language as decoding needs: messages, groups, enums, oneofs, maps, extensions, and the options that
change the wire or the JSON (packed, json_name, default, allow_alias, map_entry, features). Names of types stay as they
are written: the descriptor pool resolves them by scope, as protoc does. Services and other options are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kdump.schemas.errors import SchemaError

MAX_NESTING = 100
MAX_FIELD = (1 << 29) - 1
_MAX_EXTENSION = MAX_FIELD + 1

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}\[\]()<>;,=.+\-:/])""",
    re.DOTALL,
)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_KEYS = frozenset(number for kind, number in _SCALARS.items() if kind not in ("double", "float", "bytes"))
"""What the key of a map may be."""
_GROUP, _MESSAGE = 10, 11
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_FEATURES = {
    "field_presence": ("EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"),
    "enum_type": ("OPEN", "CLOSED"),
    "repeated_field_encoding": ("PACKED", "EXPANDED"),
    "utf8_validation": (None, "VERIFY", "NONE"),
    "message_encoding": ("LENGTH_PREFIXED", "DELIMITED"),
    "json_format": ("ALLOW", "LEGACY_BEST_EFFORT"),
}
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_ESCAPED = re.compile(rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def parse_proto(text: str, name: str) -> Any:
    """The FileDescriptorProto of a .proto file's text; `name` is the path that imports name it by.

    Raises SchemaError for what is no .proto file.
    """
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=name)
    try:
        _Parser(text, file, descriptor_pb2).parse()
    except (ValueError, TypeError) as error:  # numbers that do not fit, text that is not UTF-8
        raise SchemaError(f"no .proto file: {error}") from None
    return file


class _Parser:
    def __init__(self, text: str, file: Any, library: Any) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._file = file
        self._library = library
        self._depth = 0

    # --- tokens

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _after(self) -> str:
        """The token behind the next one."""
        return self._tokens[self._at + 1][0] if self._at + 1 < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise SchemaError("no .proto file: it breaks off")
        self._at += 1
        return token

    def _skips(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        line = self._tokens[self._at][1] if self._at < len(self._tokens) else 0
        found = self._next()
        if found != token:
            raise SchemaError(f"no .proto file: line {line}: expected {token!r}, found {found!r:.40}")

    def _name(self) -> str:
        """A name, dots included."""
        parts = ["."] if self._skips(".") else []
        parts.append(self._next())
        while self._skips("."):
            parts += (".", self._next())
        return "".join(parts)

    def _number(self) -> int:
        sign = -1 if self._skips("-") else 1
        return sign * _integer(self._next())

    def _text(self) -> bytes:
        parts = []
        while self._peek()[:1] in ("'", '"') and self._peek():
            parts.append(_unescape(self._next()))
        if not parts:
            raise SchemaError(f"no .proto file: expected a text, found {self._peek()!r:.40}")
        return b"".join(parts)

    # --- the file

    def parse(self) -> None:
        file = self._file
        while self._peek():
            if self._skips(";"):
                continue
            word = self._next()
            if word == "syntax":
                self._expect("=")
                file.syntax = self._text().decode()
                self._expect(";")
            elif word == "edition":
                self._expect("=")
                file.syntax = "editions"
                file.edition = self._library.Edition.Value(f"EDITION_{self._text().decode()}")
                self._expect(";")
            elif word == "package":
                file.package = self._name()
                self._expect(";")
            elif word == "import":
                self._import()
            elif word == "option":
                self._option_statement(file.options)
            elif word == "message":
                self._message(file.message_type.add())
            elif word == "enum":
                self._enum(file.enum_type.add())
            elif word == "extend":
                self._extend(file.extension, file.message_type)
            elif word == "service":
                self._name()
                self._skip_block()
            else:
                raise SchemaError(f"no .proto file: found {word!r:.40}")

    def _import(self) -> None:
        kind = self._next() if self._peek() in ("public", "weak", "option") else ""
        path = self._text().decode()
        self._expect(";")
        if kind == "option":  # of edition 2024: only for options, which are skipped
            return
        if kind == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(path)

    # --- messages

    def _message(self, message: Any) -> None:
        message.name = self._next()
        self._body(message)

    def _body(self, message: Any) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise SchemaError(f"no .proto file: messages are nested more than {MAX_NESTING} deep")
        self._expect("{")
        while not self._skips("}"):
            self._member(message)
        self._depth -= 1
        self._presence(message)
        _mark_map_entries(message)

    def _member(self, message: Any) -> None:
        if self._skips(";"):
            return
        word = self._peek()
        is_name = self._after() not in (".", "=")  # a type may have any of these words for its name
        if word == "message" and is_name:
            self._next()
            self._message(message.nested_type.add())
        elif word == "enum" and is_name:
            self._next()
            self._enum(message.enum_type.add())
        elif word == "extend" and is_name:
            self._next()
            self._extend(message.extension, message.nested_type)
        elif word == "oneof" and is_name:
            self._next()
            self._oneof(message)
        elif word == "option" and is_name:
            self._next()
            self._option_statement(message.options)
        elif word in ("reserved", "extensions") and is_name:
            self._next()
            self._ranges(message, is_extension=word == "extensions")
        else:
            self._field(message.field, message.nested_type)

    def _field(self, fields: Any, nested: Any, oneof: int | None = None, extendee: str = "") -> None:
        label = _LABELS.get(self._peek(), 0) if oneof is None else 0
        if label:
            self._next()
        is_optional = label == _LABELS["optional"]
        if self._peek() == "map" and self._after() == "<":
            self._map(fields, nested)
            return
        kind = self._name()
        field = fields.add(label=label or 1)
        if extendee:
            field.extendee = extendee
        if oneof is not None:
            field.oneof_index = oneof
        name = self._next()
        self._expect("=")
        field.number = self._number()
        if kind == "group":
            field.name, field.type, field.type_name = name.lower(), _GROUP, name
            self._field_options(field)
            group = nested.add(name=name)
            self._body(group)
            return
        field.name = name
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind
        self._field_options(field)
        self._expect(";")
        if is_optional and self._file.syntax == "proto3" and not extendee:
            field.proto3_optional = True

    def _map(self, fields: Any, nested: Any) -> None:
        self._expect("map")
        self._expect("<")
        key = self._name()
        self._expect(",")
        value = self._name()
        self._expect(">")
        name = self._next()
        entry = nested.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=part, number=number, label=1)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type_name = kind
        self._expect("=")
        field = fields.add(name=name, label=3, type=_MESSAGE, type_name=entry.name, number=self._number())
        self._field_options(field)
        self._expect(";")

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._next())
        self._expect("{")
        while not self._skips("}"):
            if self._skips(";"):
                continue
            if self._peek() == "option" and self._after() != ".":
                self._next()
                self._option_statement(None)
                continue
            self._field(message.field, message.nested_type, index)

    def _presence(self, message: Any) -> None:
        """Give each `optional` field of proto3 the oneof of its own that stands for its presence, behind all others."""
        taken = {oneof.name for oneof in message.oneof_decl} | {field.name for field in message.field}
        for field in message.field:
            if not field.proto3_optional:
                continue
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)

    def _extend(self, extensions: Any, nested: Any) -> None:
        extendee = self._name()
        self._expect("{")
        while not self._skips("}"):
            if not self._skips(";"):
                self._field(extensions, nested, extendee=extendee)

    def _ranges(self, message: Any, *, is_extension: bool) -> None:
        """Take the numbers that extensions may have; what is reserved says nothing about what is written."""
        while not self._skips(";"):
            token = self._peek()
            if token == "[":
                self._skip_brackets()
            elif not token[:1].isdigit() or not is_extension:
                self._next()
            else:
                start = self._number()
                end = start
                if self._skips("to"):
                    end = MAX_FIELD if self._skips("max") else self._number()
                message.extension_range.add(start=start, end=min(end + 1, _MAX_EXTENSION))

    def _enum(self, enum: Any) -> None:
        enum.name = self._next()
        self._expect("{")
        while not self._skips("}"):
            if self._skips(";"):
                continue
            after = self._after()
            if self._peek() == "option" and after != "=":
                self._next()
                self._option_statement(enum.options)
            elif self._peek() == "reserved" and after != "=":
                while not self._skips(";"):
                    self._next()
            else:
                value = enum.value.add(name=self._next())
                self._expect("=")
                value.number = self._number()
                if self._peek() == "[":
                    self._skip_brackets()
                self._expect(";")

    # --- options

    def _option_statement(self, options: Any) -> None:
        name = self._option_name()
        self._expect("=")
        value = self._value()
        self._expect(";")
        if options is not None:
            self._set(options, name, value)

    def _field_options(self, field: Any) -> None:
        if not self._skips("["):
            return
        while True:
            name = self._option_name()
            self._expect("=")
            value = self._value()
            if name == "default":
                field.default_value = _default(value)
            elif name == "json_name" and isinstance(value, bytes):
                field.json_name = value.decode()
            else:
                self._set(field.options, name, value)
            if self._skips("]"):
                return
            self._expect(",")

    def _option_name(self) -> str:
        parts = []
        while self._peek() != "=":
            if self._skips("("):
                parts.append(f"({self._name()})")
                self._expect(")")
            else:
                parts.append(self._next())
        return "".join(parts)

    def _value(self) -> str | bytes | None:
        """A text, a word or number as it is written, or None for a message, which is skipped."""
        token = self._peek()
        if token[:1] in ("'", '"') and token:
            return self._text()
        if token == "{":
            self._skip_block()
            return None
        sign = self._next() if token in ("-", "+") else ""
        return sign + self._next()

    def _set(self, options: Any, name: str, value: str | bytes | None) -> None:
        if name in ("packed", "allow_alias", "map_entry", "message_set_wire_format") and hasattr(options, name):
            setattr(options, name, value == "true")
        elif name.startswith("features.") and isinstance(value, str) and hasattr(options, "features"):
            feature = name.removeprefix("features.")
            values = _FEATURES.get(feature, ())
            if value in values:
                setattr(options.features, feature, values.index(value) + 1)

    def _skip_block(self) -> None:
        self._expect("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self._next(), 0)

    def _skip_brackets(self) -> None:
        self._expect("[")
        depth = 1
        while depth:
            depth += {"[": 1, "]": -1}.get(self._next(), 0)


def _mark_map_entries(message: Any) -> None:
    """Make map entries again of messages that are nothing else but what protoc makes of a map.

    Registries store what a descriptor prints as, and printers drop the option that says so (Karapace does): what was
    `map<string, int32> by_id` is then a nested message `ByIdEntry` of a key and a value, and a repeated field of it.
    """
    nested = {each.name: each for each in message.nested_type if _looks_like_map_entry(each)}
    for field in message.field:
        name = f"{_camel(field.name)}Entry"
        if name in nested and field.label == _LABELS["repeated"] and field.type_name.rpartition(".")[2] == name:
            nested[name].options.map_entry = True


def _looks_like_map_entry(message: Any) -> bool:
    if [(each.name, each.number, each.label) for each in message.field] != [("key", 1, 1), ("value", 2, 1)]:
        return False
    has_more = message.nested_type or message.enum_type or message.oneof_decl or message.extension_range
    return not has_more and message.field[0].type in _KEYS


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise SchemaError(f"no .proto file: line {line}: found {text[at : at + 20]!r}")
        if not found["space"]:
            yield found[0], line
        line += found[0].count("\n")
        at = found.end()


def _integer(token: str) -> int:
    try:
        if token[:2] in ("0x", "0X"):
            return int(token, 16)
        return int(token, 8 if len(token) > 1 and token[0] == "0" else 10)
    except ValueError:
        raise SchemaError(f"no .proto file: expected a number, found {token!r:.40}") from None


def _unescape(token: str) -> bytes:
    return _ESCAPED.sub(_escaped, token[1:-1].encode())


def _escaped(found: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, plain = found.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if short or long:
        return chr(int(short or long, 16)).encode("utf-8", "replace")
    code = _ESCAPES.get(plain.decode("latin-1"))
    return plain if code is None else bytes([code])


def _default(value: str | bytes | None) -> str:
    """A default as descriptors have it: text as it is, bytes escaped, all else as it is written."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\{byte:03o}" for byte in value)
    return value or ""


def _camel(name: str) -> str:
    """The name of a map's entry as protoc makes it: `by_id` → `ById`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
