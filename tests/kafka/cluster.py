"""Three combined nodes on loopback: a cluster whose partitions have replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from tests.kafka.broker import Broker, BrokerError
from tests.kafka.ports import free_ports

NODES = (1, 2, 3)

_WAIT = 0.2


class Cluster:
    """Nodes, each in a folder of its own with one log directory; a context manager that kills them."""

    def __init__(self, release: str, folder: Path, *, nodes: Sequence[int] = NODES, **settings: str) -> None:
        ports = free_ports(2 * len(nodes))
        clients = dict(zip(nodes, ports, strict=False))
        quorum = dict(zip(nodes, ports[len(nodes) :], strict=True))
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in quorum.items())
        self._clients = clients
        self.nodes = {
            node: Broker(
                release,
                folder / f"node-{node}",
                [folder / f"node-{node}" / "data"],
                **{
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{clients[node]},CONTROLLER://127.0.0.1:{quorum[node]}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clients[node]}",
                    **settings,
                },
            )
            for node in nodes
        }

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()

    @property
    def servers(self) -> list[str]:
        """Where the nodes that run serve."""
        return [f"127.0.0.1:{port}" for node, port in self._clients.items() if self.nodes[node].runs]

    def data(self, node: int) -> Path:
        """The log directory of a node."""
        return self.nodes[node].log_dirs[0]

    def start(self) -> None:
        """Format and start all nodes. Raises BrokerError."""
        for node in self.nodes.values():
            node.format()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            if not node.serves():
                raise BrokerError(f"a node ended at its start:\n{node.log[-4000:]}")

    def create(self, topic: str, partitions: int, replicas: Sequence[Sequence[int]] = (NODES,), **configs: str) -> None:
        """Make a topic whose partitions have these replicas in turn, in this order, once all brokers are there."""
        assignments = {number: list(replicas[number % len(replicas)]) for number in range(partitions)}
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        self.until(lambda: self._brokers() == len(self.nodes))
        self.until(lambda: self._create(NewTopic(topic, replica_assignments=assignments, topic_configs=settings)))
        wanted = {number: sorted(each) for number, each in assignments.items()}
        self.until(lambda: self.isr(topic) == wanted)

    def _create(self, topic: NewTopic) -> bool:
        """Ask for a topic, of a node that may not have heard of the controller yet: then it is an error to be tried."""
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            admin.create_topics([topic])
        except TopicAlreadyExistsError:
            pass  # made by an attempt whose answer did not come
        finally:
            admin.close()
        return True

    def produce(self, topic: str, partitions: int, records: int, *, acks: int | str = "all") -> None:
        """Send so many records to each partition, in batches of ten, and wait for the answers."""
        producer = KafkaProducer(bootstrap_servers=self.servers, acks=acks, linger_ms=0)
        try:
            for first in range(0, records, 10):
                for partition in range(partitions):
                    for number in range(first, min(first + 10, records)):
                        value = f"record {number} of {topic}-{partition} ".encode().ljust(300, b".")
                        producer.send(topic, value=value, key=b"%d" % number, partition=partition)
                producer.flush()
        finally:
            producer.close()

    def _brokers(self) -> int:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            return len(admin.describe_cluster()["brokers"])
        finally:
            admin.close()

    def isr(self, topic: str) -> dict[int, list[int]]:
        """The in-sync replicas of each partition."""
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            (found,) = admin.describe_topics([topic])
            return {each["partition_index"]: sorted(each["isr_nodes"]) for each in found["partitions"]}
        finally:
            admin.close()

    def until(self, holds: Callable[[], bool], seconds: float = 90) -> None:
        """Wait for something. Raises BrokerError where it does not come."""
        for _ in range(int(seconds / _WAIT)):
            with suppress(KafkaError):  # what a client meets while leaders change
                if holds():
                    return
            time.sleep(_WAIT)
        raise BrokerError(f"it did not come within {seconds:.0f} s")
