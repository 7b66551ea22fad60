"""`kdump serve` beside the broker: Kafka's own clients of three releases get the same answers from both."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kdump.server.background import serve
from tests.kafka.broker import Broker
from tests.kafka.clients import KCAT, watermarks
from tests.kafka.directories import MADE, Rich, State
from tests.kafka.jars import RELEASES
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Comparison, Tally
from tests.serve.wire import batches

CLIENTS = ("3.9.2", "4.0.2", "4.3.1")


def _by_place(path: Path) -> dict[tuple[str, int], str]:
    rows = map(json.loads, path.read_text().splitlines())
    return {(row["partition"], row["offset"]): json.dumps(row, sort_keys=True) for row in rows}


def _grown(truth: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """The partitions that the broker changed when it started: coordinators' markers and records, and retention."""
    return {
        name
        for name, offsets in truth["offsets"].items()
        if any(offsets[key] != ours["offsets"][name][key] for key in ("earliest", "latest", "lastStable"))
    }


def _check(compare: Comparison, directory: Rich, ours: dict[str, Any]) -> set[str]:
    """Compare all but what the broker has changed meanwhile; returns the partitions that have grown."""
    truth = directory.truth
    compare.same("cluster", ours["cluster"], truth["cluster"])
    for name, topic in truth["topics"].items():
        compare.same(f"topic {name}", ours["topics"][name], topic)
    for name, group in truth["groups"].items():
        compare.same(f"commits of {name}", ours["groups"][name]["commits"], group["commits"])
    grown = _grown(truth, ours)
    for name, offsets in truth["offsets"].items():
        if name in grown | directory.cleaned:
            continue
        mine = ours["offsets"][name]
        compare.same(f"{name}: largest timestamp", mine["max"], offsets["max"])
        times = {time: found for time, *found in mine["times"]}
        for time, *found in offsets["times"]:
            if time in times:
                compare.same(f"{name} at {time}", times[time], found)
    return grown


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_get_the_same_from_both(client: str, directory: Rich, tally: Tally, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    said: list[str] = []
    with (
        tally.of(directory.release, Column.READ) as compare,
        serve(*map(str, directory.log_dirs), say=said.append) as servers,
        Kit(client, MADE, tmp_path / "kit.log") as kit,
    ):
        ours = kit.ask("truth", servers=servers, records=str(path), readable=True)
        grown = _check(compare, directory, ours)
        if directory.state is State.STOPPED:
            compare.same("partitions that differ", sorted(grown), [])
            compare.same("transactions", ours["transactions"], directory.truth["transactions"])
        mine, theirs = _by_place(path), _by_place(directory.folder / "records.jsonl")
        for key in mine.keys() | theirs.keys():
            if key[0] not in grown | directory.cleaned and not key[0].startswith("__"):
                compare.same(f"record {key}", mine.get(key), theirs.get(key))
        compare.same("damage", said, [])


_STATIC_BROKER = 4
"""The source of what is in server.properties, which is not at hand (ConfigSource)."""


def _configs(servers: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """All configurations of all topics: values, sources and synonyms."""
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient({"bootstrap.servers": servers})
    resources = [ConfigResource("topic", name) for name in admin.list_topics(timeout=60).topics]
    found = {}
    for each in resources:  # librdkafka takes one resource a request
        for asked in admin.describe_configs([each]).values():
            for name, entry in asked.result(timeout=60).items():
                synonyms = tuple((one.name, one.value, one.source) for one in entry.synonyms.values())
                found[each.name, name] = (entry.value, entry.source, entry.is_default, synonyms)
    return found


def test_batches_are_byte_for_byte_those_of_the_broker(directory: Rich, tally: Tally, tmp_path: Path) -> None:
    """And both are the files' own. Of the newest release, which kdump knows, topics have equal configurations, too."""
    if directory.state is State.KILLED:
        return
    from confluent_kafka import Consumer, TopicPartition

    broker = Broker(directory.release, tmp_path / "broker", directory.copy(tmp_path / "data"))
    try:
        broker.start()
        everything = {"group.id": "waits", "isolation.level": "read_uncommitted"}
        consumer = Consumer({"bootstrap.servers": broker.servers} | everything)
        with tally.of(directory.release, Column.READ) as compare, serve(*map(str, directory.log_dirs)) as servers:
            for path in directory.partitions:
                topic, _, number = path.name.rpartition("-")
                if topic.startswith("__") or path.name in directory.cleaned:
                    continue
                first, end = watermarks(consumer, TopicPartition(topic, int(number)))
                mine = b"".join(batches(servers, topic, int(number), first))
                compare.same(path.name, mine, b"".join(batches(broker.servers, topic, int(number), first)))
                files = b"".join(file.read_bytes() for file in sorted(path.glob("*.log")))
                compare.holds(f"{path.name}: the end of the files", files.endswith(mine))
                compare.same(f"{path.name}: is empty", not mine, first == end)
            if directory.release == RELEASES[-1]:
                ours = _configs(servers)
                for key, found in _configs(broker.servers).items():
                    if _STATIC_BROKER not in (found[1], *(source for _, _, source in found[3])):
                        compare.same(f"{key}: configuration", ours.get(key), found)
    finally:
        broker.kill()


def test_consoles_read(directory: Rich, tmp_path: Path) -> None:
    """Kafka's own tools of the same release."""
    if directory.state is State.KILLED:
        return
    with serve(*map(str, directory.log_dirs)) as servers, Kit(directory.release, MADE, tmp_path / "kit.log") as kit:
        consumer = kit.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", servers, "--topic", "codec-zstd",
            "--from-beginning", "--timeout-ms", "4000",
        )  # fmt: skip
        wanted = sum(row["partition"].startswith("codec-zstd-") for row in directory.records())
        assert consumer.out.count(b"\n") >= wanted > 0, consumer.err
        offsets = kit.tool("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", servers, "--topic", "plain")
        assert offsets.out.count(b"plain:") == 3, offsets.err
        groups = kit.tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", servers, "--list"
        )
        assert b"g-classic" in groups.out, groups.err


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_kcat_reads(directory: Rich, tally: Tally) -> None:
    """Every record of every partition, what consumers may read of them, and the offset of a time."""
    if directory.state is State.KILLED:
        return
    wanted: dict[tuple[str, int], Any] = {}
    for row in directory.records():
        if not row["partition"].startswith("__") and row["partition"] not in directory.cleaned:
            wanted[row["partition"], row["offset"]] = row
    topics = sorted({name.rpartition("-")[0] for name, _ in wanted})
    with tally.of(directory.release, Column.READ) as compare, serve(*map(str, directory.log_dirs)) as servers:
        for isolation in ("read_uncommitted", "read_committed"):
            seen = {}
            for topic in topics:
                asked = ["kcat", "-b", servers, "-C", "-e", "-q", "-t", topic, "-X", f"isolation.level={isolation}"]
                text = subprocess.run([*asked, "-f", "%p %o %T %K %S\\n"], capture_output=True, check=True).stdout
                for partition, offset, *facts in (map(int, line.split()) for line in text.splitlines()):
                    seen[f"{topic}-{partition}", offset] = facts
            only = isolation == "read_committed"
            there = {key: _facts(row) for key, row in wanted.items() if row["committed"] or not only}
            compare.same(f"kcat, {isolation}", seen, there)
        asked = ["kcat", "-b", servers, "-Q", "-t", "plain:0:-2"]
        compare.same("kcat -Q", subprocess.run(asked, capture_output=True).stdout, b"plain [0] offset 0\n")


def _facts(row: dict[str, Any]) -> list[int]:
    """The timestamp of a record, and the lengths of its key and value, -1 for null: kcat's JSON does not hold bytes."""
    sizes = (-1 if row[part] is None else len(b64decode(row[part])) for part in ("key", "value"))
    return [row["timestamp"], *sizes]


def test_users_of_the_metadata_are_let_in(directory: Rich) -> None:
    """With the credentials that the broker has stored for them; Make.java has the passwords."""
    from confluent_kafka.admin import AdminClient

    paths = [str(path) for path in directory.log_dirs]
    with serve(*paths, has_metadata_users=True) as servers:
        for name, mechanism in (("alice", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512"), ("alice", "PLAIN")):
            settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": name}
            admin = AdminClient({"bootstrap.servers": servers, "sasl.password": "secret", **settings})
            assert "plain" in admin.list_topics(timeout=20).topics


def test_beside_a_running_broker_it_keeps_up(release: str, tmp_path: Path) -> None:
    """What `--ignore-lock` is for: records come into view as the broker writes them."""
    from kafka import KafkaConsumer, TopicPartition

    broker = Broker(release, tmp_path / "broker", [tmp_path / "data"])
    broker.format()
    try:
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            broker.start()
            kit.ask("admin", servers=broker.servers, step="create", topic="live", configs={"segment.bytes": "1048576"})
            made: list[str] = []

            def produce(count: int) -> None:
                values = [f"value {number}" for number in range(len(made), len(made) + count)]
                kit.ask("admin", servers=broker.servers, step="produce", topic="live", values=values)
                made.extend(values)

            produce(100)
            said: list[str] = []
            with serve(str(tmp_path / "data"), say=said.append) as servers:
                consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
                consumer.assign([TopicPartition("live", 0)])
                found: list[str] = []
                for _ in range(4):
                    while len(found) < len(made):
                        for records in consumer.poll(timeout_ms=1000).values():
                            found += [record.value.decode() for record in records]
                    assert found == made
                    produce(150)
                consumer.close()
            assert said == []
            broker.stop()
    finally:
        broker.kill()
