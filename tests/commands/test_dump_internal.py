"""`kdump dump` of Kafka's internal topics: decoded in every format, and intact where they cannot be."""

from __future__ import annotations

import base64
import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kdump
from kdump.commands.cli import cli
from kdump.commands.dump.text import decoded_words
from kdump.errors import KdumpError
from kdump.formats import control
from kdump.formats.batch import COMMIT, CONTROL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.schemas import consumer_offsets, dump_text
from kdump.formats.schemas.decoding import decode_control, decoder_of
from kdump.formats.schemas.framing import CoordinatorTopic
from kdump.formats.schemas.writer import encode
from kdump.formats.uuids import format_uuid
from kdump.releases import KafkaRelease
from kdump.storage.records import Record
from tests.formats.test_internal_topics_records import (
    COORDINATOR_TOPICS,
    METADATA_RECORDS,
    METADATA_TOPICS,
    RECORDS,
    flips,
    sample,
)
from tests.rows import rows_in
from tests.sampling import sampled
from tests.topics.building import (
    NOW,
    ORDERS_ID,
    Log,
    commit_pair,
    group_pair,
    metadata_pairs,
    snapshot_file,
    transaction_pair,
)

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"

Pair = tuple[bytes | None, bytes | None]


def run(*arguments: object) -> Result:
    """The command in this process; its return value is the exit code, as in the real one."""
    result = CliRunner().invoke(cli, ["dump", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def records(result: Result) -> list[dict[str, Any]]:
    """The records among the lines of jsonl."""
    rows = rows_in(result.stdout)
    return [row for row in rows if row["type"] == "record"]


def jsonl(*arguments: object) -> list[dict[str, Any]]:
    return records(run(*arguments, "--format", "jsonl"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Of __consumer_offsets: a commit, its tombstone, a transactional one with its marker."""
    log = Log(tmp_path / "__consumer_offsets-7")
    log.add(commit_pair("g", "orders", 3, 42, leaderEpoch=5, metadata="a b"), commit_pair("g", "orders", 3, None))
    return log.add(commit_pair("", "orders", 3, 43), producer=(7, 5)).marker(COMMIT, (7, 5), epoch=9).write()


def test_text(log: Log) -> None:
    lines = [" ".join(line.split()) for line in run(log.folder).stdout.splitlines() if line.startswith("  ")]
    time = "2023-11-14T22:13:20.000Z"
    assert lines[:2] == [
        f"0 {time} OffsetCommit group=g topic=orders partition=3"
        ' v3 offset=42 leaderEpoch=5 metadata="a b" commitTimestamp=2023-11-14T22:13:20.000Z',
        f"1 {time} OffsetCommit group=g topic=orders partition=3 null",
    ]
    assert 'OffsetCommit group="" topic=orders partition=3 v3 offset=43 leaderEpoch=-1 metadata=""' in lines[2]
    assert lines[3].endswith("COMMIT v0 coordinatorEpoch=9")


def test_json_lines(log: Log) -> None:
    found = jsonl(log.folder)
    key = {"type": 1, "name": "OffsetCommit", "data": {"group": "g", "topic": "orders", "partition": 3}}
    data = {"offset": 42, "leaderEpoch": 5, "metadata": "a b", "commitTimestamp": NOW}
    assert (found[0]["key"], found[0]["value"]) == (
        key, {"type": 1, "name": "OffsetCommit", "version": 3, "data": data},
    )  # fmt: skip
    assert (found[1]["key"], found[1]["value"]) == (key, None)
    assert found[3]["key"] == {"type": 1, "name": "COMMIT", "data": {}}
    assert found[3]["value"]["data"] == {"version": 0, "coordinatorEpoch": 9}
    assert found[3]["isControl"] is True
    assert all("keyBase64" not in row and "valueBase64" not in row for row in found)


def test_csv(log: Log) -> None:
    rows = list(csv.DictReader(io.StringIO(run(log.folder, "--format", "csv").stdout, newline="")))
    given = jsonl(log.folder)
    for row, expected in zip(rows, given, strict=True):
        assert json.loads(row["key"]) == expected["key"]
        assert (json.loads(row["value"]) if row["value"] else None) == expected["value"]
        assert row["keyBase64"] == row["valueBase64"] == ""


def test_the_documented_example(tmp_path: Path) -> None:
    log = Log(tmp_path / "__consumer_offsets-7").add(commit_pair("billing", "orders", 3, 42, leaderEpoch=5)).write()
    line = run(log.folder, "--format", "jsonl", "--no-header").stdout.splitlines()[1]
    text = (ROOT / "docs" / "dump-format.md").read_text(encoding="utf-8")
    assert f"```json\n{line}\n```" in text


def test_raw(log: Log) -> None:
    key, value = commit_pair("g", "orders", 3, 42, leaderEpoch=5, metadata="a b")
    assert key is not None
    assert value is not None
    row = jsonl(log.folder, "--raw")[0]
    assert row["key"] == key.decode()
    assert base64.b64decode(row["valueBase64"]) == value
    shown = run(log.folder, "--raw").stdout
    assert f"0x{value.hex()} ({len(value)} bytes)" in shown
    assert "OffsetCommit" not in shown


@pytest.mark.parametrize("name", ["orders-0", "__consumer_offsets_x-7", "__consumer_offsets"])
def test_other_topics_are_left_alone(tmp_path: Path, name: str) -> None:
    pair = commit_pair("g", "orders", 3, 42)
    Log(tmp_path / name).add(pair).write()
    row = jsonl(tmp_path / name / f"{0:020d}.log")[0]
    assert row["key"] == (pair[0] or b"").decode()


def test_filters_and_limits_work_as_ever(log: Log) -> None:
    assert [row["offset"] for row in jsonl(log.folder, "--offsets", "1:3")] == [1, 2]
    assert [row["offset"] for row in jsonl(log.folder, "--limit", "1")] == [0]
    assert [row["offset"] for row in jsonl(log.folder, "--producer-id", "7")] == [2, 3]
    assert [row["offset"] for row in jsonl(log.folder, "--key", "re:g")] == [0, 1]


def test_a_compressed_batch(tmp_path: Path) -> None:
    pair = commit_pair("g", "orders", 3, 42)
    Log(tmp_path / "__consumer_offsets-0").add(pair, pair, attributes=1).write()
    assert [row["value"]["data"]["offset"] for row in jsonl(tmp_path)] == [42, 42]


def test_every_topic_is_known(tmp_path: Path) -> None:
    share = COORDINATOR_TOPICS["share-group-state-decoder"]
    remote = METADATA_TOPICS["remote-log-metadata-decoder"]
    pairs: dict[str, Pair] = {
        "__consumer_offsets-0": group_pair(3, {"epoch": 4}, groupId="g"),
        "__transaction_state-1": transaction_pair("tx", transactionStatus=1),
        "__share_group_state-2": (share.encode_key(0, {"groupId": "g"}), share.encode_value(0, 0, {"startOffset": 9})),
        "__cluster_metadata-0": metadata_pairs(("Topic", {"name": "orders", "topicId": ORDERS_ID}))[0],
        "__remote_log_metadata-3": (None, remote.encode_value(2, 0, {"remotePartitionDeleteState": 1})),
    }
    for name, pair in pairs.items():
        Log(tmp_path / name).add(pair).write()
    rows = jsonl(tmp_path)
    assert {row["topic"]: row["value"]["name"] for row in rows} == {
        "__consumer_offsets": "ConsumerGroupMetadata",
        "__transaction_state": "TransactionLog",
        "__share_group_state": "ShareSnapshot",
        "__cluster_metadata": "TopicRecord",
        "__remote_log_metadata": "RemotePartitionDeleteMetadataRecord",
    }
    shown = run(tmp_path).stdout
    assert "transactionStatus=1 (Ongoing)" in shown
    assert "remotePartitionDeleteState=1 (DELETE_PARTITION_STARTED)" in shown
    assert "null  TopicRecord v0 name=orders topicId=AAECAwQFBgcICQoLDA0ODw" in shown


def test_members_of_classic_groups_are_opened(tmp_path: Path) -> None:
    """What Kafka's consumers put into the coordinator's records; bytes of other clients stay bytes."""
    topics = encode(consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION, 0, {"topics": ["orders"]})
    member = {"memberId": "m", "subscription": b"\0\0" + topics, "assignment": b"\xff"}
    fields = {"protocolType": "consumer", "protocol": None, "leader": None, "members": [member]}
    log = Log(tmp_path / "__consumer_offsets-0").add(group_pair(2, fields, version=3, group="g"))
    log.add(group_pair(2, fields | {"protocolType": "connect"}, version=3, group="c")).write()
    first, second = (row["value"]["data"]["members"][0] for row in jsonl(tmp_path))
    assert first["subscription"] == {"topics": ["orders"], "userData": None}
    assert first["assignment"] == "/w=="
    assert second["subscription"] == base64.b64encode(b"\0\0" + topics).decode()
    assert "subscription={topics=[orders] userData=null}" in run(tmp_path).stdout


def test_snapshots_are_decoded_wherever_they_lie(tmp_path: Path) -> None:
    path = snapshot_file(tmp_path, 9, 1, metadata_pairs(("Topic", {"name": "orders", "topicId": ORDERS_ID})))
    header, topic, footer = jsonl(path)
    assert (header["key"]["name"], header["value"]["data"]["lastContainedLogTimestamp"]) == ("SNAPSHOT_HEADER", NOW)
    assert (topic["topic"], topic["key"], topic["value"]["data"]["name"]) == (None, None, "orders")
    assert footer["value"]["name"] == "SNAPSHOT_FOOTER"
    bootstrap = path.rename(tmp_path / "bootstrap.checkpoint")
    assert len(jsonl(bootstrap)) == 3


def test_following_decodes(tmp_path: Path, log: Log) -> None:
    assert [row["value"] and row["value"]["name"] for row in jsonl(log.folder, "--follow", "--limit", "3")] == [
        "OffsetCommit", None, "OffsetCommit",
    ]  # fmt: skip


# --- what cannot be decoded ---


@pytest.mark.parametrize(
    ("topic", "pair", "error"),
    [
        ("__consumer_offsets", (None, b"v"), "the record has no key"),
        ("__consumer_offsets", (b"\0", b"v"), "key: Could not read version from key's buffer. (byte 0)"),
        ("__cluster_metadata", (None, None), "the record has no value"),
    ],
)
def test_what_cannot_be_decoded(tmp_path: Path, topic: str, pair: Pair, error: str) -> None:
    """It is reported with its place, shown as it is, and the rest goes on."""
    log = Log(tmp_path / f"{topic}-0").add(pair)
    result = run(log.write().folder, "--format", "jsonl")
    assert result.return_value == 1
    assert result.stderr.startswith(f"kdump: {log.folder / f'{0:020d}.log'}: byte 0: offset 0: {error}")
    (row,) = records(result)
    assert row["value"] == (None if pair[1] is None else pair[1].decode())
    assert run(log.folder, "--raw").return_value == 0


@pytest.mark.parametrize(
    ("topic", "pair", "note"),
    [
        ("__consumer_offsets", (b"\0\x63a", b"v"), "key: Unknown record type 99 of __consumer_offsets"),
        ("__cluster_metadata", (None, b"\1\x63\0"), "value: Unknown metadata id 99 in __cluster_metadata"),
        ("__transaction_state", (b"\0\0\0\1t", b"\0\x09"), "value: Unknown version 9 of TransactionLogValue: 0 to 1"),
    ],
)
def test_what_is_newer_is_no_damage(tmp_path: Path, topic: str, pair: Pair, note: str) -> None:
    """It is noted once, shown as it is, and the exit code stays."""
    log = Log(tmp_path / f"{topic}-0").add(pair).add(pair)
    result = run(log.write().folder, "--format", "jsonl")
    assert result.return_value == 0
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"kdump: note: {log.folder / f'{0:020d}.log'}: byte 0: offset 0: {note}")
    assert "newer than this kdump" in result.stderr
    assert [row["value"] for row in records(result)] == [pair[1] and pair[1].decode()] * 2


def test_the_known_part_of_a_newer_record(tmp_path: Path) -> None:
    """A version above the newest, and tagged fields of nobody known, are shown as far as they are known."""
    value = bytes.fromhex("01 02 05 0474 6f70".replace(" ", "")) + ORDERS_ID + bytes.fromhex("01 6f 02 beef")
    log = Log(tmp_path / "__cluster_metadata-0").add((None, value))
    result = run(log.write().folder, "--format", "jsonl")
    assert (result.return_value, result.stderr) == (0, "")
    (row,) = records(result)
    assert row["value"] == {
        "type": 2,
        "name": "TopicRecord",
        "version": 5,
        "newer": True,
        "data": {
            "name": "top",
            "topicId": format_uuid(ORDERS_ID),
            "unknownTaggedFields": [{"tag": 111, "data": "vu8="}],
        },
    }
    assert "TopicRecord v5 (newer than this kdump) name=top" in run(log.folder).stdout


def test_a_metadata_record_with_a_key(tmp_path: Path) -> None:
    ((_, value),) = metadata_pairs(("NoOp", {}))
    log = Log(tmp_path / "__cluster_metadata-0").add((b"what", value)).write()
    result = run(log.folder, "--format", "jsonl")
    assert "key: there is one, and records of this topic have none" in result.stderr
    (row,) = records(result)
    assert (row["key"], row["value"]["name"]) == ("what", "NoOpRecord")


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"\0", b"", "key: Invalid value size found for end control record key"),
        (b"\0\0\0\1", b"\0\0\0", "value: Invalid value size found for end transaction marker"),
        (b"\0\0\0\1", None, "value: The end transaction marker has no value"),
        (b"\0\0\0\x09", b"", "value: Control type 9 is none of KRaft's"),
        (b"\0\0\0\3", None, "the control record has no value"),
        (b"\0\0\0\3", b"\0\x07", "value: Unknown version 7 of SnapshotHeaderRecord"),
    ],
)
def test_control_records_that_cannot_be_decoded(key: bytes, value: bytes | None, error: str) -> None:
    (found,) = decode_control(key, value).errors
    assert found.startswith(error)


def damaged(data: bytes) -> list[bytes]:
    return [data[:size] for size in range(len(data))] + list(flips(data))


def check_dump(folder: Path, topic: str, pairs: list[Pair]) -> None:
    """Dump a log of these records between two good ones; each is decoded or as it was, and told about if not."""
    decode = decoder_of(topic)
    assert decode is not None
    good = pairs[0]
    pairs = [*pairs, good]
    batches = [
        encode_batch(
            [NewRecord(first + n, NOW, *pair) for n, pair in enumerate(pairs[first : first + 50])],
            NewBatch(leader_epoch=0),
        )
        for first in range(0, len(pairs), 50)
    ]
    path = folder / f"{topic}-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(batches))
    result = run(path, "--format", "jsonl")
    rows = records(result)
    assert [row["offset"] for row in rows] == list(range(len(pairs)))
    told = newer = 0
    for row, pair in zip(rows, pairs, strict=True):
        parsed = decode(*pair)
        told += len(parsed.errors)
        newer += len(parsed.newer)
        for name, raw, expected in (("key", pair[0], parsed.key), ("value", pair[1], parsed.value)):
            if expected is not None or raw is None:
                assert row[name] == json.loads(json.dumps(expected))
            else:
                twin = row.get(f"{name}Base64")
                assert (row[name].encode() if twin is None else base64.b64decode(twin)) == raw
    lines = [line for line in result.stderr.splitlines() if not line.startswith("kdump: note: ")]
    assert len(lines) == told > 0
    assert len(result.stderr.splitlines()) == told + min(newer, 1)
    assert all(line.startswith(f"kdump: {path}: byte ") and ": offset " in line for line in lines)
    assert result.return_value == 1
    assert rows[0]["value"] == rows[-1]["value"] == json.loads(json.dumps(decode(*good).value))
    for form in ("text", "csv"):
        shown = run(path, "--format", form)
        assert shown.return_value == 1
        assert len(shown.stdout.splitlines()) > len(pairs)


@pytest.mark.parametrize(("decoder", "record_type", "layout"), sampled(RECORDS, 4))
def test_every_damage_of_a_coordinators_record(tmp_path: Path, decoder: str, record_type: int, layout: int) -> None:
    topic = COORDINATOR_TOPICS[decoder]
    kind = topic.kinds[record_type]
    schema = kind.layouts[layout]
    key = topic.encode_key(record_type, sample(kind.key.layout(0)))
    value = topic.encode_value(record_type, schema.last, sample(schema.layout(schema.last)), later=layout > 0)
    pairs: list[Pair] = [(key, value)]
    if record_type in (0, 3) and not layout:  # keys are much the same
        pairs += ((bad, value) for bad in damaged(key))
    check_dump(tmp_path, topic.name, [*pairs, *((key, bad) for bad in damaged(value))])


@pytest.mark.parametrize(("decoder", "api_key"), sampled(METADATA_RECORDS, 3))
def test_every_damage_of_a_metadata_record(tmp_path: Path, decoder: str, api_key: int) -> None:
    topic = METADATA_TOPICS[decoder]
    schema = topic.schemas[api_key]
    value = topic.encode_value(api_key, schema.last, sample(schema.layout(schema.last)))
    check_dump(tmp_path, topic.name, [(None, value), *((None, bad) for bad in damaged(value))])


@pytest.mark.parametrize("control_type", sorted(control.SCHEMAS))
def test_every_damage_of_a_control_record(tmp_path: Path, control_type: int) -> None:
    schema = control.SCHEMAS[control_type]
    value = control.encode_value(control_type, schema.last, sample(schema.layout(schema.last)))
    key = struct.pack(">hh", 0, control_type)
    log = Log(tmp_path / "__cluster_metadata-0").add((key, value), attributes=CONTROL)
    bad = [(key, data) for data in damaged(value)] + [(data, value) for data in damaged(key)]
    for pair in bad:
        log.add(pair, attributes=CONTROL)
    result = run(log.write().folder, "--format", "jsonl")
    rows = records(result)
    assert len(rows) == len(bad) + 1
    assert rows[0]["value"]["type"] == control_type
    undecoded = sum(not isinstance(row["value"], dict) for row in rows)
    assert len(result.stderr.splitlines()) == undecoded > 0


# --- Kafka's own logs ---


@pytest.mark.parametrize("case", ["f-consumer-offsets", "f-share-group-state", "f-cluster-metadata"])
def test_the_same_fields_as_kafkas_own_tool(case: str) -> None:
    """Every record of every version: where Kafka's decoder prints JSON, the data is the same."""
    (folder,) = (path for path in (CORPUS / case).iterdir() if path.is_dir())
    topic = folder.name.rpartition("-")[0]
    decoders: dict[str, Any] = COORDINATOR_TOPICS | METADATA_TOPICS
    decoder = next(name for name, tables in decoders.items() if tables.name == topic)
    decode = decoder_of(topic)
    assert decode is not None
    compared = 0
    for record in kdump.open_log(str(folder)).records():
        if not isinstance(record, Record):
            continue
        parsed = decode(record.key, record.value)
        try:
            texts = dump_text.parse(decoder, record.offset, record.key, record.value, KafkaRelease.V4_0)
        except KdumpError:
            continue
        for text, given in zip(texts, (parsed.key, parsed.value), strict=True):
            if given and text and text.startswith("{"):
                assert json.loads(text)["data"] == given["data"]
                compared += 1
    assert compared > 50
    assert isinstance(decoders[decoder], CoordinatorTopic) == (topic != "__cluster_metadata")


@pytest.mark.parametrize("case", sorted(path.name for path in CORPUS.glob("f-*")))
def test_every_record_of_kafkas_own_logs(case: str) -> None:
    """No record is lost, whether it can be decoded or not."""
    decoded = run(CORPUS / case, "--format", "jsonl")
    raw = jsonl(CORPUS / case, "--raw")
    assert [row["offset"] for row in records(decoded)] == [row["offset"] for row in raw]
    assert decoded.return_value == (1 if decoded.stderr else 0)
    assert any(isinstance(row["value"], dict) for row in records(decoded)) or case.endswith("-bad")


# --- text ---


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, "N v1"),
        ({"a": "plain-1.x"}, "N v1 a=plain-1.x"),
        ({"a": ""}, 'N v1 a=""'),
        ({"a": "null", "b": None}, 'N v1 a="null" b=null'),
        ({"a": 'x "y"'}, 'N v1 a="x \\"y\\""'),
        ({"a": "x\x1b[2J"}, 'N v1 a="x\\x1b[2J"'),
        ({"a": "x=y"}, 'N v1 a="x=y"'),
        ({"a": [], "b": [1, 2]}, "N v1 a=[] b=[1, 2]"),
        ({"a": [{"b": True, "c": False}]}, "N v1 a=[{b=true c=false}]"),
        ({"commitTimestamp": 0, "x": 0}, "N v1 commitTimestamp=1970-01-01T00:00:00.000Z x=0"),
        ({"expireTimestamp": -1}, "N v1 expireTimestamp=-1"),
        ({"timeoutMs": 5, "value": 1.5}, "N v1 timeoutMs=5 value=1.5"),
        ({"deliveryState": 2, "transactionStatus": 99}, "N v1 deliveryState=2 (ACKNOWLEDGED) transactionStatus=99"),
        ({"version": 1, "a": 2}, "N v1 a=2"),
        ({"version": 3, "a": 2}, "N v1 version=3 a=2"),
    ],
)
def test_fields_for_people(data: dict[str, Any], text: str) -> None:
    decoded = {"type": 0, "name": "N", "version": 1, "data": data}
    assert decoded_words(decoded) == text
    assert decoded_words(decoded, named=True) == text.removeprefix("N ")
