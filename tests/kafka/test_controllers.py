"""A cluster whose controller is no broker: what it and its broker leave, users and delegation tokens, a disk that fails
while the broker runs; and the directory of a controller that was a broker once.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from tests.kafka.answers import check_nothing_found
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl, kdump
from tests.kafka.directories import MADE, State, rich
from tests.kafka.kit import Kit
from tests.kafka.ports import free_ports
from tests.kafka.server_log import loaded, offline
from tests.kafka.tally import Column, Comparison, Tally

CONTROLLER = 2
TOPICS = ("orders", "clicks", "payments")
RECORDS = 10
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SASL = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
}


class Separate:
    """Node 2, a controller, and node 1, a broker with two disks and a listener for users."""

    def __init__(self, release: str, folder: Path) -> None:
        client, self.sasl, quorum = free_ports(3)
        common = {"controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{quorum}", "delegation.token.secret.key": "x"}
        self.controller = controller(release, folder / "controller", [folder / "controller" / "data"], quorum, **common)
        listeners = f"PLAINTEXT://127.0.0.1:{client},SASL://127.0.0.1:{self.sasl}"
        roles = {"process.roles": "broker", "listeners": listeners, "advertised.listeners": listeners}
        disks = [folder / "broker" / name for name in ("disk1", "disk2")]
        self.broker = Broker(release, folder / "broker", disks, **common, **_SASL, **roles)
        self.tokens: list[dict[str, Any]] = []

    def start(self) -> None:
        for node in (self.controller, self.broker):
            node.launch()
        assert self.controller.serves()
        assert self.broker.serves()

    def kill(self) -> None:
        for node in (self.broker, self.controller):
            node.kill()


def controller(release: str, folder: Path, log_dirs: Sequence[Path], port: int, **settings: str) -> Broker:
    """A controller that is no broker; `settings` win."""
    listeners = f"CONTROLLER://127.0.0.1:{port}"
    roles = {"process.roles": "controller", "node.id": str(CONTROLLER)}
    return Broker(
        release, folder, log_dirs, **{**roles, "listeners": listeners, "advertised.listeners": listeners, **settings}
    )


@pytest.fixture(scope="module")
def separate(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Separate]:
    """What the two left: the broker killed, after a disk of it had failed that is back; the controller stopped."""
    cluster = Separate(release, tmp_path_factory.mktemp(f"controllers-{release}"))
    cluster.controller.format()
    cluster.broker.format()
    second = cluster.broker.log_dirs[1]
    try:
        cluster.start()
        with Kit(release, MADE, cluster.broker.folder / "kit.log") as kit:
            servers = cluster.broker.servers
            for topic in TOPICS:
                kit.ask("admin", servers=servers, step="create", topic=topic, partitions=2)
                for partition in range(2):
                    values = [f"value {number}" for number in range(RECORDS)]
                    kit.ask("admin", servers=servers, step="produce", topic=topic, partition=partition, values=values)
            answer = kit.ask("admin", servers=servers, step="tokens", sasl=f"127.0.0.1:{cluster.sasl}")
            cluster.tokens = answer["tokens"]
        gone = second.with_name("gone")
        second.rename(gone)
        while not offline(cluster.broker.log):
            assert cluster.broker.runs
            time.sleep(0.1)
        cluster.broker.kill()
        cluster.controller.stop()
        gone.rename(second)
    finally:
        cluster.kill()
    yield cluster
    shutil.rmtree(cluster.broker.folder.parent)


def _log_dirs(cluster: Separate) -> list[list[Path]]:
    return [cluster.controller.log_dirs, cluster.broker.log_dirs]


def test_no_false_word(separate: Separate, release: str, tally: Tally) -> None:
    with tally.of(release, Column.VERIFY) as compare:
        for log_dirs in _log_dirs(separate):
            check_nothing_found(compare, jsonl("verify", "--deep", "--fail-on", "warning", *log_dirs))
            compare.same("doctor", kdump("doctor", *log_dirs).exit_code, 0)
        rows = jsonl("doctor", *separate.controller.log_dirs).of_type("logDirectory")
        compare.same("of a controller", [row["isController"] for row in rows], [True])


def test_what_both_say_of_the_cluster(separate: Separate, release: str, tally: Tally) -> None:
    fields = ("tokenId", "owner", "requester", "renewers", "issueTimestamp", "maxTimestamp", "expirationTimestamp")
    with tally.of(release, Column.READ) as compare:
        for log_dirs in _log_dirs(separate):
            done = jsonl("metadata", log_dirs[0])
            compare.same("metadata: exit code", (done.exit_code, done.err), (0, ""))
            users = [(row["user"], row["mechanism"], row["iterations"]) for row in done.of_type("scramCredential")]
            compare.same("metadata: users", users, [("alice", "SCRAM-SHA-256", 4096)])
            tokens = [{field: row[field] for field in fields} for row in done.of_type("delegationToken")]
            by_id = sorted(separate.tokens, key=lambda token: str(token["tokenId"]))
            compare.same("metadata: tokens", tokens, by_id)
            compare.same("metadata: brokers", [row["brokerId"] for row in done.of_type("broker")], [1])
            compare.same("metadata: topics", sorted(row["topic"] for row in done.of_type("topic")), sorted(TOPICS))
            listed = jsonl("ls", *log_dirs)
            compare.same("ls: exit code", (listed.exit_code, listed.err), (0, ""))
            ends = {f"{row['topic']}-{row['partition']}": row["logEndOffset"] for row in listed.of_type("partition")}
            ends.pop(names.CLUSTER_METADATA_DIR, None)
            there = {f"{topic}-{number}": RECORDS for topic in TOPICS for number in range(2)}
            compare.same("ls: log ends", ends, there if len(log_dirs) > 1 else {})


def test_the_next_start_is_as_forecast(separate: Separate, release: str, tally: Tally) -> None:
    """Of both; the disk that had failed is there again."""
    with tally.of(release, Column.FORECAST) as compare:
        forecast: dict[str, Any] = {}
        for node in (separate.controller, separate.broker):
            done = jsonl("startup", "--config", node.config, *node.log_dirs)
            compare.same("startup: exit code", done.exit_code, 0)
            forecast |= {os.path.abspath(row["path"]): row for row in done.of_type("outcome")}
        try:
            separate.start()
            compare.same("log directories that go offline", offline(separate.broker.log), set())
            loads = loaded(separate.broker.log)
            compare.same("logs that are loaded", len(loads), 2 * len(TOPICS))
            for path, load in loads.items():
                row = forecast[path]
                theirs = (load.start, load.end)
                compare.same(f"offsets of {path}", (row["logStartOffset"], row["logEndOffset"]), theirs)
            separate.broker.stop()
            separate.controller.stop()
        finally:
            separate.kill()


def test_a_disk_that_is_not_there(separate: Separate, release: str, tally: Tally) -> None:
    """After an orderly stop: what is read of the other one alone is sound, and says nothing false of what is gone."""
    first, _ = separate.broker.log_dirs
    with tally.of(release, Column.VERIFY) as compare:
        check_nothing_found(compare, jsonl("verify", "--deep", "--fail-on", "warning", first))
        compare.same("startup", jsonl("startup", first).exit_code, 0)
        compare.same("ls", jsonl("ls", first).exit_code, 0)


def test_a_controller_that_was_a_broker_once(release: str, tally: Tally, tmp_path: Path) -> None:
    """Nothing in the partitions that it left there stops it, and a broker would not start with any of that."""
    log_dirs = rich(release, State.KILLED).copy(tmp_path / "once")
    _damage(log_dirs[1])
    copies = [tmp_path / "again" / path.name for path in log_dirs]
    for path, copy in zip(log_dirs, copies, strict=True):
        shutil.copytree(path, copy)
    port = free_ports(1)[0]
    settings = {"node.id": "1", "controller.quorum.voters": f"1@127.0.0.1:{port}"}
    alone = controller(release, tmp_path / "controller", log_dirs, port, **settings)
    with tally.of(release, Column.FORECAST) as compare:
        for node in (alone, Broker(release, tmp_path / "broker", copies)):
            _check_start(compare, node, serves=node is alone)


def _damage(log_dir: Path) -> None:
    first = next(path for path in sorted(log_dir.iterdir()) if (path / names.PARTITION_METADATA).is_file())
    (first / names.PARTITION_METADATA).write_text("version: 0\ntop")
    (log_dir / "not a partition").mkdir()
    (log_dir / names.RECOVERY_POINT_CHECKPOINT).write_text("9\n0\n")


def _check_start(compare: Comparison, node: Broker, *, serves: bool) -> None:
    done = jsonl("startup", "--config", node.config, *node.log_dirs)
    compare.same("startup: starts", done.of_type("broker")[0]["isStartable"], serves)
    compare.same("startup: exit code", done.exit_code, 0 if serves else 1)
    compare.same("the process serves", node.tried()[0], serves)
