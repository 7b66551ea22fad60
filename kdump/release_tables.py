"""What the classes of each release of Kafka say of its feature levels and limits.

Written by `./dev release --write` from the jars of the releases; do not change it by hand.
"""

from __future__ import annotations

METADATA_VERSIONS = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0",
    "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
    "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1",
    "4.4-IV2", "4.5-IV0",
)
"""The names of the levels of metadata.version, from 1 on (MetadataVersion)."""

METADATA_LEVELS: dict[str, tuple[int, int]] = {
    "3.9": (21, 23),
    "4.0": (25, 26),
    "4.1": (27, 29),
    "4.2": (29, 30),
    "4.3": (30, 31),
    "4.4": (33, 34),
}
"""By release the level that new clusters get, and the highest that it knows, which may be unstable."""

FEATURES: dict[str, dict[str, int]] = {
    "3.9": {
        "kraft.version": 1,
    },
    "4.0": {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "transaction.version": 2,
    },
    "4.1": {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "transaction.version": 2,
    },
    "4.2": {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    },
    "4.3": {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    },
    "4.4": {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    },
}
"""By release the highest level of each feature that a broker registers (QuorumFeatures)."""

MAX_ARRAY_LENGTH = 1_000_000
"""The most elements of an array for the readers generated since Kafka 4.2.2 (MessageUtil)."""
MAX_TAGGED_FIELD_COUNT = 10_000
"""The most tagged fields of a struct that they take (MessageUtil)."""
