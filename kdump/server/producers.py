"""Answers about producers and transactions, as the log directories have them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kdump.formats import names
from kdump.formats.schemas.transaction_state import STATES
from kdump.formats.time_units import wall_clock
from kdump.server.context import Context, Fields
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request
from kdump.topics.transaction_ids import TransactionalId, transactional_ids


def describe_producers(ctx: Context, request: Request) -> Fields:
    """Answer DescribeProducers. Raises OSError."""
    topics = []
    for topic in request.body["topics"]:
        found = ctx.topic(topic["name"])
        partitions: list[Fields] = []
        for number in topic["partitionIndexes"]:
            served = ctx.find(found, number)
            if isinstance(served, ErrorCode):
                partitions.append({"partitionIndex": number, "errorCode": served})
                continue
            producers: list[Fields] = [
                {
                    "producerId": each.producer_id,
                    "producerEpoch": each.producer_epoch,
                    "lastSequence": each.last_sequence,
                    "lastTimestamp": each.timestamp,
                    "coordinatorEpoch": each.coordinator_epoch,
                    "currentTxnStartOffset": each.current_txn_first_offset,
                }
                for each in served.producers
            ]
            partitions.append({"partitionIndex": number, "activeProducers": producers})
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"topics": topics}


def _ids(ctx: Context) -> Iterator[TransactionalId]:
    for replica in ctx.cluster.replicas(names.TRANSACTION_STATE_TOPIC):
        yield from transactional_ids(replica, lambda _problem: None)


def known_ids(ctx: Context) -> dict[str, TransactionalId]:
    """Return the transactional ids in the log directories. Raises OSError."""
    return {each.transactional_id: each for each in _ids(ctx)}


def describe_transactions(ctx: Context, request: Request) -> Fields:
    """Answer DescribeTransactions. Raises OSError."""
    known = known_ids(ctx)
    answers: list[Fields] = []
    for name in request.body["transactionalIds"]:
        found = known.get(name)
        if found is None:
            answers.append({"transactionalId": name, "errorCode": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
            continue
        answers.append(
            {
                "transactionalId": name,
                "transactionState": found.state,
                "transactionTimeoutMs": found.timeout_ms,
                "transactionStartTimeMs": found.start_timestamp,
                "producerId": found.producer_id,
                "producerEpoch": found.producer_epoch,
                "topics": [
                    {"topic": topic, "partitions": list(numbers)} for topic, numbers in sorted(found.partitions.items())
                ],
            }
        )
    return {"transactionStates": answers}


def list_transactions(ctx: Context, request: Request) -> Fields:
    """Answer ListTransactions; only the first node has any, as all ids are shown by one. Raises OSError."""
    body = request.body
    states, producers = set(body["stateFilters"]), set(body["producerIdFilters"])
    pattern = body["transactionalIdPattern"]
    try:
        expression = re.compile(pattern) if pattern else None
    except (re.error, RecursionError, OverflowError):
        return {"errorCode": ErrorCode.INVALID_REGULAR_EXPRESSION}
    now = wall_clock()
    found = [
        {"transactionalId": each.transactional_id, "producerId": each.producer_id, "transactionState": each.state}
        for each in (_ids(ctx) if ctx.node_id == ctx.cluster.controller_id else ())
        if (not states or each.state in states)
        and (not producers or each.producer_id in producers)
        and (body["durationFilter"] < 0 or now - each.start_timestamp > body["durationFilter"])
        and (expression is None or expression.fullmatch(each.transactional_id))
    ]
    return {"unknownStateFilters": sorted(states - set(STATES)), "transactionStates": found}
