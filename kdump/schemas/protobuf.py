"""Protobuf without generated classes: descriptors from .proto text, or from a FileDescriptorProto in base64."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from kdump.schemas.errors import ExtraMissingError, SchemaError
from kdump.schemas.framing import message_indexes
from kdump.schemas.known_protos import KNOWN_PROTOS
from kdump.schemas.protobuf_maps import has_maps, in_order

WELL_KNOWN = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
        "wrappers",
    )
}  # fmt: skip

_ANY = "google/protobuf/any.proto"

ROOT = "kdump-schema.proto"
"""What a schema that nothing imports is called."""

Message = Any


class ProtobufSchema:
    """A schema's messages, with all that it imports. Raises SchemaError."""

    def __init__(
        self, text: str, imports: Iterable[tuple[str, str]] = (), files: Mapping[str, str] | None = None
    ) -> None:
        """Take `imports`, name and text of what the schema refers to, each before what uses it.

        `files` are further ones that may be imported.
        """
        self._pool = _google("descriptor_pool").DescriptorPool()
        self._added: set[str] = set()
        self._sources = {**KNOWN_PROTOS, **(files or {}), **dict(imports)}
        self._classes: dict[tuple[int, ...], Any] = {}
        self._have_maps: dict[str, bool] = {}
        self.file = file_descriptor(text, ROOT)
        self._add(self.file, ())
        if _ANY in self._added:
            self._add_well_known()

    def decode(self, data: bytes, start: int, indexes: bytes | None = None) -> tuple[Message, str]:
        """Return the message of a payload from byte `start` on, and its full name. Raises SchemaError.

        The path to the message's type is in front of it, unless it is in `indexes`.
        """
        failed: SchemaError | None = None
        for zigzag in (True, False):
            try:
                if indexes is None:
                    path, at = message_indexes(data, start, zigzag=zigzag)
                else:
                    path, at = message_indexes(indexes or b"\0", 0, zigzag=zigzag)[0], start
                kind = self._class(path)
                return _parsed(kind, data[at:]), kind.DESCRIPTOR.full_name
            except SchemaError as error:
                failed = failed or error
        raise failed or SchemaError("no message")

    def message_name(self, data: bytes, start: int, indexes: bytes | None = None) -> str:
        """Return the full name of the message that a payload has from byte `start` on. Raises SchemaError."""
        path, _ = message_indexes(data, start) if indexes is None else message_indexes(indexes or b"\0", 0)
        name: str = self._class(path).DESCRIPTOR.full_name
        return name

    def message_class(self, full_name: str) -> Any:
        """Return the class of a message. Raises SchemaError."""
        try:
            return _google("message_factory").GetMessageClass(self._pool.FindMessageTypeByName(full_name))
        except KeyError:
            raise SchemaError(f"its schema has no message {full_name}") from None

    def shown(self, message: Message) -> Any:
        """Return a message as proto3 JSON, with the .proto file's names and without defaults. Raises SchemaError."""
        from kdump.schemas.protobuf_parts import shown_by_parts

        return shown_by_parts(message, self._whole)

    def _whole(self, message: Message) -> Any:
        found = _google("json_format").MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=self._pool
        )
        descriptor = message.DESCRIPTOR
        has = self._have_maps.get(descriptor.full_name)
        if has is None:
            has = self._have_maps[descriptor.full_name] = has_maps(descriptor)
        return in_order(found, descriptor) if has else found

    def _class(self, path: tuple[int, ...]) -> Any:
        found = self._classes.get(path)
        if found is None:
            names = [self.file.package] if self.file.package else []
            messages = self.file.message_type
            for index in path:
                if index >= len(messages):
                    raise SchemaError(f"its schema has no message at index {', '.join(map(str, path))}")
                names.append(messages[index].name)
                messages = messages[index].nested_type
            found = self._classes[path] = self.message_class(".".join(names))
        return found

    def _add(self, file: Any, above: tuple[str, ...]) -> None:
        for name in file.dependency:
            self._import(name, above)
        self._added.add(file.name)
        try:
            self._pool.Add(file)
        except Exception as error:  # TypeError, ValueError, KeyError, by the library's version
            raise SchemaError(f"its schema cannot be used: {error}") from None

    def _import(self, name: str, above: tuple[str, ...]) -> None:
        if name in self._added:
            return
        if name in above:
            raise SchemaError(f"{name} imports itself")
        if name in self._sources:
            self._add(file_descriptor(self._sources[name], name), (*above, name))
        elif name in WELL_KNOWN:
            self._add(_well_known(name), (*above, name))
        else:
            raise SchemaError(f"it imports {name}, which is not among its references")

    def _add_well_known(self) -> None:
        """Add what an Any may hold without an import of it."""
        for name in WELL_KNOWN:
            with suppress(SchemaError):  # where a schema has these messages under another name
                self._import(name, ())


def file_descriptor(text: str, name: str) -> Any:
    """Return the FileDescriptorProto of a schema, under the name that imports have for it. Raises SchemaError."""
    descriptors = _google("descriptor_pb2")
    packed = _from_base64(text)
    if packed is None:
        from kdump.schemas.proto_text import parse_proto

        return parse_proto(text, name)
    try:
        file = descriptors.FileDescriptorProto.FromString(packed)
    except Exception as error:  # DecodeError, which the library has had in several places
        raise SchemaError(f"its schema is no descriptor: {error}") from None
    file.name = name
    return file


def _from_base64(text: str) -> bytes | None:
    """Return the bytes of a schema that is base64: a .proto text has characters that base64 has not."""
    try:
        return a2b_base64(text.strip().encode("ascii"), strict_mode=True) or None
    except (Base64Error, UnicodeEncodeError):
        return None


def _well_known(name: str) -> Any:
    file = _google("descriptor_pb2").FileDescriptorProto()
    import_module(WELL_KNOWN[name]).DESCRIPTOR.CopyToProto(file)
    return file


def _parsed(kind: Any, data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, which the library has had in several places
        raise SchemaError(f"not a {kind.DESCRIPTOR.full_name}: {error}") from None


@cache
def _google(module: str) -> Any:
    """Return a module of the protobuf library. Raises ExtraMissingError."""
    try:
        return import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise ExtraMissingError("decoding Protobuf", error) from None
