"""Clusters of several brokers made by hand: log directories, their partitions batch by batch, and their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdump.formats import names
from kdump.formats.batch import KRAFT_VERSION, LEADER_CHANGE
from kdump.formats.checkpoints import EpochEntry, OffsetCheckpointEntry, format_leader_epochs, format_offset_checkpoint
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.kraft_snapshot import Voter, control_pair, kraft_batch, voters_pair
from kdump.formats.metadata_files import MetaProperties, format_meta_properties
from kdump.formats.uuids import format_uuid
from kdump.releases import METADATA_VERSION, metadata_version_level
from kdump.topics.cluster_image import ClusterImage, Topic
from kdump.topics.image_records import records_of

NOW = 1_795_000_000_000
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
LEVEL = metadata_version_level("4.3-IV0")


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")[:16]


def directory_id(number: int) -> bytes:
    return bytes([64 + number]) * 16


@dataclass
class Disk:
    """A log directory of a node; `lines` are those of its checkpoint files."""

    path: Path
    node: int
    number: int
    lines: dict[str, list[OffsetCheckpointEntry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True)
        meta = MetaProperties(1, CLUSTER, self.node, directory_id(self.number))
        (self.path / names.META_PROPERTIES).write_bytes(format_meta_properties(meta, NOW))

    def partition(
        self, name: str, *batches: tuple[int, int], producer_id: int = -1, start: int = 0, id_of: str = ""
    ) -> Path:
        """A partition directory; a batch is (leader epoch, records)."""
        folder = self.path / name
        folder.mkdir()
        topic = name.rpartition("-")[0] if name[-1].isdigit() else name.rpartition(".")[0].rpartition("-")[0]
        metadata = f"version: 0\ntopic_id: {format_uuid(topic_id(id_of or topic))}"
        (folder / names.PARTITION_METADATA).write_text(metadata)
        data, offset = b"", start
        epochs: list[EpochEntry] = []
        for epoch, count in batches:
            records = [NewRecord(offset + n, NOW + offset + n, b"k%d" % n, name.encode()) for n in range(count)]
            data += encode_batch(records, NewBatch(0, producer_id, 0, 0, leader_epoch=epoch))
            if not epochs or epochs[-1].epoch != epoch:
                epochs.append(EpochEntry(epoch, offset))
            offset += count
        (folder / f"{start:020d}.log").write_bytes(data)
        (folder / names.LEADER_EPOCH_CHECKPOINT).write_bytes(format_leader_epochs(epochs))
        return folder

    def line(self, file: str, partition: str, offset: int) -> None:
        topic, _, number = partition.rpartition("-")
        entries = self.lines.setdefault(file, [])
        entries.append(OffsetCheckpointEntry(topic, int(number), offset))
        (self.path / file).write_bytes(format_offset_checkpoint(entries))

    def metadata(self, image: ClusterImage, *, epoch: int = 3, more: int = 0, voters: Sequence[Voter] = ()) -> Path:
        """A copy of the metadata log; `more` is a number of records that only this copy has at its end."""
        folder = self.path / names.CLUSTER_METADATA_DIR
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(metadata_log(image, epoch=epoch, more=more, voters=voters))
        return folder


def metadata_log(image: ClusterImage, *, epoch: int = 3, more: int = 0, voters: Sequence[Voter] = ()) -> bytes:
    """The bytes of a metadata log: what the leader of an epoch wrote at once, and more records one by one."""
    leader = [{"voterId": voter.id, "voterDirectoryId": voter.directory_id} for voter in voters] or [{"voterId": 1}]
    change = {"leaderId": leader[0]["voterId"], "voters": leader, "grantingVoters": leader[:1]}
    pairs = [control_pair(LEADER_CHANGE, change, 1 if voters else 0)]
    if voters:
        pairs += [control_pair(KRAFT_VERSION, {"kRaftVersion": 1}), voters_pair(voters)]
    values = [(None, record.encode()) for record in records_of(image)]
    data = kraft_batch(pairs, 0, epoch, NOW, is_control=True)
    data += kraft_batch(values, len(pairs), epoch, NOW, is_control=False)
    offset = len(pairs) + len(values)
    for number in range(more):
        topic = Topic(f"late-{number}", topic_id(f"late-{number}"))
        only = ClusterImage(features={}, topics={topic.topic_id: topic})
        for record in records_of(only):
            data += kraft_batch([(None, record.encode())], offset, epoch, NOW, is_control=False)
            offset += 1
    return data


def image_of(topics: Mapping[str, Sequence[Sequence[int]]], **features: int) -> ClusterImage:
    """The state of a cluster at 4.3: the replicas of each partition of each topic, the first being the leader."""
    image = ClusterImage(
        features={METADATA_VERSION: LEVEL, **{name.replace("_", "."): features[name] for name in features}}
    )
    for name, partitions in topics.items():
        topic = image.topics[topic_id(name)] = Topic(name, topic_id(name))
        for number, replicas in enumerate(partitions):
            topic.partitions[number] = partition_record(name, number, replicas)
    return image


def partition_record(name: str, number: int, replicas: Sequence[int], **fields: Any) -> dict[str, Any]:
    return {
        "partitionId": number, "topicId": topic_id(name), "replicas": list(replicas), "isr": list(replicas),
        "removingReplicas": [], "addingReplicas": [], "leader": replicas[0], "leaderRecoveryState": 0,
        "leaderEpoch": 4, "partitionEpoch": 9, "directories": [directory_id(each) for each in replicas],
        "eligibleLeaderReplicas": None, "lastKnownElr": None,
    } | fields  # fmt: skip


def three_brokers(folder: Path, *, ends: Iterable[int] = (100, 100, 100)) -> list[Disk]:
    """Three brokers with a replica of orders-0 and orders-1 each, the first also a controller.

    `ends` are the log end offsets of the replicas of orders-0.
    """
    disks = [Disk(folder / f"b{node}", node, node) for node in (1, 2, 3)]
    for disk, end in zip(disks, ends, strict=True):
        disk.partition("orders-0", (0, 20), (2, end - 20))
        disk.partition("orders-1", (1, 30))
    image = image_of({"orders": [[1, 2, 3], [2, 3, 1]]})
    image.configs[2, "orders"] = {"retention.ms": "-1"}
    image.producer_ids = {"brokerId": 1, "brokerEpoch": 5, "nextProducerId": 7000}
    disks[0].metadata(image)
    return disks


def paths(disks: Iterable[Disk]) -> list[str]:
    return [str(disk.path) for disk in disks]
