"""The groups that the log directories have in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.errors import Report
from kdump.formats import names
from kdump.serve.cluster import ServedCluster
from kdump.serve.group import CommittedOffset, Group
from kdump.topics.group_log import GroupLog
from kdump.topics.groups import Group as LoggedGroup
from kdump.topics.groups import GroupType, groups_of


def logged_groups(cluster: ServedCluster, report: Report) -> Iterator[Group]:
    """Yield the groups with their committed offsets; whoever was a member is gone. Raises OSError."""
    for replica in cluster.replicas(names.CONSUMER_OFFSETS_TOPIC):
        for group in groups_of(GroupLog(replica, report), cluster.names):
            if not group.is_dead:
                yield _served(group)


def _served(group: LoggedGroup) -> Group:
    commits = {
        (each.topic, each.partition): CommittedOffset(each.offset, each.leader_epoch, each.metadata)
        for each in group.commits
    }
    protocol_type = group.protocol_type if group.kind is GroupType.CLASSIC else group.kind
    return Group(group.name, group.kind, protocol_type, generation=group.epoch or 0, commits=commits)
