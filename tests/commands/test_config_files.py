"""`--config FILE`: a stock server.properties goes through every command that takes one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

from kdump.commands.cli import cli
from kdump.errors import ConfigError
from kdump.settings.names import is_known
from kdump.settings.sources import TopicSettings
from kdump.settings.table import BY_NAME, CLEANER_THREADS, SETTINGS, Named, Setting
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


UNUSED = "log.flush.interval.ms"
"""A setting of logs that no command goes by."""
CARRIED_OVER = {"resurrect"}
"""Commands that print what of the file is to change: all of the rest counts in the new cluster."""
CHECKED = ("retain", "compact", "startup", "doctor", "repair", "rebuild-index", "roll", "append", "verify", "replicas")
"""Those that go by settings of logs, of which all values are checked."""
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "append": ("data/orders-0", "--format", "lines"),
    "export": ("data", "--to", "out"),
    "quorum set-voters": ("nothing", "--voters", "1@localhost:1"),
    "roll": ("data/orders-0",),
    "serve": ("nothing",),
}
"""What commands need besides; `nothing` does not exist, where they would do more than a moment of work."""


def commands_with_config(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_with_config(command, (*before, name))
        elif command is not None and any("--config" in param.opts for param in command.params):
            yield " ".join((*before, name))


COMMANDS = [name for name in commands_with_config() if name not in CARRIED_OVER]


@pytest.fixture
def with_config(run: Run, orders: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], int]:
    """Runs a command with a server.properties, of which it gets the text; append reads an empty standard input."""
    monkeypatch.chdir(orders.parent.parent)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115

    def called(command: str, text: str) -> int:
        Path("server.properties").write_text(text)
        arguments = ARGUMENTS.get(command, ("data",))
        return run(*command.split(), *arguments, "--config", "server.properties")

    return called


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stock_file_goes_through_every_command_without_a_word(
    run: Run, with_config: Callable[[str, str], int], command: str
) -> None:
    assert all(is_known(line.partition("=")[0]) for line in STOCK.splitlines() if line[0] != "#")
    assert with_config(command, STOCK) != 2
    assert "server.properties" not in run.err
    with_config(command, "cleanup.polcy=compact\n")
    assert "cleanup.polcy is not known to this kdump" in run.err
    assert "Did you mean 'cleanup.policy'?" in run.err


@pytest.mark.parametrize("command", CHECKED)
def test_a_value_that_kafka_would_not_take_is_refused(
    run: Run, with_config: Callable[[str, str], int], command: str
) -> None:
    assert with_config(command, "log.cleanup.policy=Compact\n") == 2
    assert "log.cleanup.policy is 'Compact': expected delete, compact or both" in run.err


def other_value(setting: Setting[Any]) -> tuple[str, str]:
    """A setting's last name, which is the server's where it has one, and a value that is not the default."""
    *_, named = setting.names
    if setting is CLEANER_THREADS:
        return named.name, "2"
    for text in ("33554432", "5", "2.7", "true", "false", "compact", "gzip", "LogAppendTime", "0.25", "0:1"):
        with suppress(ConfigError):
            if named.value(text) != setting.default:
                return named.name, text
    raise AssertionError(setting.name)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The settings that are asked for where the file counts, by name."""
    found: set[str] = set()
    first = TopicSettings._first

    def noting(settings: TopicSettings, names: Iterable[Named[Any]]) -> Any:
        asked = list(names)
        if any(UNUSED in layer.properties for layer in settings.layers):
            found.update(named.setting.name for named in asked)
        return first(settings, asked)

    monkeypatch.setattr(TopicSettings, "_first", noting)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_settings_that_a_command_does_not_go_by_are_noted(
    run: Run, with_config: Callable[[str, str], int], read: set[str], command: str
) -> None:
    """None has Kafka's default. What is noted is not asked for, and what no command goes by is noted."""
    others = (setting for setting in SETTINGS if setting.until is None)
    assert with_config(command, "".join(f"{name}={value}\n" for name, value in map(other_value, others))) != 2
    [noted] = re.findall("not used here: (.*)", run.err)
    names = {BY_NAME[name].setting.name for name in noted.split(", ")}
    assert BY_NAME[UNUSED].setting.name in names
    assert names & read == set()


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A partition directory with one segment, in a log directory."""
    with LogDirWriter(str(tmp_path / "data")) as log_dir:
        log_dir.create_log("orders", 0, topic_id=bytes(15) + b"\1")
    return tmp_path / "data" / "orders-0"
