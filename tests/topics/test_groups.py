"""What a partition of __consumer_offsets adds up to."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import Problem
from kdump.formats.schemas import consumer_offsets
from kdump.formats.schemas.writer import encode
from kdump.settings.defaults import OFFSETS_RETENTION_MS
from kdump.topics.group_log import GroupLog
from kdump.topics.groups import Commit, Group, GroupState, GroupType, groups_of
from kdump.topics.lag import BEFORE_START, BEYOND_END, INSIDE, Range, Ranges
from kdump.topics.share_state import ShareStart
from tests.topics.building import NOW, Log, commit_pair, group_pair, replica, unexpected

TOPIC_ID = bytes(range(16))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "__consumer_offsets-7")


def groups(log: Log, problems: list[Problem] | None = None, names: dict[bytes, str] | None = None) -> list[Group]:
    """The groups of a log; no problem is expected unless there is a list for it."""
    met: list[Problem] = [] if problems is None else problems
    found = list(groups_of(GroupLog(replica(log.write()), met.append), names or {}))
    if problems is None:
        assert met == []
    return found


def offsets(group: Group) -> dict[tuple[str, int], int]:
    return {(commit.topic, commit.partition): commit.offset for commit in group.commits}


# --- what counts ---


def test_the_last_commit_of_a_key_counts(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5), commit_pair("g", "t", 1, 6)).add(commit_pair("g", "t", 0, 9, leaderEpoch=4))
    (group,) = groups(log)
    assert offsets(group) == {("t", 0): 9, ("t", 1): 6}
    assert group.commits[0] == Commit("t", 0, 9, 4, "", NOW, -1, 2)
    assert (group.kind, group.state, group.partition, group.protocol_type) == ("classic", GroupState.EMPTY, 7, "")


def test_a_tombstone_removes(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5), commit_pair("g", "t", 1, 6)).roll().add(commit_pair("g", "t", 0, None))
    assert offsets(groups(log)[0]) == {("t", 1): 6}


def test_a_group_of_tombstones_is_dead(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5)).add(commit_pair("g", "t", 0, None)).add(group_pair(2, None, group="g"))
    (group,) = groups(log)
    assert group.state is GroupState.DEAD
    assert (group.live_bytes, group.live_records, group.superseded_records) == (0, 0, 3)
    assert group.superseded_bytes == len(log.data)


def test_a_group_without_commits_stays_until_it_is_deleted(log: Log) -> None:
    """Every commit makes a classic group, one that was aborted or deleted too; only its own tombstone ends it."""
    log.add(commit_pair("deleted", "t", 0, 5)).add(commit_pair("deleted", "t", 0, None))
    log.add(commit_pair("aborted", "t", 0, 6), producer=(7, 0)).abort(7, 0)
    log.add(group_pair(2, None, group="again"))
    log.add(commit_pair("again", "t", 0, 8)).add(commit_pair("again", "t", 0, None))
    log.add(commit_pair("compacted", "t", 0, None))
    assert {group.name: (group.kind, group.state) for group in groups(log)} == {
        "aborted": ("classic", GroupState.EMPTY),
        "again": ("classic", GroupState.EMPTY),
        "compacted": ("classic", GroupState.DEAD),
        "deleted": ("classic", GroupState.EMPTY),
    }


def test_bytes_are_shares_of_batches(log: Log) -> None:
    log.add(commit_pair("a", "t", 0, 5))
    first = len(log.data)
    log.add(commit_pair("a", "t", 0, 6), commit_pair("b", "t", 0, 7))
    share = (len(log.data) - first) // 2
    a, b = groups(log)
    assert (a.superseded_bytes, a.superseded_records, a.live_bytes, a.live_records) == (first, 1, share, 1)
    assert (b.superseded_bytes, b.live_bytes) == (0, share)


def test_records_below_the_log_start_offset_do_not_count(log: Log) -> None:
    (log.folder.parent / "log-start-offset-checkpoint").write_text("0\n1\n__consumer_offsets 7 1\n")
    log.add(commit_pair("g", "t", 0, 5)).add(commit_pair("h", "t", 0, 6))
    assert [group.name for group in groups(log)] == ["h"]


def test_old_key_types_and_value_versions(log: Log) -> None:
    for version in range(5):
        log.add(commit_pair("g", "t", version, 100 + version, version=version))
    legacy = struct.pack(">h", 0) + commit_pair("old", "t", 0, 1)[0][2:]  # type: ignore[index]
    log.add((legacy, commit_pair("old", "t", 0, 8, version=1, expireTimestamp=NOW + 1)[1]))
    g, old = groups(log)
    assert list(offsets(g).values()) == [100, 101, 102, 103, 104]
    assert old.commits[0].expire_timestamp == NOW + 1


# --- transactions ---


def test_a_transactional_commit_waits_for_its_marker(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5)).add(commit_pair("g", "t", 0, 9), producer=(7, 0))
    (group,) = groups(log)
    assert offsets(group) == {("t", 0): 5}
    assert [(commit.offset, commit.producer_id) for commit in group.pending] == [(9, 7)]
    log.commit(7, 0)
    (group,) = groups(log)
    assert (offsets(group), group.pending) == ({("t", 0): 9}, [])


def test_an_aborted_commit_is_dropped(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5)).add(commit_pair("g", "t", 0, 9), producer=(7, 0)).abort(7, 0)
    (group,) = groups(log)
    assert (offsets(group), group.pending, group.superseded_records) == ({("t", 0): 5}, [], 1)


def test_only_the_producers_own_transaction_ends(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5), producer=(7, 0)).add(commit_pair("g", "t", 0, 6), producer=(8, 0))
    log.commit(8, 0)
    (group,) = groups(log)
    assert offsets(group) == {("t", 0): 6}
    assert [commit.producer_id for commit in group.pending] == [7]


def test_a_later_plain_commit_wins_over_a_transactional_one(log: Log) -> None:
    """By the place in the log of the commits, not of the marker."""
    log.add(commit_pair("g", "t", 0, 9), producer=(7, 0)).add(commit_pair("g", "t", 0, 5)).commit(7, 0)
    assert offsets(groups(log)[0]) == {("t", 0): 5}


def test_the_last_of_several_commits_in_a_transaction(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 8), producer=(7, 0)).add(commit_pair("g", "t", 0, 9), producer=(7, 0)).commit(7, 0)
    (group,) = groups(log)
    assert (offsets(group), group.superseded_records) == ({("t", 0): 9}, 1)


# --- classic groups ---


def consumer_member(topics: list[str], assigned: list[int], **fields: Any) -> dict[str, Any]:
    subscription = encode(consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION, 0, {"topics": topics})
    assignment = encode(
        consumer_offsets.CONSUMER_PROTOCOL_ASSIGNMENT,
        0,
        {"assignedPartitions": [{"topic": topics[0], "partitions": assigned}]},
    )
    return {
        "memberId": "m",
        "clientId": "c",
        "clientHost": "/10.0.0.1",
        "sessionTimeout": 45_000,
        "subscription": b"\0\0" + subscription,
        "assignment": b"\0\0" + assignment,
    } | fields


def classic(members: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    common = {"protocolType": "consumer", "generation": 3, "protocol": "range", "leader": "m"}
    return common | {"members": members} | fields


def test_a_classic_group(log: Log) -> None:
    value = classic([consumer_member(["t"], [1, 0])], currentStateTimestamp=NOW)
    log.add(group_pair(2, value, version=3, group="g"))
    (group,) = groups(log)
    assert (group.state, group.epoch, group.protocol, group.leader) == (GroupState.STABLE, 3, "range", "m")
    assert group.members[0].assignment == [("t", [0, 1])]
    assert group.subscribed == frozenset({"t"})


def test_members_whose_bytes_no_coordinator_reads(log: Log) -> None:
    member = consumer_member(["t"], [0], subscription=b"\0", assignment=b"")
    log.add(group_pair(2, classic([member]), version=3, group="g"))
    (group,) = groups(log)
    assert (group.members[0].topics, group.members[0].assignment, group.subscribed) == (None, [], None)


# --- expiry ---

COMMIT = Commit("t", 0, 5, -1, "", NOW, -1, 0)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (Group("g", 0), NOW + 1000),
        (Group("g", 0, protocol_type="consumer", state_timestamp=NOW + 7), NOW + 1007),
        (Group("g", 0, protocol_type="consumer"), NOW + 1000),
        (Group("g", 0, protocol_type="consumer", state=GroupState.STABLE, subscribed=frozenset("t")), None),
        (Group("g", 0, protocol_type="consumer", state=GroupState.STABLE, subscribed=frozenset("u")), NOW + 1000),
        (Group("g", 0, protocol_type="consumer", state=GroupState.STABLE, subscribed=None), None),
        (Group("g", 0, protocol_type="connect", state=GroupState.STABLE), None),
        (Group("g", 0, kind=GroupType.CONSUMER, state=GroupState.STABLE, subscribed=frozenset("u")), NOW + 1000),
        (Group("g", 0, kind=GroupType.CONSUMER, state=GroupState.STABLE, subscribed=frozenset("t")), None),
        (Group("g", 0, pending=[COMMIT]), None),
    ],
)
def test_when_a_commit_expires(group: Group, expected: int | None) -> None:
    assert group.expires_at(COMMIT, 1000) == expected


def test_a_commit_with_an_expire_timestamp_of_its_own() -> None:
    commit = Commit("t", 0, 5, -1, "", NOW, NOW + 3, 0)
    group = Group("g", 0)
    assert group.expires_at(commit, OFFSETS_RETENTION_MS) == NOW + 3
    assert [group.is_expired(commit, OFFSETS_RETENTION_MS, NOW + later) for later in (2, 3)] == [False, True]


def test_a_commit_that_waits_for_its_transaction_does_not_expire() -> None:
    pending = replace(COMMIT, producer_id=7)
    assert not Group("g", 0, pending=[pending]).is_expired(pending, 0, NOW + 1)


def test_a_group_with_some_of_its_partitions() -> None:
    start = ShareStart("g", b"", 1, 0, 0, 0)
    other = replace(COMMIT, partition=1)
    group = Group("g", 0, commits=[COMMIT, other], pending=[other], share_starts=[("t", start), ("u", start)])
    found = group.of_partitions(lambda topic, number: (topic, number) == ("t", 1))
    assert (found.commits, found.pending, found.share_starts) == ([other], [other], [("t", start)])
    assert len(group.commits) == 2
    assert found.has_offsets
    assert not group.of_partitions(lambda *_: False).has_offsets


# --- newer protocols ---


def new_group(log: Log, *, member_epoch: int = 5, target: int = 5) -> Group:
    member: dict[str, object] = {"clientId": "c", "clientHost": "h", "subscribedTopicNames": ["t"]}
    member |= {"subscribedTopicRegex": "x.*", "instanceId": "i", "rackId": "r", "serverAssignor": None}
    assigned = [{"topicId": TOPIC_ID, "partitions": [2, 1]}]
    current = {"memberEpoch": member_epoch, "previousMemberEpoch": 4, "state": 0, "assignedPartitions": assigned}
    log.add(
        group_pair(3, {"epoch": 5}, groupId="g"),
        group_pair(5, member, groupId="g", memberId="m"),
        group_pair(6, {"assignmentEpoch": target}, groupId="g"),
        group_pair(8, current | {"partitionsPendingRevocation": []}, groupId="g", memberId="m"),
        group_pair(16, {"topics": ["x1"], "version": 1, "timestamp": NOW}, groupId="g", regularExpression="x.*"),
    )
    return groups(log, names={TOPIC_ID: "t"})[0]


def test_a_consumer_group(log: Log) -> None:
    group = new_group(log)
    assert (group.kind, group.state, group.epoch, group.assignment_epoch) == ("consumer", GroupState.STABLE, 5, 5)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack, member.epoch) == ("m", "i", "r", 5)
    assert (member.state, member.assignment) == ("Stable", [("t", [1, 2])])
    assert group.subscribed == frozenset({"t", "x1"})


@pytest.mark.parametrize(("member_epoch", "target", "state"), [(4, 5, "Reconciling"), (5, 4, "Assigning")])
def test_states_of_a_consumer_group(log: Log, member_epoch: int, target: int, state: str) -> None:
    assert new_group(log, member_epoch=member_epoch, target=target).state == state


def test_a_topic_without_a_name_is_shown_by_its_id(log: Log) -> None:
    current = {"memberEpoch": 1, "state": 0, "assignedPartitions": [{"topicId": TOPIC_ID, "partitions": [0]}]}
    log.add(group_pair(11, {"epoch": 1}, groupId="s"), group_pair(14, current, groupId="s", memberId="m"))
    (group,) = groups(log)
    assert (group.kind, group.members[0].assignment) == ("share", [("AAECAwQFBgcICQoLDA0ODw", [0])])


# --- damage ---

FILLED = [
    commit_pair("bad", "t", 0, 5, version=version, metadata="some", expireTimestamp=-1) for version in range(5)
] + [
    group_pair(2, classic([consumer_member(["t"], [0])]), version=3, group="bad"),
    group_pair(3, {"epoch": 1}, groupId="bad"),
    group_pair(5, {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "h",
                   "subscribedTopicNames": ["t"], "subscribedTopicRegex": None, "serverAssignor": None},
               groupId="bad", memberId="m"),
    group_pair(8, {"memberEpoch": 1, "assignedPartitions": [{"topicId": TOPIC_ID, "partitions": [1]}]}, groupId="bad",
               memberId="m"),
    group_pair(19, {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "h", "processId": "p"},
               groupId="bad", memberId="m"),
]  # fmt: skip


@pytest.mark.parametrize("pair", FILLED)
def test_every_truncation_of_a_value_is_told_and_the_rest_stays(log: Log, pair: tuple[bytes, bytes]) -> None:
    key, value = pair
    starts = []
    for size in range(len(value)):
        starts.append(len(log.data))
        log.add((key, value[:size]))
    log.add(commit_pair("good", "t", 0, 5))
    problems: list[Problem] = []
    assert [group.name for group in groups(log, problems) if group.state != GroupState.DEAD] == ["good"]
    assert [problem.position for problem in problems] == starts
    assert all(problem.path.endswith("00000000000000000000.log") for problem in problems)
    assert problems[3].text.startswith("offset 3: ")


def test_every_truncation_of_a_key(log: Log) -> None:
    key, value = commit_pair("bad", "topic", 0, 5)
    assert key is not None
    for size in range(len(key)):
        log.add((key[:size], value))
    log.add((None, value)).add(commit_pair("good", "t", 0, 5))
    problems: list[Problem] = []
    assert [group.name for group in groups(log, problems)] == ["good"]
    assert len(problems) == len(key) + 1


def test_a_damaged_value_leaves_the_one_before(log: Log) -> None:
    key, _ = commit_pair("g", "t", 0, 5)
    log.add(commit_pair("g", "t", 0, 5)).add((key, b"\0\3\0"))
    problems: list[Problem] = []
    assert offsets(groups(log, problems)[0]) == {("t", 0): 5}
    assert len(problems) == 1


def test_a_damaged_batch(log: Log) -> None:
    log.add(commit_pair("g", "t", 0, 5))
    damaged = len(log.data)
    log.add(commit_pair("g", "t", 0, 6)).add(commit_pair("g", "t", 1, 7))
    log.data[damaged + 80] ^= 1
    problems: list[Problem] = []
    assert offsets(groups(log, problems)[0]) == {("t", 0): 5, ("t", 1): 7}
    assert [problem.position for problem in problems] == [damaged]


# --- lag ---


def test_the_lag_of_a_share_group_is_what_is_not_done_with() -> None:
    """As kafka-share-groups shows it; Kafka up to 4.1 writes no count, and shows no lag."""
    known = Range(10, 100)
    assert known.lag_of_start(ShareStart("g", b"", 1, 60, 0, 0, 15)) == 25
    assert known.lag_of_start(ShareStart("g", b"", 1, 60, 0, 0, 40)) == 0
    assert known.lag_of_start(ShareStart("g", b"", 1, 60, 0, 0)) is None
    assert known.lag_of_start(ShareStart("g", b"", 1, -1, 0, 0, 0)) is None


def test_ranges_of_logs(tmp_path: Path) -> None:
    short = Log(tmp_path / "a" / "t-0", 10).add((b"k", b"v")).write()
    long = Log(tmp_path / "b" / "t-0", 10).add((b"k", b"v"), (b"k", b"v")).roll().write()
    ranges = Ranges([replica(short), replica(long)], unexpected)
    assert ranges.of("t", 0) == Range(10, 12)
    assert ranges.of("t", 1) is None


@pytest.mark.parametrize(
    ("offset", "place", "lag"), [(9, BEFORE_START, 3), (10, INSIDE, 2), (12, INSIDE, 0), (13, BEYOND_END, -1)]
)
def test_where_a_commit_stands(offset: int, place: str, lag: int) -> None:
    commit = Commit("t", 0, offset, -1, "", NOW, -1, 0)
    assert (Range(10, 12).place(commit), Range(10, 12).lag(commit)) == (place, lag)
