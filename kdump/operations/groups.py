"""Groups out of __consumer_offsets, with the logs that they read and where their share partitions begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from kdump.errors import KdumpError, Report
from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.storage.replica import Replica, farthest, read_replicas
from kdump.topics.group_log import GroupLog
from kdump.topics.groups import Group, groups_of
from kdump.topics.lag import BEYOND_END, Ranges
from kdump.topics.metadata_log import state_of_directory
from kdump.topics.share_state import ShareStart, share_starts


class GroupsOf:
    """The groups among some replicas; `ranges` are the offsets of the logs that they read, as far as those are there.

    Of several replicas of a partition the one whose log reaches farthest counts.
    """

    def __init__(self, found: Iterable[Replica], report: Report, chosen: Iterable[Replica] | None = None) -> None:
        """`chosen` are the replicas of __consumer_offsets to read, all that were found unless given.

        Raises KdumpError where there is none.
        """
        self._found = list(found)
        self._report = report
        self._offsets = self._of(names.CONSUMER_OFFSETS_TOPIC) if chosen is None else list(chosen)
        if not self._offsets:
            raise KdumpError("there is no partition of __consumer_offsets in these PATHs")
        self.ranges = Ranges(self._found, report)

    def __iter__(self) -> Iterator[Group]:
        topic_names = self._topic_names()
        starts = self._share_starts(topic_names)

        def groups(replica: Replica) -> Iterator[Group]:
            return groups_of(GroupLog(replica, self._report), topic_names)

        for group in read_replicas(self._offsets, self._report, groups):
            group.share_starts = starts.get(group.name, [])
            yield group

    def is_beyond(self, group: Group) -> bool:
        """Return whether a commit of a group lies beyond the end of its log."""
        for commit in group.commits:
            found = self.ranges.of(commit.topic, commit.partition, commit.offset)
            if found and found.place(commit) == BEYOND_END:
                return True
        return False

    def _of(self, topic: str) -> list[Replica]:
        return farthest((replica for replica in self._found if replica.topic == topic), self._report)

    def _share_starts(self, topic_names: dict[bytes, str]) -> dict[str, list[tuple[str, ShareStart]]]:
        """Return the share partitions at hand by their group, each with its topic's name, or id where none is."""
        starts: dict[str, list[tuple[str, ShareStart]]] = {}
        for replica in self._of(names.SHARE_GROUP_STATE_TOPIC):
            for start in share_starts(replica, self._report):
                topic = topic_names.get(start.topic_id) or format_uuid(start.topic_id)
                starts.setdefault(start.group, []).append((topic, start))
        for some in starts.values():
            some.sort(key=lambda entry: (entry[0], entry[1].partition))
        return starts

    def _topic_names(self) -> dict[bytes, str]:
        """Return topics by id, as their partitions and the cluster's metadata have them."""
        known: dict[bytes, str] = {}
        for replica in self._found:
            # a name for an id is a kindness, no more: what is wrong here is not what was asked for
            with suppress(KdumpError, OSError):
                if replica.topic == names.CLUSTER_METADATA_TOPIC:
                    topics = state_of_directory(replica.log, lambda _problem: None).image.topics
                    known |= {topic.topic_id: topic.name for topic in topics.values()}
                elif replica.log.metadata is not None:
                    known[replica.log.metadata.topic_id] = replica.topic
        return known
