"""One connection: requests in, answers out in their order, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError
from kdump.server import configs, group_requests, log_dirs, metadata, offsets, producers, refusals
from kdump.server.channels import SMALL_REQUEST, Channel, Following
from kdump.server.context import Context, Fields
from kdump.server.fetch import fetch, fetch_known
from kdump.server.metadata import api_versions
from kdump.server.pieces import Parts
from kdump.server.protocol.apis import ApiKey
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import SIZE, Request, RequestError, key_of, read_request, response
from kdump.server.sasl import AuthenticationError, Exchange, Mechanism

if TYPE_CHECKING:
    from kdump.server.server import Server

IDLE_SECONDS = 600
"""After which a connection that asks nothing is closed (connections.max.idle.ms)."""
BODY_SECONDS = 60
"""Within which a request that has begun must be there."""
MAX_WAIT_SECONDS = 300
UNAUTHENTICATED_BYTES = 16 << 10
_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

_FROM_MEMORY: dict[ApiKey, Callable[[Context, Request], Fields]] = {
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.PRODUCE: refusals.produce,
    ApiKey.INIT_PRODUCER_ID: refusals.init_producer_id,
    ApiKey.DELETE_GROUPS: refusals.delete_groups,
    ApiKey.DESCRIBE_ACLS: refusals.describe_acls,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: refusals.consumer_group_heartbeat,
}
"""Answered at once."""

_FROM_DISK: dict[ApiKey, Callable[[Context, Request], Fields]] = {
    ApiKey.METADATA: metadata.metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.FIND_COORDINATOR: group_requests.find_coordinator,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.DESCRIBE_PRODUCERS: producers.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: producers.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: producers.list_transactions,
}
"""Answered by a thread, for files are read."""

_FROM_GROUPS: dict[ApiKey, Callable[[Context, Request], Awaitable[Fields]]] = {
    ApiKey.JOIN_GROUP: group_requests.join_group,
    ApiKey.SYNC_GROUP: group_requests.sync_group,
    ApiKey.HEARTBEAT: group_requests.heartbeat,
    ApiKey.LEAVE_GROUP: group_requests.leave_group,
    ApiKey.OFFSET_COMMIT: group_requests.offset_commit,
    ApiKey.OFFSET_FETCH: group_requests.offset_fetch,
    ApiKey.LIST_GROUPS: group_requests.list_groups,
    ApiKey.DESCRIBE_GROUPS: group_requests.describe_groups,
}
"""Answered in the event loop, once the groups of the log directories are known."""


@dataclass(frozen=True, slots=True)
class Access:
    """A request that was answered; `milliseconds` is how long it took to find the answer."""

    client: str
    node: int
    user: str | None
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    request_bytes: int
    response_bytes: int
    milliseconds: float
    errors: tuple[str, ...]


@dataclass(slots=True)
class _Answered:
    """An answer to send after so many seconds, and the reason to close the connection then, if there is one.

    `following` may answer what the client asks for next.
    """

    parts: Parts
    size: int
    errors: tuple[ErrorCode, ...]
    seconds: float = 0.0
    reason: str = ""
    access: Access | None = None
    following: Following | None = None


class Connection:
    """A client at the other end of a channel."""

    def __init__(self, server: Server, context: Context, client: str) -> None:
        self.is_answering = False
        self._server = server
        self._channel: Channel
        self._context = context
        self._client = client
        self._users = server.users
        self._exchange: Exchange | None = None
        self._user: str | None = None

    async def run(self, channel: Channel) -> None:
        """Answer until the client closes, or gives a reason to close."""
        self._channel = channel
        try:
            while not self._server.is_ending:
                self.is_answering = False
                async with asyncio.timeout(IDLE_SECONDS):
                    size = SIZE.unpack(await self._channel.read(SIZE.size))[0]
                most = self._server.options.max_request_bytes if self._is_known else UNAUTHENTICATED_BYTES
                if not 0 < size <= most:
                    raise RequestError(f"a request of {size} bytes: at most {most} are taken")
                await self._one(size)
        except (EOFError, ConnectionError):
            pass
        except TimeoutError:
            self._server.say(f"{self._client}: closed, for nothing came")
        except (RequestError, AuthenticationError) as error:
            self._server.say(f"{self._client}: closed: {error}")
        except (KdumpError, OSError) as error:
            self._server.say(f"{self._client}: closed: {error}")
        except Exception as error:  # a fault of ours is told of, and ends this connection alone
            self._server.say(f"{self._client}: closed: internal error: {type(error).__name__}: {error}")
        finally:
            self._channel.close()

    @property
    def _is_known(self) -> bool:
        return self._users is None or self._user is not None

    async def _one(self, size: int) -> None:
        if size <= SMALL_REQUEST:
            held = await self._answer(size)
        else:
            async with self._server.room_for(size):
                held = await self._answer(size)
        if held is not None:
            await self._server.pause(held.seconds)
            await self._send(held)

    async def _answer(self, size: int) -> _Answered | None:
        """Read a request and answer it; what is to be held for a while is returned."""
        async with asyncio.timeout(BODY_SECONDS):
            data = await self._channel.read(size)
        self.is_answering = True
        started = time.perf_counter()
        request = read_request(data)
        if not self._is_known and request.api.key not in _BEFORE_LOGIN:
            raise AuthenticationError(f"{request.api.name} before the client has said who it is")
        answered = await self._answered(request)
        answered.access = self._access(request, answered, size, started) if self._server.is_logging else None
        if size <= SMALL_REQUEST and not self._server.is_logging:
            answered.following = self._next_fetch
        if answered.seconds > 0:
            return answered
        await self._send(answered)
        return None

    async def _answered(self, request: Request) -> _Answered:
        key = request.api.key
        if key == ApiKey.FETCH:
            fetched = fetch_known(self._context, request)
            if fetched is None:
                fetched = await self._server.in_thread(fetch, self._context, request)
            self._server.check_ahead(fetched)
            seconds = min(request.body["maxWaitMs"] / 1000, MAX_WAIT_SECONDS) if fetched.is_empty else 0.0
            return _Answered(fetched.parts, fetched.size, fetched.errors, seconds)
        if key in _FROM_DISK:
            return await self._server.in_thread(self._from_disk, self._context, request)
        if key == ApiKey.PRODUCE and request.body["acks"] == 0:
            raise RequestError("records without acknowledgement: this server is read-only")
        return self._encoded(request, await self._body(request))

    def _next_fetch(self, data: bytes) -> Parts | None:
        """Answer a Fetch in the thread that has sent the one before, which costs a third of a turn of the event loop.

        None for any other request, and where there is nothing to send yet.
        """
        if self._server.is_ending or key_of(data) != ApiKey.FETCH:
            return None
        try:
            fetched = fetch(self._context, read_request(data))
        except (KdumpError, OSError):  # the event loop asks again, and says what is wrong
            return None
        if fetched.is_empty:
            return None
        self._server.check_ahead(fetched)
        return fetched.parts

    def _from_disk(self, ctx: Context, request: Request) -> _Answered:
        return self._encoded(request, _FROM_DISK[request.api.key](ctx, request))

    def _encoded(self, request: Request, body: Fields) -> _Answered:
        data = response(request, body)
        errors = tuple(_errors(body)) if self._server.is_logging else ()
        answered = _Answered([data], len(data), errors)
        if request.api.key == ApiKey.SASL_AUTHENTICATE and body["errorCode"]:
            answered.reason = body["errorMessage"]
        return answered

    async def _send(self, answered: _Answered) -> None:
        if answered.reason:  # guessing takes its time (connection.failed.authentication.delay.ms)
            await self._server.pause(self._server.logins.failed(self._context.client_host))
        await self._channel.send_all(answered.parts, answered.following)
        if answered.access is not None:
            self._server.log(answered.access)
        if answered.reason:
            raise AuthenticationError(answered.reason)

    def _access(self, request: Request, answered: _Answered, size: int, started: float) -> Access:
        return Access(
            self._client,
            self._context.node_id,
            self._user,
            request.client_id,
            request.api.name,
            request.version,
            request.correlation_id,
            size + SIZE.size,
            answered.size,
            (time.perf_counter() - started) * 1000,
            tuple(sorted({code.name for code in answered.errors})),
        )

    async def _body(self, request: Request) -> Fields:
        key = request.api.key
        if key == ApiKey.API_VERSIONS:
            return api_versions(self._context, request, with_sasl=self._users is not None)
        if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return await self._login(request)
        if key in _FROM_MEMORY:
            return _FROM_MEMORY[key](self._context, request)
        await self._server.groups_known()
        return await _FROM_GROUPS[key](self._context, request)

    async def _login(self, request: Request) -> Fields:
        users = self._users
        if users is None or self._user is not None:
            text = "this server asks nobody who they are, or knows already"
            is_handshake = request.api.key == ApiKey.SASL_HANDSHAKE
            return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE} | ({} if is_handshake else {"errorMessage": text})
        if request.api.key == ApiKey.SASL_HANDSHAKE:
            mechanisms: list[str] = list(users.mechanisms)
            if request.body["mechanism"] not in mechanisms:
                return {"errorCode": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": mechanisms}
            self._exchange = Exchange(users, Mechanism(request.body["mechanism"]))
            return {"mechanisms": mechanisms}
        if self._exchange is None:
            return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE, "errorMessage": "SaslHandshake comes first"}
        try:
            token = await self._server.logins.answer(self._exchange, request.body["authBytes"])
        except AuthenticationError as error:
            return {"errorCode": ErrorCode.SASL_AUTHENTICATION_FAILED, "errorMessage": str(error)}
        self._user = self._exchange.user
        if self._user is not None:
            self._server.logged_in(self, self._context.client_host)
        return {"errorCode": ErrorCode.NONE, "authBytes": token}


def _errors(body: Any) -> Iterator[ErrorCode]:
    """Yield the error codes in an answer, wherever they are."""
    if isinstance(body, dict):
        code = body.get("errorCode")
        if code:
            yield ErrorCode(code)
        for value in body.values():
            if isinstance(value, (dict, list)):
                yield from _errors(value)
    elif isinstance(body, list):
        for value in body:
            yield from _errors(value)
