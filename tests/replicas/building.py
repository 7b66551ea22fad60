"""Copies of a partition on the disks of several brokers, from lists of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.kraft_snapshot import kraft_batch
from kdump.formats.uuids import format_uuid
from kdump.topics.cluster_image import ClusterImage, Topic
from kdump.topics.image_records import MetadataRecord, records_of
from tests.commands.logs import write_segment

CLUSTER = "a2R1bXAgaXMgYSB0b29sLg"
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000


@dataclass(frozen=True)
class Sent:
    """A batch: its first offset, its records, the leader's epoch, and what tells it from others of these offsets."""

    base: int
    count: int
    epoch: int
    mark: str = ""

    @property
    def end(self) -> int:
        return self.base + self.count

    @property
    def data(self) -> bytes:
        records = [
            NewRecord(offset, NOW + offset, b"k%d" % offset, f"{self.mark}:{offset}".encode(), ())
            for offset in range(self.base, self.end)
        ]
        return encode_batch(records, NewBatch(leader_epoch=self.epoch))


@dataclass
class OnDisk:
    """One copy. `epochs` are those of its file; None: those that its batches show. `roll` starts new segments."""

    batches: list[Sent]
    high_watermark: int | None = None
    epochs: Sequence[tuple[int, int]] | None = None
    roll: Sequence[int] = ()
    clean: bool = True
    log_start: int | None = None
    topic_id: bytes = TOPIC_ID
    cluster: str = CLUSTER
    extra: Mapping[str, bytes] = field(default_factory=dict)

    def entries(self) -> list[EpochEntry]:
        if self.epochs is not None:
            return [EpochEntry(*entry) for entry in self.epochs]
        found: list[EpochEntry] = []
        for batch in self.batches:
            if not found or found[-1].epoch != batch.epoch:
                found.append(EpochEntry(batch.epoch, batch.base))
        return found


def chain(first: int, *runs: tuple[int, int], size: int = 5, mark: str = "") -> list[Sent]:
    """Batches of `size` records from offset `first` on: for each run its leader epoch and how many batches."""
    found: list[Sent] = []
    for epoch, count in runs:
        for _ in range(count):
            base = found[-1].end if found else first
            found.append(Sent(base, size, epoch, f"{mark}{epoch}"))
    return found


def write_copy(root: Path, broker: int, copy: OnDisk, *, name: str = "orders-0") -> Path:
    """Write the log directory of a broker with a copy in it; the partition directory."""
    home = root / f"b{broker}"
    folder = home / name
    folder.mkdir(parents=True)
    bases = sorted({copy.batches[0].base if copy.batches else 0, *copy.roll})
    for number, base in enumerate(bases):
        stop = bases[number + 1] if number + 1 < len(bases) else None
        part = [each.data for each in copy.batches if each.base >= base and (stop is None or each.base < stop)]
        write_segment(folder, base, part)
    (folder / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(copy.entries()))
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_uuid(copy.topic_id)}")
    topic, _, number_text = name.rpartition("-")
    end = copy.batches[-1].end if copy.batches else 0
    offsets = {"replication": copy.high_watermark, "recovery-point": end, "log-start": copy.log_start, "cleaner": None}
    for kind, offset in offsets.items():
        entry = "0\n0\n" if offset is None else f"0\n1\n{topic} {number_text} {offset}\n"
        checkpoint = "cleaner-offset-checkpoint" if kind == "cleaner" else f"{kind}-offset-checkpoint"
        (home / checkpoint).write_text(entry)
    (home / "meta.properties").write_text(
        f"version=1\nnode.id={broker}\ncluster.id={copy.cluster}\ndirectory.id={format_uuid(bytes([broker] * 16))}\n"
    )
    if copy.clean:
        (home / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    for file, data in copy.extra.items():
        (folder / file).write_bytes(data)
    return folder


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Change bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def partition_fields(replicas: Sequence[int], isr: Sequence[int], leader: int, **others: Any) -> dict[str, Any]:
    """The fields of a PartitionRecord."""
    return {
        "partitionId": 0,
        "topicId": TOPIC_ID,
        "replicas": list(replicas),
        "isr": list(isr),
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": leader,
        "leaderRecoveryState": 0,
        "leaderEpoch": 1,
        "partitionEpoch": 3,
        "directories": [bytes([broker] * 16) for broker in replicas],
        "eligibleLeaderReplicas": [],
        "lastKnownElr": [],
        **others,
    }


def write_metadata(
    root: Path,
    broker: int,
    partition: Mapping[str, Any],
    *,
    elr: bool = False,
    config: Mapping[str, str] | None = None,
    extra: int = 0,
) -> None:
    """Write the cluster's metadata log beside a broker's partitions; `extra` records make it a longer one.

    The brokers that have the partition are registered in it.
    """
    image = ClusterImage()
    image.features = {"metadata.version": 27, **({"eligible.leader.replicas.version": 1} if elr else {})}
    image.brokers = {number: {"brokerId": number, "brokerEpoch": 10 + number} for number in partition["replicas"]}
    image.topics[TOPIC_ID] = Topic("orders", TOPIC_ID, {0: dict(partition)})
    if config:
        image.configs[2, "orders"] = dict(config)
    values = [*(each.encode() for each in records_of(image)), *[MetadataRecord("NoOpRecord", 0, {}).encode()] * extra]
    pairs = [(None, value) for value in values]
    folder = root / f"b{broker}" / "__cluster_metadata-0"
    write_segment(folder, 0, [kraft_batch(pairs, 0, 1, NOW, is_control=False)])
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
