"""The answers of `kdump serve`, field by field: those that a broker gave to the same requests before it was killed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdump.server.background import serve
from kdump.server.protocol.apis import ApiKey
from tests.kafka.broker import Broker
from tests.kafka.directories import Rich, State
from tests.kafka.jars import RELEASES
from tests.kafka.tally import Column, Tally
from tests.serve.wire import Client

Asked = tuple[ApiKey, int, dict[str, Any]]

LEFT_OUT = {
    # of this server, of this moment, or about rights
    "throttleTimeMs", "host", "port", "usableBytes", "nodeEndpoints", "currentLeader", "sessionId",
    "topicAuthorizedOperations", "authorizedOperations", "clusterAuthorizedOperations", "errorMessage",
    # members are gone
    "groupState", "members", "protocolData",
}  # fmt: skip
_OF_SERVER_PROPERTIES = ("file.delete.delay.ms", "retention.ms", "segment.index.bytes")
_SORTED_BY = ("name", "topic", "groupId", "transactionalId", "partitionIndex", "partition", "resourceName")


def requests(truth: dict[str, Any], ids: dict[str, bytes]) -> Iterator[Asked]:
    """Sound requests about everything, and such that ask for what is not there or cannot be."""
    partitions = [tuple(name.rsplit("-", 1)) for name in truth["offsets"] if not name.startswith("__")]
    places: dict[str, list[int]] = {"nope": [0], "plain": [99]}
    for topic, number in partitions:
        places.setdefault(topic, []).append(int(number))
    yield from _about_topics()
    yield from _about_offsets(truth, places)
    yield from _about_groups([*truth["groups"], "nope"])
    yield from _about_transactions(places)
    for version in (4, 11, 12, 17):
        for committed in (0, 1):
            for topic, numbers in places.items():
                for number in numbers:
                    yield from _fetches(truth, ids, version, committed, topic, number)
    for session in ((5, 3), (0, 3), (5, -2)):
        yield ApiKey.FETCH, 12, _fetch(12, 0, 1000, session=session)


def _about_topics() -> Iterator[Asked]:
    named: list[list[str] | None] = [None, [], ["plain", "nope", "txn"], ["bad name!", ""], ["x" * 250]]
    for version in range(4, 14):
        for names in named:
            topics = None if names is None else [{"name": name} for name in names]
            yield ApiKey.METADATA, version, {"topics": topics, "allowAutoTopicCreation": False}
    for cursor in (None, {"topicName": "plain", "partitionIndex": 1}, {"topicName": "nope", "partitionIndex": 0}):
        for names in ([], ["plain"], ["txn", "plain", "compacted"]):
            for limit in (2000, 1, 3, 0):
                body = {"topics": [{"name": name} for name in names], "responsePartitionLimit": limit, "cursor": cursor}
                yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body
    for version in range(1, 5):
        for kind, name in ((2, "plain"), (2, "compacted"), (2, "nope"), (2, "a b"), (4, "2"), (4, "x"), (3, "x")):
            for keys in (None, [], ["retention.ms", "cleanup.policy", "nonsense"]):
                one = {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
                yield ApiKey.DESCRIBE_CONFIGS, version, {"resources": [one], "includeSynonyms": True}
    for version in range(1, 6):
        for asked in (None, [], [{"topic": "plain", "partitions": [0, 1, 9]}]):
            yield ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": asked}
    for version, kind in ((0, 1), (1, 1), (2, 1), (1, 2)):
        yield ApiKey.DESCRIBE_CLUSTER, version, {"endpointType": kind} if version else {}


def _about_offsets(truth: dict[str, Any], places: dict[str, list[int]]) -> Iterator[Asked]:
    times = {row[0] for found in truth["offsets"].values() for row in found["times"][::9]}
    for version in (2, 4, 7, 8, 9, 11):
        for time in (-1, -2, -3, -4, -5, -6, -7, 0, 1 << 60, *sorted(times)[:: len(times) // 40 + 1]):
            for committed in (0, 1):
                topics = [
                    {"name": name, "partitions": [{"partitionIndex": number, "timestamp": time} for number in numbers]}
                    for name, numbers in places.items()
                ]
                yield ApiKey.LIST_OFFSETS, version, {"replicaId": -1, "isolationLevel": committed, "topics": topics}
    for version in (2, 3, 4):
        for epoch in (-1, 0, 1, 2, 3, 50):
            for current in (-1, 0, 99):
                asked = {"currentLeaderEpoch": current, "leaderEpoch": epoch}
                epochs = [
                    {"topic": name, "partitions": [{"partition": number} | asked for number in numbers]}
                    for name, numbers in places.items()
                ]
                yield ApiKey.OFFSET_FOR_LEADER_EPOCH, version, {"topics": epochs}


def _about_groups(groups: list[str]) -> Iterator[Asked]:
    for version in range(2, 10):
        for group in groups:
            for names in (None, [], ["plain", "nope"]):
                topics = None if names is None else [{"name": name, "partitionIndexes": [0, 1]} for name in names]
                one = {"groupId": group, "topics": topics}
                yield ApiKey.OFFSET_FETCH, version, one if version < 8 else {"groups": [one]}
    for version in range(6):
        for kinds in ([], ["Classic"], ["consumer"], ["x"]):
            if version >= 5 or not kinds:
                yield ApiKey.LIST_GROUPS, version, {"typesFilter": kinds} if kinds else {}
    for version in range(7):
        yield ApiKey.DESCRIBE_GROUPS, version, {"groups": ["g-empty", "g-admin", "g-classic", "nope"]}


def _about_transactions(places: dict[str, list[int]]) -> Iterator[Asked]:
    topics = [{"name": name, "partitionIndexes": numbers} for name, numbers in places.items()]
    yield ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": topics}
    for states in ([], ["Ongoing"], ["CompleteAbort", "CompleteCommit"], ["nonsense"]):
        for producers in ([], [0, 1, 2, 3, 4, 5], [999]):
            for pattern in (None, "t.*", "[", "nomatch"):
                found = {"stateFilters": states, "producerIdFilters": producers, "transactionalIdPattern": pattern}
                yield ApiKey.LIST_TRANSACTIONS, 2, found
    yield ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactionalIds": ["nope"]}


def _fetches(
    truth: dict[str, Any], ids: dict[str, bytes], version: int, committed: int, topic: str, number: int
) -> Iterator[Asked]:
    told = truth["offsets"].get(f"{topic}-{number}", {"earliest": 0, "latest": 5, "lastStable": 5})
    first, end = told["earliest"], told["latest"]
    middle = (first + end) // 2
    for offset in {-1, first - 1, first, first + 1, middle, middle + 1, told["lastStable"], end, end + 1, 1 << 60}:
        for most in (1, 300, 1 << 20):
            body = _fetch(version, offset, most, committed, number)
            body["topics"][0] |= {"topic": topic} if version < 13 else {"topicId": ids.get(topic, b"?" * 16)}
            yield ApiKey.FETCH, version, body


def _fetch(
    version: int, offset: int, most: int, committed: int = 0, number: int = 0, session: tuple[int, int] = (0, -1)
) -> dict[str, Any]:
    partition = {"partition": number, "fetchOffset": offset, "partitionMaxBytes": most}
    body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 50 << 20, "isolationLevel": committed}
    body |= {"sessionId": session[0], "sessionEpoch": session[1]} if version >= 7 else {}
    return body | {"topics": [{"partitions": [partition]} | ({"topic": "plain"} if version < 13 else {})]}


def comparable(answer: Any) -> Any:
    """An answer without what differs for good reasons, its lists in one order."""
    if isinstance(answer, dict):
        return {key: comparable(value) for key, value in answer.items() if key not in LEFT_OUT}
    if isinstance(answer, list):
        own = (each for each in answer if not isinstance(each, dict) or each.get("name") not in _OF_SERVER_PROPERTIES)
        return sorted(map(comparable, own), key=_rank)
    return answer


def _rank(value: Any) -> str:
    first = [value[key] for key in _SORTED_BY if key in value] if isinstance(value, dict) else []
    return f"{first}{value}"


def _reached(records: bytes) -> int:
    """The offset behind the last whole batch."""
    position, reached = 0, -1
    while position + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, position)
        position += 12 + size
        if position <= len(records):
            reached = base + struct.unpack_from(">i", records, position - size + 11)[0] + 1
    return reached


def _fitted(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Cut what was fetched to what both have: a broker ends with a segment, kdump with a batch."""
    for topic, other in zip(mine["responses"], theirs["responses"], strict=True):
        for one, two in zip(topic["partitions"], other["partitions"], strict=True):
            if not one["records"] or not two["records"]:
                continue
            size = min(len(one["records"]), len(two["records"]))
            reached = min(_reached(one["records"]), _reached(two["records"]))
            for each in (one, two):
                each["records"] = each["records"][:size]
                each["abortedTransactions"] = [
                    txn for txn in each["abortedTransactions"] or () if txn["firstOffset"] < reached
                ]


def _fit(asked: Asked, mine: dict[str, Any], theirs: dict[str, Any]) -> tuple[Any, Any]:
    """Both answers, as far as they can be compared."""
    if asked[0] is ApiKey.FETCH:
        _fitted(mine, theirs)
        for answer in (mine, theirs):
            for topic in answer["responses"]:
                for partition in topic["partitions"]:
                    partition["abortedTransactions"] = partition["abortedTransactions"] or []
    return comparable(mine), comparable(theirs)


def _pairs(place: str, mine: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each value of two answers, with where it is; whole lists where their lengths differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        for key in mine:
            yield from _pairs(f"{place}.{key}", mine[key], theirs[key])
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for number, (one, two) in enumerate(zip(mine, theirs, strict=True)):
            yield from _pairs(f"{place}[{number}]", one, two)
    else:
        yield place, mine, theirs


def test_answers_are_the_broker_s(directory: Rich, tally: Tally, tmp_path: Path) -> None:
    if directory.state is State.KILLED or directory.release != RELEASES[-1]:
        return
    log_dirs = directory.copy(tmp_path / "data")
    broker = Broker(directory.release, tmp_path / "broker", log_dirs, **{"auto.create.topics.enable": "false"})
    try:
        broker.start()
        with Client(broker.servers) as client:
            everything = client.ask(ApiKey.METADATA, 12, {"topics": None, "allowAutoTopicCreation": False})
            ids = {topic["name"]: topic["topicId"] for topic in everything["topics"]}
            told = [(asked, client.ask(*asked)) for asked in requests(directory.truth, ids)]
    finally:
        broker.kill()
    server = serve(*map(str, log_dirs))
    with tally.of(directory.release, Column.READ) as compare, server as servers, Client(servers) as client:
        for asked, theirs in told:
            mine, wanted = _fit(asked, client.ask(*asked), theirs)
            for place, one, two in _pairs("", mine, wanted):
                compare.same(f"{asked[0].name} {asked[1]} {place} {str(asked[2])[:200]}", one, two)
