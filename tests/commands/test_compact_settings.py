"""`kdump compact`: settings of some topics alone or from the cluster's metadata, and several passes into a copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.change.checks import SPARE_BYTES
from kdump.formats import names
from kdump.formats.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE
from kdump.settings.cleaning import CleaningSettings
from tests.change.kept import change_files
from tests.clean.building import checkpoint_of, contents, files_of, name
from tests.commands.running import Run
from tests.commands.test_compact import AT, SEGMENTS, A, B, config, partition
from tests.topics.building import Log, metadata_pairs

__all__ = ["config", "partition"]


@pytest.fixture
def data(partition: Path) -> Path:
    """The log directory, with a second topic in it."""
    shutil.copytree(partition, partition.with_name("orders-0"))
    return partition.parent


def verdicts(run: Run) -> dict[str, Any]:
    """What is said of each topic: the ratio above which it is cleaned, or why it is passed over."""
    found = {}
    for row in run.rows:
        topic = Path(row["path"]).name.removesuffix("-0")
        found[topic] = row["minCleanableRatio"] if row["type"] == "partition" else row["why"]
    return found


def test_settings_of_some_topics_alone(run: Run, data: Path, tmp_path: Path, config: Path) -> None:
    unknown = "not known to be compacted: give --config with cleanup.policy, or name its directory"
    server = tmp_path / "server.properties"
    server.write_text("log.cleaner.min.cleanable.ratio=0.4\n")
    for settings, expected in (
        ([f"users={config}"], {"users": 0.1, "orders": unknown}),
        ([f"us*={config}", str(server)], {"users": 0.1, "orders": unknown}),
        ([str(config)], {"users": 0.1, "orders": 0.1}),
    ):
        options = [option for text in settings for option in ("--config", text)]
        assert run("compact", data, AT, "--format=jsonl", *options) == 1
        assert verdicts(run) == expected
    server.write_text("log.cleaner.min.cleanable.ratio=0.4\nlog.cleanup.policy=compact\n")
    options = ["--config", str(server), "--config", f"users={config}", "--format=jsonl"]
    assert run("compact", data, AT, *options) == 1
    assert verdicts(run) == {"users": 0.1, "orders": 0.4}
    assert run("compact", data, AT, *options, "--min-cleanable-ratio=0.3") == 1
    assert verdicts(run) == {"users": 0.3, "orders": 0.3}


def test_a_file_of_one_topic_is_looked_at_even_if_no_partition_is_its(run: Run, data: Path, config: Path) -> None:
    config.write_text("delete.retention.ms=never\n")
    assert run("compact", data, "--config", f"nobody={config}") == 2
    assert "delete.retention.ms is 'never'" in run.err
    assert run("compact", data, "--config", "users=/nowhere") == 2
    assert "/nowhere: No such file" in run.err


def test_settings_from_the_metadata_log_beside(run: Run, data: Path, config: Path) -> None:
    def setting(kind: int, resource: str, name: str, value: str) -> tuple[str, dict[str, Any]]:
        return "Config", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}

    records = metadata_pairs(
        setting(TOPIC_RESOURCE, "orders", "cleanup.policy", "compact,delete"),
        setting(TOPIC_RESOURCE, "users", "cleanup.policy", "delete"),
        setting(BROKER_RESOURCE, "", "log.cleaner.min.cleanable.ratio", "0.2"),
    )
    Log(data / names.CLUSTER_METADATA_DIR).add(*records).write()
    assert run("compact", data, AT, "--format=jsonl") == 1
    assert verdicts(run) == {"users": "cleanup.policy is delete: the cleaner leaves it alone", "orders": 0.2}
    assert run("compact", data, AT, "--format=jsonl", "--config", f"users={config}") == 1
    assert verdicts(run) == {"users": 0.1, "orders": 0.2}
    log = data / names.CLUSTER_METADATA_DIR / name(0, "log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert run("compact", data, AT, "--format=jsonl") == 0
    assert "settings of topics in it do not count" in run.err


def test_several_passes_into_a_copy(run: Run, partition: Path, config: Path, tmp_path: Path) -> None:
    before = files_of(partition), files_of(partition.parent)
    config.write_text("log.cleaner.dedupe.buffer.size=24\nlog.cleaner.io.buffer.load.factor=1.0\nsegment.bytes=14\n")
    settings = (AT, "--config", config, "--min-cleanable-ratio=0", "--format=jsonl")
    copies = {}
    for passes in (1, 2, 9):
        out = tmp_path / f"out-{passes}"
        assert run("compact", partition, *settings, "--output", out, f"--passes={passes}") == 0
        assert [row["output"] for row in run.rows] == [str(out / "users-0")] * len(run.rows)
        assert all(row["isDone"] and row["change"] is None for row in run.rows)
        copies[passes] = len(run.rows), checkpoint_of(out / "users-0")
        assert run.rows[-1]["cleaning"]["endOffset"] == copies[passes][1]
        assert run.rows[-1]["cleaning"]["isMapFull"] == (passes < 9)
    assert copies[1] == (1, 1)
    assert copies[2][0] == 2
    assert copies[9][1] == 20
    assert contents(tmp_path / "out-9" / "users-0") == [
        (2, A, b"2"), (10, B, None), (11, b"c", b"1"), (20, A, b"3")
    ]  # fmt: skip
    assert (files_of(partition), files_of(partition.parent)) == before
    # the same as in place
    assert run("compact", partition, *settings, "--apply", "--no-backup", "--passes=9") == 0
    out = tmp_path / "out-9" / "users-0"
    assert files_of(out) == files_of(partition)
    assert change_files(out) == []
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        path.name for path in partition.parent.iterdir() if path.name != names.LOCK
    )


def test_the_lock_is_held_while_something_is_changed(
    run: Run, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    keys_of = vars(CleaningSettings)["map_keys"].fget

    def noted(settings: CleaningSettings) -> int:
        seen.append((partition.parent / names.LOCK).exists())
        keys: int = keys_of(settings)
        return keys

    monkeypatch.setattr(CleaningSettings, "map_keys", property(noted))
    assert run("compact", partition, AT) == 1
    assert not any(seen)
    seen.clear()
    assert run("compact", partition, AT, "--apply") == 0
    assert any(seen)
    assert not (partition.parent / names.LOCK).exists()


def test_segments_are_as_before_the_copy(run: Run, partition: Path, tmp_path: Path) -> None:
    """A copy that is not due has the same files."""
    out = tmp_path / "out"
    assert run("compact", partition, AT, "--output", out, "--passes=3", "--min-cleanable-ratio=1") == 0
    assert files_of(out / "users-0") == files_of(partition)
    assert len(SEGMENTS) == len(list((out / "users-0").glob("*.log")))


def test_damage_is_an_error_beside_what_else_is_known(run: Run, partition: Path) -> None:
    log = partition / name(0, "log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert run("compact", partition, AT, "--format=jsonl") == 3
    (row,) = run.rows
    assert (row["isDue"], row["isDone"], row["cleaning"], row["dirtyRatio"]) == (True, False, None, 1.0)
    assert row["error"] in run.err
    assert "fails its CRC" in row["error"]


@pytest.mark.parametrize("how", ["--apply", "--output"])
def test_where_there_is_little_room_it_counts_how_much_is_needed(
    run: Run, partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    where = [how] if how == "--apply" else [how, tmp_path / "out"]
    assert run("compact", partition, AT, "--format=jsonl") == 1
    (row,) = run.rows
    result = row["cleaning"]["after"]["bytes"]
    result += row["bytes"] - row["cleaning"]["before"]["bytes"] if how == "--output" else 0
    before = files_of(partition)
    for missing in (1, 0):
        free = SPARE_BYTES + result - missing
        usage = shutil.disk_usage(tmp_path)._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        assert run("compact", partition, AT, *where) == (4 if missing else 0)
        if missing:
            assert f"{free + 1} bytes of space are needed here, and {free} are free" in run.err
            assert files_of(partition) == before


def test_how_many_keys_fit_is_said(run: Run, partition: Path, config: Path) -> None:
    assert run("compact", partition, AT) == 1
    assert "3 different keys in the dirty part, of 5,033,164 that fit into the offset map" in run.out
    config.write_text("log.cleaner.dedupe.buffer.size=240\n")
    assert run("compact", partition, AT, "--config", config, "--format=jsonl") == 1
    assert (run.rows[0]["cleaning"]["keys"], run.rows[0]["cleaning"]["mapCapacity"]) == (3, 9)
    assert run("compact", partition, AT, "--compare-keys", "--format=jsonl") == 1
    assert run.rows[0]["cleaning"]["mapCapacity"] is None
