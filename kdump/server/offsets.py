"""Answers about offsets: ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import NamedTuple

from kdump.errors import KdumpError
from kdump.query.lookup import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from kdump.server.context import Context, Fields
from kdump.server.partition import ServedPartition
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request
from kdump.storage.leader_epochs import EpochEnd, end_of_epoch

READ_COMMITTED = 1
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_UNDEFINED = -1


class _Found(NamedTuple):
    """An absolute offset, its record's timestamp (ms) and leader epoch; -1 where there is none."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


def list_offsets(ctx: Context, request: Request) -> Fields:
    """Answer ListOffsets. Raises OSError."""
    is_committed = request.body["isolationLevel"] == READ_COMMITTED
    topics = []
    for topic in request.body["topics"]:
        found = ctx.topic(topic["name"])
        partitions = []
        for asked in topic["partitions"]:
            number, timestamp = asked["partitionIndex"], asked["timestamp"]
            if timestamp < EARLIEST_PENDING_UPLOAD or request.version < _FIRST_VERSION.get(timestamp, 0):
                partitions.append(_failed(number, ErrorCode.UNSUPPORTED_VERSION))
                continue
            served = ctx.find(found, number, asked["currentLeaderEpoch"])
            if isinstance(served, ErrorCode):
                partitions.append(_failed(number, served))
            else:
                partitions.append(_listed(served, timestamp, is_committed, request.version))
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"topics": topics}


def _failed(number: int, error: ErrorCode) -> Fields:
    return {"partitionIndex": number, "errorCode": error, "timestamp": -1, "offset": -1}


def _listed(served: ServedPartition, timestamp: int, is_committed: bool, version: int) -> Fields:
    try:
        found = _find(served, timestamp, is_committed)
    except KdumpError:
        return _failed(served.number, ErrorCode.CORRUPT_MESSAGE)
    except OSError:
        return _failed(served.number, ErrorCode.KAFKA_STORAGE_ERROR)
    answer = {"partitionIndex": served.number, "timestamp": found.timestamp, "offset": found.offset}
    return answer | ({"leaderEpoch": found.leader_epoch} if version >= 4 else {})


def _find(served: ServedPartition, timestamp: int, is_committed: bool) -> _Found:
    """Return the answer to a timestamp, special ones among them (UnifiedLog.fetchOffsetByTimestamp)."""
    if timestamp == LATEST:
        end = served.last_stable_offset if is_committed else served.end_offset
        return _Found(end, leader_epoch=served.last_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epochs = served.leader_epochs
        start = served.log_start_offset
        return _Found(start, leader_epoch=epochs[0].epoch if epochs and epochs[0].start_offset <= start else -1)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _Found()
    found = served.find_timestamp(timestamp)
    if found is None or (is_committed and found.offset >= served.last_stable_offset):
        return _Found()
    return _Found(found.offset, found.timestamp, -1 if found.leader_epoch is None else found.leader_epoch)


def offset_for_leader_epoch(ctx: Context, request: Request) -> Fields:
    """Answer OffsetForLeaderEpoch. Raises OSError."""
    topics = []
    for topic in request.body["topics"]:
        found = ctx.topic(topic["topic"])
        partitions = []
        for asked in topic["partitions"]:
            number = asked["partition"]
            served = ctx.find(found, number, asked["currentLeaderEpoch"])
            if isinstance(served, ErrorCode):
                answer: Fields = {"errorCode": served, "leaderEpoch": _UNDEFINED, "endOffset": _UNDEFINED}
            else:
                end = _end_of_epoch(served, asked["leaderEpoch"])
                answer = {"leaderEpoch": end.epoch, "endOffset": end.offset}
            partitions.append({"partition": number} | answer)
        topics.append({"topic": topic["topic"], "partitions": partitions})
    return {"topics": topics}


def _end_of_epoch(served: ServedPartition, epoch: int) -> EpochEnd:
    """Return the end of an epoch; -1 where that is not known."""
    entries = served.leader_epochs
    if not entries or not 0 <= epoch <= entries[-1].epoch:
        return EpochEnd(_UNDEFINED, _UNDEFINED)
    return end_of_epoch(entries, epoch, served.end_offset)
