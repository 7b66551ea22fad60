"""Who may lead a partition: the controller's rules in their order (PartitionChangeBuilder, KIP-966)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from kdump.errors import ConfigError
from kdump.settings.replication import ReplicationSettings
from kdump.settings.sources import Settings
from kdump.topics.cluster_image import ClusterImage, Topic

NO_LEADER = -1

ELR_FEATURE = "eligible.leader.replicas.version"


class Standing(StrEnum):
    """Why a replica may lead; UNCLEAN: only by an unclean election, which loses what it has not."""

    IN_SYNC = "inSync"
    ELIGIBLE = "eligible"
    LAST_KNOWN = "lastKnown"
    UNCLEAN = "unclean"


class PartitionState(NamedTuple):
    """A partition as the cluster's metadata has it; `replicas` in the order of their assignment.

    `leader` is -1 where there is none. `is_recovering`: the last election was an unclean one. `has_elr`: eligible
    leader replicas are switched on. `min_insync` is min.insync.replicas, at most the number of replicas. A reassignment
    is `adding` and `removing` some of the replicas: the copies of those go when it is done. `unclean_epoch` is the
    leader epoch that began with the last unclean election, -1 where the metadata tell of none.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    has_elr: bool = False
    is_unclean_allowed: bool = False
    min_insync: int = 1
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    unclean_epoch: int = -1

    @property
    def is_under_replicated(self) -> bool:
        """Whether replicas are missing in the ISR."""
        return len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether producers with acks=all are refused: NOT_ENOUGH_REPLICAS."""
        return len(self.isr) < self.min_insync

    def standing(self, broker: int) -> Standing:
        """Return why a replica may lead."""
        if broker in self.isr:
            return Standing.IN_SYNC
        if broker in self.elr:
            return Standing.ELIGIBLE
        if self.has_elr and self.last_known_elr == (broker,):
            return Standing.LAST_KNOWN
        return Standing.UNCLEAN

    def may_lead(self, broker: int) -> bool:
        """Return whether a replica can become leader without an administrator, some brokers being down or not."""
        return self.is_unclean_allowed or self.standing(broker) is not Standing.UNCLEAN

    @property
    def leader_after(self) -> int:
        """The leader that the controller elects when the present one goes and all others are alive; -1 for none."""
        return self.next_leader([broker for broker in self.replicas if broker != self.leader])

    def next_leader(self, alive: Collection[int]) -> int:
        """Return the leader that the controller elects when just these brokers are alive; -1 for none."""
        candidates = self.isr or self.elr
        if self.leader in candidates and self.leader in alive:
            return self.leader
        in_order = [broker for broker in self.replicas if broker in alive]
        for broker in in_order:
            if broker in candidates:
                return broker
        if self.has_elr and not candidates and len(self.last_known_elr) == 1 and self.last_known_elr[0] in alive:
            return self.last_known_elr[0]
        return in_order[0] if self.is_unclean_allowed and in_order else NO_LEADER


def partition_state(
    fields: Mapping[str, Any], settings: ReplicationSettings, features: Mapping[str, int], unclean_epoch: int = -1
) -> PartitionState:
    """Return the state that a PartitionRecord (as changes left it), the topic's settings and the features add up to."""
    replicas = tuple(fields["replicas"])
    return PartitionState(
        replicas=replicas,
        isr=tuple(fields["isr"]),
        leader=fields["leader"],
        leader_epoch=fields["leaderEpoch"],
        partition_epoch=fields["partitionEpoch"],
        elr=tuple(fields.get("eligibleLeaderReplicas") or ()),
        last_known_elr=tuple(fields.get("lastKnownElr") or ()),
        is_recovering=bool(fields.get("leaderRecoveryState")),
        has_elr=features.get(ELR_FEATURE, 0) > 0,
        is_unclean_allowed=settings.allows_unclean_election,
        min_insync=max(1, min(settings.min_insync_replicas, len(replicas))),
        adding=tuple(fields.get("addingReplicas") or ()),
        removing=tuple(fields.get("removingReplicas") or ()),
        unclean_epoch=unclean_epoch,
    )


def state_of_partition(image: ClusterImage, topic: Topic, number: int) -> PartitionState:
    """Return the state of a topic's partition; settings that cannot be read count as Kafka's defaults."""
    try:
        settings = ReplicationSettings.of(Settings(image.configs).of(topic.name))
    except ConfigError:
        settings = ReplicationSettings()
    return partition_state(topic.partitions[number], settings, image.features, topic.unclean_epochs.get(number, -1))
