"""The frames around requests and responses.

The size is that of all behind it:

    request     int32 size · int16 api key · int16 version · int32 correlation id · nullable string client id
                (int16 length, never compact) · in flexible versions a tagged section · body
    response    int32 size · int32 correlation id · in flexible versions a tagged section · body
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kdump.errors import KdumpError
from kdump.formats.schemas.description import SchemaError
from kdump.formats.schemas.reader import decode, read_unsigned_varint
from kdump.formats.schemas.writer import encode
from kdump.server.protocol.apis import APIS, Api, ApiKey

SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")
_STRING = struct.Struct(">h")

Fields = dict[str, Any]


class RequestError(KdumpError):
    """Bytes that are no request that this server answers: the connection is closed."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, its body decoded. `is_newer`: an ApiVersions request of a version above ours, without a body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Fields
    is_newer: bool = False


def key_of(data: bytes) -> int:
    """Return the key of a request, without reading the rest; -1 where it is too short."""
    return _HEADER.unpack_from(data)[0] if len(data) >= _HEADER.size else -1


def read_request(data: bytes) -> Request:
    """Read what follows the size field. Raises RequestError."""
    try:
        return _read(data)
    except SchemaError as error:
        raise RequestError(f"the request cannot be read: {error}") from None


def _read(data: bytes) -> Request:
    if len(data) < _HEADER.size:
        raise RequestError(f"a request of {len(data)} bytes is shorter than a header")
    key, version, correlation_id = _HEADER.unpack_from(data)
    try:
        api = APIS[ApiKey(key)]
    except ValueError:
        raise RequestError(f"requests with the key {key} are not answered") from None
    if not api.first <= version <= api.last:
        if api.key == ApiKey.API_VERSIONS and version > api.last:
            return Request(api, version, correlation_id, None, {}, is_newer=True)
        raise RequestError(f"version {version} of {api.name} is not one of {api.first} to {api.last}")
    client_id, position = _client_id(data)
    if api.is_flexible(version):
        position = _skip_tags(data, position)
    # librdkafka ends some requests with a few bytes too many, which brokers do not mind either
    body, _ = decode(api.request, version, data, position)
    return Request(api, version, correlation_id, client_id, body)


def _client_id(data: bytes) -> tuple[str | None, int]:
    start = _HEADER.size + _STRING.size
    if len(data) < start:
        raise RequestError("the header ends inside the client id")
    length = _STRING.unpack_from(data, _HEADER.size)[0]
    if length < 0:
        return None, start
    if start + length > len(data):
        raise RequestError(f"the client id of {length} bytes runs over the end of the request")
    return data[start : start + length].decode("utf-8", "replace"), start + length


def _skip_tags(data: bytes, position: int) -> int:
    count, position = read_unsigned_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise RequestError(f"{count} tagged fields in {len(data) - position} bytes")
    for _ in range(count):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position += size
        if not 0 <= size <= len(data) or position > len(data):
            raise RequestError("a tagged field of the header runs over the end of the request")
    return position


def response_head(request: Request) -> bytes:
    """Return the header of a response, without the size field."""
    tags = b"\0" if request.api.has_response_tags(request.version) else b""
    return SIZE.pack(request.correlation_id) + tags


def response(request: Request, body: Fields) -> bytes:
    """Return a whole frame. Raises SchemaError for a body that does not fit."""
    version = 0 if request.is_newer else request.version
    content = response_head(request) + encode(request.api.response, version, body)
    return SIZE.pack(len(content)) + content
