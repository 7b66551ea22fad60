"""Connections as the server sees them: bytes in, bytes and ranges of files out."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address

from kdump.server.pieces import FileRange, Parts
from kdump.server.protocol.frames import SIZE

_CHUNK = 256 << 10
_READ_AT_ONCE = 64 << 10
SMALL = 32 << 10
"""Bytes up to which a range is read and sent with what stands beside it, which costs less than a call of its own."""
_CAN_SEND_FILES = sys.platform == "linux"
LARGE = 512 << 10
"""Bytes from which on an answer is sent by a thread that waits in the kernel, if one is free."""
LOCAL_SEND_BUFFER = 512 << 10
"""Within one machine a larger one only makes bytes leave the processor's cache before the consumer copies them."""
PATIENCE_MS = 1000
"""How long a sending thread waits for a consumer that takes nothing; the event loop waits for it then."""
SENDERS = 8
_TIMEVAL = struct.Struct("@ll")
_WITHOUT_PACING = b"reno"
"""The congestion control that every Linux has, and allows everyone."""
PAUSE_MS = 20
"""How long a sending thread waits for a consumer's next request; the event loop waits for it then."""

SMALL_REQUEST = 4 << 10
"""Bytes up to which nobody waits for memory."""

Following = Callable[[bytes], Parts | None]
"""Answers a request, without its size, in a thread; None where that is left to the event loop."""


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

    async def send_all(self, parts: Parts, following: Following | None = None) -> None:  # noqa: ARG002 - threads use it
        """Send parts one after the other. Raises OSError, FileShrunkError.

        A thread that sends continues with the parts that `following` gives, until it gives none or needs no thread.
        """
        for part in _joined(parts):
            if isinstance(part, bytes):
                await self.send(part)
                continue
            end = part.start + part.size
            for position in range(part.start, end, _CHUNK):
                await self.send(_read(part, position, min(_CHUNK, end - position)))


def _joined(parts: Parts) -> Iterator[bytes | FileRange]:
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

    async def send(
        self, channel: PlainChannel, sending: _Sending, following: Following | None
    ) -> _Sending | None:
        """Send an answer and those that follow, until nobody takes one for a while, which is returned.

        It is the first one if no thread is free. Raises OSError, FileShrunkError.
        """
        if self.free == 0:
            return sending
        self.free -= 1
        sock = channel.socket
        sock.setblocking(True)
        work = asyncio.get_running_loop().run_in_executor(self._threads, _send_on, channel, sending, following)
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
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(PAUSE_MS))
        send_unpaced(sock)
        if _is_local(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LOCAL_SEND_BUFFER)
        self.socket = sock
        self._senders = senders
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    async def read(self, size: int) -> bytes:
        """See Channel."""
        buffer = self._buffer
        while len(buffer) < size:
            data = await self._loop.sock_recv(self.socket, max(_READ_AT_ONCE, size - len(buffer)))
            if not data:
                raise EOFError
            buffer += data
        taken = bytes(buffer[:size])
        del buffer[:size]
        return taken

    async def send(self, data: bytes) -> None:
        """See Channel."""
        await self._loop.sock_sendall(self.socket, data)

    def following(self, answer: Following) -> Parts | None:
        """Return the answer to the next request if it is small, comes soon, and has one at once.

        Any other one is left for `read`. Called by a thread that sends. Raises OSError.
        """
        request = self._next_request()
        parts = None if request is None else answer(request)
        if request is not None and parts is not None:
            del self._buffer[: SIZE.size + len(request)]
        return parts

    def _next_request(self) -> bytes | None:
        buffer = self._buffer
        while True:
            if len(buffer) >= SIZE.size:
                size = SIZE.unpack_from(buffer)[0]
                if not 0 < size <= SMALL_REQUEST:
                    return None
                if len(buffer) >= SIZE.size + size:
                    return bytes(buffer[SIZE.size : SIZE.size + size])
            try:
                data = self.socket.recv(_READ_AT_ONCE)
            except BlockingIOError:
                return None
            if not data:
                return None
            buffer += data

    async def send_all(self, parts: Parts, following: Following | None = None) -> None:
        """See Channel."""
        if not _CAN_SEND_FILES:
            await super().send_all(parts)
            return
        first = _Sending(self.socket, parts)
        sending = await self._senders.send(self, first, following) if first.size >= LARGE else first
        if sending is None or sending.go_on():
            return
        done = self._loop.create_future()
        self._loop.add_writer(self.socket.fileno(), sending.go_on, done)
        try:
            await done
        finally:
            self._loop.remove_writer(self.socket.fileno())

    def close(self) -> None:
        """See Channel."""
        self.socket.close()


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


def _send_on(channel: PlainChannel, sending: _Sending, following: Following | None) -> _Sending | None:
    while sending.go_on():
        parts = None if following is None else channel.following(following)
        if parts is None:
            return None
        sending = _Sending(channel.socket, parts)
    return sending


class _Sending:
    """An answer on its way into a socket that takes as much as it has room for. `size` is that of all its parts."""

    def __init__(self, sock: socket.socket, parts: Parts) -> None:
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
        sent = part.file.send(self._socket.fileno(), part.start + self._done, part.size - self._done)
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
