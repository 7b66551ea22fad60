"""The server: a listener for each node, and what its connections share."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from kdump.cluster.wanted import MAX_PORT
from kdump.disk.held import room_for_files
from kdump.errors import KdumpError, Problem, check_number, check_type, check_word
from kdump.server.channels import Channel, PlainChannel, Senders, TlsChannel, send_unpaced
from kdump.server.cluster import Address, ServedCluster
from kdump.server.connection import Access, Connection
from kdump.server.context import Context
from kdump.server.fetch import FetchAnswer
from kdump.server.group import Group
from kdump.server.groups import Commits, Coordinator, logged_groups
from kdump.server.logins import CROWDED_SECONDS, LOGIN_SECONDS, MAX_PENDING, Logins, origin_of
from kdump.server.partition import ServedPartition
from kdump.server.protocol.frames import Request, RequestError
from kdump.server.sasl import Users
from kdump.server.served_log import Log
from kdump.settings.node import address_text

THREADS = 4
ROOM = 16 << 20
"""Bytes that large requests and what is made of them may take at one time; others wait."""
GROWTH = 32
"""What a request grows to, at most, while it is answered: a partition of 16 bytes becomes several objects."""
GRACE_SECONDS = 2.0
"""How long answers under way may take when the server ends."""
_BACKLOG = 1024

Result = TypeVar("Result")


@dataclass(slots=True)
class _Pending:
    """A connection without a login: its task, where it comes from, and when it ends."""

    task: asyncio.Task[None]
    origin: str
    limit: asyncio.Timeout | None = None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How to serve. `advertised` is the host that clients are told, None for the one that they reached."""

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: str | None = None
    max_connections: int = 1000
    max_request_bytes: int = 2 << 20
    commits: Commits = Commits.KEEP
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError for what nothing can be served by."""
        check_type("host", self.host, str)
        check_number("port", self.port, 0, MAX_PORT)
        check_type("advertised", self.advertised, str, may_be_none=True)
        check_number("max_connections", self.max_connections, 1)
        check_number("max_request_bytes", self.max_request_bytes, 1)
        check_word("commits", self.commits, Commits)
        check_type("tls", self.tls, ssl.SSLContext, may_be_none=True)


class Server:
    """Serves a cluster. `say` gets lines about what happens, `log` every request (None: nobody wants to know)."""

    def __init__(
        self,
        cluster: ServedCluster,
        options: ServeOptions,
        say: Log,
        log: Callable[[Access], object] | None = None,
        users: Users | None = None,
    ) -> None:
        self.options = options
        self.cluster = cluster
        self.users = users
        self.say = say
        self.is_logging = log is not None
        self.log: Callable[[Access], object] = log or (lambda _access: None)
        self._coordinator = Coordinator(options.commits)
        self._groups: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(THREADS, "kdump-serve")
        self._senders = Senders()
        self._ahead: set[ServedPartition] = set()
        self._ending = asyncio.Event()
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._admitted: set[Connection] = set()
        self._pending: dict[Connection, _Pending] = {}
        self.logins = Logins()
        self._room = asyncio.Condition()
        self._taken = 0

    # --- life ---

    async def start(self) -> list[tuple[int, Address]]:
        """Listen, a port for each node; the addresses that clients are told. Raises OSError."""
        room_for_files()  # raises the limit: connections count as open files
        port = self.options.port
        addresses = []
        for node_id in sorted(self.cluster.nodes):
            listener = _listen(self.options.host, port)
            self._listeners.append(listener)
            actual = listener.getsockname()[1]
            if port:
                port = actual + 1
            is_any = self.options.host in ("", "0.0.0.0", "::")
            host = self.options.advertised or ("" if is_any else self.options.host)
            self.cluster.addresses[node_id] = Address(host, actual)
            addresses.append((node_id, Address(host or self.options.host, actual)))
            self._spawn(self._accept(listener, node_id))
        self._spawn(self._coordinator.watch())
        return addresses

    async def wait(self) -> None:
        """Wait until the server is told to end."""
        await self._ending.wait()

    @property
    def is_ending(self) -> bool:
        """Whether it has been told to end."""
        return self._ending.is_set()

    def stop(self) -> None:
        """Tell the server to end."""
        self._ending.set()

    async def close(self) -> None:
        """Take no more connections, let answers under way end, close what is left."""
        self._ending.set()
        for listener in self._listeners:
            listener.close()
        for task in [*self._tasks, *(each for each, one in self._connections.items() if not one.is_answering)]:
            task.cancel()
        answering = [task for task, one in self._connections.items() if one.is_answering]
        if answering:
            await asyncio.wait(answering, timeout=GRACE_SECONDS)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._connections, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._senders.close()
        self.logins.close()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- connections ---

    async def _accept(self, listener: socket.socket, node_id: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # too many open files, for instance: those who are here come first
                self.say(f"cannot take a connection: {error.strerror}")
                await asyncio.sleep(1)
                continue
            if len(self._admitted) >= self.options.max_connections:
                self.say(self._too_many)
                sock.close()
                continue
            self._begin(sock, node_id)
            # who floods us with connections waits; those who are connected do not
            await asyncio.sleep(CROWDED_SECONDS if len(self._pending) >= MAX_PENDING else 0)

    def _begin(self, sock: socket.socket, node_id: int) -> None:
        try:
            host, port = sock.getpeername()[:2]
            local = sock.getsockname()[0]
        except OSError:
            sock.close()
            return
        client = address_text(host, port)
        context = Context(self.cluster, node_id, self._coordinator, host, local)
        connection = Connection(self, context, client)
        task = asyncio.get_running_loop().create_task(self._serve(connection, sock, client))
        self._connections[task] = connection
        task.add_done_callback(self._forget)
        if self.users is None:
            self._admitted.add(connection)
            return
        if len(self._pending) >= MAX_PENDING:
            self._end_oldest()
        self._pending[connection] = _Pending(task, origin_of(host))

    def _forget(self, task: asyncio.Task[None]) -> None:
        connection = self._connections.pop(task)
        self._pending.pop(connection, None)
        self._admitted.discard(connection)

    def _end_oldest(self) -> None:
        """End the connection that waits for its login for the longest, of the address that has most of those."""
        counts = Counter(each.origin for each in self._pending.values())
        most = max(counts.values())
        oldest = next(each for each, pending in self._pending.items() if counts[pending.origin] == most)
        self._pending.pop(oldest).task.cancel()

    def logged_in(self, connection: Connection, host: str) -> None:
        """Count a connection among those with a login. Raises RequestError where there are too many of these."""
        pending = self._pending.pop(connection, None)
        self.logins.succeeded(host)
        if pending is not None and pending.limit is not None:
            pending.limit.reschedule(None)
        if len(self._admitted) >= self.options.max_connections:
            raise RequestError(self._too_many)
        self._admitted.add(connection)

    @property
    def _too_many(self) -> str:
        return f"refused a connection: there are {self.options.max_connections} already"

    async def _serve(self, connection: Connection, sock: socket.socket, client: str) -> None:
        """Serve a connection until it ends; one without a login only for a while."""
        pending = self._pending.get(connection)
        try:
            async with asyncio.timeout(LOGIN_SECONDS if pending else None) as limit:
                if pending is not None:
                    pending.limit = limit
                await self._run(connection, sock, client)
        except TimeoutError:
            self.say(f"{client}: closed: no login within {LOGIN_SECONDS:.0f} s")

    async def _run(self, connection: Connection, sock: socket.socket, client: str) -> None:
        channel: Channel
        if self.options.tls is None:
            channel = PlainChannel(sock, self._senders)
        else:
            try:
                channel = await TlsChannel.accept(sock, self.options.tls)
            except (OSError, EOFError) as error:
                sock.close()
                self.say(f"{client}: no TLS connection: {error}")
                return
        await connection.run(channel)

    # --- what connections share ---

    async def in_thread(self, work: Callable[[Context, Request], Result], ctx: Context, request: Request) -> Result:
        """Do what reads files, without keeping the others waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, ctx, request)

    def check_ahead(self, answer: FetchAnswer) -> None:
        """Check, while an answer is sent, what its client asks for next, so that it need not wait for that."""
        for served, offset, size in answer.ahead:
            if served not in self._ahead and served.needs_check(offset, size):
                self._ahead.add(served)
                self._threads.submit(self._check, served, offset, size)

    def _check(self, served: ServedPartition, offset: int, size: int) -> None:
        with suppress(OSError, KdumpError):  # whoever asks for these bytes is told
            served.check_ahead(offset, size)
        self._ahead.discard(served)

    async def pause(self, seconds: float) -> None:
        """Wait, unless the server ends."""
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), seconds)

    @asynccontextmanager
    async def room_for(self, size: int) -> AsyncIterator[None]:
        """Wait until there is memory for a large request."""
        wanted = size * GROWTH
        async with self._room:
            await self._room.wait_for(lambda: self._taken == 0 or self._taken + wanted <= ROOM)
            self._taken += wanted
        try:
            yield
        finally:
            async with self._room:
                self._taken -= wanted
                self._room.notify_all()

    async def groups_known(self) -> None:
        """Wait until the groups of the log directories have been read, which the first one to ask begins."""
        if self._groups is None:
            self._groups = asyncio.get_running_loop().create_task(self._read_groups())
        await asyncio.shield(self._groups)

    async def _read_groups(self) -> None:
        def read() -> list[Group]:
            return list(logged_groups(self.cluster, self._problem))

        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except OSError as error:
            self.say(f"the groups cannot be read: {error}")
            return
        self._coordinator.add(found)

    def _problem(self, problem: Problem) -> None:
        place = "" if problem.position is None else f" byte {problem.position}:"
        self.say(f"{problem.path}:{place} {problem.text}")


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        send_unpaced(listener)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
