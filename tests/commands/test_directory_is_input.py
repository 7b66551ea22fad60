"""A directory is input: whatever its owner puts in the place of a name, no command changes anything outside of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kdump.change.states import FileState, PartitionState, offsets_of
from kdump.commands.cli import cli
from kdump.commands.shell import exit_codes
from kdump.commands.shell.screen import begin_screen
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.mend.task import Strategy
from kdump.operations.undo import list_changes
from tests.campaigns import scenarios
from tests.campaigns.fail_nth import CHANGING
from tests.campaigns.scenarios import PARTITION, Scenario, same_every_time
from tests.commands.running import Run

OWNER = 65534
"""Whose directory root changes, where the tests run as root."""
ROOT = os.geteuid() == 0
WRITES_AT_ONCE = {"append", "roll"}
"""The commands that change a log directory without --apply."""
OTHERS = {
    *("ls", "dump", "lookup", "stats", "groups", "txns", "metadata", "schemas", "doctor", "explain", "verify"),
    *("startup", "replicas", "quorum show", "serve", "help", "completion"),
    *("export", "fixture build", "fixture faults", "fixture schema"),
}
"""Those that never do: they read, or write into new directories and files that they are told."""
MORE = {
    "undo, closing": ("undo", "{root}", "--close", "--apply"),
    "undo, pruning": ("undo", "{root}", "--prune", "--older-than", "0", "--apply"),
    **{
        f"repair {strategy}": (
            *("repair", "{root}", "--strategy", str(strategy), "--accept-loss", "all", "--only-copy", "--apply"),
        )
        for strategy in Strategy
    },
}
"""Command lines that the campaigns do not have, on a directory with damage and leftovers."""
STEP = 5
"""Of how many names one is tried with one kind of thing; the slow tests try every third one."""
KINDS = ("link to a file", "link to a directory", "link to nowhere", "pipe", "device")
RUNS = [*(each.name for each in CHANGING), *MORE]


def _commands(group: click.Group, ctx: click.Context, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, ctx, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def test_every_command_that_changes_a_directory_is_tried() -> None:
    commands = dict(_commands(cli, click.Context(cli)))
    applies = {
        name for name, command in commands.items() if any("--apply" in parameter.opts for parameter in command.params)
    }
    lines = [*(scenarios.COMMANDS[each.command].arguments for each in CHANGING), *MORE.values()]
    tried = {name for name in applies | WRITES_AT_ONCE for line in lines if " ".join(line).startswith(f"{name} ")}
    assert tried == applies | WRITES_AT_ONCE
    assert commands.keys() - tried == OTHERS


class Situation:
    """A directory that a command changes, and one beside it in which nothing may change."""

    def __init__(self, run: str, folder: Path) -> None:
        self.folder = folder
        salvage = Scenario("salvage", "damage and leftovers")
        self.scenario = next((scenario for scenario in CHANGING if scenario.name == run), salvage)
        self.more = MORE.get(run)
        self.change = ""
        self.number = count()
        if self.more is None or self.more[0] != "undo":
            self.change = scenarios.start(self.scenario, folder / "start")
        else:
            scenarios.start(Scenario("undo", "damage and leftovers"), folder / "start")

    def begin(self) -> tuple[Path, Path]:
        """A copy of the directory, with the owner of one that is not our own, and an empty one beside it."""
        root = self.folder / f"{next(self.number)}" / "data"
        shutil.copytree(self.folder / "start", root, symlinks=True)
        lines = self.folder / "start.lines"
        if lines.exists():
            shutil.copy(lines, f"{root}.lines")
        outside = root.with_name("outside")
        outside.mkdir()
        return root, outside

    def names(self) -> list[str]:
        """The names below the directory at which a command looks, or which it makes: before it ran, and after that."""
        root, _ = self.begin()
        found = set(below(root))
        self.run(root)
        found |= set(below(root))
        for log_dir in scenarios.places(root):
            for name in (names.LOCK, names.CLEAN_SHUTDOWN, *names.OFFSET_CHECKPOINTS):
                found |= {os.path.relpath(log_dir / f"{name}{end}", root) for end in ("", ".tmp", ".kdump")}
        journals = {name for name in found if name.endswith("+journal")}
        found |= {name.removesuffix("journal") + role for name in journals for role in ("staging", "part", "elsewhere")}
        found |= {f"{name}.tmp" for name in found if name.endswith((names.LEADER_EPOCH_CHECKPOINT, ".snapshot"))}
        return sorted(found)

    def run(self, root: Path) -> tuple[int, str]:
        """Exit code and output."""
        line = self.more or self.scenario.arguments(root, self.change)
        begin_screen()
        with same_every_time():
            result = CliRunner().invoke(cli, [each.format(root=root) for each in line], standalone_mode=False)
        error = result.exception
        if error is None:
            return result.return_value or 0, result.output
        if isinstance(error, SystemExit):
            return result.exit_code, result.output
        assert isinstance(error, (KdumpError, OSError, click.ClickException)), repr(error)
        return exit_codes.INCOMPLETE, f"{result.output}{error}"


def below(root: Path) -> list[str]:
    """The relative paths of everything below a directory."""
    return [os.path.relpath(Path(at, name), root) for at, dirs, files in os.walk(root) for name in (*dirs, *files)]


def plant(kind: str, path: Path, outside: Path) -> None:
    """Put something in the place of a name that leads outside, or never ends: there is what was inside before."""
    target = outside / ("folder" if kind == "link to a directory" else "file")
    if path.is_dir():
        target = outside / "folder"
        shutil.move(path, target)
    elif path.exists() and kind == "link to a file":
        shutil.move(path, target)
    else:
        (outside / "folder").mkdir()
        (outside / "folder" / "own").write_bytes(b"own")
        (outside / "file").write_bytes(b"not the directory's")
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device" and ROOT:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    else:
        path.symlink_to({"link to nowhere": outside / "new", "device": Path("/dev/full")}.get(kind, target))


def give_away(root: Path) -> None:
    """Let it all belong to another user, where we may."""
    for path in (root, *(root / name for name in below(root))) if ROOT else ():
        os.chown(path, OWNER, OWNER, follow_symlinks=False)


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """What is in a directory, to the bit."""
    found: dict[str, tuple[object, ...]] = {}
    for name in (".", *below(folder)):
        path = folder / name
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[name] = (info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_mtime_ns, info.st_nlink, content)
    return found


def check(situation: Situation, name: str, kind: str) -> None:
    """Run the command with something else in the place of a name: nothing outside changes, and it ends as it should."""
    root, outside = situation.begin()
    plant(kind, root / name, outside)
    give_away(root)
    before = state(outside)
    code, output = situation.run(root)
    assert state(outside) == before, f"{name}, a {kind}:\n{output}"
    assert code in (exit_codes.OK, exit_codes.FINDINGS, exit_codes.INCOMPLETE, exit_codes.REFUSED), output
    if ROOT and situation.scenario.end != scenarios.End.COPIED:
        owners = {path: (root / path).lstat().st_uid for path in below(root)}
        assert {path for path, owner in owners.items() if owner != OWNER} == set(), f"{name}, a {kind}"
    shutil.rmtree(root.parent)


@pytest.mark.parametrize("run", RUNS)
def test_nothing_outside_changes(run: str, tmp_path: Path) -> None:
    situation = Situation(run, tmp_path)
    first = RUNS.index(run)
    for number, name in enumerate(situation.names()[first % STEP :: STEP], first):
        check(situation, name, KINDS[number % len(KINDS)])
    for kind in ("link to a directory", "link to nowhere"):
        check(situation, _partition(situation), kind)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_nothing_outside_changes_by_any_name(run: str, tmp_path: Path) -> None:
    situation = Situation(run, tmp_path)
    first = RUNS.index(run)
    for number, name in enumerate(situation.names()[first % 3 :: 3], first):
        check(situation, name, KINDS[number % len(KINDS)])


def _partition(situation: Situation) -> str:
    root = situation.folder / "start"
    return next(name for name in below(root) if name.endswith(PARTITION) or name.endswith(names.CLUSTER_METADATA_DIR))


# --- what was planted -------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with a damaged partition; another user's, where we are root."""
    root = tmp_path / "data"
    scenarios.prepare(Scenario("repair", "last segment, torn tail"), root)
    (root / names.LOCK).unlink()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"a secret of somebody else\n")
    (tmp_path / "outside" / "secret").chmod(0o600)
    give_away(root)
    return root


@pytest.fixture
def outside(data: Path) -> Path:
    return data.with_name("outside")


def log_of(data: Path) -> Path:
    return max((data / PARTITION).glob("*.log"))


@pytest.mark.parametrize("kind", ["missing", "secret", ".", "pipe"])
def test_a_lock_that_is_no_file(run: Run, data: Path, outside: Path, kind: str) -> None:
    lock = data / names.LOCK
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(outside / kind)
    before = state(data), state(outside)
    assert run("repair", data, "--apply") == exit_codes.REFUSED
    assert "Nothing was changed: " in run.out
    assert f"{lock}: " in run.err
    assert (state(data), state(outside)) == before


def plant_journal(data: Path, partition: str, id_: str, path: str, steps: list[dict[str, object]], state: str) -> None:
    folder = (data / path).resolve()
    files = {entry.name: FileState(entry.lstat().st_size, entry.lstat().st_mtime_ns) for entry in folder.iterdir()}
    what = PartitionState(files, offsets_of(str(folder)), was_clean=False)._asdict()
    row = {"version": 2, "id": id_, "path": path, "command": "repair", "begun": 1, "state": state, "undoes": ""}
    row |= {"keepsOld": True, "logEndOffset": None, "before": what, "after": what if state == "done" else None}
    row |= {"digests": {}, "steps": steps, "cuts": []}
    journal = data / f".kdump-{id_}+{partition}+journal"
    journal.write_text(json.dumps(row))
    give_away(data)


def step(kept: str = "", **operation: object) -> dict[str, object]:
    whole = {"size": 0, "inode": 0, "old_size": 0, "source": "", "why": ""} | operation
    return {"operation": whole, "staged": "", "kept": kept, "new": None}


@pytest.mark.parametrize("command", [("repair", "--apply"), ("retain", "--apply"), ("rebuild-index", "--apply")])
def test_a_planted_change_that_cuts_by_a_link(run: Run, data: Path, outside: Path, command: tuple[str, ...]) -> None:
    (data / names.LOCK).touch()
    link = data / PARTITION / names.segment_file_name(99, ".log")
    link.symlink_to(outside / "secret")
    cut = step(action="truncate", name=link.name, size=5, old_size=99)
    plant_journal(data, PARTITION, "20261128T000000", PARTITION, [cut], "interrupted")
    before = state(data), state(outside)
    assert run(command[0], data, *command[1:]) == exit_codes.REFUSED
    assert "a symbolic link" in run.err
    assert (state(data), state(outside)) == before


def test_undo_takes_back_what_the_change_did_and_nothing_that_was_planted(run: Run, data: Path, outside: Path) -> None:
    before = log_of(data).read_bytes()
    assert run("repair", data, "--apply") == exit_codes.OK
    (change,) = list_changes(str(data)).changes
    kept = f".kdump-{change.change.id}+x-0+old+evil"
    (data / kept).write_bytes(b"* * * * * root id\n")
    plant_journal(data, "x-0", change.change.id, "../outside", [step(kept, action="remove", name="evil")], "done")
    there = state(outside)
    assert run("undo", data, "--change", change.change.id, "--apply") == exit_codes.REFUSED
    assert "+x-0+journal: names what does not belong to the change" in run.err
    assert "Done. 1 partition restored." in run.out
    assert f"{PARTITION}  restores" in run.out
    assert log_of(data).read_bytes() == before
    assert state(outside) == there


def test_what_was_finished_is_said_though_the_rest_is_refused(run: Run, data: Path, outside: Path) -> None:
    """The next plan meets a link, after a change that was interrupted was finished."""
    gone = data / PARTITION / "leftover"
    gone.write_bytes(b"")
    remove = step(f".kdump-20261128T000000+{PARTITION}+old+leftover", action="remove", name="leftover")
    plant_journal(data, PARTITION, "20261128T000000", PARTITION, [remove], "interrupted")
    checkpoint = data / names.REPLICATION_CHECKPOINT
    checkpoint.rename(outside / checkpoint.name)
    checkpoint.symlink_to(outside / checkpoint.name)
    before = state(outside)
    assert run("repair", data, "--apply") == exit_codes.REFUSED
    assert f"{checkpoint}: a symbolic link" in run.err
    assert "Nothing was changed" not in run.out
    assert "20261128T000000 (repair) was interrupted, and is finished now" in run.out
    assert not gone.exists()
    assert state(outside) == before


@pytest.mark.parametrize("way", ["data", "data/orders-0"])
def test_a_link_of_another_user_on_the_way(run: Run, data: Path, tmp_path: Path, way: str) -> None:
    """Root names a path of the user's directory, in which a link leads to a directory of root's."""
    if not ROOT:
        return
    own = tmp_path / "own"
    shutil.move(data, own)
    for path in (own, *(own / name for name in below(own))):
        os.chown(path, 0, 0)
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    if way == "data":
        (home / "data").rmdir()
    (home / way).symlink_to(tmp_path / way.replace("data", "own"))
    give_away(home)
    before = state(own)
    assert run("repair", home / way, "--apply") == exit_codes.REFUSED
    assert "a symbolic link that nobody made, to a directory of root" in run.err
    assert state(own) == before


def test_root_changes_what_the_owner_could_change(run: Run, data: Path) -> None:
    """What belongs to another user is named and left; the group of a file stays, though its owner is not in it."""
    if not ROOT:
        return
    for path in (data / PARTITION, *(data / PARTITION).iterdir()):
        os.chown(path, OWNER, 77)
    os.chown(log_of(data), 0, 0)
    (data / names.LOCK).touch()
    os.chown(data / names.LOCK, OWNER, OWNER)
    before = state(data)
    assert run("repair", data, "--apply") == exit_codes.REFUSED
    assert f"{log_of(data)}: nobody, to whom the directory belongs, may not" in run.err
    assert state(data) == before
    os.chown(log_of(data), OWNER, 77)
    assert run("repair", data, "--apply") == exit_codes.OK
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (data / PARTITION).iterdir()}
    assert owners == {(OWNER, 77)}


def test_originals_of_one_user_are_not_kept_in_a_directory_of_another(run: Run, data: Path, tmp_path: Path) -> None:
    if not ROOT:
        return
    (tmp_path / "backups" / PARTITION).mkdir(parents=True)
    (data / names.LOCK).touch()
    os.chown(data / names.LOCK, OWNER, OWNER)
    before = state(data)
    assert run("repair", data, "--backup-dir", tmp_path / "backups", "--apply") == exit_codes.REFUSED
    assert "keeps originals of nobody in directories of nobody" in run.err
    assert state(data) == before
    os.rmdir(tmp_path / "backups" / PARTITION)
    assert run("repair", data, "--backup-dir", tmp_path / "backups", "--apply") == exit_codes.OK
    assert {path.stat().st_uid for path in (tmp_path / "backups").rglob("*")} == {OWNER}
    (change,) = list_changes(str(data)).changes
    assert run("undo", data, "--change", change.change.id, "--apply") == exit_codes.OK
