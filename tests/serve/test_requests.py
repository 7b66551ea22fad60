"""Requests as no usual client sends them get a broker's answers (those of Kafka 4.3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kdump.server.background import serve
from kdump.server.context import Context
from kdump.server.fetch import fetch as answer_fetch
from kdump.server.protocol.apis import APIS, ApiKey
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request
from tests.serve.data import build
from tests.serve.wire import Client
from tests.topics.building import Log, cluster_directory, metadata_pairs


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serve(str(build(tmp_path_factory.mktemp("served") / "data"))) as servers, Client(servers) as client:
        yield client


def fetch(client: Client, *, session: tuple[int, int] = (0, -1), topic: str = "payments", offset: int = 0) -> Any:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "isolationLevel": 0}
    body |= {"sessionId": session[0], "sessionEpoch": session[1]}
    return client.ask(ApiKey.FETCH, 12, body | {"topics": [{"topic": topic, "partitions": [partition]}]})


@pytest.mark.parametrize("session", [(5, 3), (0, 1), (5, -2)])
def test_a_session_of_another_server_is_gone(session: tuple[int, int], client: Client) -> None:
    answer = fetch(client, session=session)
    assert answer["errorCode"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer["responses"] == []


@pytest.mark.parametrize("session", [(0, 0), (0, -1), (5, 0), (5, -1)])
def test_sessions_are_not_begun(session: tuple[int, int], client: Client) -> None:
    answer = fetch(client, session=session)
    assert (answer["errorCode"], answer["sessionId"], len(answer["responses"])) == (0, 0, 1)


def test_who_asks_for_nothing_is_not_kept_waiting(client: Client) -> None:
    """A consumer that closes ends its session so, and waits for the answer."""
    body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "isolationLevel": 0, "topics": []}
    body |= {"sessionId": 0, "sessionEpoch": -1}
    answer = client.ask(ApiKey.FETCH, 12, body)
    assert (answer["errorCode"], answer["responses"]) == (0, [])
    nowhere = cast(Context, None)
    assert not answer_fetch(nowhere, Request(APIS[ApiKey.FETCH], 12, 1, None, body)).is_empty


def test_the_last_stable_offset_is_told_to_all(client: Client) -> None:
    (partition,) = fetch(client)["responses"][0]["partitions"]
    assert partition["lastStableOffset"] < partition["highWatermark"]


@pytest.mark.parametrize("offset", [-1, 16, 1 << 60])
def test_offsets_out_of_range(offset: int, client: Client) -> None:
    (partition,) = fetch(client, offset=offset)["responses"][0]["partitions"]
    told = [partition[key] for key in ("errorCode", "highWatermark", "lastStableOffset", "logStartOffset")]
    assert told == [ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1]


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_are_all_configurations(keys: list[str] | None, client: Client) -> None:
    resource = {"resourceType": 2, "resourceName": "payments", "configurationKeys": keys}
    answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    assert len(answer["results"][0]["configs"]) > 30


def test_secrets_are_not_told(tmp_path: Path) -> None:
    data = cluster_directory(tmp_path / "data")
    config = {"resourceType": 4, "resourceName": "", "name": "ssl.keystore.password", "value": "hush"}
    Log(data / "__cluster_metadata-0", 0).add(*metadata_pairs(("Config", config))).write()
    with serve(str(data)) as servers, Client(servers) as client:
        nodes = client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]
        resource = {"resourceType": 4, "resourceName": str(nodes[0]["nodeId"]), "configurationKeys": None}
        answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource], "includeSynonyms": True})
    found = {each["name"]: each for each in answer["results"][0]["configs"]}
    assert (found["ssl.keystore.password"]["value"], found["ssl.keystore.password"]["isSensitive"]) == (None, True)
    assert found["node.id"]["isSensitive"] is False
    assert "hush" not in repr(answer)


def test_resources_that_cannot_be(client: Client) -> None:
    resources = [{"resourceType": kind, "resourceName": "a b", "configurationKeys": None} for kind in (2, 3)]
    answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
    found = [each["errorCode"] for each in answer["results"]]
    assert found == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REQUEST]


def test_names_that_no_topic_can_have(client: Client) -> None:
    names = ["absent", "a b", "", "x" * 250, "..", "ü"]
    answer = client.ask(ApiKey.METADATA, 9, {"topics": [{"name": name} for name in names]})
    absent, *illegal = [each["errorCode"] for each in answer["topics"]]
    assert absent == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(illegal) == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_cursor_beside_the_topics(client: Client) -> None:
    cursor = {"topicName": "absent", "partitionIndex": 0}
    body = {"topics": [{"name": "payments"}], "responsePartitionLimit": 10, "cursor": cursor}
    answer = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    assert [each["errorCode"] for each in answer["topics"]] == [ErrorCode.INVALID_REQUEST]


def test_controllers_are_not_here(client: Client) -> None:
    answer = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, {"endpointType": 2})
    assert answer["errorCode"] == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_times_that_a_version_does_not_know(client: Client) -> None:
    """They are refused before it is looked whether there is such a partition."""
    topics = [{"name": "absent", "partitions": [{"partitionIndex": 0, "timestamp": -3}]}]
    for version, error in ((6, ErrorCode.UNSUPPORTED_VERSION), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        answer = client.ask(ApiKey.LIST_OFFSETS, version, {"replicaId": -1, "topics": topics})
        assert answer["topics"][0]["partitions"][0]["errorCode"] == error
