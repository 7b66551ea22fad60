"""`kdump groups`, through the command: groups out of __consumer_offsets, held against the logs beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kdump.formats.schemas import consumer_offsets, share_group_state
from kdump.formats.schemas.writer import encode
from kdump.formats.uuids import format_uuid
from tests.commands.running import invoked
from tests.rows import rows_in
from tests.topics.building import NOW, ORDERS_ID, Log, checkpoint, cluster_directory, commit_pair, group_pair

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"
WEEK = 7 * 86_400_000

GROUP_KEYS = [
    "type", "group", "offsetsPartition", "groupType", "state", "stateTimestamp", "protocolType", "protocol", "leader",
    "epoch", "assignmentEpoch", "members", "commits", "pendingCommits", "liveBytes", "liveRecords", "supersededBytes",
    "supersededRecords",
]  # fmt: skip
MEMBER_KEYS = [
    "type", "group", "memberId", "instanceId", "clientId", "clientHost", "rack", "epoch", "state", "subscribedTopics",
    "subscribedRegex", "assignment", "sessionTimeoutMs", "rebalanceTimeoutMs",
]  # fmt: skip
COMMIT_KEYS = [
    "type", "group", "topic", "partition", "offset", "leaderEpoch", "metadata", "commitTimestamp", "expireTimestamp",
    "expiresAt", "isExpired", "pendingProducerId", "recordOffset", "logStartOffset", "logEndOffset", "lag", "place",
]  # fmt: skip


def run(*arguments: object, now: int = NOW + 1000) -> Result:
    return invoked("groups", *arguments, "--now", now)


def objects(*arguments: object, now: int = NOW + 1000) -> list[dict[str, Any]]:
    return rows_in(run(*arguments, "--format", "jsonl", now=now).stdout)


def classic(**fields: Any) -> dict[str, Any]:
    subscription = encode(consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION, 1, {"topics": ["orders"]})
    assigned = {"assignedPartitions": [{"topic": "orders", "partitions": [0, 1, 2, 5]}]}
    member = {
        "memberId": "billing-1",
        "clientId": "billing",
        "clientHost": "/10.0.0.7",
        "sessionTimeout": 45_000,
        "rebalanceTimeout": 300_000,
        "subscription": b"\0\1" + subscription,
        "assignment": b"\0\0" + encode(consumer_offsets.CONSUMER_PROTOCOL_ASSIGNMENT, 0, assigned),
    }
    named = {"protocolType": "consumer", "generation": 12, "protocol": "range", "leader": "billing-1"}
    return named | {"currentStateTimestamp": NOW - 5000, "members": [member]} | fields


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with three groups, and two of the partitions that they read."""
    Log(tmp_path / "__consumer_offsets-7").add(
        commit_pair("billing", "orders", 0, 3, commitTimestamp=NOW - WEEK),
        commit_pair("billing", "orders", 0, 8, leaderEpoch=4, metadata="so far"),
        commit_pair("billing", "orders", 1, 2),
        commit_pair("billing", "payments", 0, 77),
        group_pair(2, classic(), version=3, group="billing"),
        commit_pair("gone", "orders", 0, 1),
        commit_pair("gone", "orders", 0, None),
        group_pair(2, None, group="gone"),
        commit_pair("idle", "orders", 0, 10, commitTimestamp=NOW - WEEK),
    ).add(commit_pair("idle", "payments", 0, 5), producer=(4001, 0)).write()
    Log(tmp_path / "orders-0").add(*[(b"k", b"v")] * 10).write()
    Log(tmp_path / "orders-1", base_offset=5).add(*[(b"k", b"v")] * 4).write()
    return tmp_path


def test_text(data: Path) -> None:
    result = run(data)
    assert result.return_value == 0
    assert result.stderr == ""
    assert result.stdout == (
        "billing: classic group, Stable, since 2023-11-14T22:13:15.000Z, generation 12, protocol consumer (range),"
        " leader billing-1, 3 commits, 268 bytes\n"
        "  MEMBER     CLIENT   HOST       EPOCH  STATE  ASSIGNED\n"
        "  billing-1  billing  /10.0.0.7  -      -      orders:0-2,5\n"
        "  PARTITION   COMMITTED  LOG END  LAG  LEADER EPOCH  COMMITTED AT  REMARKS\n"
        '  orders-0            8       10    2             4  22:13:20      metadata "so far"\n'
        "  orders-1            2        9    7             -  22:13:20      below the log start offset 5\n"
        "  payments-0         77        -    -             -  22:13:20\n"
        "  Times: 2023-11-14 UTC.\n"
        "\n"
        "idle: classic group, Empty, 2 commits, 181 bytes\n"
        "  PARTITION   COMMITTED  LOG END  LAG  LEADER EPOCH  COMMITTED AT          REMARKS\n"
        "  orders-0           10       10    0             -  2023-11-07T22:13:20Z  expired\n"
        "  payments-0          5        -    -             -  2023-11-14T22:13:20Z  pending: transaction of producer"
        " 4001 is open\n"
        "\n"
        "1 deleted group still takes 201 bytes, until compaction removes it\n"
        "OK. 2 groups.\n"
    )


def test_json_lines(data: Path) -> None:
    found = objects(data)
    assert [(row["type"], row["group"]) for row in found] == [
        ("group", "billing"),
        ("member", "billing"),
        *[("commit", "billing")] * 3,
        ("group", "gone"),
        ("group", "idle"),
        *[("commit", "idle")] * 2,
    ]
    for row in found:
        assert list(row) == {"group": GROUP_KEYS, "member": MEMBER_KEYS, "commit": COMMIT_KEYS}[row["type"]]
    group, member, first, second, third, dead, _, expired, pending = found
    assert (group["state"], group["epoch"], group["members"], group["commits"]) == ("Stable", 12, 1, 3)
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 1, 2, 5]}]
    assert member["subscribedTopics"] == ["orders"]
    assert (first["offset"], first["lag"], first["place"], first["logEndOffset"]) == (8, 2, "inside", 10)
    assert (first["metadata"], first["leaderEpoch"], first["recordOffset"]) == ("so far", 4, 1)
    assert (second["lag"], second["place"], second["logStartOffset"]) == (7, "before log start", 5)
    assert (third["lag"], third["place"], third["logEndOffset"]) == (None, None, None)
    assert (dead["state"], dead["liveRecords"], dead["supersededRecords"]) == ("Dead", 0, 3)
    assert (expired["isExpired"], expired["expiresAt"]) == (True, NOW)
    assert (pending["pendingProducerId"], pending["isExpired"], pending["expiresAt"]) == (4001, False, None)


def test_a_commit_beyond_the_end_is_a_finding(data: Path) -> None:
    Log(data / "__consumer_offsets-8").add(commit_pair("late", "orders", 0, 11)).write()
    result = run(data, "--group", "late")
    assert result.return_value == 1
    assert "above the log end offset" in result.stdout
    assert "FOUND: 1 of 1 commit is above the log end offset.\n" in result.stdout
    (row,) = [row for row in objects(data, "--group", "late") if row["type"] == "commit"]
    assert (row["lag"], row["place"]) == (-1, "beyond log end")
    assert run(data, "--group", "idle").return_value == 0


@pytest.mark.parametrize(
    ("now", "retention", "is_expired"),
    [(NOW, WEEK, True), (NOW - 1, WEEK, False), (NOW, WEEK + 1, False), (NOW - WEEK, 0, True)],
)
def test_when_a_commit_expires(data: Path, now: int, retention: int, is_expired: bool) -> None:
    rows = objects(data, "--group", "idle", "--retention-ms", retention, now=now)
    assert next(row["isExpired"] for row in rows if row["type"] == "commit") is is_expired


def test_the_partition_directory_alone_will_do(data: Path) -> None:
    """Without the logs at hand there is no lag."""
    result = run(data / "__consumer_offsets-7", "--group", "billing")
    assert result.return_value == 0
    assert "below the log start" not in result.stdout
    both = run(data / "__consumer_offsets-7", data / "orders-1", "--group", "billing")
    assert "below the log start offset 5" in both.stdout


def test_the_log_start_checkpoint_counts(data: Path) -> None:
    checkpoint(data, "log-start-offset-checkpoint", ("orders", 0, 9))
    rows = [row for row in objects(data, "--group", "billing") if row["type"] == "commit"]
    assert (rows[0]["logStartOffset"], rows[0]["place"]) == (9, "before log start")


def test_of_two_replicas_the_one_that_goes_farther(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    Log(other / "__consumer_offsets-7").add(commit_pair("g", "orders", 0, 1)).write()
    result = run(data, other)
    assert "billing" in result.stdout
    assert "\ng:" not in result.stdout
    assert f"note: {other / '__consumer_offsets-7'}: not used" in result.stderr
    assert result.return_value == 0


def test_names_of_topics_come_from_the_cluster(tmp_path: Path) -> None:
    from tests.topics.building import ORDERS_ID

    cluster_directory(tmp_path)
    assigned = {"memberEpoch": 2, "assignedPartitions": [{"topicId": ORDERS_ID, "partitions": [3]}]}
    Log(tmp_path / "__consumer_offsets-0").add(
        group_pair(3, {"epoch": 2}, groupId="g"), group_pair(8, assigned, groupId="g", memberId="m")
    ).write()
    for name in ("orders-0", "orders-1", "orders-7", "renamed-0"):
        (tmp_path / name / "partition.metadata").unlink()
    (member,) = [row for row in objects(tmp_path) if row["type"] == "member"]
    assert member["assignment"] == [{"topic": "orders", "partitions": [3]}]


def test_damage_is_told_and_the_rest_stays(data: Path) -> None:
    path = data / "__consumer_offsets-7" / f"{0:020d}.log"
    length = path.stat().st_size
    key, value = commit_pair("billing", "orders", 2, 4)
    assert value is not None
    log = Log(data / "__consumer_offsets-8").add((key, value[:-1]), commit_pair("more", "orders", 0, 2)).write()
    result = run(data)
    assert result.return_value == 1
    assert f"{log.folder / f'{0:020d}.log'}: byte 0: offset 0: " in result.stderr
    assert "more: classic group" in result.stdout
    path.write_bytes(path.read_bytes()[: length - 1])
    result = run(data)
    assert result.return_value == 1
    assert "billing: classic group" in result.stdout
    assert "pending" not in result.stdout


def test_what_there_is_nothing_of(data: Path) -> None:
    with pytest.raises(Exception, match="there is no partition of __consumer_offsets in these PATHs"):
        run(data / "orders-0")
    with pytest.raises(Exception, match="no group matches nobody"):
        run(data, "--group", "nobody")
    with pytest.raises(Exception, match="give the partition directory that it is in"):
        run(data / "orders-0" / f"{0:020d}.log")


def test_names_do_not_drive_the_terminal(tmp_path: Path) -> None:
    Log(tmp_path / "__consumer_offsets-0").add(commit_pair("\x1b[2J", "t", 0, 1, metadata="\x1b]0;x\x07")).write()
    for form in ("text", "jsonl"):
        assert "\x1b" not in run(tmp_path, "--format", form).stdout


@pytest.mark.parametrize(("case", "code"), [("f-consumer-offsets", 0), ("f-consumer-offsets-bad", 1)])
def test_kafkas_own_log(case: str, code: int) -> None:
    result = run(CORPUS / case)
    assert result.return_value == code
    rows = objects(CORPUS / case)
    assert {row["type"] for row in rows} <= {"group", "member", "commit"}
    counted = {row["group"]: row["commits"] for row in rows if row["type"] == "group"}
    for name, number in counted.items():
        assert number == sum(row["type"] == "commit" and row["group"] == name for row in rows)


def test_where_share_groups_are(tmp_path: Path) -> None:
    """A snapshot says it, an update what has changed; in both layouts that share state has had."""
    Log(tmp_path / "__consumer_offsets-7").add(group_pair(11, {"epoch": 3}, groupId="s")).write()
    key = {"groupId": "s", "topicId": ORDERS_ID}
    log = Log(tmp_path / "__share_group_state-2")
    for number, (first, update) in enumerate(((1, 7), (4, -1), (-1, -1))):
        names = key | {"partition": number}
        snapshot = {"snapshotEpoch": 1, "stateEpoch": 2, "startOffset": first}
        values = (
            share_group_state.encode_value(0, 0, snapshot, later=number > 0),
            share_group_state.encode_value(1, 0, {"snapshotEpoch": 1, "startOffset": update}, later=number > 0),
        )
        log.add(*((share_group_state.encode_key(kind, names), value) for kind, value in enumerate(values)))
    log.write()
    orders = Log(tmp_path / "orders-0").add(*[(b"k", b"v")] * 10).write()
    (orders.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_uuid(ORDERS_ID)}\n")
    rows = [row for row in objects(tmp_path) if row["type"] == "shareStart"]
    assert [(row["topic"], row["partition"], row["startOffset"], row["lag"]) for row in rows] == [
        ("orders", 0, 7, None),
        ("orders", 1, 4, None),
        ("orders", 2, None, None),
    ]
    assert "orders-0              7       10    -            2" in run(tmp_path).stdout
