"""The coordinator of groups: joins, generations, static members, those who are gone, and its limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from kdump.server import groups
from kdump.server.group import CommittedOffset, Group, GroupError, Member
from kdump.server.groups import Commits, Coordinator, Joining
from kdump.server.protocol.errors import ErrorCode
from kdump.topics.groups import GroupState


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def asks(member_id: str = "", *, instance: str | None = None, group: str = "g", **more: Any) -> Joining:
    protocols = more.pop("protocols", {"range": b"r", "roundrobin": b"rr"})
    session = more.pop("session", 10_000)
    return Joining(group, member_id, instance, "me", "/127.0.0.1", session, 60_000, "consumer", protocols)


async def joined(coordinator: Coordinator, *asked: Joining) -> list[tuple[Group, Member]]:
    tasks = [asyncio.ensure_future(coordinator.join(each)) for each in asked]
    return await asyncio.gather(*tasks)


def code_of(error: pytest.ExceptionInfo[GroupError]) -> ErrorCode:
    return error.value.code


def test_one_member_leads_at_once() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        ((group, member),) = await joined(coordinator, asks())
        assert (group.generation, group.leader, group.state) == (1, member.member_id, GroupState.COMPLETING)
        await coordinator.sync("g", 1, member.member_id, None, {member.member_id: b"all"})
        assert (group.state, member.assignment) == (GroupState.STABLE, b"all")
        coordinator.heartbeat("g", 1, member.member_id, None)
        coordinator.leave("g", member.member_id, None)
        assert (group.state, group.members) == (GroupState.EMPTY, {})

    run(test())


def test_another_member_makes_all_join_again() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        ((group, first),) = await joined(coordinator, asks())
        await coordinator.sync("g", 1, first.member_id, None, {first.member_id: b"all"})
        other = asyncio.ensure_future(coordinator.join(asks(protocols={"roundrobin": b"x"})))
        await asyncio.sleep(0)
        assert group.state is GroupState.PREPARING
        with pytest.raises(GroupError) as told:
            coordinator.heartbeat("g", 1, first.member_id, None)
        assert code_of(told) == ErrorCode.REBALANCE_IN_PROGRESS
        with pytest.raises(GroupError) as told:
            await coordinator.sync("g", 1, first.member_id, None, {})
        assert code_of(told) == ErrorCode.REBALANCE_IN_PROGRESS
        await coordinator.join(asks(first.member_id))
        _, second = await other
        assert (group.generation, group.leader, group.protocol) == (2, first.member_id, "roundrobin")
        with pytest.raises(GroupError) as told:
            coordinator.heartbeat("g", 1, first.member_id, None)
        assert code_of(told) == ErrorCode.ILLEGAL_GENERATION
        waiting = asyncio.ensure_future(coordinator.sync("g", 2, second.member_id, None, {}))
        await asyncio.sleep(0)
        shares = {first.member_id: b"1", second.member_id: b"2"}
        await coordinator.sync("g", 2, first.member_id, None, shares)
        await waiting
        assert (first.assignment, second.assignment) == (b"1", b"2")

    run(test())


def test_who_does_not_join_again_in_time_is_left_behind() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        ((group, first),) = await joined(coordinator, asks(session=1_000_000))
        await coordinator.sync("g", 1, first.member_id, None, {})
        other = asyncio.ensure_future(coordinator.join(asks(session=1_000_000)))
        await asyncio.sleep(0)
        coordinator.expire(time.monotonic() + 5)
        assert group.state is GroupState.PREPARING
        coordinator.expire(time.monotonic() + 61)
        _, second = await other
        assert list(group.members) == [second.member_id]
        assert group.leader == second.member_id

    run(test())


def test_who_is_not_heard_of_is_gone() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        ((group, member),) = await joined(coordinator, asks())
        await coordinator.sync("g", 1, member.member_id, None, {})
        coordinator.expire(time.monotonic() + 9)
        assert group.members
        coordinator.expire(time.monotonic() + 11)
        assert not group.members
        with pytest.raises(GroupError) as told:
            coordinator.heartbeat("g", 1, member.member_id, None)
        assert code_of(told) == ErrorCode.UNKNOWN_MEMBER_ID

    run(test())


def test_a_static_member_that_comes_back_fences_its_old_self() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        ((group, old),) = await joined(coordinator, asks(instance="i"))
        before = old.member_id
        ((_, new),) = await joined(coordinator, asks(instance="i"))
        assert new.member_id != before
        assert list(group.members) == [new.member_id]
        assert group.leader == new.member_id
        with pytest.raises(GroupError) as told:
            coordinator.heartbeat("g", 2, before, "i")
        assert code_of(told) == ErrorCode.FENCED_INSTANCE_ID
        coordinator.leave("g", "", "i")
        assert not group.members

    run(test())


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (asks(group=""), ErrorCode.INVALID_GROUP_ID),
        (asks("nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (asks(session=5), ErrorCode.INVALID_SESSION_TIMEOUT),
        (asks(protocols={}), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (asks(group="taken", protocols={"other": b""}), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (asks("nobody", group="taken"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_not_join(asked: Joining, code: ErrorCode) -> None:
    async def test() -> None:
        coordinator = Coordinator()
        await joined(coordinator, asks(group="taken"))
        with pytest.raises(GroupError) as told:
            await coordinator.join(asked)
        assert code_of(told) == code

    run(test())


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 2)
    monkeypatch.setattr(groups, "MAX_MEMBERS", 1)
    monkeypatch.setattr(groups, "MAX_COMMITS", 1)

    async def test() -> None:
        coordinator = Coordinator()
        await joined(coordinator, asks(group="a"), asks(group="b"))
        with pytest.raises(GroupError) as told:
            await coordinator.join(asks(group="c"))
        assert code_of(told) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(GroupError) as told:
            await coordinator.join(asks(group="a"))
        assert code_of(told) == ErrorCode.GROUP_MAX_SIZE_REACHED
        group = Group("x")
        assert coordinator.commit(group, "t", 0, CommittedOffset(1, -1, "")) == ErrorCode.NONE
        assert coordinator.commit(group, "t", 0, CommittedOffset(2, -1, "")) == ErrorCode.NONE
        assert coordinator.commit(group, "t", 1, CommittedOffset(1, -1, "")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        long = CommittedOffset(1, -1, "x" * 4097)
        assert coordinator.commit(group, "t", 0, long) == ErrorCode.OFFSET_METADATA_TOO_LARGE

    run(test())


def test_who_may_commit() -> None:
    async def test() -> None:
        coordinator = Coordinator()
        assert coordinator.check_commit("simple", -1, "", None).name == "simple"
        ((_, member),) = await joined(coordinator, asks())
        for generation, member_id, code in (
            (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
            (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
            (7, member.member_id, ErrorCode.ILLEGAL_GENERATION),
            (1, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS),
        ):
            with pytest.raises(GroupError) as told:
                coordinator.check_commit("g", generation, member_id, None)
            assert code_of(told) == code
        await coordinator.sync("g", 1, member.member_id, None, {})
        assert coordinator.check_commit("g", 1, member.member_id, None).name == "g"
        with pytest.raises(GroupError) as told:
            Coordinator(Commits.REFUSE).check_commit("g", -1, "", None)
        assert code_of(told) == ErrorCode.GROUP_AUTHORIZATION_FAILED

    run(test())
