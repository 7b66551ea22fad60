"""Applying plans: safety checks before the first change, what of a file is kept, and taking it back."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

import kdump
from kdump.change import journal, place
from kdump.change.apply import apply_plan, clear_leftovers, finish
from kdump.change.change import ChangeState
from kdump.change.checks import check_space
from kdump.change.guard import ANY_LOSS
from kdump.change.place import ChangeFiles, new_change
from kdump.change.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Plan, make_plan
from kdump.change.undo import undo
from kdump.disk import durable
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.mend.proposal import examine
from kdump.mend.task import SALVAGE, TRUNCATE_LOG, Request, Strategy
from kdump.storage.recipe import NewContent, Recipe, SourceBytes
from tests.change.kept import change_files, only_change
from tests.repair.damaged import DAMAGES, STARTUP, name
from tests.repair.salvaging import content
from tests.sampling import sampled


@pytest.fixture
def partition(sound: Path, tmp_path: Path) -> Path:
    """A damaged copy of the sound partition, beside checkpoints that lead too far."""
    shutil.copytree(sound, tmp_path / "logs")
    DAMAGES["damage and leftovers"](tmp_path / "logs" / "orders-0")
    for checkpoint in names.OFFSET_CHECKPOINTS:
        (tmp_path / "logs" / checkpoint).write_text("0\n2\nothers 3 17\norders 0 59\n")
    return tmp_path / "logs" / "orders-0"


def planned(partition: Path, strategy: Strategy = TRUNCATE_LOG) -> Plan:
    plan = examine(kdump.open_log(str(partition)), STARTUP, Request(strategy)).plan
    assert plan
    return plan


def everything(partition: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, modification time and inode of the files of a partition."""
    found = {}
    for path in sorted(partition.iterdir()):
        if path.is_file():
            info = path.stat()
            found[path.name] = (path.read_bytes(), info.st_mtime_ns, info.st_ino)
    return found


def checkpoints(partition: Path) -> dict[str, bytes]:
    return {name: data for name, data in content(partition.parent).items() if not name.startswith(place.PREFIX)}


def _needed(plan: Plan, partition: Path) -> int:
    """How many bytes a plan asks for, by what it says where there are none."""
    usage = namedtuple("usage", "total used free")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 0))
        with pytest.raises(RefusedError) as refused:
            check_space(plan, str(partition), keep_old=True)
    return int(str(refused.value).split(": ")[1].split()[0])


class TestRails:
    """What stops a repair is found before the first change."""

    @pytest.fixture(autouse=True)
    def nothing_changes(self, partition: Path) -> object:
        before = everything(partition), checkpoints(partition)
        yield
        assert (everything(partition), checkpoints(partition)) == before
        assert change_files(partition.parent) == []

    @pytest.mark.parametrize("forbidden", [".", "..", name(20, "log")])
    def test_a_directory_or_a_file_that_cannot_be_written(
        self, partition: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
    ) -> None:
        blocked = os.path.normpath(partition / forbidden)
        allowed = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: path != blocked and allowed(path, mode))
        with pytest.raises(PermissionError, match="read-only file system") as refused:
            apply_plan(planned(partition), new_change(str(partition)), allowance=ANY_LOSS)
        assert refused.value.filename == blocked

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_not_enough_space(self, partition: Path, monkeypatch: pytest.MonkeyPatch, strategy: Strategy) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 1 << 20))
        with pytest.raises(RefusedError, match="bytes of space are needed here, and 1048576 are free"):
            apply_plan(planned(partition, strategy), new_change(str(partition)), allowance=ANY_LOSS)

    def test_a_cut_of_a_file_with_other_names_needs_room_for_what_stays(self, partition: Path, tmp_path: Path) -> None:
        """It is written anew: a copy made by `cp -al` keeps its bytes."""
        plan = planned(partition)
        cut = next(each for each in plan.operations if each.action == TRUNCATE and each.size)
        needed = [_needed(plan, partition)]
        os.link(partition / (cut.source or cut.name), tmp_path / "copy")
        needed.append(_needed(plan, partition))
        assert needed[1] - needed[0] == cut.size

    def test_a_checkpoint_that_is_a_symbolic_link(self, partition: Path, tmp_path: Path) -> None:
        plan = planned(partition)
        checkpoint = partition.parent / names.RECOVERY_POINT_CHECKPOINT
        os.rename(checkpoint, tmp_path / "elsewhere")
        checkpoint.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RefusedError, match="a symbolic link"):
            apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)

    def test_a_symbolic_link_out_of_the_directory(self, partition: Path, tmp_path: Path) -> None:
        plan = planned(partition)
        target = partition / plan.operations[-1].name
        elsewhere = tmp_path / "elsewhere"
        os.rename(target, elsewhere)
        target.symlink_to(elsewhere)
        held = elsewhere.read_bytes()
        try:
            with pytest.raises(RefusedError, match="a symbolic link"):
                apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
            assert elsewhere.read_bytes() == held
        finally:
            target.unlink()
            os.rename(elsewhere, target)


def test_a_file_that_was_replaced_since_the_plan_was_made(partition: Path) -> None:
    plan = planned(partition)
    (cut,) = [each for each in plan.operations if each.action == TRUNCATE and each.name.endswith(".log")]
    shutil.copy(partition / cut.name, partition / "copy")
    os.replace(partition / "copy", partition / cut.name)
    held = (partition / cut.name).read_bytes()
    with pytest.raises(RefusedError, match="it was replaced since the plan was made"):
        apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
    assert (partition / cut.name).read_bytes() == held


@pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
@pytest.mark.parametrize("damage", sampled(DAMAGES, 8))
def test_undo_brings_back_every_byte(sound: Path, tmp_path: Path, damage: str, strategy: Strategy) -> None:
    partition = tmp_path / "logs" / "orders-0"
    shutil.copytree(sound, tmp_path / "logs")
    DAMAGES[damage](partition)
    for checkpoint in names.OFFSET_CHECKPOINTS:
        (tmp_path / "logs" / checkpoint).write_text("0\n1\norders 0 59\n")
    before = content(partition), checkpoints(partition)
    times = {path.name: path.stat().st_mtime_ns for path in partition.glob("*.log")}
    task = examine(kdump.open_log(str(partition)), STARTUP, Request(strategy))
    if not task.plan:  # nothing to do, or no broker gets that far
        return
    change = apply_plan(task.plan, new_change(str(partition)), command="repair", cuts=task.cuts, allowance=ANY_LOSS)
    repaired = content(partition), checkpoints(partition)
    assert repaired != before
    assert all(path.stat().st_nlink == 1 for path in change_files(partition.parent))
    undoing = undo(change)
    assert undoing is not None
    after = content(partition), checkpoints(partition)
    assert after[0] == before[0]
    assert {name: set(data.splitlines()) for name, data in after[1].items()} == {
        name: set(data.splitlines()) for name, data in before[1].items()
    }
    assert {path.name: path.stat().st_mtime_ns for path in partition.glob("*.log")} == times
    assert [each.state for each in journal.changes_of(str(partition))] == [ChangeState.UNDONE, ChangeState.DONE]
    with pytest.raises(RefusedError, match="is undone already"):
        undo(journal.changes_of(str(partition))[0])
    again = examine(kdump.open_log(str(partition)), STARTUP, Request(strategy)).plan
    assert again is not None
    assert [each[:3] for each in again.operations] == [each[:3] for each in task.plan.operations]
    undo(undoing)
    assert content(partition) == repaired[0]
    for file, data in checkpoints(partition).items():
        assert set(data.splitlines()) == set(repaired[1][file].splitlines())


def test_an_interrupted_repair_can_be_undone(partition: Path) -> None:
    before = content(partition)
    times = {path.name: path.stat().st_mtime_ns for path in partition.glob("*.log")}
    plan = planned(partition)
    original = durable.move
    left = 2

    def fail(source: str, target: str) -> None:
        nonlocal left
        left -= os.path.dirname(target) == str(partition)
        if not left:
            raise OSError(errno.EIO, "broken")
        original(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "move", fail)
        with pytest.raises(OSError, match="broken"):
            apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
    assert content(partition) != before
    (change,) = journal.unfinished(str(partition))
    assert undo(change) is None
    assert content(partition) == before
    assert {path.name: path.stat().st_mtime_ns for path in partition.glob("*.log")} == times
    assert change_files(partition.parent) == []


def test_without_a_backup_there_is_nothing_to_undo(partition: Path) -> None:
    task = examine(kdump.open_log(str(partition)), STARTUP, Request(SALVAGE))
    assert task.plan is not None
    change = apply_plan(task.plan, new_change(str(partition)), keep_old=False, cuts=task.cuts, allowance=ANY_LOSS)
    with pytest.raises(RefusedError, match=f"orders-0: change {change.id} kept no originals"):
        undo(change)


def test_a_copied_directory_has_its_own_changes(partition: Path, tmp_path: Path) -> None:
    change = apply_plan(planned(partition), new_change(str(partition)), allowance=ANY_LOSS)
    shutil.copytree(partition.parent, tmp_path / "copy")
    copied = tmp_path / "copy" / "orders-0"
    repaired = content(partition)
    (found,) = journal.changes_of(str(copied))
    assert found.path == str(copied)
    undo(found)
    assert content(partition) == repaired != content(copied)
    assert [each.state for each in journal.changes_of(str(partition))] == [ChangeState.DONE]
    undo(change)
    assert content(partition) == content(copied)


def test_the_journal_names_the_directory_wherever_one_stands(
    partition: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(partition.parent)
    plan = examine(kdump.open_log("orders-0"), STARTUP, Request()).plan
    assert plan is not None
    apply_plan(plan, new_change("orders-0"), allowance=ANY_LOSS)
    monkeypatch.chdir(tmp_path)
    assert only_change(partition).path == str(partition)


@pytest.mark.parametrize("text", ["", "x", '{"version": 9, "path": "p"}', '{"version": 2}', "[]", "17"])
def test_what_is_no_journal(tmp_path: Path, text: str) -> None:
    files = ChangeFiles(str(tmp_path), "20260101T000000", "orders-0")
    Path(files.path(place.JOURNAL)).write_text(text)
    with pytest.raises(KdumpError, match="not a journal of a change that this release of kdump can read"):
        journal.read(files)


def test_owner_mode_and_time_of_new_files(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    log = partition / name(0, "log")
    log.write_bytes(b"0123456789")
    index = partition / name(0, "index")
    index.write_bytes(b"old")
    log.chmod(0o604)
    index.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(log, 1234, 2345)
        os.chown(index, 3456, 4567)
    modified = 1_600_000_000_000_000_007
    os.utime(log, ns=(modified, modified))
    wanted: dict[str, Recipe] = {
        log.name: SourceBytes(log.name, 3, 4),
        index.name: NewContent(b"new", 5),
        name(0, "timeindex"): NewContent(b"", 0),
    }
    plan = make_plan(str(partition), wanted, {})
    infos = {path.name: path.stat() for path in (log, index)}
    apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
    assert content(partition) == {log.name: b"3456", index.name: b"new\0\0", name(0, "timeindex"): b""}
    like = {log.name: log.name, index.name: index.name, name(0, "timeindex"): log.name}
    for each, model in like.items():
        info = (partition / each).stat()
        assert (info.st_mode, info.st_uid, info.st_gid) == (
            infos[model].st_mode,
            infos[model].st_uid,
            infos[model].st_gid,
        ), each
    assert log.stat().st_mtime_ns == modified


def test_a_log_that_is_cut_keeps_its_time(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    log = partition / name(0, "log")
    log.write_bytes(b"0123456789")
    os.utime(log, ns=(5, 1_600_000_000_000_000_007))
    plan = make_plan(str(partition), {log.name: SourceBytes(log.name, 0, 4)}, {})
    assert [each.action for each in plan.operations] == [TRUNCATE]
    change = apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (b"0123", 1_600_000_000_000_000_007)
    (tail,) = change_files(tmp_path, f"tail+{log.name}")
    assert tail.read_bytes() == b"456789"
    undo(change)
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (b"0123456789", 1_600_000_000_000_000_007)


def test_zeros_are_holes(tmp_path: Path) -> None:
    durable.write_file(str(tmp_path / "file"), (b"x", bytes(1 << 20), b"y", bytes(1 << 20)))
    assert (tmp_path / "file").stat().st_size == 2 + (2 << 20)
    assert (tmp_path / "file").read_bytes() == b"x" + bytes(1 << 20) + b"y" + bytes(1 << 20)


def test_where_there_can_be_no_link_a_copy_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"content")

    def no_link(*args: object, **options: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_link)
    durable.keep(str(tmp_path / "file"), str(tmp_path / "kept"))
    assert (tmp_path / "kept").read_bytes() == b"content"
    assert (tmp_path / "kept").stat().st_ino != (tmp_path / "file").stat().st_ino


def test_leftovers_go_and_finished_repairs_stay(partition: Path) -> None:
    kept = apply_plan(planned(partition), new_change(str(partition)), allowance=ANY_LOSS)
    left = ChangeFiles(str(partition.parent), "20260101T000000", "orders-0")
    other = ChangeFiles(str(partition.parent), "20260101T000000", "orders-01")
    for files in (left, other):
        Path(files.path(place.STAGING)).write_text("")
        Path(files.path(place.NEW, "file")).write_bytes(b"half")
    clear_leftovers(str(partition))
    changes = journal.Changes(str(partition.parent))
    assert changes.leftovers_of(str(partition)) == []
    assert changes.leftovers_of(f"{partition}1") == [other]
    assert only_change(partition) == kept


class TestOrder:
    """Of a plan's operations."""

    def actions(self, partition: Path, strategy: Strategy) -> list[tuple[str, str]]:
        return [(each.action, each.name) for each in planned(partition, strategy).operations]

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_an_index_goes_before_its_log_changes_and_comes_after(self, partition: Path, strategy: Strategy) -> None:
        found = self.actions(partition, strategy)
        changed = [name for action, name in found if name.endswith(".log") and action in (REPLACE, TRUNCATE)]
        assert changed
        for log in changed:
            (at,) = [n for n, (action, name) in enumerate(found) if name == log]
            for kind in ("index", "timeindex"):
                index = log.replace("log", kind)
                steps = [(n, action) for n, (action, name) in enumerate(found) if name == index]
                for n, action in steps:
                    assert (n < at) == (action == REMOVE), index
                assert [action for _, action in steps] in ([], [REPLACE], [REMOVE, REPLACE]), index

    def test_checkpoints_first_and_leader_epochs_last(self, partition: Path) -> None:
        found = [action for action, _ in self.actions(partition, TRUNCATE_LOG)]
        assert found[:3] == ["checkpoint"] * 3
        assert self.actions(partition, TRUNCATE_LOG)[-1] == (REPLACE, "leader-epoch-checkpoint")

    def test_swaps_are_renamed(self, sound: Path, tmp_path: Path) -> None:
        shutil.copytree(sound, tmp_path / "logs")
        partition = tmp_path / "logs" / "orders-0"
        DAMAGES["swap half renamed"](partition)
        assert (RENAME, name(0, "log")) in self.actions(partition, TRUNCATE_LOG)


def test_the_journal_can_be_read_back(partition: Path) -> None:
    change = apply_plan(planned(partition), new_change(str(partition)), command="repair", allowance=ANY_LOSS)
    assert journal.read(change.files) == change
    assert finish(change) == change  # it is done already
