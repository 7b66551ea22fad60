"""Put the copies of a partition together that lie in the log directories of several brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.formats.names import LIVE, PartitionDirName
from kdump.storage.broker import BrokerIdentity


class PartitionKey(NamedTuple):
    """A partition of one topic of one cluster; ids that are not known are None."""

    topic: str
    partition: int
    topic_id: bytes | None
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """A partition directory; `owner` is the broker of its log directory, `topic_id` that of partition.metadata."""

    path: str
    name: PartitionDirName
    owner: BrokerIdentity | None
    topic_id: bytes | None

    @property
    def broker(self) -> int | None:
        """The id of its broker."""
        return self.owner.node_id if self.owner else None


@dataclass(slots=True)
class Joined:
    """The copies of a partition. `aside` are directories of it that no broker serves: -future, -stray, -delete.

    `namesakes` are the ids of other topics of the same name and cluster: nothing may go from one to the other.
    """

    key: PartitionKey
    copies: list[Found] = field(default_factory=list)
    aside: list[Found] = field(default_factory=list)
    namesakes: tuple[bytes, ...] = ()


def join(found: Iterable[Found]) -> Iterator[Joined]:
    """Put directories together by cluster id, topic id and partition; by topic and number.

    A directory without a topic id or cluster id goes with those of its name where there is only one topic of it.
    """
    directories = list(found)
    clusters = {each.owner.cluster_id for each in directories if each.owner and each.owner.cluster_id}
    only_cluster = next(iter(clusters)) if len(clusters) == 1 else None
    ids: dict[tuple[str, str | None], set[bytes]] = {}
    for each in directories:
        if each.topic_id is not None:
            ids.setdefault((each.name.topic, _cluster(each, only_cluster)), set()).add(each.topic_id)
    groups: dict[PartitionKey, Joined] = {}
    for each in directories:
        cluster = _cluster(each, only_cluster)
        known = ids.get((each.name.topic, cluster), set())
        topic_id = each.topic_id
        if topic_id is None and len(known) == 1:
            topic_id = next(iter(known))
        key = PartitionKey(each.name.topic, each.name.partition, topic_id, cluster)
        group = groups.setdefault(key, Joined(key, namesakes=tuple(sorted(known - {topic_id}))))
        (group.copies if each.name.state == LIVE else group.aside).append(each)
    for key in sorted(groups, key=_order):
        group = groups[key]
        group.copies.sort(key=lambda copy: (copy.broker is None, copy.broker or 0))
        yield group


def _cluster(found: Found, only: str | None) -> str | None:
    return (found.owner.cluster_id if found.owner else None) or only


def _order(key: PartitionKey) -> tuple[str, int, str, bytes]:
    return key.topic, key.partition, key.cluster_id or "", key.topic_id or b""
