"""What `kdump startup`, `doctor` and `verify` say of what a whole node depends on: its disks, the cluster's metadata,
bootstrap.checkpoint, and whether it is a broker at all. Brokers and controllers of 4.3.1 did as it stands here.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import batch, control, names
from kdump.formats.batch import CONTROL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from tests.commands.running import Run
from tests.rows import rows_in
from tests.topics.building import NOW, ORDERS_ID, Log, cluster_directory, metadata_pairs, snapshot_file

METADATA = names.CLUSTER_METADATA_DIR
LOG = "00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log directory of node 1, whose metadata have three brokers and a topic."""
    monkeypatch.chdir(tmp_path)
    cluster_directory(Path("data"))
    for name in ("orders-1", "orders-7", "clicks-0", "renamed-0", "nameless-0"):
        shutil.rmtree(Path("data", name))
    return Path("data")


@pytest.fixture
def config(data: Path) -> Path:
    """The server.properties of the only controller, which is a broker too."""
    path = Path("server.properties")
    path.write_text(
        f"node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@localhost:9093\nlog.dirs={data}\n"
    )
    return path


def rows(run: Run, *arguments: object) -> list[dict[str, Any]]:
    """What `kdump startup` says, as rows."""
    run("startup", *arguments, "--format", "jsonl")
    return list(rows_in(run.out))


def strays(found: list[dict[str, Any]]) -> list[str]:
    """The partitions that go out of service."""
    return [Path(row["path"]).name for row in found if row["type"] == "outcome" and row["stray"]]


def warnings(found: list[dict[str, Any]]) -> list[str]:
    """What is said of log directories."""
    return [text for row in found if row["type"] == "logDirectory" for text in row["warnings"]]


def broker(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What it comes to."""
    return next(row for row in found if row["type"] == "broker")


# --- the cluster's metadata ------------------------------------------------------------------------------------------


def test_sound_metadata_set_nothing_aside(run: Run, data: Path, config: Path) -> None:
    assert strays(rows(run, data, "--config", config)) == []


def test_the_only_controller_goes_by_what_is_left_of_its_metadata(run: Run, data: Path, config: Path) -> None:
    (data / METADATA / LOG).write_bytes(b"")
    found = rows(run, data, "--config", config)
    assert strays(found) == ["orders-0"]
    assert warnings(found) == [
        "__cluster_metadata-0 names no broker: so it is after a log was emptied; no other controller has what it"
        " lacks: partitions of topics that are not in it are set aside"
    ]


def test_metadata_are_cut_at_damage_and_the_rest_counts(run: Run, data: Path, config: Path) -> None:
    log = Log(data / METADATA, 8)
    topic = {"name": "new", "topicId": bytes(range(32, 48))}
    log.add(*metadata_pairs(("Topic", topic)))
    path = data / METADATA / LOG
    path.write_bytes(path.read_bytes() + bytes(log.data[:-1]) + b"\xff")
    found = rows(run, data, "--config", config)
    assert strays(found) == []
    assert warnings(found)[0].startswith("the cluster's metadata are cut at offset 8: __cluster_metadata-0/")


@pytest.mark.parametrize("voters", ["1@localhost:9093,2@localhost:9093", ""])
def test_others_may_have_what_is_missing(run: Run, data: Path, config: Path, voters: str) -> None:
    (data / METADATA / LOG).write_bytes(b"")
    config.write_text(f"node.id=1\ncontroller.quorum.voters={voters}\n")
    found = rows(run, data, "--config", config)
    assert strays(found) == []
    assert warnings(found)[0].endswith(
        "the node fetches what it lacks from the other controllers. If there are none (see --config), partitions set"
        " aside are not known"
    )


def test_damage_before_which_there_is_a_quorum_of_one(run: Run, data: Path) -> None:
    """The log itself says who votes: no settings are needed."""
    value = control.encode_value(
        batch.LEADER_CHANGE, 0, {"leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]}
    )
    key = struct.pack(">hh", 0, batch.LEADER_CHANGE)
    first = encode_batch([NewRecord(0, NOW, key, value)], NewBatch(CONTROL, leader_epoch=0))
    (data / METADATA / LOG).write_bytes(first + b"torn")
    assert strays(rows(run, data)) == ["orders-0"]


# --- bootstrap.checkpoint --------------------------------------------------------------------------------------------


def bootstrap(data: Path, *features: str) -> Path:
    """A bootstrap.checkpoint that sets features."""
    log = Log(data / "made")
    log.add(*metadata_pairs(*(("FeatureLevel", {"name": name, "featureLevel": 25}) for name in features)))
    shutil.rmtree(data / "made")
    path = data / names.BOOTSTRAP_CHECKPOINT
    path.write_bytes(log.data)
    return path


def test_a_bootstrap_checkpoint_is_read_at_every_start(run: Run, data: Path) -> None:
    bootstrap(data, "metadata.version")
    assert broker(rows(run, data))["isStartable"]
    assert run("verify", data / names.BOOTSTRAP_CHECKPOINT) == 1  # it has no header: no broker minds
    bootstrap(data, "kraft.version")
    found = broker(rows(run, data))
    assert not found["isStartable"]
    assert found["failures"][0]["message"] == (
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap"
        " metadata file: data/bootstrap.checkpoint"
    )
    assert run("verify", data, "--format", "jsonl") == 1
    finding = next(row for row in map(json.loads, run.out.splitlines()) if row.get("code") == "KD-KRAFT-SNAPSHOT")
    assert (finding["broker"], finding["path"]) == ("does not start", "data/bootstrap.checkpoint")
    assert run("doctor", data) == 1
    assert "Move it away: only a cluster that has never run needs it. Loses nothing." in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("damage", "exception"),
    [
        (lambda data: data[:40], "java.lang.RuntimeException"),  # an incomplete batch: there is no record
        (lambda data: data + bytes(20), "org.apache.kafka.common.errors.CorruptRecordException"),
        (lambda data: data[:57] + bytes(4) + data[61:], "java.lang.IllegalArgumentException"),  # its count is 0
        (lambda data: data[:61] + b"\x7e" + data[62:], "org.apache.kafka.common.InvalidRecordException"),
        (lambda data: data[:67] + b"\x7e" + data[68:], "java.lang.RuntimeException"),  # the value's frame
        (lambda data: data[:17] + b"\0\0\0\0" + data[21:], None),  # nobody asks for the CRC
        (lambda data: data + data[:30], None),  # an incomplete end is passed over
    ],
)  # fmt: skip
def test_damage_in_a_bootstrap_checkpoint(run: Run, data: Path, damage: Any, exception: str | None) -> None:
    path = bootstrap(data, "metadata.version")
    path.write_bytes(damage(path.read_bytes()))
    assert [failure["exception"] for failure in broker(rows(run, data))["failures"]] == [exception] * bool(exception)


def test_where_nobody_reads_it(run: Run, data: Path) -> None:
    """On another disk than that of the metadata."""
    shutil.rmtree(data / METADATA)
    bootstrap(data, "kraft.version")
    assert broker(rows(run, data))["isStartable"]
    run("verify", data)
    assert "KD-KRAFT-SNAPSHOT" not in run.out


# --- disks that are not mounted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("command", ["startup", "doctor"])
def test_a_disk_that_is_not_mounted(run: Run, data: Path, config: Path, command: str, is_there: bool) -> None:
    if is_there:
        Path("disk2").mkdir()
    config.write_text(f"node.id=1\nlog.dirs={data},disk2\n")
    assert run(command, data, "disk2", "--config", config) == 1, run.err
    text = " ".join(run.out.split())
    assert "The broker will NOT start" in text
    assert "No `meta.properties` found in disk2" in text
    if command == "doctor":
        assert "Mount its disk, and start then. Loses nothing." in text
    assert run(command, data, "--config", config) == 1  # not named, but the broker's all the same


def test_the_only_disk_is_not_mounted(run: Run, data: Path, config: Path) -> None:
    shutil.rmtree(data)
    assert run("doctor", data, "--config", config) == 1
    assert "The broker will NOT start" in run.out


def test_copies_in_another_place(run: Run, data: Path, config: Path) -> None:
    """The settings are those of a machine whose disks are not here."""
    config.write_text("node.id=1\nlog.dirs=/disk1,/disk2\n")
    assert run("startup", data, "--config", config) == 0
    assert run("startup", "missing", "--config", config) == 3


# --- the newest KRaft snapshot ---------------------------------------------------------------------------------------


@pytest.fixture
def snapshots(data: Path) -> Path:
    """The newest of two snapshots of the metadata; all of the log is there, too."""
    folder = data / METADATA
    pairs = metadata_pairs(
        ("RegisterBroker", {"brokerId": 1, "brokerEpoch": 11, "rack": None}),
        ("FeatureLevel", {"name": "metadata.version", "featureLevel": 25}),
        ("Topic", {"name": "orders", "topicId": ORDERS_ID}),
        ("Partition", {"topicId": ORDERS_ID, "partitionId": 0, "replicas": [1], "isr": [1], "leader": 1}),
    )
    snapshot_file(folder, 4, 0, pairs)
    return snapshot_file(folder, 8, 0, pairs)


def test_sound_snapshots_change_nothing(run: Run, data: Path, snapshots: Path, config: Path) -> None:
    assert snapshots.exists()
    found = rows(run, data, "--config", config)
    assert (strays(found), warnings(found), broker(found)["isStartable"]) == ([], [], True)
    assert run("doctor", data, "--config", config) == 0


@pytest.mark.parametrize(
    ("damage", "exception"),
    [
        (lambda data: b"", "java.util.NoSuchElementException"),
        (lambda data: data[83:], "java.lang.IllegalStateException"),  # no header
        (lambda data: data + bytes(100), "org.apache.kafka.common.errors.CorruptRecordException"),
        (lambda data: data + bytes(11) + b"\xff" + b"y" * 9, "org.apache.kafka.common.errors.CorruptRecordException"),
        (lambda data: data[:150] + b"~" + data[151:], "org.apache.kafka.common.errors.CorruptRecordException"),
    ],
)  # fmt: skip
def test_damage_in_the_newest_snapshot_ends_the_process(
    run: Run, data: Path, snapshots: Path, config: Path, damage: Any, exception: str
) -> None:
    """All commands say so, and the way out is the one that loses nothing: there is an older one."""
    snapshots.write_bytes(damage(snapshots.read_bytes()))
    found = broker(rows(run, data, "--config", config))
    assert [failure["exception"] for failure in found["failures"]] == [exception]
    assert not found["isStartable"]
    assert run("verify", data, "--format", "jsonl") == 1
    findings = [row for row in rows_in(run.out) if row.get("code") == "KD-KRAFT-SNAPSHOT"]
    assert {row["broker"] for row in findings} == {"does not start"}
    assert run("doctor", data, "--config", config) == 1
    text = " ".join(run.out.split())
    assert "The broker will NOT start" in text
    assert "Move it away before the start: the node takes an older snapshot, or the log alone. Loses nothing." in text
    snapshots.unlink()
    assert broker(rows(run, data, "--config", config))["isStartable"]


@pytest.mark.parametrize("left", [83, 200, -10])
def test_a_newest_snapshot_that_ends_early_is_taken_for_whole(
    run: Run, data: Path, snapshots: Path, config: Path, left: int
) -> None:
    """4.3.1 starts, serves, and renames the directories of all topics that are behind the end to -stray."""
    snapshots.write_bytes(snapshots.read_bytes()[:left])
    found = rows(run, data, "--config", config)
    assert broker(found)["isStartable"]
    assert strays(found) == (["orders-0"] if left > 0 else [])
    assert warnings(found)[0].startswith("the newest snapshot of the cluster's metadata ends early: ")
    run("verify", data, "--format", "jsonl")
    findings = [row for row in rows_in(run.out) if row.get("code") == "KD-KRAFT-SNAPSHOT"]
    assert {row["broker"] for row in findings} == {"serves wrong data silently"}
    assert run("doctor", data, "--config", config) == 1
    assert "Move it away before the start" in " ".join(run.out.split())


def test_what_follows_the_footer_is_skipped(run: Run, data: Path, snapshots: Path, config: Path) -> None:
    snapshots.write_bytes(snapshots.read_bytes() + b"x")
    found = rows(run, data, "--config", config)
    assert (strays(found), broker(found)["isStartable"]) == ([], True)
    assert warnings(found)[0].endswith("; the node passes over it")


def test_an_older_snapshot_is_read_by_nobody(run: Run, data: Path, snapshots: Path) -> None:
    older = snapshots.with_name("00000000000000000004-0000000000.checkpoint")
    older.write_bytes(b"")
    assert broker(rows(run, data))["isStartable"]
    run("verify", data, "--format", "jsonl")
    findings = [row for row in rows_in(run.out) if row.get("code") == "KD-KRAFT-SNAPSHOT"]
    assert {(row["broker"], row["path"]) for row in findings} == {("ignores", str(older))}


def test_without_another_way_to_the_state_the_snapshot_is_not_moved_away(run: Run, data: Path, snapshots: Path) -> None:
    """A node whose log begins behind 0 does not start without a snapshot."""
    (data / METADATA / LOG).unlink()
    snapshots.with_name("00000000000000000004-0000000000.checkpoint").unlink()
    Log(data / METADATA, 8).add(*metadata_pairs(("NoOp", {}))).write()
    snapshots.write_bytes(snapshots.read_bytes()[:83])
    run("doctor", data)
    text = " ".join(run.out.split())
    assert "If other controllers run, move __cluster_metadata-0 away: the node fetches it again" in text
    assert "Move it away" not in text


def test_a_log_whose_snapshot_is_lost(run: Run, data: Path, snapshots: Path, config: Path) -> None:
    """4.3.1 ends: the records before its first segment are in no file. All commands say so, however it stopped."""
    older = snapshots.with_name("00000000000000000004-0000000000.checkpoint")
    (data / METADATA / LOG).unlink()
    Log(data / METADATA, 8).add(*metadata_pairs(("NoOp", {}))).write()
    assert run("verify", data) == 0, run.out
    snapshots.unlink()
    older.unlink()
    for _ in range(2):
        found = broker(rows(run, data, "--config", config))
        assert [failure["exception"] for failure in found["failures"]] == ["java.lang.IllegalStateException"]
        assert run("verify", data, "--format", "jsonl") == 1
        finding = next(row for row in rows_in(run.out) if row.get("code") == "KD-KRAFT-SNAPSHOT")
        assert finding["message"] == "there is no snapshot of the records before offset 8"
        assert finding["broker"] == "does not start"
        assert run("doctor", data, "--config", config) == 1
        assert "If other controllers run, move __cluster_metadata-0 away" in " ".join(run.out.split())
        (data / names.CLEAN_SHUTDOWN).write_bytes(b"")


@pytest.mark.parametrize(("roles", "starts"), [("broker,controller", False), ("controller", False), ("broker", True)])
def test_metadata_that_contradict_themselves_end_a_controller(
    run: Run, data: Path, config: Path, roles: str, starts: bool
) -> None:
    """A broker alone stays up, and never serves."""
    config.write_text(f"node.id=1\nprocess.roles={roles}\n")
    unknown = {"topicId": bytes(range(32, 48)), "partitionId": 0, "replicas": [1], "isr": [1], "leader": 1}
    Log(data / METADATA, 8).add(*metadata_pairs(("Partition", unknown))).write()
    assert broker(rows(run, data, "--config", config))["isStartable"] == starts
