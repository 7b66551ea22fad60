"""`kdump groups --format jsonl`: one object a line, as docs/groups-txns-metadata.md has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.topics.groups import Commit, Group, Member
from kdump.topics.lag import Ranges
from kdump.topics.share_state import ShareStart

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints groups as objects."""

    def __init__(self, write: Callable[[str], object], retention_ms: int, now: int) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._retention_ms = retention_ms
        self._now = now

    def group(self, group: Group, ranges: Ranges, *, is_beyond: bool) -> None:
        """Write a group, its members, its commits, and where a share group is in its partitions."""
        del is_beyond
        self.row(
            "group",
            {
                **fields_of(group, "group=name offsetsPartition=partition groupType=kind state state_timestamp?"),
                **fields_of(group, "protocol_type protocol leader epoch assignment_epoch"),
                "members": len(group.members),
                "commits": len(group.commits),
                "pendingCommits": len(group.pending),
                **fields_of(group, "live_bytes live_records superseded_bytes superseded_records"),
            },
        )
        for member in group.members:
            self.row("member", {"group": group.name} | _member_fields(member))
        for commit in (*group.commits, *group.pending):
            fields = _commit_fields(group, commit, ranges, self._retention_ms, self._now)
            self.row("commit", {"group": group.name} | fields)
        for topic, start in group.share_starts:
            self.row("shareStart", {"group": group.name} | _start_fields(topic, start, ranges))


def _member_fields(member: Member) -> dict[str, Any]:
    return {
        **fields_of(member, "member_id instance_id client_id client_host rack epoch state"),
        **fields_of(member, "subscribedTopics=topics subscribedRegex=regex"),
        "assignment": [{"topic": topic, "partitions": numbers} for topic, numbers in member.assignment],
        **fields_of(member, "sessionTimeoutMs=session_timeout rebalanceTimeoutMs=rebalance_timeout"),
    }


def _commit_fields(group: Group, commit: Commit, ranges: Ranges, retention_ms: int, now: int) -> dict[str, Any]:
    known = ranges.of(commit.topic, commit.partition)
    is_pending = commit.producer_id >= 0
    return {
        **fields_of(commit, "topic partition offset leader_epoch? metadata commit_timestamp expire_timestamp?"),
        "expiresAt": group.expires_at(commit, retention_ms),
        "isExpired": group.is_expired(commit, retention_ms, now),
        "pendingProducerId": commit.producer_id if is_pending else None,
        "recordOffset": commit.record_offset,
        **fields_of(known, "logStartOffset=start logEndOffset=end"),
        "lag": known.lag(commit) if known else None,
        "place": known.place(commit) if known else None,
    }


def _start_fields(topic: str, start: ShareStart, ranges: Ranges) -> dict[str, Any]:
    known = ranges.of(topic, start.partition)
    return {
        "topic": topic,
        **fields_of(start, "partition start_offset? state_epoch leader_epoch delivery_complete_count?"),
        **fields_of(known, "logStartOffset=start logEndOffset=end"),
        "lag": known.lag_of_start(start) if known else None,
    }
