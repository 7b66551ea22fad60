""".proto files (proto2, proto3, editions) as descriptors of the protobuf library.

As much of the language as decoding needs: messages, groups, enums, oneofs, maps, extensions, and the options that
change the wire or the JSON (packed, json_name, default, allow_alias, map_entry, features). Names of types stay as they
are written: the descriptor pool resolves them by scope, as protoc does. Services and other options are skipped.
"""

from __future__ import annotations

from typing import Any

from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.proto_tokens import Tokens

MAX_NESTING = 100
MAX_FIELD = (1 << 29) - 1
_MAX_EXTENSION = MAX_FIELD + 1

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


def parse_proto(text: str, name: str) -> Any:
    """Return the FileDescriptorProto of a .proto file's text; `name` is the path that imports name it by.

    Raises SchemaError for what is no .proto file.
    """
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=name)
    try:
        _Parser(text, file, descriptor_pb2).parse()
    except (ValueError, TypeError) as error:  # numbers that do not fit, text that is not UTF-8
        raise SchemaError(f"no .proto file: {error}") from None
    return file


class _Parser(Tokens):
    def __init__(self, text: str, file: Any, library: Any) -> None:
        super().__init__(text)
        self._file = file
        self._library = library
        self._depth = 0

    # --- the file

    def parse(self) -> None:
        file = self._file
        statements = {
            "syntax": self._syntax,
            "edition": self._edition,
            "package": self._package,
            "import": self._import,
            "option": lambda: self._option_statement(file.options),
            "message": lambda: self._message(file.message_type.add()),
            "enum": lambda: self._enum(file.enum_type.add()),
            "extend": lambda: self._extend(file.extension, file.message_type),
            "service": self._service,
        }
        while self.peek():
            if self.skips(";"):
                continue
            word = self.next()
            if word not in statements:
                raise SchemaError(f"no .proto file: found {word!r:.40}")
            statements[word]()

    def _syntax(self) -> None:
        self.expect("=")
        self._file.syntax = self.text().decode()
        self.expect(";")

    def _edition(self) -> None:
        self.expect("=")
        self._file.syntax = "editions"
        self._file.edition = self._library.Edition.Value(f"EDITION_{self.text().decode()}")
        self.expect(";")

    def _package(self) -> None:
        self._file.package = self.name()
        self.expect(";")

    def _service(self) -> None:
        self.name()
        self.skip_block()

    def _import(self) -> None:
        kind = self.next() if self.peek() in ("public", "weak", "option") else ""
        path = self.text().decode()
        self.expect(";")
        if kind == "option":  # of edition 2024: only for options, which are skipped
            return
        if kind == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(path)

    # --- messages

    def _message(self, message: Any) -> None:
        message.name = self.next()
        self._body(message)

    def _body(self, message: Any) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise SchemaError(f"no .proto file: messages are nested more than {MAX_NESTING} deep")
        for word in self.statements():
            self._member(message, word)
        self._depth -= 1
        self._presence(message)
        _mark_map_entries(message)

    def _member(self, message: Any, word: str) -> None:
        is_name = self.after() not in (".", "=")  # a type may have any of these words for its name
        if word == "message" and is_name:
            self.next()
            self._message(message.nested_type.add())
        elif word == "enum" and is_name:
            self.next()
            self._enum(message.enum_type.add())
        elif word == "extend" and is_name:
            self.next()
            self._extend(message.extension, message.nested_type)
        elif word == "oneof" and is_name:
            self.next()
            self._oneof(message)
        elif word == "option" and is_name:
            self.next()
            self._option_statement(message.options)
        elif word in ("reserved", "extensions") and is_name:
            self.next()
            self._ranges(message, is_extension=word == "extensions")
        else:
            self._field(message.field, message.nested_type)

    def _field(self, fields: Any, nested: Any, oneof: int | None = None, extendee: str = "") -> None:
        label = _LABELS.get(self.peek(), 0) if oneof is None else 0
        if label:
            self.next()
        is_optional = label == _LABELS["optional"]
        if self.peek() == "map" and self.after() == "<":
            self._map(fields, nested)
            return
        kind = self.name()
        field = fields.add(label=label or 1)
        if extendee:
            field.extendee = extendee
        if oneof is not None:
            field.oneof_index = oneof
        name = self.next()
        self.expect("=")
        field.number = self.number()
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
        self.expect(";")
        if is_optional and self._file.syntax == "proto3" and not extendee:
            field.proto3_optional = True

    def _map(self, fields: Any, nested: Any) -> None:
        self.expect("map")
        self.expect("<")
        key = self.name()
        self.expect(",")
        value = self.name()
        self.expect(">")
        name = self.next()
        entry = nested.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=part, number=number, label=1)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type_name = kind
        self.expect("=")
        field = fields.add(name=name, label=3, type=_MESSAGE, type_name=entry.name, number=self.number())
        self._field_options(field)
        self.expect(";")

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self.next())
        for word in self.statements():
            if word == "option" and self.after() != ".":
                self.next()
                self._option_statement(None)
            else:
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
        extendee = self.name()
        for _ in self.statements():
            self._field(extensions, nested, extendee=extendee)

    def _ranges(self, message: Any, *, is_extension: bool) -> None:
        """Take the numbers that extensions may have; what is reserved says nothing about what is written."""
        while not self.skips(";"):
            token = self.peek()
            if token == "[":
                self.skip_brackets()
            elif not token[:1].isdigit() or not is_extension:
                self.next()
            else:
                start = self.number()
                end = start
                if self.skips("to"):
                    end = MAX_FIELD if self.skips("max") else self.number()
                message.extension_range.add(start=start, end=min(end + 1, _MAX_EXTENSION))

    def _enum(self, enum: Any) -> None:
        enum.name = self.next()
        for word in self.statements():
            after = self.after()
            if word == "option" and after != "=":
                self.next()
                self._option_statement(enum.options)
            elif word == "reserved" and after != "=":
                while not self.skips(";"):
                    self.next()
            else:
                value = enum.value.add(name=self.next())
                self.expect("=")
                value.number = self.number()
                if self.peek() == "[":
                    self.skip_brackets()
                self.expect(";")

    # --- options

    def _option_statement(self, options: Any) -> None:
        name = self._option_name()
        self.expect("=")
        value = self._value()
        self.expect(";")
        if options is not None:
            self._set(options, name, value)

    def _field_options(self, field: Any) -> None:
        if not self.skips("["):
            return
        while True:
            name = self._option_name()
            self.expect("=")
            value = self._value()
            if name == "default":
                field.default_value = _default(value)
            elif name == "json_name" and isinstance(value, bytes):
                field.json_name = value.decode()
            else:
                self._set(field.options, name, value)
            if self.skips("]"):
                return
            self.expect(",")

    def _option_name(self) -> str:
        parts = []
        while self.peek() != "=":
            if self.skips("("):
                parts.append(f"({self.name()})")
                self.expect(")")
            else:
                parts.append(self.next())
        return "".join(parts)

    def _value(self) -> str | bytes | None:
        """Return a text, a word or number as it is written, or None for a message, which is skipped."""
        token = self.peek()
        if token[:1] in ("'", '"') and token:
            return self.text()
        if token == "{":
            self.skip_block()
            return None
        sign = self.next() if token in ("-", "+") else ""
        return sign + self.next()

    def _set(self, options: Any, name: str, value: str | bytes | None) -> None:
        if name in ("packed", "allow_alias", "map_entry", "message_set_wire_format") and hasattr(options, name):
            setattr(options, name, value == "true")
        elif name.startswith("features.") and isinstance(value, str) and hasattr(options, "features"):
            feature = name.removeprefix("features.")
            values = _FEATURES.get(feature, ())
            if value in values:
                setattr(options.features, feature, values.index(value) + 1)


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


def _default(value: str | bytes | None) -> str:
    """Return a default as descriptors have it: text as it is, bytes escaped, all else as it is written."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "".join(map(_escaped, value.decode("latin-1")))
    return value or ""


def _camel(name: str) -> str:
    """Return the name of a map's entry as protoc makes it: `by_id` → `ById`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _escaped(character: str) -> str:
    is_plain = character.isascii() and character.isprintable() and character != "\\"
    return character if is_plain else f"\\{ord(character):03o}"
