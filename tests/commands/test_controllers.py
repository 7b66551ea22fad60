"""The log directory of a controller that is no broker: it leaves no marker, and loads the cluster's metadata only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement.running import kdump
from tests.topics.building import Log, cluster_directory, metadata_pairs

NODE = 9


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """`data`: node 9 is among the controllers, not among the brokers, and has partitions of its time as a broker."""
    cluster_directory(tmp_path / "data", broker_id=NODE)
    controller = metadata_pairs(("RegisterController", {"controllerId": NODE}))
    # as a leader writes on behind the first batch
    Log(tmp_path / "data" / "__cluster_metadata-0", 8).add(*controller).write()
    return tmp_path


def damage(data: Path) -> None:
    """What no broker starts with: a bad name, a torn partition.metadata, a checkpoint of another version."""
    (data / "not a partition").mkdir()
    (data / "orders-0" / "partition.metadata").write_text("version: 0\ntop")
    (data / "replication-offset-checkpoint").write_text("9\n0\n")


def test_partitions_that_are_left_do_not_stop_it(home: Path) -> None:
    """KafkaRaftServer has no LogManager then; tests/kafka/test_controllers.py starts real ones."""
    damage(home / "data")
    said = kdump(home, "startup", "data")
    assert said.code == 0, said.out
    whose, checks, warning, *_ = said.out.splitlines()
    assert whose == "data: it belongs to a controller, not to a broker."
    assert checks.startswith("It checks __cluster_metadata-0: ")
    assert warning == (
        "  warning  a controller loads __cluster_metadata-0 only: it leaves 6 other partitions alone."
        " If this node is a broker too, name its server.properties: --config FILE"
    )
    assert said.out.splitlines()[-1] == "The controller will start. 1 partition loses nothing."
    rows = kdump(home, "startup", "data", "--format", "jsonl")
    assert [row["isController"] for row in rows.of_type("logDirectory")] == [True]
    assert [Path(row["path"]).name for row in rows.of_type("outcome")] == ["__cluster_metadata-0"]


def test_properties_say_it_first(home: Path) -> None:
    """A node that is registered as a broker still, and started as a controller alone; and the other way about."""
    damage(home / "data")
    for roles, code in (("controller", 0), ("broker, controller", 1), ("broker", 1)):
        (home / "server.properties").write_text(f"process.roles={roles}\nnode.id={NODE}\n")
        assert kdump(home, "startup", "data", "--config", "server.properties").code == code
    cluster_directory(home / "once", broker_id=1)
    damage(home / "once")
    assert kdump(home, "startup", "once").code == 1
    (home / "server.properties").write_text("process.roles=controller\nnode.id=1\n")
    assert kdump(home, "startup", "once", "--config", "server.properties").code == 0


def test_what_a_controller_reads_stops_it(home: Path) -> None:
    (home / "data" / "meta.properties").write_text("version=1\ncluster.id=made-up\n")
    said = kdump(home, "startup", "data", "--config", _roles(home))
    assert said.code == 1
    assert said.out.splitlines()[0] == "The controller will NOT start:"
    assert "meta.properties" in said.out


def _roles(home: Path) -> str:
    (home / "server.properties").write_text("process.roles=controller\n")
    return "server.properties"


def test_doctor_speaks_of_a_controller(home: Path) -> None:
    damage(home / "data")
    said = kdump(home, "doctor", "data")
    assert (said.code, said.out.splitlines()[0]) == (0, "OK. The controller will start; 1 partition, all routine.")
    assert "it leaves 6 other" in said.out
    rows = kdump(home, "doctor", "data", "--format", "jsonl")
    assert [row["isController"] for row in rows.of_type("logDirectory")] == [True]
    log = home / "data" / "__cluster_metadata-0" / f"{8:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + bytes([log.read_bytes()[-1] ^ 255]))
    said = kdump(home, "doctor", "data", "--config", _roles(home))
    assert said.code == 1
    assert "It belongs to a controller, not to a broker." in said.out
    assert "__cluster_metadata-0" in said.out
    assert "orders" not in said.out


def test_ls_names_the_controller(home: Path) -> None:
    """Nothing tells how it was left: a controller writes no .kafka_cleanshutdown."""
    said = kdump(home, "ls", "data")
    assert said.out.splitlines()[0].startswith("data   controller 9; 7 partitions, ")
    assert kdump(home, "ls", "data", "--format", "jsonl").of_type("logDirectory")[0]["isController"] is True
