"""What `kdump append` refuses because of what the cluster's metadata beside the partition says, and the way out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from kdump.formats.batch import CONTROL
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.operations.append import Opening, opened
from kdump.storage.log_reader import LogFile
from kdump.write.errors import MissingKeyError
from kdump.write.log_dir import LogDirWriter
from kdump.write.record_source import Message
from tests.commands.running import Run
from tests.topics.building import Log, metadata_pairs
from tests.write.building import Clock, records


@pytest.fixture
def append(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Runs `kdump append` on plain lines; the exit code has to be the given one."""

    def run(*arguments: object, text: str = "value\n", code: int = 0) -> Run:
        runner = Run(capfdbinary, monkeypatch)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert runner("append", "--format", "lines", *arguments) == code, runner.err
        return runner

    return run


def config(topic: str, name: str, value: str) -> tuple[str, dict[str, Any]]:
    return "Config", {"resourceType": TOPIC_RESOURCE, "resourceName": topic, "name": name, "value": value}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with metadata: `keyed` is compacted, producer ids from 5000 on are still to be given out."""
    with LogDirWriter(str(tmp_path / "data"), clock=Clock(), durable=False) as log_dir:
        for topic in ("keyed", "orders", names.CONSUMER_OFFSETS_TOPIC):
            log_dir.create_log(topic, 0)
    pairs = metadata_pairs(
        config("keyed", "cleanup.policy", "compact,delete"),
        config("orders", "max.message.bytes", "200"),
        ("ProducerIds", {"brokerId": 1, "brokerEpoch": 7, "nextProducerId": 5000}),
    )
    Log(tmp_path / "data" / names.CLUSTER_METADATA_DIR).add(*pairs).write()
    return tmp_path / "data"


@pytest.mark.parametrize("topic", ["keyed", names.CONSUMER_OFFSETS_TOPIC])
def test_a_compacted_topic_takes_no_record_without_a_key(append: Callable[..., Run], data: Path, topic: str) -> None:
    run = append(data / f"{topic}-0", code=4)
    assert f"Compacted topic cannot accept message without key in topic partition {topic}-0." in run.err
    assert "--topic-config cleanup.policy=delete. Nothing was appended." in run.err
    assert records(data / f"{topic}-0") == []
    append(data / f"{topic}-0", "--key-separator", ":", text="k:v\n")
    append(data / f"{topic}-0", "--topic-config", "cleanup.policy=delete")
    assert len(records(data / f"{topic}-0")) == 2


def test_the_metadata_is_in_another_log_directory_of_the_broker(append: Callable[..., Run], data: Path) -> None:
    """A broker with several log.dirs has it in one of them."""
    other = data.parent / "disk2"
    other.mkdir()
    (data / "keyed-0").rename(other / "keyed-0")
    (other / names.META_PROPERTIES).write_bytes((data / names.META_PROPERTIES).read_bytes())
    append(other / "keyed-0", code=4)
    (other / names.META_PROPERTIES).write_text("version=1\nnode.id=7\ncluster.id=made-up\n")
    append(other / "keyed-0")  # of another broker, of which nothing is known


def test_a_topic_that_the_cleaner_has_been_at_is_compacted(append: Callable[..., Run], data: Path) -> None:
    (data / names.CLEANER_CHECKPOINT).write_bytes(format_offset_checkpoint([OffsetCheckpointEntry("orders", 0, 0)]))
    append(data / "orders-0", code=4)


def test_other_settings_of_the_topic_count_too(append: Callable[..., Run], data: Path) -> None:
    assert "RecordTooLargeException" in append(data / "orders-0", text="x" * 300 + "\n", code=3).err
    append(data / "orders-0", "--topic-config", "max.message.bytes=1000", text="x" * 300 + "\n")


def test_a_producer_id_that_the_cluster_gives_out_later(append: Callable[..., Run], data: Path) -> None:
    append(data / "orders-0", "--producer-id", 4999)
    run = append(data / "orders-0", "--producer-id", 5000, code=4)
    assert "the cluster has still to give out producer id 5000 (its next one is 5000)" in run.err
    assert "--any-producer-id" in run.err
    assert len(records(data / "orders-0")) == 1
    append(data / "orders-0", "--producer-id", 5000, "--any-producer-id")
    assert len(records(data / "orders-0")) == 2


def producer_epochs(partition: Path) -> list[tuple[bool, int]]:
    """Of each batch, whether it is a marker, and its producer epoch."""
    with LogFile(str(partition / f"{0:020}.log")) as log:
        return [
            (bool(block.attributes[row] & CONTROL), block.producer_epoch[row])
            for block in log.blocks()
            for row in range(block.length)
        ]


def test_transactions_end_as_in_the_cluster(append: Callable[..., Run], data: Path) -> None:
    """With transaction.version 2 every transaction has a producer epoch of its own (KIP-890)."""
    how = (data / "orders-0", "--producer-id", 7, "--transactional")
    append(*how, "commit")
    feature = {"name": "transaction.version", "featureLevel": 2}
    Log(data / names.CLUSTER_METADATA_DIR, 3).add(*metadata_pairs(("FeatureLevel", feature))).write()
    append(*how, "commit")
    append(*how, "abort")
    append(*how, "commit", "--transaction-version", 1)
    markers = [(False, 0), (True, 0), (False, 0), (True, 1), (False, 1), (True, 2), (False, 2), (True, 2)]
    assert producer_epochs(data / "orders-0") == markers


def test_metadata_that_cannot_be_read_is_named(append: Callable[..., Run], data: Path) -> None:
    log = data / names.CLUSTER_METADATA_DIR / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    run = append(data / "orders-0", "--producer-id", 9000)
    assert "the settings of the topic in the cluster's metadata are not used" in run.err


def test_the_library_is_as_careful(data: Path) -> None:
    with pytest.raises(MissingKeyError), opened(str(data / "keyed-0"), how=Opening(clock=Clock())) as log:
        log.append([Message(b"value", None, 0, ())])


def test_a_directory_alone_that_append_closed_is_closed_in_order(append: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    for count in (1, 2, 3):
        assert append("--create", tmp_path / "alone" / "t-0").err == ""
        assert len(records(tmp_path / "alone" / "t-0")) == count
        assert not list((tmp_path / "alone").rglob("*kdump*"))
