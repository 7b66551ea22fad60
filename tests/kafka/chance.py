"""What a seed decides of a broker: its settings, and the features that its cluster is formatted with."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.kafka.broker import minor

_SETTINGS: Mapping[str, Sequence[str]] = {
    "offsets.topic.num.partitions": ("1", "3", "7"),
    "offsets.topic.compression.codec": ("1", "2", "3", "4"),
    "offsets.topic.segment.bytes": ("1048576",),
    "transaction.state.log.num.partitions": ("1", "2", "9"),
    "share.coordinator.state.topic.num.partitions": ("1", "5"),
    "share.coordinator.snapshot.update.records.per.snapshot": ("1", "10"),
    "compression.type": ("gzip", "snappy", "lz4", "zstd", "uncompressed"),
    "log.message.timestamp.type": ("LogAppendTime",),
    "log.index.interval.bytes": ("1", "300", "20000"),
    "log.index.size.max.bytes": ("1200", "65536"),
    "log.roll.jitter.ms": ("1000",),
    "metadata.log.max.record.bytes.between.snapshots": ("3000", "40000"),
    "metadata.log.max.snapshot.interval.ms": ("2000",),
    "transaction.partition.verification.enable": ("false",),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("300",),
    "controlled.shutdown.enable": ("false",),
    "auto.leader.rebalance.enable": ("false",),
    "message.max.bytes": ("3000000",),
}
"""By setting what it may be; about half of them stay as they are."""

_PREALLOCATED = {"log.preallocate": "true", "log.segment.bytes": "1048576"}

_METADATA_VERSIONS = ("3.7-IV2", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV3", "4.1-IV0", "4.1-IV1")
"""What a cluster may begin with: from 3.7-IV2 on a broker has more than one log directory."""

_LEVELS = {"transaction.version": (0, 1, 2), "group.version": (1,), "eligible.leader.replicas.version": (0, 1)}


def settings(seed: int) -> dict[str, str]:
    """Settings beside those that all our brokers have; none without a seed."""
    if not seed:
        return {}
    chance = random.Random(f"settings {seed}")
    chosen = {name: chance.choice(values) for name, values in _SETTINGS.items() if chance.random() < 0.5}
    return chosen | (_PREALLOCATED if chance.random() < 0.3 else {})


def formatting(release: str, seed: int) -> list[str]:
    """Arguments of `kafka-storage format`: an older metadata.version, or levels of other features; both are raised
    to the highest while data is made.
    """
    chance = random.Random(f"features {seed}")
    if chance.random() < 0.5:
        older = [version for version in _METADATA_VERSIONS if version[:3] <= minor(release)]
        return ["--release-version", chance.choice(older)]
    if minor(release) == "3.9":
        return []
    return [part for name, all_of in _LEVELS.items() for part in ("--feature", f"{name}={chance.choice(all_of)}")]
