"""Clients of our own, which need no library of others."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from kdump.formats.schemas.reader import decode
from kdump.formats.schemas.writer import encode
from kdump.server.protocol.apis import APIS, ApiKey


def batches(server: str, topic: str, partition: int, offset: int = 0) -> Iterator[bytes]:
    """The batches of a partition from an offset on as they come over the wire, by Fetch requests of version 10."""
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port))) as sock:
        while True:
            body = struct.pack(">iiiibiiih", -1, 0, 1, 1 << 20, 0, 0, -1, 1, len(topic)) + topic.encode()
            body += struct.pack(">iiiqqii", 1, partition, -1, offset, -1, 1 << 20, 0)
            request = struct.pack(">hhih", 1, 10, 1, -1) + body
            sock.sendall(struct.pack(">i", len(request)) + request)
            answer = _exactly(sock, struct.unpack(">i", _exactly(sock, 4))[0])
            # correlation id, throttle, error, session, topics, name, partitions
            at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4
            # partition, error, watermark, last stable offset, start, aborted, records
            start = at + 4 + 2 + 8 + 8 + 8 + 4 + 4
            error = struct.unpack_from(">h", answer, at + 4)[0]
            assert error == 0, f"{topic}-{partition}: error {error}"
            found = list(_whole(answer[start:]))
            if not found:
                return
            yield from found
            offset = struct.unpack_from(">q", found[-1])[0] + struct.unpack_from(">i", found[-1], 23)[0] + 1


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = sock.recv(size - len(found))
        assert data, "the server has closed the connection"
        found += data
    return bytes(found)


def _whole(records: bytes) -> Iterator[bytes]:
    position = 0
    while position + 61 <= len(records):
        size = 12 + struct.unpack_from(">i", records, position + 8)[0]
        if position + size > len(records):
            return
        yield records[position : position + size]
        position += size


class Client:
    """Asks for one thing after the other, by the protocol's tables."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, version: int, body: dict[str, Any]) -> dict[str, Any]:
        api = APIS[key]
        tags = b"\0" if api.is_flexible(version) else b""
        request = struct.pack(">hhih", key, version, 1, -1) + tags + encode(api.request, version, body)
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        answer = _exactly(self._socket, struct.unpack(">i", _exactly(self._socket, 4))[0])
        return decode(api.response, version, answer, 5 if api.has_response_tags(version) else 4)[0]
