"""In which order a change does things, where its limits are, and what it writes down and tells."""

from __future__ import annotations

import os
import shutil
import time
from collections import namedtuple
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from kdump.change import apply, journal, place
from kdump.change.apply import apply_plan, apply_staged, clear_leftovers
from kdump.change.change import Change, ChangeState
from kdump.change.checkpoint_lines import offset_in, put_offset
from kdump.change.checks import SPARE_BYTES, check_space
from kdump.change.copy_out import complete, copy_log_directory
from kdump.change.guard import ANY_LOSS
from kdump.change.interrupted import finish_interrupted
from kdump.change.journal import Changes, changes_of
from kdump.change.kept import kept_pieces
from kdump.change.place import ChangeFiles, label_of, new_change
from kdump.change.plan import CHECKPOINT, REMOVE, REPLACE, TRUNCATE, Cut, Operation, Plan, make_plan
from kdump.change.saved_plan import check_same, load, plan_row, save
from kdump.change.states import offsets_of
from kdump.change.undo import Verdict, judge, undo
from kdump.disk import durable
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.storage.recipe import Joined, NewContent, Recipe, SourceBytes
from tests.change.files import A, B, C
from tests.change.kept import Killed, killed_after
from tests.change.kept import change_files as files_of_changes
from tests.repair.damaged import build, name, segment_bytes
from tests.repair.salvaging import content

NEW = NewContent(b"new", 3)


def whole(partition: Path, file: str) -> SourceBytes:
    return SourceBytes(file, 0, (partition / file).stat().st_size)


def plan(partition: Path, wanted: dict[str, Recipe], **reasons: str) -> Plan:
    return make_plan(str(partition), wanted, reasons)


def kept_as_they_are(partition: Path, *files: str) -> dict[str, Recipe]:
    return {file: whole(partition, file) for file in files}


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The file system has so many bytes left."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, size))


def steps(found: Plan) -> list[tuple[str, str]]:
    return [(each.action, each.name) for each in found.operations]


class TestPlan:
    def test_the_last_segments_go_first_then_what_they_have(self, partition: Path) -> None:
        for base in (0, 20):
            (partition / name(base, "index")).write_bytes(b"index")
        found = plan(partition, kept_as_they_are(partition, A))
        assert steps(found) == [
            (REMOVE, C),
            (REMOVE, B),
            (REMOVE, name(20, "index")),
            (REMOVE, name(0, "index")),
        ]

    def test_leader_epochs_come_last(self, partition: Path) -> None:
        (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
        wanted = kept_as_they_are(partition, B, C) | {
            A: NEW,
            name(0, "snapshot"): NewContent(b"snapshot", 8),
            names.LEADER_EPOCH_CHECKPOINT: NewContent(b"epochs", 6),
        }
        assert steps(plan(partition, wanted)) == [
            (REPLACE, A),
            (REPLACE, name(0, "snapshot")),
            (REPLACE, names.LEADER_EPOCH_CHECKPOINT),
        ]

    def test_a_new_file_replaces_nothing(self, partition: Path) -> None:
        wanted = kept_as_they_are(partition, A, B, C) | {name(60, "log"): NEW}
        assert plan(partition, wanted).operations == (Operation(REPLACE, name(60, "log"), 3, 0, -1),)

    def test_what_goes_has_no_bytes_afterwards(self, partition: Path) -> None:
        inode = (partition / C).stat().st_ino
        found = plan(partition, kept_as_they_are(partition, A, B))
        assert found.operations == (Operation(REMOVE, C, 0, inode, 7),)

    def test_what_is_there_already_is_no_change(self, partition: Path) -> None:
        wanted = kept_as_they_are(partition, B, C)
        assert not plan(partition, wanted | {A: NewContent(b"first", 5)})
        assert steps(plan(partition, wanted | {A: NewContent(b"fir", 3)})) == [(TRUNCATE, A)]
        assert steps(plan(partition, wanted | {A: NewContent(b"first of all", 12)})) == [(REPLACE, A)]

    def test_one_file_that_two_are_made_of_is_not_moved(self, partition: Path) -> None:
        wanted: dict[str, Recipe] = {each: whole(partition, C) for each in (A, B)}
        assert steps(plan(partition, wanted)) == [(REMOVE, C), (REPLACE, B), (REPLACE, A)]

    def test_each_operation_has_its_reason(self, partition: Path) -> None:
        (partition / name(0, "index")).write_bytes(b"index")
        wanted = kept_as_they_are(partition, B) | {A: NEW, name(0, "index"): NEW}
        found = make_plan(str(partition), wanted, {A: "damaged", C: "empty", name(0, "index"): "wrong"})
        assert {(each.action, each.name): each.why for each in found.operations} == {
            (REMOVE, C): "empty",
            (REMOVE, name(0, "index")): "rebuilt after its log has changed",
            (REPLACE, A): "damaged",
            (REPLACE, name(0, "index")): "wrong",
        }


def test_a_change_notes_when_it_began(partition: Path) -> None:
    first = time.time_ns() // 1_000_000
    change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
    assert first <= change.begun <= time.time_ns() // 1_000_000


def test_originals_are_kept_where_nothing_else_is_asked_for(partition: Path) -> None:
    before = content(partition)
    change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
    undo(change)
    assert content(partition) == before
    files = new_change(str(partition))
    Path(files.path(place.NEW, A)).write_bytes(b"new")
    undo(apply_staged(plan(partition, {A: NEW})._replace(recipes={}), files, allowance=ANY_LOSS))
    assert content(partition) == before


def test_what_somebody_writes_while_all_is_prepared_stops_the_change(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = durable.write_file

    def write(path: str, *arguments: Any, **named: Any) -> None:
        real(path, *arguments, **named)
        if f"+{place.NEW}+" in path:
            (partition / "note").write_text("mine")

    found = plan(partition, {A: NEW})
    monkeypatch.setattr(durable, "write_file", write)
    with pytest.raises(RefusedError, match=r"note is new \(4 bytes\)"):
        apply_plan(found, new_change(str(partition)), allowance=ANY_LOSS)
    assert content(partition) == {A: b"first", B: b"second file", C: b"a third", "note": b"mine"}
    assert files_of_changes(partition.parent) == []


def test_a_place_for_originals_that_cannot_be_written_stops_the_change(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = content(partition), tmp_path / "backup"
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(backup)))
    with pytest.raises(PermissionError, match="cannot be written"):
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition), str(backup)), allowance=ANY_LOSS)
    assert content(partition) == before
    assert files_of_changes(tmp_path) == []


def test_undo_looks_for_permissions_before_it_begins(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
    after = content(partition)
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(partition))
    with pytest.raises(PermissionError):
        undo(change)
    assert content(partition) == after
    assert [each.id for each in changes_of(str(partition))] == [change.id]


def test_taking_back_looks_for_permissions_before_it_begins(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with killed_after(1):
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
    after = content(partition)
    (change,) = journal.unfinished(str(partition))
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(partition))
    with pytest.raises(PermissionError):
        undo(change)
    assert content(partition) == after
    assert [each.state for each in changes_of(str(partition))] == [ChangeState.INTERRUPTED]


def test_the_second_change_of_one_second_is_number_2(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    for data in (b"one", b"two", b"odd"):
        wanted = kept_as_they_are(partition, B, C) | {A: NewContent(data, 3)}
        apply_plan(plan(partition, wanted), new_change(str(partition)), allowance=ANY_LOSS)
    stamp = "20260102T030405"
    assert [each.id for each in changes_of(str(partition))] == [stamp, f"{stamp}-2", f"{stamp}-3"]


def test_a_directory_that_was_made_goes_though_the_change_is_read_again(partition: Path) -> None:
    made = partition.with_name("orders-1")
    apply_plan(plan(made, {A: NEW}), new_change(str(made)), allowance=ANY_LOSS)
    (change,) = changes_of(str(made))
    undo(change)
    assert not made.exists()


class TestRoom:
    @pytest.mark.parametrize(("missing", "keep_old"), [(0, True), (1, True), (0, False), (1, False)])
    def test_for_what_is_new_and_the_ends_that_are_kept(
        self, partition: Path, monkeypatch: pytest.MonkeyPatch, missing: int, keep_old: bool
    ) -> None:
        (partition / C).write_bytes(b"c" * 9000)
        found = plan(partition, kept_as_they_are(partition, B) | {A: NEW, C: SourceBytes(C, 0, 8000)})
        assert [each.action for each in found.operations] == [REPLACE, TRUNCATE]
        free(monkeypatch, SPARE_BYTES + 3 + (1000 if keep_old else 0) + 40 - missing)
        cuts = (Cut(C, 10, 50, ""),)
        if missing:
            with pytest.raises(RefusedError, match="bytes of space are needed here"):
                check_space(found, str(partition), keep_old=keep_old, cuts=cuts)
        else:
            check_space(found, str(partition), keep_old=keep_old, cuts=cuts)

    @pytest.mark.parametrize("missing", [0, 1])
    def test_to_take_a_cut_back(self, partition: Path, monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
        """The end of a file comes back in a new file with all of it."""
        before = content(partition)
        change = apply_plan(
            plan(partition, kept_as_they_are(partition, A, C) | {B: SourceBytes(B, 0, 4)}),
            new_change(str(partition)),
            allowance=ANY_LOSS,
        )
        after = content(partition)
        free(monkeypatch, SPARE_BYTES + len(before[B]) - missing)
        with pytest.raises(RefusedError, match="space") if missing else nullcontext():
            undo(change)
        assert content(partition) == (after if missing else before)


class TestCuts:
    def test_a_stretch_in_the_middle_is_kept_as_it_was(self, partition: Path) -> None:
        found = plan(partition, kept_as_they_are(partition, A, C) | {B: NewContent(b"sefile", 6)})
        change = apply_plan(
            found, new_change(str(partition)), keep_old=False, cuts=(Cut(B, 2, 6, "damaged"),), allowance=ANY_LOSS
        )
        assert [Path(change.file(kept.file)).read_bytes() for kept in change.cuts] == [b"cond"]
        assert [path.name.split("+")[2] for path in files_of_changes(partition.parent)] == ["cut", "journal"]

    def test_what_was_cut_off_and_what_went_are_pieces_of_logs(self, partition: Path) -> None:
        (partition / name(20, "index")).write_bytes(b"an index")
        wanted: dict[str, Recipe] = {A: NEW, B: SourceBytes(B, 0, 4)}
        wanted[name(20, "index")] = SourceBytes(name(20, "index"), 0, 2)
        change = apply_plan(plan(partition, wanted), new_change(str(partition)), command="repair", allowance=ANY_LOSS)
        pieces = list(kept_pieces(change))
        assert [(piece.file, piece.start, piece.stop, piece.base_offset) for piece in pieces] == [
            (B, 4, 11, 20),
            (C, 0, 7, 40),
        ]
        assert [Path(piece.path).read_bytes() for piece in pieces] == [b"nd file", b"a third"]
        assert {(piece.partition, piece.id, piece.command) for piece in pieces} == {
            (str(partition), change.id, "repair")
        }
        assert [piece.segment().base_offset for piece in pieces] == [20, 40]

    def test_the_first_segment_begins_at_0(self, partition: Path) -> None:
        wanted = kept_as_they_are(partition, B, C) | {A: SourceBytes(A, 0, 2)}
        (piece,) = kept_pieces(apply_plan(plan(partition, wanted), new_change(str(partition)), allowance=ANY_LOSS))
        assert (piece.file, piece.start, piece.base_offset) == (A, 2, 0)


class TestCheckpoints:
    def test_an_offset_of_0_is_one(self, partition: Path) -> None:
        checkpoint = partition.parent / names.RECOVERY_POINT_CHECKPOINT
        checkpoint.write_text("0\n2\nother 1 5\norders 0 59\n")
        put_offset(str(partition), names.RECOVERY_POINT_CHECKPOINT, 0)
        assert checkpoint.read_text() == "0\n2\nother 1 5\norders 0 0\n"
        assert offsets_of(str(partition)) == {names.RECOVERY_POINT_CHECKPOINT: 0}
        assert offset_in(str(checkpoint), "orders", 0) == 0
        put_offset(str(partition), names.RECOVERY_POINT_CHECKPOINT, -1)
        assert checkpoint.read_text() == "0\n1\nother 1 5\n"
        assert offset_in(str(checkpoint), "orders", 0) == -1

    def test_one_that_was_written_since_stops_the_undo(self, partition: Path) -> None:
        change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
        checkpoint = partition.parent / names.RECOVERY_POINT_CHECKPOINT
        checkpoint.write_text("0\n1\norders 0 7\n")
        judged = judge(change)
        assert judged.verdict == Verdict.CHANGED
        assert judged.why.endswith(f"{names.RECOVERY_POINT_CHECKPOINT} had none for it, it has 7 now")

    def test_an_offset_goes_and_comes_back(self, partition: Path) -> None:
        checkpoint = partition.parent / names.CLEANER_CHECKPOINT
        checkpoint.write_text("0\n1\norders 0 59\n")
        found = Plan(str(partition), (Operation(CHECKPOINT, names.CLEANER_CHECKPOINT, -1, old_size=59),), {})
        change = apply_plan(found, new_change(str(partition)), allowance=ANY_LOSS)
        assert checkpoint.read_text() == "0\n0\n"
        undo(change)
        assert checkpoint.read_text() == "0\n1\norders 0 59\n"


class TestPlaces:
    @pytest.mark.parametrize("backup", [None, "backup"])
    def test_originals_are_found_where_they_lie(self, partition: Path, tmp_path: Path, backup: str | None) -> None:
        backup_dir = str(tmp_path / backup) if backup else None
        change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition), backup_dir), allowance=ANY_LOSS)
        notes = files_of_changes(partition.parent, place.ELSEWHERE)
        assert [path.parent for path in notes] == ([partition.parent] if backup else [])
        for found in (changes_of(str(partition)), changes_of(str(partition), backup_dir), all_of(partition)):
            assert [(each.id, each.path, each.state) for each in found] == [
                (change.id, str(partition), ChangeState.DONE)
            ]

    def test_those_of_a_change_that_was_being_prepared_are_noted_too(self, partition: Path, tmp_path: Path) -> None:
        """And cleared away by whoever comes next, with the note."""
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(apply, "_staged", killed)
            patch.setattr(apply, "discard", lambda *_: None)
            apply_plan(
                plan(partition, {A: NEW}), new_change(str(partition), str(tmp_path / "backup")), allowance=ANY_LOSS
            )
        assert [path.parent.name for path in files_of_changes(tmp_path)] == ["orders-0", "logs"]
        assert finish_interrupted(str(partition)) == []
        assert files_of_changes(tmp_path) == []
        assert content(partition)[A] == b"first"

    def test_a_log_directory_that_was_moved_takes_its_changes_along(self, partition: Path) -> None:
        before = content(partition)
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
        moved = partition.parent.rename(partition.parent.with_name("moved")) / partition.name
        (change,) = changes_of(str(moved))
        assert change.path == str(moved)
        assert [each.path for each in all_of(moved)] == [str(moved)]
        undo(change)
        assert content(moved) == before

    def test_originals_elsewhere_of_a_directory_that_was_moved(self, partition: Path, tmp_path: Path) -> None:
        before, backup = content(partition), tmp_path / "backup"
        change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition), str(backup)), allowance=ANY_LOSS)
        moved = partition.parent.rename(tmp_path / "moved") / partition.name
        assert [(each.id, each.path) for each in changes_of(str(moved), str(backup))] == [(change.id, str(moved))]
        undo(changes_of(str(moved), str(backup))[0])
        assert content(moved) == before

    def test_changes_of_a_copy_that_is_still_there_are_not_those_of_another(
        self, partition: Path, tmp_path: Path
    ) -> None:
        backup = tmp_path / "backup"
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition), str(backup)), allowance=ANY_LOSS)
        other = tmp_path / "other" / partition.name
        shutil.copytree(partition, other)
        assert changes_of(str(other), str(backup)) == []

    def test_names_of_100_characters_stand_for_themselves(self) -> None:
        for length in (99, 100):
            assert label_of("t" * length) == "t" * length
        assert label_of("t" * 101).rpartition("-")[0] == "t" * 90

    def test_changes_of_one_second_have_the_order_in_which_they_were_made(self, partition: Path) -> None:
        stamp = "20260101T000000"
        for number in ("", "-2", "-10"):
            recipe = NewContent(number.encode().rjust(4), 4)
            wanted = kept_as_they_are(partition, B, C) | {A: recipe}
            apply_plan(
                plan(partition, wanted),
                ChangeFiles(str(partition.parent), stamp + number, partition.name),
                allowance=ANY_LOSS,
            )
        assert [each.id for each in changes_of(str(partition))] == [stamp, f"{stamp}-2", f"{stamp}-10"]


def killed(*_: object) -> Change:
    raise Killed


def all_of(partition: Path) -> list[Change]:
    return Changes(str(partition.parent)).all()


def test_what_need_not_be_kept_is_cleared_away_where_a_kill_came_before(partition: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(apply, "tidy", killed)
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), keep_old=False, allowance=ANY_LOSS)
    assert files_of_changes(partition.parent, place.OLD) != []
    clear_leftovers(str(partition))
    assert files_of_changes(partition.parent) == []


def test_what_an_interrupted_change_keeps_is_not_cleared_away(partition: Path) -> None:
    with killed_after(1):
        apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), keep_old=False, allowance=ANY_LOSS)
    before = files_of_changes(partition.parent)
    clear_leftovers(str(partition))
    assert files_of_changes(partition.parent) == before != []


class TestWhatUndoSays:
    @pytest.mark.parametrize(("batches", "lost"), [(1, "6 to 7"), (2, "6 to 9")])
    def test_which_offsets_it_would_drop(self, tmp_path: Path, batches: int, lost: str) -> None:
        partition = build(tmp_path / "logs")
        data, at = segment_bytes(0), 0
        ends = []
        while at < len(data):
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            ends.append(at)
        change = apply_plan(
            plan(partition, {A: SourceBytes(A, 0, ends[2])}), new_change(str(partition)), allowance=ANY_LOSS
        )
        assert change.log_end_offset == 6
        (partition / A).write_bytes(data[: ends[2 + batches]])
        judged = judge(change)
        assert judged.verdict == Verdict.GROWN
        assert judged.why.endswith(f"Undo would drop offsets {lost}")

    @pytest.mark.parametrize(("number", "more"), [(3, ""), (4, "; 1 more"), (6, "; 3 more")])
    def test_three_differences_and_how_many_more(self, partition: Path, number: int, more: str) -> None:
        change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
        for each in range(number):
            (partition / f"note-{each}").write_text("mine")
        assert judge(change).why.endswith(f"note-2 is new (4 bytes){more}")

    def test_files_are_read_only_where_that_is_asked_for(self, partition: Path) -> None:
        change = apply_plan(plan(partition, {A: NEW}), new_change(str(partition)), allowance=ANY_LOSS)
        info = (partition / A).stat()
        (partition / A).write_bytes(b"odd")
        os.utime(partition / A, ns=(info.st_atime_ns, info.st_mtime_ns))
        assert judge(change).verdict == Verdict.CAN_BE_UNDONE
        judged = judge(change, thorough=True)
        assert (judged.verdict, judged.why.endswith(f"{A} has other content")) == (Verdict.CHANGED, True)


def test_undoing_an_undo_of_new_and_replaced_files(partition: Path) -> None:
    """What an undo notes of the files that it moves back is what they were."""
    wanted = kept_as_they_are(partition, B) | {A: NEW, name(60, "log"): NewContent(b"a fourth", 8)}
    change = apply_plan(plan(partition, wanted), new_change(str(partition)), allowance=ANY_LOSS)
    undoing = undo(change)
    assert undoing is not None
    assert {(step.operation.action, step.operation.name): step.operation.old_size for step in undoing.steps} == {
        (REPLACE, C): -1,
        (REPLACE, A): 3,
        (REMOVE, name(60, "log")): 8,
    }


def test_a_saved_plan_whose_new_content_would_be_another(partition: Path, tmp_path: Path) -> None:
    """Of the same size, so that nothing else tells."""
    save(str(tmp_path / "plan.json"), "repair", [plan_row(plan(partition, {A: NEW}))])
    saved = load(str(tmp_path / "plan.json"))
    check_same(saved, plan(partition, {A: NEW}))
    with pytest.raises(RefusedError, match="the plan differs from"):
        check_same(saved, plan(partition, {A: NewContent(b"old", 3)}))


def test_a_copy_is_on_the_disk_before_it_has_its_name(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, done = partition.parent.with_name("copy"), []

    def note(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        done.append(os.path.relpath(path, target.parent) + (" named" if target.exists() else ""))

    monkeypatch.setattr(os, "fsync", note)
    part = copy_log_directory(str(partition.parent), [partition.name], str(target))
    complete(part, str(target))
    name_before = os.path.basename(part)
    files = [f"{name_before}/{each}" for each in (names.META_PROPERTIES, *(f"orders-0/{file}" for file in (A, B, C)))]
    assert sorted(done[:4]) == sorted(files)
    assert done[4:] == [f"{name_before}/orders-0", name_before, ". named"]
    assert content(target / partition.name) == content(partition)


def test_a_log_may_be_made_of_new_bytes_alone(partition: Path) -> None:
    parts = (NewContent(b"one", 3), NewContent(b"two", 3))
    apply_plan(plan(partition, {A: Joined(parts)}), new_change(str(partition)))
    assert (partition / A).read_bytes() == b"onetwo"
