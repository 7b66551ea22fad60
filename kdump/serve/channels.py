"""Connections as the server sees them: bytes in, bytes and ranges of files out."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address

from kdump.serve.pieces import FileRange

_CHUNK = 256 << 10
_READ_AT_ONCE = 64 << 10
SMALL = 32 << 10
"""Bytes up to which a range is read and sent with what stands beside it, which costs less than a call of its own."""
_CAN_SEND_FILES = sys.platform == "linux"
LARGE = 512 << 10
"""Bytes from which on an answer is sent by a thread that waits in the kernel, if one is free."""
PATIENCE_MS = 1000
"""How long a sending thread waits for a consumer that takes nothing; the event loop waits for it then."""
SENDERS = 8
_TIMEVAL = struct.Struct("@ll")
_WITHOUT_PACING = b"reno"
"""The congestion control that every Linux has, and allows everyone."""


class FileShrunkError(ConnectionError):
    """A file ends before the bytes that were promised: the connection cannot go on."""


class Channel(ABC):
    """One connection."""

    @abstractmethod
    async def read(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises EOFError where the other side has closed, OSError."""

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Send bytes. Raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    async def send_all(self, parts: list[bytes | FileRange]) -> None:
        """Send parts one after the other. Raises OSError, FileShrunkError."""
        for part in _joined(parts):
            if isinstance(part, bytes):
                await self.send(part)
                continue
            end = part.start + part.size
            for position in range(part.start, end, _CHUNK):
                await self.send(_read(part, position, min(_CHUNK, end - position)))


def _joined(parts: Iterable[bytes | FileRange]) -> Iterator[bytes | FileRange]:
    """Yield the same bytes in few parts: small ranges are read, and are one with the bytes beside them.

    Raises OSError, FileShrunkError.
    """
    held = bytearray()
    for part in parts:
        if isinstance(part, bytes):
            held += part
        elif part.size <= SMALL:
            held += _read(part, part.start, part.size)
        else:
            if held:
                yield bytes(held)
                held.clear()
            yield part
        if len(held) >= _CHUNK:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _read(part: FileRange, position: int, size: int) -> bytes:
    data = part.file.read(position, size)
    if len(data) < size:
        raise FileShrunkError(f"{part.file.path} became shorter while it was sent")
    return data


class Senders:
    """A few threads for large answers: one call of sendfile costs half of what many small ones cost.

    `free` is how many of them have nothing to do.
    """

    def __init__(self, most: int = SENDERS) -> None:
        self._threads = ThreadPoolExecutor(most, "kdump-send")
        self.free = most

    async def send(self, sock: socket.socket, sending: _Sending) -> bool:
        """Send until all has gone or nobody takes it for a while; whether all has gone, False if no thread is free.

        Raises OSError, FileShrunkError.
        """
        if self.free == 0:
            return False
        self.free -= 1
        sock.setblocking(True)
        work = asyncio.get_running_loop().run_in_executor(self._threads, sending.go_on)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # which ends the call
            await asyncio.wait([work])
            raise
        finally:
            self.free += 1
            sock.setblocking(False)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)


class PlainChannel(Channel):
    """A connection without encryption: the kernel sends files by itself."""

    def __init__(self, sock: socket.socket, senders: Senders) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _CAN_SEND_FILES:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(PATIENCE_MS))
        send_unpaced(sock)
        self._socket = sock
        self._senders = senders
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    async def read(self, size: int) -> bytes:
        """See Channel."""
        buffer = self._buffer
        while len(buffer) < size:
            data = await self._loop.sock_recv(self._socket, max(_READ_AT_ONCE, size - len(buffer)))
            if not data:
                raise EOFError
            buffer += data
        taken = bytes(buffer[:size])
        del buffer[:size]
        return taken

    async def send(self, data: bytes) -> None:
        """See Channel."""
        await self._loop.sock_sendall(self._socket, data)

    async def send_all(self, parts: list[bytes | FileRange]) -> None:
        """See Channel."""
        if not _CAN_SEND_FILES:
            await super().send_all(parts)
            return
        sending = _Sending(self._socket, parts)
        if sending.size >= LARGE and await self._senders.send(self._socket, sending):
            return
        if sending.go_on():
            return
        done = self._loop.create_future()
        self._loop.add_writer(self._socket.fileno(), sending.go_on, done)
        try:
            await done
        finally:
            self._loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        """See Channel."""
        self._socket.close()


def _timeval(milliseconds: int) -> bytes:
    seconds, rest = divmod(milliseconds, 1000)
    return _TIMEVAL.pack(seconds, rest * 1000)


def send_unpaced(sock: socket.socket) -> None:
    """Let a socket of this machine, a listener or a connection, send as fast as the other side takes it.

    There is no network that bytes might wait for, but BBR, where it is the system's choice, spreads them over time
    all the same, and takes five times the processor for it. What a listener has its connections have from their start.
    """
    if _CAN_SEND_FILES and _is_local(sock):
        with suppress(OSError):  # a system may allow others alone
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _WITHOUT_PACING)


def _is_local(sock: socket.socket) -> bool:
    try:
        return ip_address(sock.getsockname()[0].partition("%")[0]).is_loopback
    except (OSError, ValueError):
        return False


class _Sending:
    """An answer on its way into a socket that takes as much as it has room for. `size` is that of all its parts."""

    def __init__(self, sock: socket.socket, parts: list[bytes | FileRange]) -> None:
        self.size = sum(len(part) if isinstance(part, bytes) else part.size for part in parts)
        self._socket = sock
        self._left = self.size
        self._parts = _joined(parts)
        self._part: bytes | FileRange = b""
        self._done = 0

    def go_on(self, done: asyncio.Future[None] | None = None) -> bool:
        """Send what there is room for; whether that was all. `done` is told of the end, and of what goes wrong.

        Without it raises OSError, FileShrunkError.
        """
        try:
            is_over = self._go_on()
        except OSError as error:
            if done is None:
                raise
            if not done.done():
                done.set_exception(error)
            return True
        if is_over and done is not None and not done.done():
            done.set_result(None)
        return is_over

    def _go_on(self) -> bool:
        while self._left:
            part = self._part
            size = len(part) if isinstance(part, bytes) else part.size
            if self._done == size:
                self._part, self._done = next(self._parts), 0
                continue
            try:
                sent = self._send_bytes(part) if isinstance(part, bytes) else self._send_range(part)
            except BlockingIOError:
                return False
            self._done += sent
            self._left -= sent
        return True

    def _send_bytes(self, part: bytes) -> int:
        rest = memoryview(part)[self._done :]
        # what follows goes in the same packet, and wakes the consumer once
        return self._socket.send(rest, 0 if self._left == len(rest) else socket.MSG_MORE)

    def _send_range(self, part: FileRange) -> int:
        sent = os.sendfile(
            self._socket.fileno(), part.file.fileno(), part.start + self._done, part.size - self._done
        )
        if sent == 0:
            raise FileShrunkError(f"{part.file.path} became shorter while it was sent")
        return sent


class TlsChannel(Channel):
    """A connection with TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def accept(cls, sock: socket.socket, context: ssl.SSLContext) -> TlsChannel:
        """Shake hands. Raises OSError, ssl.SSLError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 20)
        protocol = asyncio.StreamReaderProtocol(reader)
        sock.setblocking(False)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=context, ssl_handshake_timeout=10)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def read(self, size: int) -> bytes:
        """See Channel."""
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise EOFError from None

    async def send(self, data: bytes) -> None:
        """See Channel."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """See Channel."""
        self._writer.transport.abort()
