"""The .proto text of a FileDescriptorProto, as a registry stores what clients register as a descriptor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

_INDENT = "  "


def proto_text(file: Any) -> str:
    """The text of a file of proto2 or proto3."""
    return "\n".join(_file(file)) + "\n"


def _file(file: Any) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for at, name in enumerate(file.dependency):
        yield f'import {"public " if at in file.public_dependency else ""}"{name}";'
    for message in file.message_type:
        yield from _message(message, "", file.syntax == "proto3")
    for enum in file.enum_type:
        yield from _enum(enum, "")


def _message(message: Any, indent: str, is_proto3: bool, head: str = "") -> Iterator[str]:
    yield f"{indent}{head or f'message {message.name}'} {{"
    inner = indent + _INDENT
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = {each.type_name.rpartition(".")[2]: each for each in message.field if each.type == Field.TYPE_GROUP}
    for each in message.nested_type:
        if each.name not in entries and each.name not in groups:
            yield from _message(each, inner, is_proto3)
    nested = {each.name: each for each in message.nested_type}
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    told = set()
    for field in message.field:
        last = field.type_name.rpartition(".")[2]
        if field.type == Field.TYPE_GROUP:
            head = f"{_label(field, is_proto3)}group {last} = {field.number}"
            yield from _message(nested[last], inner, is_proto3, head)
        elif field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in told:
                told.add(field.oneof_index)
                yield f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{"
                for each in message.field:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield f"{inner}{_INDENT}{_type(each)} {each.name} = {each.number}{_options(each)};"
                yield f"{inner}}}"
        elif last in entries and field.label == Field.LABEL_REPEATED:
            key, value = entries[last].field
            yield f"{inner}map<{_type(key)}, {_type(value)}> {field.name} = {field.number};"
        else:
            yield f"{inner}{_label(field, is_proto3)}{_type(field)} {field.name} = {field.number}{_options(field)};"
    yield f"{indent}}}"


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}{_INDENT}option allow_alias = true;"
    for value in enum.value:
        yield f"{indent}{_INDENT}{value.name} = {value.number};"
    yield f"{indent}}}"


def _label(field: Any, is_proto3: bool) -> str:
    if field.label == Field.LABEL_REPEATED:
        return "repeated "
    if field.label == Field.LABEL_REQUIRED:
        return "required "
    return "optional " if field.proto3_optional or not is_proto3 else ""


def _type(field: Any) -> str:
    name: str = field.type_name or Field.Type.Name(field.type).removeprefix("TYPE_").lower()
    return name


def _options(field: Any) -> str:
    options = []
    if field.HasField("default_value"):
        options.append(f"default = {_default(field)}")
    if field.options.HasField("packed"):
        options.append(f"packed = {str(field.options.packed).lower()}")
    return f" [{', '.join(options)}]" if options else ""


def _default(field: Any) -> str:
    if field.type in (Field.TYPE_STRING, Field.TYPE_BYTES):
        text = str(field.default_value)
        text = text.replace("\\", "\\\\") if field.type == Field.TYPE_STRING else text
        return '"' + text.replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(field.default_value)
