"""What the cluster's metadata says of the partition directories beside it: topics by their ids, and who is stray."""

from __future__ import annotations

from kdump.errors import KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.formats.uuids import format_uuid
from kdump.query.inventory import Placement, owner_of
from kdump.releases import METADATA_VERSION, TRANSACTION_VERSION, release_name
from kdump.settings.sources import Settings
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.cluster_image import ClusterImage, Fields
from kdump.topics.metadata_log import MetadataState, release_of_level, state_beside, state_up_to
from kdump.topics.partition_state import state_of_partition


class Cluster:
    """A cluster's state as one of its brokers knows it. `broker_id` is None where nothing says which one.

    Nothing is stray where the state is not whole: a record that is newer than kdump may say something else.
    """

    def __init__(
        self,
        image: ClusterImage,
        broker_id: int | None,
        *,
        is_whole: bool = True,
        end: tuple[int, int] = (-1, -1),
        voters: frozenset[int] = frozenset(),
    ) -> None:
        """`end` is how far the metadata go: their leader epoch and end offset; `voters` are the controllers.

        `is_controller` tells that the node is one, and no broker.
        """
        self.broker_id = broker_id
        self.cut: int | None = None
        self.ends_early = False
        self._voters = voters
        self._decides = False
        is_voter = broker_id in voters or broker_id in image.controllers
        self.is_controller = is_voter and bool(image.brokers) and broker_id not in image.brokers
        self.end = end
        self._is_whole = is_whole
        self.configs = image.configs
        level = image.supported_metadata_version(broker_id)
        self.release = None if level is None else release_name(level)
        self.kafka = release_of_level(level)
        self.metadata_version = image.features.get(METADATA_VERSION)
        self.transaction_version = image.features.get(TRANSACTION_VERSION, 0)
        self.next_producer_id = image.producer_ids["nextProducerId"] if image.producer_ids else None
        self._image = image
        self._topics = image.topics
        self._ids = {topic.name: topic.topic_id for topic in image.topics.values()}

    @property
    def is_filled(self) -> bool:
        """Whether the state says what partitions there are: a new broker waits until it does.

        Of metadata that are cut only the only controller's does: others fetch what follows. Of a snapshot that ends
        early they do not know.
        """
        if self.ends_early:
            return True
        return self._decides if self.cut is not None else bool(self._image.brokers or self._topics)

    def cut_at(self, end_offset: int, voters: frozenset[int]) -> None:
        """Take it for a cluster whose metadata a start cuts there; `voters` count where the metadata do not tell them.

        The only controller goes by what is left, even where that is nothing: nobody else has what its log lacks.
        """
        self.cut = end_offset
        self.is_controller = False  # whether it is a broker, too, may be said in what follows
        self._decides = self.broker_id is not None and (self._voters or voters) == {self.broker_id}

    def read_early(self) -> None:
        """Take it for a cluster of whose newest snapshot the end is missing, which its node does not notice."""
        self.ends_early = True
        self.is_controller = False  # whether it is a broker, too, may be said in what is missing

    def placement(self, name: PartitionDirName | None, topic_id: bytes | None) -> Placement | None:
        """Return what is said of a partition directory with that name and that topic id in its partition.metadata.

        None for the metadata's own partition and for directories that wait for deletion.
        """
        if name is None or name.topic == names.CLUSTER_METADATA_TOPIC or name.state == names.DELETE:
            return None
        topic = None if topic_id is None else self._topics.get(topic_id)
        partition = topic.partitions.get(name.partition) if topic else None
        by_name = self._ids.get(name.topic)
        is_judged = self._is_whole and name.state != names.STRAY
        state = state_of_partition(self._image, topic, name.partition) if topic and partition else None
        stray = None if not is_judged else self._stray(topic_id, topic is not None, partition)
        return Placement(
            topic.name if topic else None,
            format_uuid(by_name) if by_name else None,
            tuple(partition["replicas"]) if partition else None,
            tuple(partition["isr"]) if partition else None,
            partition["leader"] if partition and partition["leader"] >= 0 else None,
            stray,
            state.min_insync if state else None,
            tuple(partition["directories"]) if partition and partition.get("directories") else None,
            state.leader_after if state and state.leader_after >= 0 else None,
            topic is not None and Settings(self.configs, self.broker_id).of(topic.name).is_tiered,
        )

    def _stray(self, topic_id: bytes | None, has_topic: bool, partition: Fields | None) -> str | None:
        """Return why a broker takes a replica for a stray one at start; None where not, or that cannot be told."""
        if topic_id is None:
            return "it has no topic id (partition.metadata)"
        if not has_topic:
            return f"the cluster has no topic with the id {format_uuid(topic_id)}"
        if partition is None:
            return "the topic has no such partition in the cluster"
        if self.broker_id is None or self.broker_id in partition["replicas"]:
            return None
        replicas = ", ".join(map(str, partition["replicas"]))
        return f"the cluster has it on the brokers {replicas}, not on {self.broker_id}"


def cluster_beside(directory: LogDirectory, report: Report) -> Cluster | None:
    """Return the cluster that the metadata log in a log directory describes; None where none can be trusted.

    `directory` is that of a broker or controller, whose meta.properties tell its id.
    """
    state = state_beside(directory, report)
    if state is None:
        return None
    return _cluster_of(state, directory)


def cluster_up_to(log: PartitionLog, directory: LogDirectory, end_offset: int) -> Cluster | None:
    """Return the cluster as `cluster_beside` once the metadata log is cut at an offset. Raises OSError.

    None where what is left cannot be trusted either.
    """
    problems: list[Problem] = []
    try:
        state = state_up_to(log, end_offset, problems.append)
    except KdumpError:
        return None
    return None if any(not each.is_newer for each in problems) else _cluster_of(state, directory)


def _cluster_of(state: MetadataState, directory: LogDirectory) -> Cluster:
    end = state.epoch, state.end_offset
    voters = frozenset(voter["voterId"] for voter in state.voters)
    owner = owner_of(directory)
    broker_id = owner.node_id if owner else None
    return Cluster(state.image, broker_id, is_whole=not state.newer_records, end=end, voters=voters)
