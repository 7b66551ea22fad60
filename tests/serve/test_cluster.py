"""Which nodes, topics and partitions directories make."""

from __future__ import annotations

import socket
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kdump.errors import BrokerRunsError, KdumpError, NameFormatError
from kdump.fixture.make import make
from kdump.server.background import serve
from kdump.server.cluster import Address, ServedCluster
from kdump.server.pieces import OnDamage
from kdump.storage.open import open_directory
from tests.locked import broker_on
from tests.serve.clients import READERS, UNCOMMITTED
from tests.serve.data import build, records_in

APPENDED = {"append": {"records": 30, "batch_records": 3, "value": "json"}}
BROKERS = {
    "seed": 3,
    "log_dirs": [{"name": "b1", "node_id": 1}, {"name": "b2", "node_id": 2}, {"name": "b3", "node_id": 3}],
    "topics": [
        {"name": "all", "replicas": ["b1", "b2", {"log_dir": "b3", "end_offset": 20}], "steps": [APPENDED]},
        {"name": "second", "replicas": ["b2"], "steps": [APPENDED]},
        {"name": "behind", "replicas": ["b2", {"log_dir": "b1", "end_offset": 15}], "steps": [APPENDED]},
    ],
}
DISKS = {
    "seed": 4,
    "log_dirs": [{"name": "d1", "node_id": 7}, {"name": "d2", "node_id": 7}],
    "topics": [
        {"name": "split", "partitions": [0, 2], "replicas": ["d1"], "steps": [APPENDED]},
        {"name": "split", "partitions": [1], "replicas": ["d2"], "steps": [APPENDED]},
        {"name": "gap", "partitions": [3], "replicas": ["d2"], "steps": [APPENDED]},
    ],
}


def paths(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


def test_several_brokers_are_several_nodes(tmp_path: Path) -> None:
    folder = Path(make(BROKERS, tmp_path / "data").path)
    with serve(*paths(folder)) as server:
        assert len(server.split(",")) == 3
        metadata = AdminClient({"bootstrap.servers": server.split(",")[2]}).list_topics(timeout=20)
        assert {f"{node.host}:{node.port}" for node in metadata.brokers.values()} == set(server.split(","))
        assert sorted(metadata.brokers) == [1, 2, 3]
        leaders = {name: topic.partitions[0].leader for name, topic in metadata.topics.items()}
        assert leaders == {"all": 1, "second": 2, "behind": 2}
        for reader in READERS.values():
            found = reader(server, UNCOMMITTED)
            for name in leaders:
                assert [seen.offset for seen in found if seen.partition == f"{name}-0"] == list(range(30))


def test_a_broker_s_disks_are_one_node(tmp_path: Path) -> None:
    folder = Path(make(DISKS, tmp_path / "data").path)
    with serve(*paths(folder)) as server:
        metadata = AdminClient({"bootstrap.servers": server}).list_topics(timeout=20)
        assert list(metadata.brokers) == [7]
        assert sorted(metadata.topics["split"].partitions) == [0, 1, 2]
        gap = metadata.topics["gap"].partitions
        # the partitions that are not at hand are there for assignors, without a leader
        assert [gap[number].leader for number in sorted(gap)] == [-1, -1, -1, 7]
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["split"])
        assert len(consumer.consume(90, timeout=30)) == 90
        consumer.close()


def test_a_partition_directory_is_served_by_itself(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data")
    expected = [seen for seen in records_in(log_dir) if seen.partition == "codec-snappy-0"]
    with serve(str(log_dir / "codec-snappy-0")) as server:
        assert READERS["confluent-kafka"](server, UNCOMMITTED) == expected


def test_directories_of_two_clusters_are_not_mixed(tmp_path: Path) -> None:
    one = make({**DISKS, "cluster_id": "one"}, tmp_path / "one").path
    two = make({**DISKS, "cluster_id": "two"}, tmp_path / "two").path
    places = map(open_directory, [*paths(Path(one)), *paths(Path(two))])
    with pytest.raises(KdumpError, match="belongs to cluster two"):
        ServedCluster(places, OnDamage.STOP, print, print)


def test_a_running_broker_s_directory_is_not_served(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data")
    with broker_on(log_dir):
        for path in (log_dir, log_dir / "codec-snappy-0"):
            with pytest.raises(BrokerRunsError, match="a broker is running"), serve(str(path)):
                pass
        with serve(str(log_dir), ignores_lock=True) as server:
            assert server


def test_a_partition_without_a_topic_s_name_is_not_served(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data")
    (log_dir / "codec-snappy-0").rename(log_dir / "copy")
    with pytest.raises(NameFormatError, match="as clients know it"), serve(str(log_dir / "copy")):
        pass


def test_a_topic_without_an_id_gets_the_same_one_each_time(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data", ["partition-metadata-missing:topic=payments"])

    def topic_id() -> bytes:
        cluster = ServedCluster([open_directory(str(log_dir))], OnDamage.STOP, print, print)
        return cluster.topics["payments"].topic_id

    assert any(topic_id())
    assert topic_id() == topic_id()


@pytest.mark.parametrize(("host", "text"), [("10.0.0.1", "10.0.0.1:9092"), ("::1", "[::1]:9092")])
def test_an_address_is_as_clients_are_configured(host: str, text: str) -> None:
    assert str(Address(host, 9092)) == text


def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    from kdump.server.server import ServeOptions

    log_dir = build(tmp_path / "data")
    said: list[str] = []
    with serve(str(log_dir), options=ServeOptions(port=0, max_connections=2), say=said.append) as server:
        host, _, port = server.partition(":")
        lines = [socket.create_connection((host, int(port))) for _ in range(3)]
        assert lines[2].recv(1) == b""
        lines[0].sendall(b"\x7f\xff\xff\xff")
        assert lines[0].recv(1) == b""
        lines[1].sendall(b"\0\0\0\x08\0\x63\0\0\0\0\0\1")
        assert lines[1].recv(1) == b""
        for line in lines:
            line.close()
    assert any("there are 2 already" in line for line in said)
    assert any("a request of 2147483647 bytes" in line for line in said)
    assert any("requests with the key 99 are not answered" in line for line in said)


def test_the_newest_metadata_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.server import cluster as module
    from kdump.storage.directory import LogDirectory
    from kdump.topics.cluster_image import ClusterImage
    from kdump.topics.metadata_log import MetadataState

    ends = {"b1": (4, 10), "b2": (5, 3), "b3": (4, 11)}
    states = {name: MetadataState(ClusterImage(), None, end, epoch) for name, (epoch, end) in ends.items()}

    def state_of(directory: LogDirectory, report: object) -> MetadataState:
        return states[Path(directory.path).name]

    monkeypatch.setattr(module, "state_beside", state_of)
    folder = Path(make(BROKERS, tmp_path / "data").path)
    cluster = ServedCluster(map(open_directory, paths(folder)), OnDamage.STOP, print, print)
    assert cluster.image is states["b2"].image
