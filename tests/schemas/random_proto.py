"""Random Protobuf schemas as descriptors, random messages of them, and what these are in Arrow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.json_format import MessageToDict

from tests.schemas.random_avro import Json

SCALARS = [number for number in range(1, 19) if number not in (10, 11, 14)]
KEYS = [3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18]
WELL_KNOWN = {
    f".google.protobuf.{name}": f"google/protobuf/{file}.proto"
    for file, names in {
        "timestamp": ("Timestamp",), "duration": ("Duration",), "empty": ("Empty",), "field_mask": ("FieldMask",),
        "struct": ("Struct", "Value", "ListValue"), "any": ("Any",),
        "wrappers": ("Int64Value", "DoubleValue", "StringValue", "BytesValue", "BoolValue"),
    }.items()
    for name in names
} | {
    ".google.type.Money": "google/type/money.proto", ".google.type.DateTime": "google/type/datetime.proto",
    ".google.type.Color": "google/type/color.proto", ".confluent.type.Decimal": "confluent/type/decimal.proto",
}  # fmt: skip
WORDS = ("message", "optional", "enum", "map", "group", "option", "reserved", "syntax", "import", "oneof", "inf", "max",
         "extend", "package", "repeated", "service", "to", "true", "weak")  # fmt: skip
"""Words of the language, which fields may have for their names."""


class Proto:
    """Makes a file, in a pool with what it imports."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._types: list[tuple[str, int, str]] = []  # messages and enums of imports: name, type, file

    def file(self, name: str, syntax: str, package: str) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name=name, package=package)
        if syntax != "proto2":
            file.syntax = syntax
        own: list[tuple[str, int, str]] = []
        prefix = f".{package}" if package else ""
        for at in range(self.chance.randint(1, 2)):
            self._enum(file.enum_type.add(name=f"Enum{at}"), f"{at}", prefix, name, own)
        for at in range(self.chance.randint(1, 3)):
            self._outline(file.message_type.add(name=f"Message{at}"), prefix, name, own, 2)
        imports: set[str] = set()
        for message in file.message_type:
            self._fill(message, f"{prefix}.{message.name}", file, [*own, *self._types], imports)
        imports.discard(name)
        file.dependency.extend(sorted(imports))
        for each in (*file.dependency, "google/protobuf/timestamp.proto"):  # of which there is an Any
            self._import(each)
        self.pool.Add(file)
        self._added.add(name)
        # enums of another syntax are closed, or have no zero: what proto3 may not use
        self._types += own if syntax == "proto3" else [each for each in own if each[1] == Field.TYPE_MESSAGE]
        return file

    def _import(self, name: str) -> None:
        if name in self._added:
            return
        self._added.add(name)
        file = descriptor_pb2.FileDescriptorProto()
        descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
        for each in file.dependency:
            self._import(each)
        self.pool.Add(file)

    def _enum(self, enum: Any, mark: str, prefix: str, file: str, own: list[tuple[str, int, str]]) -> None:
        numbers = [0, *self.chance.sample((1, 2, 7, -1, 2**31 - 1, -(2**31)), self.chance.randint(0, 4))]
        for number in numbers:
            enum.value.add(name=f"V{mark}_{str(number).replace('-', 'M')}", number=number)
        if self.chance.random() < 0.3:
            enum.options.allow_alias = True
            enum.value.add(name=f"ALIAS{mark}", number=0)
        own.append((f"{prefix}.{enum.name}", Field.TYPE_ENUM, file))

    def _outline(self, message: Any, prefix: str, file: str, own: list[tuple[str, int, str]], depth: int) -> None:
        full = f"{prefix}.{message.name}"
        own.append((full, Field.TYPE_MESSAGE, file))
        if self.chance.random() < 0.4:
            self._enum(message.enum_type.add(name="Kind"), message.name.upper(), full, file, own)
        for at in range(self.chance.randrange(3) if depth else 0):
            self._outline(message.nested_type.add(name=f"{message.name}In{at}"), full, file, own, depth - 1)

    def _fill(
        self, message: Any, full: str, file: Any, types: list[tuple[str, int, str]], imports: set[str]
    ) -> None:
        chance = self.chance
        for nested in list(message.nested_type):
            self._fill(nested, f"{full}.{nested.name}", file, types, imports)
        is_proto3 = file.syntax == "proto3"
        number = 0
        for at in range(chance.randrange(7)):
            number += chance.choice((1, 1, 14, 3000))
            how = chance.choice(("single", "single", "repeated", "map", "oneof", "optional", "group", "required"))
            name = chance.choice(WORDS) if chance.random() < 0.2 else f"field_{at}"
            if name in {each.name for each in message.field}:
                name = f"field_{at}"
            if how == "map":
                self._map(message, f"by_{at}", number, full, types, imports)
                continue
            if how == "group" and not is_proto3:
                group = message.nested_type.add(name=f"Group{at}")
                group.field.add(name="g", number=1, label=1, type=Field.TYPE_INT32)
                message.field.add(
                    name=f"group{at}", number=number, label=chance.choice((1, 3)), type=Field.TYPE_GROUP,
                    type_name=f"{full}.Group{at}",
                )  # fmt: skip
                continue
            field = message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
            self._typed(field, types, imports, allows_messages=how != "required")
            self._labelled(field, how, is_proto3=is_proto3)
        if any(field.HasField("oneof_index") for field in message.field):
            message.oneof_decl.add(name="choice")
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _labelled(self, field: Any, how: str, *, is_proto3: bool) -> None:
        if how == "repeated":
            field.label = Field.LABEL_REPEATED
            if field.type not in (9, 11, 12) and self.chance.random() < 0.5:
                field.options.packed = self.chance.random() < 0.5
        elif how == "oneof":
            field.oneof_index = 0
        elif is_proto3:
            field.proto3_optional = how == "optional"
        elif how == "required" and field.type != Field.TYPE_ENUM:
            field.label = Field.LABEL_REQUIRED
        elif field.type in DEFAULTS and self.chance.random() < 0.6:
            field.default_value = DEFAULTS[field.type]

    def _typed(
        self, field: Any, types: list[tuple[str, int, str]], imports: set[str], *, allows_messages: bool = True
    ) -> None:
        chance = self.chance
        if chance.random() < 0.5 or not allows_messages:
            field.type = chance.choice(SCALARS)
        elif chance.random() < 0.5:
            field.type_name = chance.choice(sorted(WELL_KNOWN))
            field.type = Field.TYPE_MESSAGE
            imports.add(WELL_KNOWN[field.type_name])
        else:
            field.type_name, field.type, file = chance.choice(types)
            imports.add(file)

    def _map(
        self, message: Any, name: str, number: int, full: str, types: list[tuple[str, int, str]], imports: set[str]
    ) -> None:
        entry = message.nested_type.add(name=f"By{name[3:]}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=self.chance.choice(KEYS))
        self._typed(entry.field.add(name="value", number=2, label=1), types, imports)
        message.field.add(name=name, number=number, label=3, type=11, type_name=f"{full}.{entry.name}")

    # --- messages

    def classes(self, file: Any) -> Iterator[Any]:
        """The classes of a file's messages, nested ones included."""
        todo = list(self.pool.FindFileByName(file.name).message_types_by_name.values())
        while todo:
            found = todo.pop(0)
            if not found.GetOptions().map_entry:
                yield message_factory.GetMessageClass(found)
                todo += found.nested_types

    def message(self, kind: Any, depth: int = 3) -> Any:
        made = kind()
        self._set_all(made, depth)
        return made

    def _set_all(self, message: Any, depth: int) -> None:
        chance = self.chance
        descriptor = message.DESCRIPTOR
        name = descriptor.full_name
        if name == "google.protobuf.Timestamp":
            message.seconds, message.nanos = chance.randrange(-62_135_596_800, 253_402_300_800), chance.randrange(10**9)
        elif name == "google.protobuf.Duration":
            message.seconds, message.nanos = chance.randrange(315_576_000_000), chance.choice((0, 1, 5000, 999_000_000))
        elif name == "google.protobuf.FieldMask":
            message.paths.extend(chance.sample(("a", "b_c", "d.e_f"), chance.randrange(3)))
        elif name == "google.protobuf.Any":
            if chance.random() < 0.5:
                message.type_url = "type.googleapis.com/google.protobuf.Timestamp"
                message.value = b"\x08\x05"
        elif name in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
            {"Struct": self._struct, "Value": self._value, "ListValue": self._list}[descriptor.name](message)
        else:
            for field in descriptor.fields:
                if field.is_required or chance.random() < 0.7:
                    self._set(message, field, depth)

    def _struct(self, struct: Any) -> None:
        for name in self.chance.sample("abc", self.chance.randrange(3)):
            self._value(struct.fields[name])

    def _list(self, found: Any) -> None:
        for _ in range(self.chance.randrange(3)):
            self._value(found.values.add())

    def _value(self, value: Any) -> None:
        how = self.chance.randrange(5)
        if how == 0:
            value.null_value = 0
        elif how == 1:
            value.number_value = self.chance.choice((0.0, 1.0, -2.5, 1e40))
        elif how == 2:
            value.string_value = self.chance.choice(("", "x", "é"))
        elif how == 3:
            value.bool_value = self.chance.random() < 0.5
        else:
            value.list_value.values.add().number_value = 1

    def _set(self, message: Any, field: Any, depth: int) -> None:
        chance = self.chance
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            found = getattr(message, field.name)
            for _ in range(chance.randrange(3)):
                if value.message_type:
                    self._set_all(found[self._scalar(key)], max(depth - 1, 0)) if depth else None
                else:
                    found[self._scalar(key)] = self._scalar(value)
        elif field.message_type:
            if not depth:
                return
            if field.is_repeated:
                for _ in range(chance.randrange(3)):
                    self._set_all(getattr(message, field.name).add(), depth - 1)
            else:
                getattr(message, field.name).SetInParent()
                self._set_all(getattr(message, field.name), depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(self._scalar(field) for _ in range(chance.randrange(4)))
        else:
            setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        chance = self.chance
        kind = field.type
        if kind in (1, 2):
            return chance.choice((0.0, -0.0, 0.1, 1e30, float("inf"), float("-inf"), float("nan"), 3.0))
        if kind == 8:
            return chance.random() < 0.5
        if kind == 9:
            return chance.choice(("", "text", "é€\U0001f600", "\0\""))
        if kind == 12:
            return chance.randbytes(chance.randrange(5))
        if kind == 14:
            numbers = [value.number for value in field.enum_type.values]
            return chance.choice(numbers if field.enum_type.is_closed else [*numbers, 12345, -9])
        bits = 64 if kind in (3, 4, 6, 16, 18) else 32
        number = chance.choice((0, 1, chance.getrandbits(bits - 1), (1 << bits - 1) - 1))
        if kind in (4, 6, 7, 13):
            return chance.choice((number, (1 << bits) - 1))
        return chance.choice((number, -number - 1))


DEFAULTS = {
    1: "-1.5", 2: "inf", 3: "-9223372036854775808", 5: "-7", 8: "true", 9: 'say "\\ é',
    12: "\\001a\\377", 13: "4294967295",
}  # fmt: skip
JSON = {f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue", "FieldMask", "Duration")}


def shown(message: Any, pool: Any) -> Any:
    return MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)


def native(message: Any, pool: Any, above: tuple[str, ...] = ()) -> Any:
    """What a message is in Arrow, by the tables of docs/schemas.md."""
    descriptor = message.DESCRIPTOR
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return message.seconds * 1_000_000 + message.nanos // 1000
    if name.startswith("google.protobuf.") and name.endswith("Value") and name not in JSON:
        return message.value
    if name in JSON or name in above or not descriptor.fields:
        return Json(shown(message, pool))
    return {field.name: _native_field(message, field, pool, (*above, name)) for field in descriptor.fields}


def _native_field(message: Any, field: Any, pool: Any, above: tuple[str, ...]) -> Any:
    def single(value: Any, kind: Any) -> Any:
        if kind.message_type:
            return native(value, pool, above)
        if kind.enum_type:
            known = kind.enum_type.values_by_number.get(value)
            return known.name if known else str(value)
        return value

    value = getattr(message, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        return {key: single(value[key], field.message_type.fields_by_name["value"]) for key in value}
    if field.is_repeated:
        return [single(each, field) for each in value]
    return single(value, field) if not field.has_presence or message.HasField(field.name) else None
