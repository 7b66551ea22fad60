"""Clusters that `kdump resurrect` made of killed brokers' disks: real brokers serve them as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kdump.formats.batch import HEADER_SIZE, LOG_OVERHEAD
from tests.kafka.answers import EXPIRING
from tests.kafka.broker import Broker
from tests.kafka.clients import watermarks
from tests.kafka.cluster import NODES, Cluster
from tests.kafka.command import jsonl, kdump
from tests.kafka.directories import MADE, Rich, State, copy_tree, rich
from tests.kafka.jars import RELEASES
from tests.kafka.kit import Kit
from tests.kafka.ports import free_ports
from tests.kafka.tally import Column, Comparison, Tally

NUMBERS = ("--offsets-partitions", 4, "--transaction-partitions", 4, "--share-state-partitions", 3)
SAME = ("groups", "listed", "shareGroups", "streamsGroups", "transactions", "acls", "quotas", "scram", "features")
"""What a broker says of a cluster that must be as before."""
FROM_DIRECTORIES = ("groups", "listed", "shareGroups", "streamsGroups", "transactions")
"""What of that is not in the metadata."""


def _destroy_metadata(log_dirs: Sequence[Path]) -> None:
    for log_dir in log_dirs:
        shutil.rmtree(log_dir / "__cluster_metadata-0", ignore_errors=True)
        (log_dir / "bootstrap.checkpoint").unlink(missing_ok=True)


def _resurrect(*arguments: object) -> Any:
    done = jsonl("resurrect", *arguments, "--apply")
    assert done.exit_code == 0, done.out[-3000:].decode(errors="replace") + done.err
    return done


@contextmanager
def _served(release: str, folder: Path, done: Any, ports: dict[int, tuple[int, int]]) -> Iterator[list[Broker]]:
    """The brokers of the nodes of a plan, the controller started first."""
    rows = {row["nodeId"]: row for row in done.of_type("node")}
    (cluster,) = done.of_type("cluster")
    order = sorted(rows, key=lambda node: node != cluster["controller"])
    brokers = []
    try:
        for node in order:
            client, controller = ports[node]
            listeners = [f"PLAINTEXT://127.0.0.1:{client}"]
            if node == cluster["controller"]:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
            properties = {"controller.quorum.voters": "", **rows[node]["properties"]}
            broker = Broker(
                release,
                folder / f"broker-{node}",
                [Path(each["path"]) for each in rows[node]["directories"]],
                **properties,
                **{"listeners": ",".join(listeners), "advertised.listeners": listeners[0]},
            )
            brokers.append(broker)
            broker.servers = f"127.0.0.1:{client}"
            broker.start()
            broker.servers = f"127.0.0.1:{client}"
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


def _check_truth(
    compare: Comparison, source: Rich, truth: dict[str, Any], records: Path, *, has_metadata: bool
) -> None:
    for said in (truth, source.truth):
        said["features"].pop("kraft.version", None)  # which the option --quorum decides
    for name in SAME if has_metadata else FROM_DIRECTORIES:
        compare.same(name, truth.get(name), source.truth.get(name))
    for name, topic in source.truth["topics"].items():
        compare.same(f"id of {name}", truth["topics"][name]["id"], topic["id"])
        if has_metadata:
            compare.same(f"configs of {name}", truth["topics"][name]["configs"], topic["configs"])
    for name, offsets in source.truth["offsets"].items():
        compare.same(f"latest of {name}", truth["offsets"][name]["latest"], offsets["latest"])
        if has_metadata and name.rpartition("-")[0] not in EXPIRING:
            compare.same(f"earliest of {name}", truth["offsets"][name]["earliest"], offsets["earliest"])
    found = {}
    with records.open() as file:
        for line in file:
            row = json.loads(line)
            found[row["partition"], row["offset"]] = row
    ends = {name: offsets["latest"] for name, offsets in source.before["offsets"].items()}
    for row in source.records():
        key = row["partition"], row["offset"]
        if not key[0].startswith("__") or key[1] < ends.get(key[0], 0):  # coordinators end what they find prepared
            compare.same(f"{key[0]} at {key[1]}", found.get(key), row)


def _check_goes_on(compare: Comparison, servers: str, truth: dict[str, Any]) -> None:
    """Producing goes on at the next offset, and an old transactional id works."""
    offsets: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce(
        "plain", b"after", partition=0, on_delivery=lambda error, message: offsets.append(message.offset())
    )
    producer.flush(30)
    compare.same("next offset", offsets, [truth["offsets"]["plain-0"]["latest"]])
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": "t-open"})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce("plain", b"committed", partition=0)
    transactional.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "after", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("plain", 0, offsets[0])])
    values: list[bytes | None] = []
    while len(values) < 2 and (message := consumer.poll(20)) is not None:
        values.append(message.value())
    consumer.close()
    compare.same("what is read then", values, [b"after", b"committed"])


@pytest.mark.parametrize("how", ["copy", "in-place", "dynamic", "no-metadata"])
def test_one_node(release: str, how: str, tmp_path: Path, tally: Tally) -> None:
    source = rich(release, State.KILLED)
    log_dirs = source.copy(tmp_path / "old")
    ports = free_ports(2)
    where = ["--in-place"] if how != "copy" else ["--into", tmp_path / "new"]
    options: list[object] = ["--controller", f"127.0.0.1:{ports[1]}", "--kafka", release]
    if how == "dynamic":
        options += ["--quorum", "dynamic"]
    if how == "no-metadata":
        _destroy_metadata(log_dirs)
        options += NUMBERS
    done = _resurrect(*log_dirs, *where, *options)
    with (
        tally.of(release, Column.WRITE) as compare,
        Kit(release, MADE, tmp_path / "kit.log") as kit,
        _served(release, tmp_path, done, {1: (ports[0], ports[1])}) as (broker,),
    ):
        truth = kit.ask("truth", servers=broker.servers, records=str(tmp_path / "records.jsonl"))
        has_metadata = how != "no-metadata"
        _check_truth(compare, source, truth, tmp_path / "records.jsonl", has_metadata=has_metadata)
        _check_goes_on(compare, broker.servers, truth)
        strays = [path.name for log_dir in log_dirs for path in log_dir.glob("*-stray")]
        compare.same("strays", [name for name in strays if not name.startswith("__cluster_metadata-0.")], [])


# --- three brokers with three replicas of everything ---

RECORDS = 200
TOPICS = {"orders": 3, "events": 2}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The log directories of three brokers that were killed, the third of them a while before the others."""
    release = (request.config.getoption("--release") or RELEASES)[-1]
    folder = tmp_path_factory.mktemp("three")
    settings: dict[str, Any] = {
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "3",
    }
    with Cluster(release, folder / "live", **settings) as cluster:
        cluster.start()
        for topic, partitions in TOPICS.items():
            cluster.create(topic, partitions, unclean_leader_election_enable="true" if topic == "events" else "false")
            cluster.produce(topic, partitions, RECORDS)
        _commit(",".join(cluster.servers), "billing")
        cluster.nodes[3].kill()
        cluster.until(lambda: all(3 not in isr for topic in TOPICS for isr in cluster.isr(topic).values()))
        cluster.produce("orders", TOPICS["orders"], 50)
        for node in NODES:
            cluster.nodes[node].kill()
            copy_tree(cluster.data(node), folder / f"disk-{node}")
    return folder


def _commit(servers: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    for _ in range(RECORDS):
        message = consumer.poll(30)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
    consumer.close()


def _values(servers: str, topic: str, partition: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": False})
    place = TopicPartition(topic, partition, 0)
    _, end = watermarks(consumer, place)
    consumer.assign([place])
    values: list[bytes | None] = []
    while len(values) < end and (message := consumer.poll(30)) is not None:
        values.append(message.value())
    consumer.close()
    return values


def _expected(topic: str, partition: int, records: int) -> list[bytes]:
    numbers = [*range(RECORDS), *range(records - RECORDS)]
    return [f"record {number} of {topic}-{partition} ".encode().ljust(300, b".") for number in numbers]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((1, 2, 3), ()),
        ((1, 3), ()),
        ((2,), ()),
        ((1, 2, 3), ("--nodes", 1)),
        ((1, 2, 3), ("--map", "2=12", "--map", "3=13")),
    ],
    ids=["all", "two", "one", "into-one", "renamed"],
)
def test_three_brokers(
    killed: Path, given: tuple[int, ...], options: tuple[object, ...], tmp_path: Path, tally: Tally,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    release = (request.config.getoption("--release") or RELEASES)[-1]
    log_dirs = []
    for node in given:
        log_dirs.append(tmp_path / f"disk-{node}")
        copy_tree(killed / f"disk-{node}", log_dirs[-1])
    ports = free_ports(2 * len(NODES))
    controller = ("--controller", f"127.0.0.1:{ports[-1]}")
    done = _resurrect(*log_dirs, "--into", tmp_path / "new", *controller, *options, "--kafka", release)
    nodes = [row["nodeId"] for row in done.of_type("node")]
    places = {node: (port, ports[-1]) for node, port in zip(nodes, ports, strict=False)}
    with tally.of(release, Column.WRITE) as compare, _served(release, tmp_path, done, places) as brokers:
        servers = ",".join(broker.servers for broker in brokers)
        for topic, partitions in TOPICS.items():
            records = RECORDS + (50 if topic == "orders" else 0)
            for partition in range(partitions):
                values = _values(servers, topic, partition)
                compare.same(f"{topic}-{partition}", values, _expected(topic, partition, records))
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
        places_ = consumer.committed([TopicPartition("orders", number) for number in range(TOPICS["orders"])], 30)
        compare.same("a commit", sum(place.offset > 0 for place in places_) >= 1, True)
        consumer.close()
        strays = [path.name for path in (tmp_path / "new").glob("*/*-stray")]
        compare.same("strays", strays, [])


def test_disks_that_are_damaged_first(
    killed: Path, tmp_path: Path, tally: Tally, request: pytest.FixtureRequest
) -> None:
    """A damaged copy does not lead; where all are damaged, one is healed from the others before."""
    release = (request.config.getoption("--release") or RELEASES)[-1]
    log_dirs = {node: tmp_path / f"disk-{node}" for node in NODES}
    for node, log_dir in log_dirs.items():
        copy_tree(killed / f"disk-{node}", log_dir)
    _flip(log_dirs[1] / "orders-0", 0.3)  # the third broker is behind there: the second one leads
    for node, at in ((1, 0.2), (2, 0.5), (3, 0.8)):
        _flip(log_dirs[node] / "events-0", at)
    ports = free_ports(2)
    options = ("--nodes", 1, "--controller", f"127.0.0.1:{ports[1]}", "--kafka", release)
    refused = jsonl("resurrect", *log_dirs.values(), "--into", tmp_path / "new", *options)
    assert refused.exit_code == 4
    assert "events-0" in " ".join(row["subject"] for row in refused.of_type("refusal"))
    sources = [part for node in (1, 3) for part in ("--from", log_dirs[node])]
    healed = kdump("repair", log_dirs[2] / "events-0", *sources, "--apply")
    assert healed.exit_code == 0, healed.out.decode() + healed.err
    done = _resurrect(*log_dirs.values(), "--into", tmp_path / "new", *options)
    leaders = {f"{row['topic']}-{row['partition']}": row["path"] for row in done.of_type("partition")}
    assert leaders["orders-0"] == str(log_dirs[2] / "orders-0")
    places = {row["nodeId"]: (ports[0], ports[1]) for row in done.of_type("node")}
    with tally.of(release, Column.WRITE) as compare, _served(release, tmp_path, done, places) as (broker,):
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                values = _values(broker.servers, topic, partition)
                expected = _expected(topic, partition, RECORDS + (50 if topic == "orders" else 0))
                compare.same(f"{topic}-{partition}", values, expected)


def _flip(folder: Path, at: float) -> None:
    """One bit of a batch's records, at a part of the log's length; not all of a header is in the CRC."""
    path = max(folder.glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    wanted, start, end = int(len(data.rstrip(b"\0")) * at), 0, 0
    while end <= wanted:
        start, end = end, end + LOG_OVERHEAD + int.from_bytes(data[end + 8 : end + LOG_OVERHEAD], "big")
    data[max(wanted, start + HEADER_SIZE)] ^= 4
    path.write_bytes(data)
