"""`kdump quorum`: copies of the metadata log compared, and other voters for a quorum that lost its majority."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.kraft_snapshot import Voter
from kdump.storage.partition import PartitionLog
from kdump.topics.metadata_log import MetadataState, state_of_directory
from tests.cluster.building import Disk, directory_id, image_of, paths, topic_id
from tests.cluster.test_resurrect import flip, refusals
from tests.commands.conftest import run as run
from tests.commands.running import Run
from tests.test_read_only import listing
from tests.topics.building import unexpected

VOTERS = [Voter(node, directory_id(node), "CONTROLLER", f"kafka{node}", 9093) for node in (1, 2, 3)]
ALONE = ("--voters", "1@new1:9093", "--others-are-gone")


@pytest.fixture
def disks(tmp_path: Path) -> list[Disk]:
    """Three voters, the third of which is behind, and a broker that has as much as the first two."""
    made = [Disk(tmp_path / f"n{node}", node, node) for node in (1, 2, 3, 4)]
    image = image_of({"orders": [[4]]})
    for disk, more in zip(made, (2, 2, 0, 2), strict=True):
        disk.metadata(image, voters=VOTERS, more=more)
        state = f'{{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"{"A" * 22}","data_version":1}}'
        (disk.path / names.CLUSTER_METADATA_DIR / names.QUORUM_STATE).write_text(state)
    return made


def state(disk: Disk) -> MetadataState:
    log = PartitionLog(str(disk.path / names.CLUSTER_METADATA_DIR))
    return state_of_directory(log, unexpected)


def test_every_copy_is_shown(run: Run, disks: list[Disk], tmp_path: Path) -> None:
    before = listing(tmp_path)
    assert run("quorum", *paths(disks), "--format", "jsonl") == 0
    (quorum,) = run.of_type("quorum")
    end = state(disks[0]).end_offset
    assert (quorum["kraftVersion"], quorum["voters"], quorum["committedOffset"]) == (1, [1, 2, 3], end)
    copies = {row["nodeId"]: row for row in run.of_type("copy")}
    assert {node: row["isVoter"] for node, row in copies.items()} == {1: True, 2: True, 3: True, 4: False}
    assert {node: row["logEndOffset"] for node, row in copies.items()} == {1: end, 2: end, 3: end - 2, 4: end}
    assert {row["leaderEpoch"] for row in copies.values()} == {3}
    assert listing(tmp_path) == before
    assert run("quorum", "show", *paths(disks)) == 0
    assert "topic late-0: created: brokers would set its directories aside as stray" in run.out


@pytest.mark.parametrize(
    ("given", "chances"),
    [((0, 1, 2), {1: True, 2: True, 3: False}), ((0, 2), {1: True, 3: False}), ((2,), {3: False})],
)
def test_who_could_win(run: Run, disks: list[Disk], given: tuple[int, ...], chances: dict[int, bool]) -> None:
    assert run("quorum", *paths(disks[each] for each in given), "--format", "jsonl") == 0
    assert {row["voter"]: row["isElectable"] for row in run.of_type("election")} == chances


def test_the_only_voter(run: Run, disks: list[Disk], tmp_path: Path) -> None:
    given = [disks[0], disks[3]]
    before = state(disks[0])
    unchanged = listing(tmp_path)
    assert run("quorum", "set-voters", *paths(given), *ALONE) == 1
    assert listing(tmp_path) == unchanged
    assert run("quorum", "set-voters", *paths(given), *ALONE, "--apply", "--format", "jsonl") == 0, run.err
    change = run.of_type("summary")[0]["change"]
    found = state(disks[0])
    assert (found.end_offset, found.epoch) == (before.end_offset + 1, 4)
    assert found.voters == [Voter(1, directory_id(1), "CONTROLLER", "new1", 9093).fields()]
    assert found.image == before.image
    assert run("undo", disks[0].path, "--change", change, "--apply") == 0, run.err
    again = listing(tmp_path)
    log = f"n1/{names.CLUSTER_METADATA_DIR}/{0:020d}.log"
    assert again[log].content == unchanged[log].content


def test_the_epoch_is_above_all_that_was_seen(run: Run, disks: list[Disk]) -> None:
    quorum_state = disks[3].path / names.CLUSTER_METADATA_DIR / names.QUORUM_STATE
    quorum_state.write_text(quorum_state.read_text().replace('"leaderEpoch":3', '"leaderEpoch":11'))
    assert run("quorum", "set-voters", *paths([disks[0], disks[3]]), *ALONE, "--apply") == 0, run.out
    assert state(disks[0]).epoch == 12


@pytest.mark.parametrize("applies", [["--apply"], []])
def test_voters_that_are_these_already(run: Run, disks: list[Disk], tmp_path: Path, applies: list[str]) -> None:
    given = paths([disks[0], disks[3]])
    assert run("quorum", "set-voters", *given, *ALONE, "--apply") == 0, run.out
    before = listing(tmp_path)
    assert run("quorum", "set-voters", *given, *ALONE, *applies) == 0, run.out
    assert "The voters are 1@new1:9093 already: no record is needed." in run.out
    assert "Undo:" not in run.out
    assert listing(tmp_path) == before
    assert run("quorum", "set-voters", *given, "--voters", "1@new1:9094", "--others-are-gone") == 1
    assert "VotersRecord at offset" in run.out


@pytest.mark.parametrize("tail", [bytes(200), b"\0\0\0\0\0\0\0\7\0\0\1\0half a batch"])
def test_an_incomplete_batch_at_the_end_is_cut(run: Run, disks: list[Disk], tail: bytes) -> None:
    log = disks[0].path / names.CLUSTER_METADATA_DIR / f"{0:020d}.log"
    assert run("quorum", "set-voters", disks[0].path, *ALONE, "--apply") == 0
    size = log.stat().st_size
    assert run("undo", disks[0].path, "--change", _change(run), "--apply") == 0
    log.write_bytes(log.read_bytes() + tail)
    assert run("quorum", "set-voters", disks[0].path, *ALONE, "--apply") == 0, run.out
    assert (state(disks[0]).epoch, log.stat().st_size) == (4, size)


def _change(run: Run) -> str:
    return run.out.split("--change ")[1].split()[0]


@pytest.mark.parametrize("is_repeated", [False, True])
def test_several_voters_with_new_addresses(run: Run, disks: list[Disk], is_repeated: bool) -> None:
    disks[2].path.joinpath(names.CLUSTER_METADATA_DIR, f"{0:020d}.log").write_bytes(
        disks[0].path.joinpath(names.CLUSTER_METADATA_DIR, f"{0:020d}.log").read_bytes()
    )
    voters = [f"{node}@new{node}:9093" for node in (1, 2, 3)]
    given = voters if is_repeated else [",".join(voters)]
    options = [part for each in given for part in ("--voters", each)]
    assert run("quorum", "set-voters", *paths(disks), *options, "--apply") == 0, run.out
    logs = {disk.path.joinpath(names.CLUSTER_METADATA_DIR, f"{0:020d}.log").read_bytes() for disk in disks[:3]}
    assert len(logs) == 1
    assert [voter["voterId"] for voter in state(disks[1]).voters] == [1, 2, 3]


# --- refusals ---


def test_the_wrong_survivor_is_refused(run: Run, disks: list[Disk]) -> None:
    given = ("--voters", "3@new3:9093", "--others-are-gone")
    assert run("quorum", "set-voters", *paths([disks[2], disks[3]]), *given, "--apply", "--format", "jsonl") == 4
    assert f"{disks[3].path}/__cluster_metadata-0 has more" in refusals(run)
    assert [row["name"] for row in run.of_type("difference")] == ["late-0", "late-1"]
    assert run("quorum", "set-voters", *paths([disks[2], disks[3]]), *given, "--accept-loss", "--apply") == 0
    assert topic_id("late-0") not in state(disks[2]).image.topics


def test_a_voter_is_named_once(run: Run, disks: list[Disk]) -> None:
    assert run("quorum", "set-voters", *paths(disks), "--voters", "1@a:1,2@b:1", "--voters", "1@c:1") == 2


def test_voters_that_may_live_are_refused(run: Run, disks: list[Disk]) -> None:
    assert run("quorum", "set-voters", disks[0].path, "--voters", "1@a:1", "--format", "jsonl") == 4
    assert "--others-are-gone" in refusals(run)


def test_a_static_quorum_is_in_server_properties(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "n1", 1, 1)
    disk.metadata(image_of({}))
    assert run("quorum", "set-voters", disk.path, *ALONE, "--format", "jsonl") == 4
    assert "controller.quorum.voters=1@new1:9093" in refusals(run)
    given = ("--voters", "1@[::1]:9093", "--others-are-gone", "--format", "jsonl")
    assert run("quorum", "set-voters", disk.path, *given) == 4
    assert "controller.quorum.voters=1@[::1]:9093 in server.properties" in refusals(run)


def test_a_directory_without_an_id_is_refused(run: Run, disks: list[Disk]) -> None:
    meta = disks[0].path / names.META_PROPERTIES
    meta.write_text("".join(line for line in meta.read_text().splitlines(True) if "directory.id" not in line))
    assert run("quorum", "set-voters", disks[0].path, *ALONE, "--format", "jsonl") == 4
    assert "no directory.id" in refusals(run)


def test_a_damaged_copy_is_refused(run: Run, disks: list[Disk]) -> None:
    flip(disks[0].path / names.CLUSTER_METADATA_DIR / f"{0:020d}.log", 400)
    assert run("quorum", "set-voters", disks[0].path, *ALONE, "--format", "jsonl") == 4
    assert "damaged" in refusals(run)
    assert run("quorum", disks[0].path) == 1


def test_a_voter_without_a_copy_is_refused(run: Run, disks: list[Disk]) -> None:
    assert run("quorum", "set-voters", disks[0].path, "--voters", "9@a:1", "--format", "jsonl") == 4
    assert "there is no copy of its metadata log" in refusals(run)


def test_voters_whose_copies_differ_are_refused(run: Run, disks: list[Disk]) -> None:
    voters = ("--voters", "1@a:1,3@c:1")
    assert run("quorum", "set-voters", *paths(disks), *voters, "--format", "jsonl") == 4
    assert "name one voter, 1" in refusals(run)


def test_wrong_command_lines(run: Run, tmp_path: Path) -> None:
    assert run("quorum") == 2
    assert run("quorum", "set-voters", tmp_path) == 2
    for voters in ("1", "1@", "1@host", "x@host:1", "1@host:0", "1@host:99999", "1@host:1,"):
        assert run("quorum", "set-voters", tmp_path, "--voters", voters) == 2
    assert run("quorum", tmp_path) == 3
    assert run("quorum", tmp_path / "nowhere") == 3
