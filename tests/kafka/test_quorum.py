"""A dynamic quorum that lost two of three voters: `kdump quorum set-voters`, then real brokers and Kafka's tools."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from tests.kafka.broker import CLUSTER, Broker, BrokerError, java
from tests.kafka.command import jsonl
from tests.kafka.ports import free_ports

NODES = (1, 2, 3)
DIRECTORY_IDS = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "MvDxzVmcRsaTz33bUuRU6A", 3: "07R5amHmR32VDA6jHkGbTA"}


class Dynamic:
    """Three combined nodes, all voters of a dynamic quorum; a context manager that kills them."""

    def __init__(self, release: str, folder: Path) -> None:
        self.release = release
        ports = free_ports(2 * len(NODES))
        self.clients = dict(zip(NODES, ports, strict=False))
        self.controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self.nodes = {node: self.node(folder, node, list(self.controllers.values())) for node in NODES}

    def node(self, folder: Path, node: int, controllers: list[int]) -> Broker:
        """A node with these controllers to ask for the quorum."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.clients[node]}"
        at = f"CONTROLLER://127.0.0.1:{self.controllers[node]}"
        settings = {
            "node.id": str(node),
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in controllers),
            "listeners": f"{listeners},{at}",
            "advertised.listeners": f"{listeners},{at}",
            "offsets.topic.replication.factor": "1",
        }
        return Broker(self.release, folder / f"node-{node}", [folder / f"node-{node}" / "data"], **settings)

    def __enter__(self) -> Dynamic:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def format(self, node: Broker, *options: str) -> None:
        node.log_dirs[0].mkdir(parents=True, exist_ok=True)
        tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(node.config))
        command = java(self.release, *tool, *options)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"not formatted:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        voters = ",".join(f"{node}@127.0.0.1:{self.controllers[node]}:{DIRECTORY_IDS[node]}" for node in NODES)
        for node in self.nodes.values():
            self.format(node, "--initial-controllers", voters)
            node.launch()
        for node in self.nodes.values():
            if not node.serves():
                raise BrokerError(node.log[-4000:])

    def create(self, topic: str, replicas: list[int]) -> None:
        servers = [f"127.0.0.1:{self.clients[node]}" for node in replicas]

        def create() -> bool:
            admin = KafkaAdminClient(bootstrap_servers=servers)
            try:
                admin.create_topics([NewTopic(topic, replica_assignments={0: replicas})])
            except TopicAlreadyExistsError:
                pass
            finally:
                admin.close()
            return True

        _until(create)  # brokers that have just started may not know the controller yet


@pytest.fixture
def quorum(release: str, tmp_path: Path) -> Iterator[Dynamic]:
    with Dynamic(release, tmp_path) as made:
        made.start()
        yield made


def _until(holds: Callable[[], bool], seconds: int = 60) -> None:
    for _ in range(seconds):
        try:
            if holds():
                return
        except KafkaError:
            pass
        time.sleep(1)
    pytest.fail("it did not come")


def _created(quorum: Dynamic, topic: str, replicas: list[int]) -> bool:
    """Create a topic, which needs a controller that may just be elected."""
    with suppress(TopicAlreadyExistsError):
        quorum.create(topic, replicas)
    return True


def _topics(port: int) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=[f"127.0.0.1:{port}"])
    try:
        return {name for name in admin.list_topics() if not name.startswith("__")}
    finally:
        admin.close()


def test_one_of_three_voters_survives(quorum: Dynamic, tmp_path: Path) -> None:
    quorum.create("orders", [1, 2, 3])
    time.sleep(2)
    quorum.nodes[3].kill()
    _until(lambda: _created(quorum, "late", [1, 2]))
    for node in (2, 1):
        quorum.nodes[node].kill()
    data = {node: quorum.nodes[node].log_dirs[0] for node in NODES}
    new = free_ports(1)[0]

    shown = jsonl("quorum", *data.values())
    assert shown.exit_code == 0, shown.err
    assert {row["nodeId"]: row["isVoter"] for row in shown.of_type("copy")} == dict.fromkeys(NODES, True)
    wrong = jsonl("quorum", "set-voters", data[3], data[1], "--voters", f"3@127.0.0.1:{new}", "--others-are-gone")
    assert wrong.exit_code == 4
    assert "late" in {row["name"] for row in wrong.of_type("difference")}

    at = f"1@127.0.0.1:{new}"
    done = jsonl("quorum", "set-voters", data[1], data[3], "--voters", at, "--others-are-gone", "--apply")
    assert done.exit_code == 0, done.out.decode() + done.err
    quorum.controllers[1] = new
    quorum.nodes[1] = quorum.node(tmp_path, 1, [new])
    quorum.nodes[1].start()
    _until(lambda: _topics(quorum.clients[1]) == {"orders", "late"})
    assert not list(data[1].glob("*-stray"))

    # a node with the older log is told to follow, and one with none joins as a voter
    quorum.nodes[3] = quorum.node(tmp_path, 3, [new])
    quorum.nodes[3].start()
    _until(lambda: _topics(quorum.clients[3]) == {"orders", "late"})
    fresh = quorum.node(tmp_path / "fresh", 2, [new])
    quorum.nodes[2] = fresh
    quorum.format(fresh, "--no-initial-controllers")
    fresh.start()
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    servers = ("--bootstrap-server", f"127.0.0.1:{quorum.clients[1]}")
    _until(lambda: _joined(quorum, tool, servers, fresh))
    after = jsonl("quorum", data[1])
    assert [row["voters"] for row in after.of_type("quorum")] == [[1, 2]]


def _joined(quorum: Dynamic, tool: str, servers: tuple[str, str], node: Broker) -> bool:
    """Ask for the second controller to become a voter, which it can once it has caught up."""
    command = java(quorum.release, tool, *servers, "--command-config", str(node.config), "add-controller")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode == 0


def test_a_static_quorum_is_refused(release: str, tmp_path: Path) -> None:
    broker = Broker(release, tmp_path / "node", [tmp_path / "node" / "data"])
    broker.format()
    try:
        broker.start()
    finally:
        broker.kill()
    done = jsonl("quorum", "set-voters", broker.log_dirs[0], "--voters", "1@h:9093", "--apply")
    assert done.exit_code == 4
    assert "controller.quorum.voters=1@h:9093" in done.of_type("refusal")[0]["do"]


def test_three_voters_get_other_addresses(quorum: Dynamic, tmp_path: Path) -> None:
    """All copies of the metadata log are made equal first: each gets the same record at the same offset."""
    quorum.create("orders", [1, 2, 3])
    time.sleep(2)
    for node in NODES:
        quorum.nodes[node].kill()
    data = {node: quorum.nodes[node].log_dirs[0] for node in NODES}
    ports = dict(zip(NODES, free_ports(3), strict=True))
    wanted = [part for node in NODES for part in ("--voters", f"{node}@127.0.0.1:{ports[node]}")]
    shown = jsonl("quorum", *data.values())
    newest = next(Path(row["path"]) for row in shown.of_type("copy") if row["isNewest"])
    if len({(row["lastEpoch"], row["logEndOffset"]) for row in shown.of_type("copy")}) > 1:
        refused = jsonl("quorum", "set-voters", *data.values(), *wanted)
        assert refused.exit_code == 4
        assert "copies differ" in " ".join(row["reason"] for row in refused.of_type("refusal"))
    for folder in (path / "__cluster_metadata-0" for path in data.values()):
        if folder != newest:
            state = (folder / "quorum-state").read_bytes()
            shutil.rmtree(folder)
            shutil.copytree(newest, folder)
            (folder / "quorum-state").write_bytes(state)
    done = jsonl("quorum", "set-voters", *data.values(), *wanted, "--apply")
    assert done.exit_code == 0, done.out.decode() + done.err
    quorum.controllers |= ports
    for node in NODES:
        quorum.nodes[node] = quorum.node(tmp_path, node, list(ports.values()))
        quorum.nodes[node].launch()
    assert all(quorum.nodes[node].serves() for node in NODES)
    for node in NODES:
        _until(lambda node=node: _topics(quorum.clients[node]) == {"orders"})  # type: ignore[misc]
    _until(lambda: _created(quorum, "later", [1, 2, 3]))
    assert not [stray for path in data.values() for stray in path.glob("*-stray")]
    for node in NODES:
        quorum.nodes[node].kill()
    after = jsonl("quorum", *data.values())
    assert [row["voters"] for row in after.of_type("quorum")] == [[1, 2, 3]]
