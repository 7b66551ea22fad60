"""A release that kdump does not know: levels, features, records, versions, tagged fields and settings above its own.

Every command calls that newer; nothing of it is damage, and nothing says that its broker does not start.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.kraft_snapshot import kraft_batch
from kdump.formats.schemas.cluster_metadata import TOPIC
from kdump.formats.schemas.consumer_offsets import TOPIC as OFFSETS
from kdump.releases import METADATA_VERSION, NEWEST, NEWEST_METADATA_VERSION, feature_levels
from tests.cluster.building import NOW, Disk, image_of
from tests.commands.running import Run
from tests.topics.building import Log
from tests.verify.test_newer import tagged, varint

LEVEL = NEWEST_METADATA_VERSION + 1
BROKER = 0
UNKNOWN_TYPE = max(TOPIC.schemas) + 1


def _register() -> bytes:
    """A broker's registration in the next version, with a tagged field of its own."""
    schema = TOPIC.schemas[BROKER]
    fields = {
        **schema.layout(schema.last).blank(),
        "brokerId": 1, "brokerEpoch": 5, "fenced": False,
        "features": [{"name": METADATA_VERSION, "minSupportedVersion": 7, "maxSupportedVersion": LEVEL}],
    }  # fmt: skip
    value = TOPIC.encode_value(BROKER, schema.last, fields)
    body = value[1 + len(varint(BROKER)) + len(varint(schema.last)) :]
    return varint(1) + varint(BROKER) + varint(schema.last + 1) + tagged(body, {100: b"new"})


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 20), (2, 10))
    disk.line(names.RECOVERY_POINT_CHECKPOINT, "orders-0", 30)
    levels = {name.replace(".", "_"): level + 1 for name, level in feature_levels(NEWEST).items()}
    image = image_of({"orders": [[1]], names.CONSUMER_OFFSETS_TOPIC: [[1]]}, **levels, mirror_version=1)
    image.features[METADATA_VERSION] = LEVEL
    image.configs[2, "orders"] = {"retention.tiers": "3", "retention.ms": "-1"}
    folder = disk.metadata(image)
    with (folder / f"{0:020d}.log").open("ab") as log:
        values = [(None, _register()), (None, varint(1) + varint(UNKNOWN_TYPE) + varint(0) + b"\0")]
        log.write(kraft_batch(values, 1000, 3, NOW, is_control=False))
    disk.partition(f"{names.CONSUMER_OFFSETS_TOPIC}-0", (0, 1))
    offsets = Log(disk.path / f"{names.CONSUMER_OFFSETS_TOPIC}-0")
    kind = max(OFFSETS.kinds) + 1
    offsets.add((kind.to_bytes(2, "big") + b"\0\3abc", b"\0\1new")).write()
    return disk.path


@pytest.mark.parametrize(
    "command",
    [
        "ls", "dump", "stats", "groups", "txns", "metadata", "verify", "verify --deep", "doctor",
        "startup", "retain", "compact", "repair", "rebuild-index", "trim", "replicas", "lookup --offset 5",
    ],
)  # fmt: skip
def test_it_is_newer(run: Run, newer: Path, command: str) -> None:
    word, *options = command.split()
    path = newer / "orders-0" if word == "lookup" else newer
    assert run(word, *options, str(path)) in (0, 1), run.err
    text = run.out + run.err
    for wrong in ("damage", "corrupt", "NOT start", "an error in kdump", "FOUND", "not a setting of Kafka"):
        assert wrong not in text, text
