"""Output grows with what is wrong, not with partitions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kdump.commands.cli import COMMANDS
from kdump.commands.shell.line_budget import MAX_LINES
from kdump.commands.shell.output import MAX_COMPLAINTS
from tests.agreement.running import kdump
from tests.sampling import sampled

PARTITIONS = 100
SPEC = """
seed: many
clock: 2026-11-20T02:10:00Z
shutdown: {shutdown}
topics:
  - name: orders
    partitions: {partitions}
    config: {{segment.index.bytes: 4096}}
    steps:
      - append: {{records: 4, batch_records: 2, value: {{shape: text, size: 20}}}}
faults:
"""
FAULT = "  - {{fault: {fault}, topic: orders, partition: {number}}}\n"
FOUR = {17: "flip-payload-bit", 42: "truncate-tail", 92: "truncate-tail", 7: "timeindex-missing"}
OF_A_KILLED_BROKER = (
    "flip-payload-bit", "truncate-tail", "timeindex-missing", "epoch-checkpoint-garbage", "wrong-size"
)  # fmt: skip
OF_A_STOPPED_BROKER = ("future-timestamp", "hanging-transaction", "partition-metadata-garbage", "index-missing")
LISTS = {"ls": (), "lookup": ("--offset", "2")}
"""Commands that list partitions, with what they are asked."""
RECORDS = {"dump", "append", "roll", "export", "serve"}
"""Commands that print records, or write them: as many as there are."""
OTHER_THINGS = {"fixture", "explain", "help", "completion"}
"""Commands that are not about partitions."""
NOT_HERE = {"groups", "metadata", "schemas", "quorum", "resurrect"}
"""Commands that want what this directory does not have: they say so in a line."""
SUMMING_UP = sorted({*COMMANDS} - RECORDS - OTHER_THINGS - NOT_HERE)
DIRECTORIES = ("data", "killed", "stopped")
"""One with four problems, and two in which every partition has one."""


def build(folder: Path, name: str, shutdown: str, faults: dict[int, str]) -> None:
    text = SPEC.format(shutdown=shutdown, partitions=PARTITIONS)
    text += "".join(FAULT.format(fault=fault, number=number) for number, fault in faults.items())
    (folder / f"{name}.yaml").write_text(text)
    assert kdump(folder, "fixture", "build", f"{name}.yaml", name).code == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    build(folder, "data", "killed", FOUR)
    for name, shutdown, faults in (
        ("killed", "killed", OF_A_KILLED_BROKER),
        ("stopped", "clean", OF_A_STOPPED_BROKER),
    ):
        build(folder, name, shutdown, {number: faults[number % len(faults)] for number in range(PARTITIONS)})
    return folder


@pytest.mark.parametrize("directory", sampled(DIRECTORIES, 1))
@pytest.mark.parametrize("command", SUMMING_UP)
def test_no_command_prints_more_than_a_screen_or_two(command: str, directory: str, home: Path) -> None:
    said = kdump(home, command, directory, *LISTS.get(command, ()))
    assert said.out
    assert len(said.out.splitlines()) <= 60
    assert len(said.err.splitlines()) <= 1 + (6 if directory == "data" else MAX_COMPLAINTS)


@pytest.mark.parametrize("strategy", ["salvage", "truncate"])
@pytest.mark.parametrize("directory", sampled(DIRECTORIES, 2))
def test_no_plan_takes_more_than_a_screen_or_two(strategy: str, directory: str, home: Path) -> None:
    said = kdump(home, "repair", directory, "--strategy", strategy)
    assert said.out
    assert len(said.out.splitlines()) <= 60


CLUSTER = """
seed: cluster
kafka: "4.3"
clock: 2026-11-20T02:10:00Z
topics:
{topics}
cluster:
  groups:
{groups}
"""
TOPIC = "  - {{name: t{}, partitions: 4, config: {{segment.index.bytes: 4096}}, steps: [append: {{records: 2}}]}}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node with many topics and groups; of some the commits are above the log's end."""
    folder = tmp_path_factory.mktemp("cluster")
    topics = "\n".join(TOPIC.format(number) for number in range(60))
    commits = (", ".join(f"t{number}-{each}: {1 + number % 3}" for each in range(4)) for number in range(60))
    groups = "\n".join(f"    group-{number}: {{{each}}}" for number, each in enumerate(commits))
    every = ", ".join(f"t{number}-0: 1" for number in range(60))
    text = CLUSTER.format(topics=topics, groups=f"{groups}\n    all: {{{every}}}")
    (folder / "spec.yaml").write_text(text)
    assert kdump(folder, "fixture", "build", "spec.yaml", "data").code == 0
    return folder


@pytest.mark.parametrize(
    "arguments",
    [("groups", "data"), ("groups", "data", "--group", "all"), ("metadata", "data"), ("quorum", "data"),
     ("resurrect", "data", "--into", "new")],
)  # fmt: skip
def test_a_cluster_with_many_topics_and_groups(arguments: tuple[str, ...], cluster: Path) -> None:
    said = kdump(cluster, *arguments)
    assert said.out
    assert len(said.out.splitlines()) <= 60
    assert len(said.err.splitlines()) <= 1


def test_groups_that_need_somebody_come_first(cluster: Path) -> None:
    out = kdump(cluster, "groups", "data").out
    assert "above the log end offset" in out.split("\n\n")[0]
    assert re.search(r"^\d+ more groups: -v lists all, --group some\.$", out, re.MULTILINE)
    every = kdump(cluster, "groups", "data", "-v").out
    assert sum(f"group-{number}: " in every for number in range(60)) == 60
    one = kdump(cluster, "groups", "data", "--group", "all").out
    assert "24 more partitions: -v lists all." in one


CHANGING = (
    ("rebuild-index", "data", "--apply"),
    ("trim", "data", "--apply"),
    ("repair", "data", "--apply"),
    ("undo", "data"),
    ("undo", "data", "--change", "ID"),
    ("undo", "data", "--prune"),
    ("undo", "data", "--change", "ID", "--apply"),
    ("retain", "data", "--retention-ms", "0", "--now", "2027-01-01T00:00:00Z"),
    ("retain", "data", "--retention-ms", "0", "--now", "2027-01-01T00:00:00Z", "--apply"),
    ("undo", "data", "--prune", "--apply"),
)


@pytest.mark.parametrize("directory", ["killed", "stopped"])
def test_what_is_applied_takes_no_more_than_a_screen_or_two(directory: str, home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / directory, tmp_path / "data")
    change = ""
    for arguments in CHANGING:
        said = kdump(tmp_path, *(change if each == "ID" else each for each in arguments))
        assert said.code in (0, 1, 3, 4), said.err
        assert len(said.out.splitlines()) <= 60, arguments
        assert len(said.err.splitlines()) <= 1 + MAX_COMPLAINTS, arguments
        if arguments[0] == "repair":
            change = re.findall(r"--change (\S+)", said.out)[-1]


@pytest.mark.parametrize("command", LISTS)
def test_a_list_says_how_many_it_leaves_out(command: str, home: Path) -> None:
    said = kdump(home, command, "data", *LISTS[command])
    assert f"{PARTITIONS - MAX_LINES} more partitions: -v lists all, --topic some.\n" in said.out
    assert said.err == f"kdump: note: {PARTITIONS - MAX_LINES} partitions not listed: -v lists all.\n"
    said = kdump(home, command, "data", *LISTS[command], "-v")
    assert PARTITIONS <= len(said.out.splitlines()) <= PARTITIONS + 20
    assert said.err == ""


def test_a_list_has_what_is_damaged(home: Path) -> None:
    rows = kdump(home, "ls", "data").out.splitlines()
    assert [row.split()[0] for row in rows if "  !  " in row] == ["orders-17", "orders-42", "orders-92"]


@pytest.mark.parametrize("command", sorted(NOT_HERE))
def test_what_is_not_here_is_said_in_a_line(command: str, home: Path) -> None:
    said = kdump(home, command, "data")
    assert said.code in (2, 3)
    assert (said.out, len(said.err.splitlines())) in (("", 1), ("", 2))


def test_a_log_directory_without_partitions(home: Path) -> None:
    (home / "fresh").mkdir()
    (home / "fresh" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (home / "fresh" / "orders-0").mkdir()
    commands = ("ls", "stats", "verify", "dump", "doctor", "startup", "retain", "repair")
    assert [each for each in commands if kdump(home, each, "fresh/orders-0").code] == []
    (home / "fresh" / "orders-0").rmdir()
    assert [each for each in commands if kdump(home, each, "fresh").code] == []
    assert kdump(home, "startup", "fresh").out.endswith("\nThe broker will start.\n")


def test_what_is_not_routine_is_shown(home: Path) -> None:
    for command in ("repair", "doctor"):
        said = kdump(home, command, "data").out
        assert [name for name in ("orders-17", "orders-42", "orders-92") if name not in said] == []
    assert kdump(home, "repair", "data", "--format", "jsonl").out.count('"type":"partition"') == PARTITIONS
