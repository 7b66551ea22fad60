"""What the answers to requests are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kdump.formats.names import can_be_topic
from kdump.server.cluster import Address, PartitionPaths, ServedCluster, ServedTopic
from kdump.server.partition import ServedPartition
from kdump.server.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kdump.server.groups import Coordinator

Fields = dict[str, Any]


@dataclass(slots=True)
class Context:
    """A connection: the cluster, the node that it leads to, the coordinator of groups, and who is at the other end.

    `local_host` is the address of ours that the client reached, for a server that listens on all of them.
    """

    cluster: ServedCluster
    node_id: int
    coordinator: Coordinator
    client_host: str = ""
    local_host: str = ""

    def address(self, node_id: int) -> Address:
        """Return where a client of this connection finds a node."""
        address = self.cluster.address(node_id)
        return address._replace(host=self.local_host) if not address.host else address

    def topic(self, name: str | None, topic_id: bytes | None = None) -> ServedTopic | None:
        """Return the topic of a name, or else of an id."""
        if topic_id is not None and any(topic_id):
            name = self.cluster.names.get(topic_id)
        return self.cluster.topics.get(name or "")

    def find(self, topic: ServedTopic | None, number: int, epoch: int = -1) -> ServedPartition | ErrorCode:
        """Return the partition of a topic, as this node serves it, or why it does not.

        `epoch` is what the client takes for the current leader epoch, -1 where it does not say.
        """
        place = topic.place(number) if topic else None
        if topic is None or place is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if place.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= epoch != place.leader_epoch:
            is_old = epoch < place.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        try:
            served = self.cluster.partition(self.node_id, topic.name, number)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if served is None else served


def unknown_topic(name: str) -> ErrorCode:
    """Return why there is no topic of a name: it may be none that a topic can have."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if can_be_topic(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def partition_nodes(place: PartitionPaths, nodes: dict[int, object]) -> Fields:
    """Return the fields about a partition that all answers with metadata have."""
    return {
        "errorCode": ErrorCode.NONE if place.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        "partitionIndex": place.number,
        "leaderId": place.leader,
        "leaderEpoch": place.leader_epoch,
        "replicaNodes": list(place.replicas),
        "isrNodes": list(place.isr),
        "offlineReplicas": [node for node in place.replicas if node not in nodes],
    }
