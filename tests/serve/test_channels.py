"""Ranges of files reach consumers whole, however slow they are, and whichever way they are sent."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.server import channels
from kdump.server.channels import PlainChannel, Senders
from kdump.server.open_files import OpenFiles
from kdump.server.pieces import FileRange, Parts

SIZE = 6 << 20


@pytest.fixture
def part(tmp_path: Path) -> FileRange:
    """All but the first and the last bytes of a large file."""
    path = tmp_path / "0.log"
    path.write_bytes(os.urandom(SIZE))
    return FileRange(OpenFiles().get(str(path)), 100, SIZE - 200)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A server's and a client's end of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with server, client:
        yield server, client


def content(part: FileRange) -> bytes:
    return part.file.read(part.start, part.size)


async def read(client: socket.socket, size: int) -> bytes:
    client.setblocking(False)
    found = bytearray()
    while len(found) < size:
        found += await asyncio.get_running_loop().sock_recv(client, 1 << 20)
    return bytes(found)


async def taken(senders: Senders) -> None:
    """Let the only thread begin."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert not senders.free


@pytest.mark.parametrize("free", [0, 1])
def test_a_large_range_arrives(free: int, part: FileRange, pair: tuple[socket.socket, socket.socket]) -> None:
    async def run() -> bytes:
        senders = Senders(1)
        senders.free = free
        sending = asyncio.ensure_future(PlainChannel(pair[0], senders).send_all([b"head", part, b"tail"]))
        found = await read(pair[1], part.size + 8)
        await sending
        assert senders.free == free
        return found

    assert asyncio.run(run()) == b"head" + content(part) + b"tail"


def test_who_takes_nothing_holds_no_thread(
    part: FileRange, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "PATIENCE_MS", 20)

    async def run() -> bytes:
        senders = Senders(1)
        sending = asyncio.ensure_future(PlainChannel(pair[0], senders).send_all([part]))
        await taken(senders)
        while not senders.free:
            await asyncio.sleep(0.01)
        assert not sending.done()
        found = await read(pair[1], part.size)
        await sending
        return found

    assert asyncio.run(run()) == content(part)


def test_a_server_that_ends_does_not_wait_for_consumers(
    part: FileRange, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def run() -> None:
        senders = Senders(1)
        sending = asyncio.ensure_future(PlainChannel(pair[0], senders).send_all([part]))
        await taken(senders)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert senders.free == 1

    asyncio.run(run())


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def test_a_thread_goes_on_with_the_requests_that_follow(
    part: FileRange, pair: tuple[socket.socket, socket.socket]
) -> None:
    """What it has no answer for, what is large and what is not whole yet is left to be read."""
    asked: list[bytes] = []

    def answer(request: bytes) -> Parts | None:
        asked.append(request)
        return [b"<", part, b">"] if request.startswith(b"more") else None

    async def run() -> None:
        loop = asyncio.get_running_loop()
        senders = Senders(1)
        channel = PlainChannel(pair[0], senders)
        pair[1].setblocking(False)
        for rest in (framed(b"other"), framed(b"x" * (channels.SMALL_REQUEST + 1)), framed(b"more")[:-1], b"\0\0", b""):
            asked.clear()
            sending = asyncio.ensure_future(channel.send_all([part], answer))
            await loop.sock_sendall(pair[1], framed(b"more 1") + framed(b"more 2") + rest)
            whole = content(part)
            assert await read(pair[1], 3 * part.size + 4) == whole + (b"<" + whole + b">") * 2
            await sending
            assert asked == [b"more 1", b"more 2", *([b"other"] if rest == framed(b"other") else [])]
            assert senders.free == 1
            assert await channel.read(len(rest)) == rest

    asyncio.run(run())


def test_the_consumer_s_end_is_seen_after_a_thread(part: FileRange, pair: tuple[socket.socket, socket.socket]) -> None:
    async def run() -> None:
        channel = PlainChannel(pair[0], Senders(1))
        sending = asyncio.ensure_future(channel.send_all([part], lambda request: None))
        await read(pair[1], part.size)
        pair[1].close()
        await sending
        with pytest.raises(EOFError):
            await channel.read(4)

    asyncio.run(run())


def test_bytes_within_a_machine_are_not_paced(pair: tuple[socket.socket, socket.socket]) -> None:
    async def run() -> None:
        PlainChannel(pair[0], Senders(1))
        assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"reno"

    asyncio.run(run())


def test_a_consumer_that_goes_away_is_an_error(part: FileRange, pair: tuple[socket.socket, socket.socket]) -> None:
    async def run() -> None:
        channel = PlainChannel(pair[0], Senders(1))
        sending = asyncio.ensure_future(channel.send_all([part]))
        await read(pair[1], 1 << 20)
        pair[1].close()
        with pytest.raises(ConnectionError):
            await sending

    asyncio.run(run())
