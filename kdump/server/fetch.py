"""Fetch: the only answer that is not made by a schema, for the records go from the files straight to the socket.

    throttleTimeMs int32 · [7+: errorCode int16 · sessionId int32] · responses
    of a topic       [4-12: name string] [13+: topicId uuid] · partitions
    of a partition   partitionIndex int32 · errorCode int16 · highWatermark int64 · lastStableOffset int64 ·
                     [5+: logStartOffset int64] · abortedTransactions, null or pairs of int64 ·
                     [11+: preferredReadReplica int32] · records, bytes with their length

From version 12 on lengths are unsigned varints of one more, and a tagged section ends each struct. Sessions are never
made (session id 0), so that clients send every partition in each request (KIP-227); who continues with one that another
server has made is told that it is gone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kdump.errors import KdumpError
from kdump.formats.schemas.writer import write_unsigned_varint
from kdump.server.checked import NotCheckedError
from kdump.server.context import Context, Fields
from kdump.server.offsets import READ_COMMITTED
from kdump.server.partition import ServedPartition
from kdump.server.pieces import Fetched, FileRange, Parts
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import SIZE, Request, response_head

MAX_BYTES = 55 << 20
"""Of records in one answer, whatever a client asks for (Kafka's fetch.max.bytes)."""
MAX_AT_ONCE = 16
"""Partitions that are answered without a thread."""
MIN_AHEAD, MAX_AHEAD = 256 << 10, 8 << 20
"""Bytes of a partition in an answer from which on, and up to which, as many are checked ahead while it is sent."""
_FLEXIBLE, _BY_ID = 12, 13
_WHOLE = (0, -1)
"""Session epochs of requests that name all their partitions (FetchMetadata.isFull)."""
_PARTITION = struct.Struct(">ihqq")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_PAIR = struct.Struct(">qq")
_NOTHING = Fetched((), 0)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A response: bytes and ranges of files, to be sent one after the other.

    `is_empty`: there is neither a record nor an error in it, so that it is held for as long as the client waits. Who
    asks for no partition, as a consumer that closes does to end its session, is not kept waiting (KafkaApis).
    `ahead`: what the client will ask for next, as partition, offset and bytes.
    """

    parts: Parts
    size: int
    is_empty: bool
    errors: tuple[ErrorCode, ...]
    ahead: tuple[tuple[ServedPartition, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is answered about a partition; offsets are absolute."""

    number: int
    error: ErrorCode = ErrorCode.NONE
    end: int = -1
    stable: int = -1
    start: int = -1
    aborted: tuple[tuple[int, int], ...] | None = None
    fetched: Fetched = _NOTHING
    served: ServedPartition | None = None


def fetch_known(ctx: Context, request: Request) -> FetchAnswer | None:
    """Answer a Fetch of a few partitions whose bytes have been checked before; None where that takes more time.

    So most answers need no thread of their own. Raises OSError.
    """
    asked = [(topic, each) for topic in request.body["topics"] for each in topic["partitions"]]
    if len(asked) > MAX_AT_ONCE:
        return None
    is_committed = request.body["isolationLevel"] == READ_COMMITTED
    for topic, each in asked:
        found = ctx.topic(topic["topic"], topic["topicId"] if request.version >= _BY_ID else None)
        served = ctx.cluster.opened(ctx.node_id, found.name, each["partition"]) if found else None
        if served is None or not served.is_known(is_committed=is_committed):
            return None
    try:
        return fetch(ctx, request, only_known=True)
    except NotCheckedError:
        return None


def fetch(ctx: Context, request: Request, *, only_known: bool = False) -> FetchAnswer:
    """Answer a Fetch. Raises OSError, and NotCheckedError where `only_known` bytes may be sent, and are not enough."""
    body = request.body
    if body["sessionEpoch"] not in _WHOLE:
        return _response(request, [], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    room = max(0, min(body["maxBytes"], MAX_BYTES))
    is_first = True
    topics: list[tuple[Fields, list[_Answer]]] = []
    for topic in body["topics"]:
        answers = []
        for asked in topic["partitions"]:
            answer = _partition(ctx, request, topic, asked, room, is_first=is_first, only_known=only_known)
            if answer.fetched.ranges:
                is_first = False
                room -= answer.fetched.size
            answers.append(answer)
        topics.append((topic, answers))
    return _response(request, topics)


def _partition(
    ctx: Context, request: Request, topic: Fields, asked: Fields, room: int, *, is_first: bool, only_known: bool
) -> _Answer:
    number = asked["partition"]
    by_id = request.version >= _BY_ID
    found = ctx.topic(topic["topic"], topic["topicId"] if by_id else None)
    if found is None and by_id:
        return _Answer(number, ErrorCode.UNKNOWN_TOPIC_ID)
    served = ctx.find(found, number, asked["currentLeaderEpoch"])
    if isinstance(served, ErrorCode):
        return _Answer(number, served)
    try:
        limit, is_committed = min(room, asked["partitionMaxBytes"]), request.body["isolationLevel"] == READ_COMMITTED
        return _read(served, asked["fetchOffset"], is_committed, limit, is_first, only_known)
    except NotCheckedError:
        raise
    except KdumpError:
        return _Answer(number, ErrorCode.CORRUPT_MESSAGE)
    except OSError:
        return _Answer(number, ErrorCode.KAFKA_STORAGE_ERROR)


def _read(
    served: ServedPartition, offset: int, is_committed: bool, limit: int, is_first: bool, only_known: bool
) -> _Answer:
    start, end = served.log_start_offset, served.end_offset
    stable = served.last_stable_offset if served.gives_stable_offset(is_committed=is_committed) else end
    if not start <= offset <= end:
        return _Answer(served.number, ErrorCode.OFFSET_OUT_OF_RANGE)
    stop = stable if is_committed else end
    fetched = _NOTHING
    if offset < stop and (limit > 0 or is_first):
        read = served.fetch_known if only_known else served.fetch
        fetched = read(offset, stop, limit, is_first=is_first)
    end = served.end_offset  # damage that was met just now may have set it lower
    aborted = None
    if is_committed:
        txns = served.aborted(offset, min(fetched.next_offset, stop)) if fetched.ranges else []
        aborted = tuple((txn.producer_id, txn.first_offset) for txn in txns)
    return _Answer(served.number, ErrorCode.NONE, end, min(stable, end), start, aborted, fetched, served)


class _Parts:
    """Bytes and ranges of files in a row; bytes next to each other become one."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.is_flexible = version >= _FLEXIBLE
        self.done: Parts = []
        self.size = 0
        self.out = bytearray()

    def count(self, number: int) -> None:
        """Write the length of an array."""
        if self.is_flexible:
            write_unsigned_varint(self.out, number + 1)
        else:
            self.out += _INT32.pack(number)

    def tags(self) -> None:
        """Write an empty tagged section, where the version has one."""
        if self.is_flexible:
            self.out.append(0)

    def flush(self) -> None:
        """End the present bytes."""
        if self.out:
            self.done.append(bytes(self.out))
            self.size += len(self.out)
            self.out.clear()

    def files(self, ranges: tuple[FileRange, ...]) -> None:
        """Put ranges of files."""
        if ranges:
            self.flush()
            self.done += ranges
            self.size += sum(each.size for each in ranges)


def _response(
    request: Request, topics: list[tuple[Fields, list[_Answer]]], error: ErrorCode = ErrorCode.NONE
) -> FetchAnswer:
    parts = _Parts(request.version)
    parts.out += response_head(request)
    parts.out += _INT32.pack(0)
    if parts.version >= 7:
        parts.out += _INT16.pack(error) + _INT32.pack(0)
    parts.count(len(topics))
    for topic, answers in topics:
        _topic(parts, topic)
        parts.count(len(answers))
        for answer in answers:
            _write_partition(parts, answer)
        parts.tags()
    parts.tags()
    parts.flush()
    found = [answer for _, answers in topics for answer in answers]
    errors = tuple(each for each in (error, *(answer.error for answer in found)) if each)
    is_empty = bool(found) and not errors and not any(answer.fetched.ranges for answer in found)
    ahead = tuple(
        (answer.served, answer.fetched.next_offset, min(answer.fetched.size, MAX_AHEAD))
        for answer in found
        if answer.served is not None and answer.fetched.size >= MIN_AHEAD
    )
    return FetchAnswer([SIZE.pack(parts.size), *parts.done], parts.size + SIZE.size, is_empty, errors, ahead)


def _topic(parts: _Parts, topic: Fields) -> None:
    if parts.version >= _BY_ID:
        parts.out += topic["topicId"]
        return
    name = topic["topic"].encode()
    if parts.is_flexible:
        write_unsigned_varint(parts.out, len(name) + 1)
    else:
        parts.out += _INT16.pack(len(name))
    parts.out += name


def _write_partition(parts: _Parts, answer: _Answer) -> None:
    parts.out += _PARTITION.pack(answer.number, answer.error, answer.end, answer.stable)
    if parts.version >= 5:
        parts.out += _INT64.pack(answer.start)
    if answer.aborted is None:
        parts.count(-1)
    else:
        parts.count(len(answer.aborted))
        for pair in answer.aborted:
            parts.out += _PAIR.pack(*pair)
            parts.tags()
    if parts.version >= 11:
        parts.out += _INT32.pack(-1)
    parts.count(answer.fetched.size)
    parts.files(answer.fetched.ranges)
    parts.tags()
