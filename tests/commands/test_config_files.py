"""`--config FILE`: a stock server.properties goes through every command that takes one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kdump.settings.names import is_known
from kdump.write.log_dir import LogDirWriter
from tests.commands.running import Run

STOCK = """\
# config/server.properties of Kafka 4.3
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
# and of Kafka 3.9 with ZooKeeper
broker.id=0
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


COMMANDS = ("retain", "compact", "startup", "repair", "rebuild-index", "roll", "append")
"""All that have the option; append reads from standard input, which is empty."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stock_file_goes_through_every_command_without_a_word(
    run: Run, orders: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115

    stock = orders.parent.parent / "server.properties"
    stock.write_text(STOCK)
    assert all(is_known(line.partition("=")[0]) for line in STOCK.splitlines() if line[0] != "#")
    assert run(command, orders, "--config", stock) in (0, 1)
    assert "server.properties" not in run.err
    stock.write_text("log.cleanup.policy=Compact\n")
    assert run(command, orders, "--config", stock) == 2
    assert "log.cleanup.policy is 'Compact': expected delete, compact or both" in run.err
    stock.write_text("cleanup.polcy=compact\n")
    run(command, orders, "--config", stock)
    assert "cleanup.polcy is not a setting of Kafka: not used. Did you mean 'cleanup.policy'?" in run.err


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A partition directory with one segment, in a log directory."""
    with LogDirWriter(str(tmp_path / "data")) as log_dir:
        log_dir.create_log("orders", 0, topic_id=bytes(15) + b"\1")
    return tmp_path / "data" / "orders-0"
