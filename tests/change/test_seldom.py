"""What a change seldom meets: names that go round, new directories, kills in the middle of a step, odd neighbours."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kdump.change import journal, place
from kdump.change.apply import apply_plan, apply_staged, end_offset, finish
from kdump.change.change import Change, ChangeState
from kdump.change.checks import check_target
from kdump.change.interrupted import finish_interrupted
from kdump.change.journal import Changes
from kdump.change.kept import kept_pieces
from kdump.change.place import ChangeFiles, change_files, label_of, new_change
from kdump.change.plan import ORPHANS, REMOVE, RENAME, REPLACE, TRUNCATE, Plan, make_plan, narrowed
from kdump.change.saved_plan import check_same, load, plan_row, save
from kdump.change.undo import Verdict, close, judge, roll_back, undo
from kdump.change.unfinished import unfinished_in
from kdump.disk import durable
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.storage.recipe import NewContent, Recipe, SourceBytes
from tests.change.files import A, B, C
from tests.change.kept import Killed, killed_after, only_change
from tests.change.kept import change_files as files_of_changes
from tests.repair.damaged import name
from tests.repair.salvaging import content


def whole(partition: Path, file: str) -> SourceBytes:
    return SourceBytes(file, 0, (partition / file).stat().st_size)


def plan(partition: Path, wanted: Mapping[str, Recipe]) -> Plan:
    return make_plan(str(partition), wanted, {})


def changed(partition: Path, wanted: Mapping[str, Recipe]) -> Change:
    return apply_plan(plan(partition, wanted), new_change(str(partition)), command="repair")


def dated(partition: Path) -> dict[str, tuple[bytes, int]]:
    """The files of a partition with their modification times."""
    return {file: (data, (partition / file).stat().st_mtime_ns) for file, data in content(partition).items()}


def bytes_of(wanted: Mapping[str, Recipe], before: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a partition holds once it is what was wanted."""
    return {
        file: before[recipe.name][recipe.start : recipe.start + recipe.size]
        if isinstance(recipe, SourceBytes)
        else recipe.data  # type: ignore[union-attr]
        for file, recipe in wanted.items()
    }


@contextmanager
def killed_before_replacing(target: Path) -> Iterator[None]:
    """Ended, as by a kill, when a file is about to take the place of this one, which is kept already."""
    real = durable.move

    def fail(source: str, goal: str) -> None:
        if goal == str(target):
            raise Killed
        real(source, goal)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(durable, "move", fail)
        yield


class TestChainsOfNames:
    """A file that takes the name of one that takes another name."""

    @pytest.mark.parametrize("sources", [{A: C, B: A}, {A: B, B: C}, {A: B, B: A}, {A: C, B: A, C: B}])
    def test_each_name_gets_what_was_wanted_and_undo_brings_all_back(
        self, partition: Path, sources: dict[str, str]
    ) -> None:
        before = content(partition)
        wanted = {file: whole(partition, source) for file, source in sources.items()}
        change = changed(partition, wanted)
        assert content(partition) == bytes_of(wanted, before)
        undo(change)
        assert content(partition) == before

    def test_a_new_file_takes_the_name_of_one_that_is_renamed(self, partition: Path) -> None:
        before = content(partition)
        change = changed(partition, {A: NewContent(b"new", 3), B: whole(partition, A)})
        assert content(partition) == {A: b"new", B: b"first"}
        undo(change)
        assert content(partition) == before

    @pytest.mark.parametrize("steps", [0, 1])
    def test_killed_anywhere(self, partition: Path, tmp_path: Path, steps: int) -> None:
        before = content(partition)
        wanted = {A: whole(partition, C), B: whole(partition, A)}
        with killed_after(steps):
            changed(partition, wanted)
        for way, result in ((finish_interrupted, bytes_of(wanted, before)), (roll_back_all, before)):
            copy = tmp_path / way.__name__ / "orders-0"
            shutil.copytree(partition.parent, copy.parent)
            way(str(copy))
            assert content(copy) == result

    def test_killed_when_all_steps_are_done(self, partition: Path) -> None:
        before = content(partition)
        wanted = {A: whole(partition, C), B: whole(partition, A)}
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr("kdump.change.apply._completed", killed)
            changed(partition, wanted)
        assert content(partition) == bytes_of(wanted, before)
        finish_interrupted(str(partition))
        assert content(partition) == bytes_of(wanted, before)
        undo(only_change(partition))
        assert content(partition) == before

    @pytest.mark.parametrize("target", [B, name(60, "log")])
    def test_an_undo_is_undone_of_a_file_that_was_renamed_and_cut(self, partition: Path, target: str) -> None:
        before = dated(partition)
        change = changed(partition, {A: whole(partition, A), target: SourceBytes(C, 0, 2)})
        assert [step.operation.action for step in change.steps if step.operation.name == target] == [RENAME, TRUNCATE]
        after = dated(partition)
        assert after == {A: before[A], target: (b"a ", before[C][1])}
        undoing = undo(change)
        assert undoing is not None
        assert dated(partition) == before
        again = undo(undoing)
        assert again is not None
        assert dated(partition) == after
        undo(again)
        assert dated(partition) == before

    def test_a_file_that_was_renamed_and_cut_gets_its_time_back(self, partition: Path) -> None:
        before = dated(partition)
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr("kdump.change.apply._completed", killed)
            changed(partition, {A: whole(partition, A), B: SourceBytes(C, 0, 2)})
        roll_back_all(str(partition))
        assert dated(partition) == before

    def test_an_index_that_is_renamed_comes_after_its_log(self, partition: Path) -> None:
        index, swap = name(0, "index"), f"{name(0, 'index')}.swap"
        (partition / index).write_bytes(b"old index")
        (partition / swap).write_bytes(b"new index")
        wanted: dict[str, Recipe] = {A: NewContent(b"new", 3), index: whole(partition, swap)}
        found = plan(partition, wanted)
        steps = [(each.action, each.name) for each in found.operations if each.name in (A, index)]
        assert steps == [(REMOVE, index), (REPLACE, A), (RENAME, index)]
        change = apply_plan(found, new_change(str(partition)))
        assert content(partition) == {A: b"new", index: b"new index"}
        undo(change)
        assert content(partition)[index] == b"old index"


def killed(*_: object) -> Change:
    raise Killed


def roll_back_all(partition: str) -> None:
    for change in journal.unfinished(partition):
        roll_back(change)


class TestDirectoryThatIsMade:
    @pytest.fixture
    def absent(self, partition: Path) -> Path:
        return partition.with_name("orders-1")

    def test_it_goes_when_the_change_is_taken_back(self, absent: Path) -> None:
        change = changed(absent, {A: NewContent(b"new", 3)})
        assert content(absent) == {A: b"new"}
        assert change.made_directory
        undo(change)
        assert not absent.exists()

    def test_it_goes_when_the_change_is_not_begun(self, absent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 0))
        with pytest.raises(RefusedError, match="bytes of space are needed"):
            changed(absent, {A: NewContent(b"new", 3)})
        assert not absent.exists()

    def test_it_stays_when_the_change_is_begun(self, absent: Path) -> None:
        with killed_after(0):
            changed(absent, {A: NewContent(b"new", 3)})
        assert absent.exists()
        finish_interrupted(str(absent))
        assert content(absent) == {A: b"new"}

    def test_a_file_that_came_since_stays(self, absent: Path) -> None:
        change = changed(absent, {A: NewContent(b"new", 3)})
        (absent / "note").write_text("mine")
        with pytest.raises(RefusedError, match=r"note is new \(4 bytes\)"):
            undo(change)
        assert sorted(path.name for path in absent.iterdir()) == [A, "note"]


class TestMiddleOfAStep:
    """Killed between keeping an old file and putting the new one in its place."""

    @pytest.fixture
    def change(self, partition: Path) -> Change:
        with killed_before_replacing(partition / A):
            changed(partition, {A: NewContent(b"new", 3), B: whole(partition, B), C: whole(partition, C)})
        (interrupted,) = journal.unfinished(str(partition))
        (kept,) = files_of_changes(partition.parent, "old")
        assert os.path.samefile(kept, partition / A)
        return interrupted

    def test_rolled_back(self, partition: Path, change: Change) -> None:
        roll_back(change)
        assert content(partition) == {A: b"first", B: b"second file", C: b"a third"}
        assert files_of_changes(partition.parent) == []

    def test_closed(self, partition: Path, change: Change) -> None:
        """The old file is still there: no second name of it is kept, which a broker's writing would change."""
        close(change)
        assert content(partition)[A] == b"first"
        assert (partition / A).stat().st_nlink == 1
        assert [path.name.split("+")[2] for path in files_of_changes(partition.parent)] == [place.JOURNAL]
        assert judge(only_change(partition)).verdict == Verdict.CLOSED
        with pytest.raises(RefusedError, match="was interrupted and closed; its originals are kept"):
            undo(only_change(partition))


def test_what_cannot_be_written_leaves_nothing_behind(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = content(partition), durable.write_file

    def full(path: str, *arguments: Any, **named: Any) -> None:
        if path.endswith(f"+{B}"):
            raise OSError(errno.ENOSPC, "no space", path)
        real(path, *arguments, **named)

    monkeypatch.setattr(durable, "write_file", full)
    with pytest.raises(OSError, match="no space"):
        changed(partition, {file: NewContent(b"new", 3) for file in (A, B, C)})
    assert content(partition) == before
    assert files_of_changes(partition.parent) == []


def test_a_file_that_is_staged_already_is_moved(partition: Path) -> None:
    files, operations = new_change(str(partition)), plan(partition, {A: NewContent(b"new", 3)}).operations
    staged = Path(files.path(place.NEW, A))
    staged.write_bytes(b"new")
    inode = staged.stat().st_ino
    change = apply_staged(Plan(str(partition), operations, {}), files, command="compact")
    assert content(partition) == {A: b"new"}
    assert (partition / A).stat().st_ino == inode
    undo(change)
    assert content(partition) == {A: b"first", B: b"second file", C: b"a third"}


def test_a_checkpoint_that_somebody_wrote_stops_what_was_interrupted(partition: Path) -> None:
    checkpoint = partition.parent / names.RECOVERY_POINT_CHECKPOINT
    checkpoint.write_text("0\n1\norders 0 59\n")
    with killed_after(0):
        changed(partition, {A: NewContent(b"new", 3)})
    checkpoint.write_text("0\n1\norders 0 7\n")
    with pytest.raises(RefusedError, match="recovery-point-offset-checkpoint had 59 for it, it has 7 now"):
        finish_interrupted(str(partition))
    assert content(partition)[A] == b"first"


@pytest.mark.parametrize(("written", "more"), [(3, ""), (4, ", and 1 more")])
def test_three_differences_are_named(partition: Path, written: int, more: str) -> None:
    with killed_after(0):
        changed(partition, {A: NewContent(b"new", 3)})
    for number in range(written):
        (partition / f"note-{number}").write_text("mine")
    with pytest.raises(RefusedError, match=rf"note-2 is new \(4 bytes\){more}\. To keep it"):
        finish_interrupted(str(partition))
    (change,) = journal.unfinished(str(partition))
    with pytest.raises(RefusedError, match=rf"note-2 is new \(4 bytes\){more}$"):
        finish(change)


def test_a_file_that_is_gone_is_named(partition: Path) -> None:
    change = changed(partition, {A: NewContent(b"new", 3)})
    (partition / A).unlink()
    judged = judge(change)
    assert (judged.verdict, f"{A} is gone" in judged.why) == (Verdict.CHANGED, True)


def test_where_a_log_ends_that_cannot_be_read(tmp_path: Path) -> None:
    assert end_offset(str(tmp_path / "not-there-0")) is None
    (tmp_path / "orders-0").mkdir()
    assert end_offset(str(tmp_path / "orders-0")) is None


class TestPlaces:
    def test_a_topic_with_the_longest_name(self, partition: Path) -> None:
        """Names of files have at most 255 bytes."""
        long = partition.rename(partition.with_name("t" * 249 + "-0"))
        before = content(long)
        change = changed(long, {A: NewContent(b"new", 3)})
        assert [found.id for found in journal.changes_of(str(long))] == [change.id]
        undo(change)
        assert content(long) == before

    def test_long_names_that_begin_alike_are_told_apart(self) -> None:
        assert label_of("t" * 200 + "-0") != label_of("t" * 200 + "-1")
        assert label_of("with+sign-0") != label_of("with_sign-0") == "with_sign-0"

    def test_a_log_directory_has_the_files_of_its_own_change(self, partition: Path) -> None:
        log_dir, properties = partition.parent, names.META_PROPERTIES
        change = changed(log_dir, {properties: NewContent(b"version=2\n", 10)})
        assert change.files.directory == str(log_dir)
        assert (log_dir / properties).read_bytes() == b"version=2\n"
        (log_dir / names.LOCK).touch()  # what holds it now is no difference
        assert [each.id for each in journal.changes_of(str(log_dir))] == [change.id]
        undo(change)
        assert (log_dir / properties).read_bytes() == b"version=1\n"

    @pytest.mark.parametrize("folder", ["orders-0.5f2d11a8d2ba4f7c8e0b8f6f6e2ad0ce-stray", "orders-0.x-delete"])
    def test_a_directory_that_is_no_live_partition_has_no_offsets(self, partition: Path, folder: str) -> None:
        (partition.parent / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 59\n")
        aside = partition.rename(partition.with_name(folder))
        change = changed(aside, {A: NewContent(b"new", 3)})
        assert change.before.offsets == {}
        undo(change)
        assert content(aside)[A] == b"first"

    def test_a_file_of_the_users_that_only_looks_like_one_of_a_change(self, partition: Path) -> None:
        (partition.parent / ".kdump-notes").write_text("mine")
        assert list(change_files(str(partition.parent))) == []
        change = changed(partition, {A: NewContent(b"new", 3)})
        assert [each.id for each in Changes(str(partition.parent)).all()] == [change.id]

    def test_files_of_changes_inside_a_partition_are_seen(self, partition: Path) -> None:
        """As where a log directory was not writable, or is a disk of its own."""
        assert not place.may_have_changes(str(partition.parent), [str(partition)])
        inside = partition / place.IN_PARTITION
        inside.mkdir()
        assert not place.may_have_changes(str(partition.parent), [str(partition)])
        Path(ChangeFiles(str(inside), "20260101T000000", "orders-0").path(place.JOURNAL)).write_text("{}")
        assert place.may_have_changes(str(partition.parent), [str(partition)])


class TestWhatCannotBeRead:
    def test_a_journal_that_is_none_is_told_of(self, partition: Path) -> None:
        files = ChangeFiles(str(partition.parent), "20260101T000000", "orders-0")
        Path(files.path(place.JOURNAL)).write_text("{}")
        ((path, text),) = unfinished_in(str(partition.parent), [str(partition)])
        assert path == str(partition)
        assert "not a journal of a change that this release of kdump can read" in text

    @pytest.mark.parametrize("text", ["", "[]", '{"directory": "x"}', '{"directory": "x", "state": "odd"}'])
    def test_a_note_that_is_none(self, partition: Path, text: str) -> None:
        note = ChangeFiles(str(partition.parent), "20260101T000000", "orders-0").path(place.ELSEWHERE)
        Path(note).write_text(text)
        with pytest.raises(KdumpError, match="not a note that this release of kdump can read"):
            Changes(str(partition.parent)).of(str(partition))
        changes = Changes(str(partition.parent))
        assert changes.all() == []
        assert [note in str(error) for error in changes.unreadable] == [True]

    def test_a_file_that_goes_while_it_is_counted(self, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        change = changed(partition, {A: NewContent(b"new", 3)})
        there = change.all_bytes
        listed = [*change.files.all(), str(partition.parent / "pruned meanwhile")]
        monkeypatch.setattr(ChangeFiles, "all", lambda files: listed)
        assert change.all_bytes == there > 0


def test_what_was_taken_back_is_kept_no_more(partition: Path) -> None:
    change = changed(partition, {A: whole(partition, A), B: whole(partition, B)})
    assert [(piece.file, piece.stop) for piece in kept_pieces(change)] == [(C, 7)]
    assert list(kept_pieces(change._replace(state=ChangeState.UNDONE))) == []


class TestPlans:
    @pytest.fixture
    def files(self, partition: Path) -> Path:
        for file in (
            name(0, "index"),
            name(0, "timeindex"),
            name(7, "index"),
            f"{B}.deleted",
            names.LEADER_EPOCH_CHECKPOINT,
        ):
            (partition / file).write_bytes(b"x")
        return partition

    @pytest.mark.parametrize(
        ("kinds", "expected"),
        [
            (["log"], {A, B, C}),
            (["indexes"], {name(0, "index")}),
            (["timeindexes", "epochs"], {name(0, "timeindex"), names.LEADER_EPOCH_CHECKPOINT}),
            ([ORPHANS], {name(7, "index"), f"{B}.deleted"}),
            ([], set()),
        ],
    )
    def test_narrowed_to_kinds_of_files(self, files: Path, kinds: list[str], expected: set[str]) -> None:
        """An index without a log belongs to no live segment."""
        present = {path.name: parse_file_name(path.name) for path in files.iterdir()}
        found = narrowed(plan(files, {}), kinds, present)
        assert {each.name for each in found.operations} == expected

    @pytest.mark.parametrize("row", [{"path": "p"}, {"path": "p", "operations": [], "files": [], "offsets": {}}])
    def test_a_plan_file_that_lacks_something(self, tmp_path: Path, row: dict[str, Any]) -> None:
        file = tmp_path / "plan"
        save(str(file), "repair", [row])
        with pytest.raises(KdumpError, match="not a plan file that this release of kdump can read"):
            load(str(file))

    def test_a_directory_is_no_file_to_write(self, tmp_path: Path) -> None:
        with pytest.raises(KdumpError, match="is a directory: expected a file"):
            check_target(str(tmp_path))

    def test_a_saved_plan_whose_checkpoints_changed(self, partition: Path, tmp_path: Path) -> None:
        checkpoint = partition.parent / names.RECOVERY_POINT_CHECKPOINT
        checkpoint.write_text("0\n1\norders 0 59\n")
        found = plan(partition, {A: NewContent(b"new", 3)})
        save(str(tmp_path / "plan.json"), "repair", [plan_row(found)])
        saved = load(str(tmp_path / "plan.json"))
        check_same(saved, found)
        checkpoint.write_text("0\n1\norders 0 7\n")
        with pytest.raises(RefusedError, match="its checkpoints changed since the plan"):
            check_same(saved, found)

    @pytest.mark.parametrize("text", ['{"type": "kdump.plan", "version": 2, "partitions": []}', '{"type": 1}', "x"])
    def test_a_plan_of_another_release(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(KdumpError, match="not a plan file that this release of kdump can read"):
            load(str(tmp_path / "plan.json"))
