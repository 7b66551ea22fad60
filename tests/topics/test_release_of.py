"""Which release wrote a log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import Problem
from kdump.releases import NEWEST, KafkaRelease
from kdump.storage.directory import LogDirectory
from kdump.topics.metadata_log import release_of_level, state_beside
from tests.topics.building import Log, metadata_pairs


def registered(broker_id: int, level: int) -> tuple[str, dict[str, object]]:
    features = [
        {"name": "group.version", "minSupportedVersion": 0, "maxSupportedVersion": 99},
        {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": level},
    ]
    return "RegisterBroker", {"brokerId": broker_id, "features": features}


def release(folder: Path, *brokers: tuple[int, int], node_id: int | None = None) -> KafkaRelease:
    Log(folder / "__cluster_metadata-0").add(*metadata_pairs(*(registered(*broker) for broker in brokers))).write()
    problems: list[Problem] = []
    state = state_beside(LogDirectory(str(folder)), problems.append)
    assert state is not None
    assert problems == []
    return release_of_level(state.image.supported_metadata_version(node_id))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (20, KafkaRelease.V3_9),
        (21, KafkaRelease.V3_9_1),
        (25, KafkaRelease.V4_0_1),
        (27, KafkaRelease.V4_1),
        (30, KafkaRelease.V4_3),
        (31, KafkaRelease.V4_4),
        (99, KafkaRelease.V4_5),
    ],
)
def test_by_the_highest_level_that_its_brokers_support(tmp_path: Path, level: int, expected: KafkaRelease) -> None:
    assert release(tmp_path, (1, level)) is expected


def test_the_own_broker_counts(tmp_path: Path) -> None:
    assert release(tmp_path, (1, 27), (2, 30), node_id=1) is KafkaRelease.V4_1
    assert release(tmp_path, (1, 27), (2, 30), node_id=3) is KafkaRelease.V4_3


def test_where_nothing_says_it(tmp_path: Path) -> None:
    assert state_beside(LogDirectory(str(tmp_path)), print) is None
    assert release_of_level(None) is NEWEST
