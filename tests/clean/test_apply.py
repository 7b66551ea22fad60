"""A cleaning in place or into a copy: what is kept, undone, left alone; and killed at every step."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.checks import SPARE_BYTES
from kdump.change.interrupted import finish_interrupted
from kdump.change.place import new_change
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE
from kdump.change.undo import undo
from kdump.clean.apply import (
    CLEANED,
    Clean,
    check_output,
    clean_in_place,
    clean_into,
    cleaning_plan,
    copy_directory_files,
)
from kdump.clean.cleaning import Cleaning, clean
from kdump.clean.staging import Staging
from kdump.errors import CleaningError, RefusedError
from kdump.formats import names
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.startup import Startup
from kdump.settings.cleaning import CleaningSettings
from tests.change.kept import change_files, only_change
from tests.clean.building import (
    CONFIG,
    NOW,
    batch,
    build,
    checkpoint_of,
    clean_once,
    contents,
    files_of,
    in_txn,
    marker,
    name,
    state_of,
    write_checkpoint,
)
from tests.repair.test_crash import KILLED, Saboteur
from tests.sampling import sampled

SEGMENTS = {
    0: [batch(0, (b"a", b"1"), (b"b", b"1")), in_txn(2, 7, (b"c", b"1"))],
    10: [marker(10, 7, commit=False), batch(11, (b"a", b"2"))],
    20: [batch(20, (b"b", None), (b"d", b"1"))],
    30: [batch(30, (b"e", b"1"))],
}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments that make two groups, and the active one."""
    return build(tmp_path / "logs", SEGMENTS, checkpoint=5)


GROUPED = CONFIG._replace(segment_bytes=sum(map(len, SEGMENTS[0] + SEGMENTS[10])))
"""With these settings the first two segments become one, and the third stays for itself."""


def cleaner(partition: Path, config: CleaningSettings = CONFIG) -> Clean:
    """A pass over the partition as it is now."""
    state = state_of(partition, config)
    return lambda staging: clean(state, config, NOW, staging, compares_keys=False)


def test_what_was_replaced_can_be_put_back(partition: Path) -> None:
    before = files_of(partition)
    cleaning = clean_once(partition, GROUPED, keep_old=True)
    assert [len(group.segments) for group in cleaning.groups] == [2, 1]
    assert checkpoint_of(partition) == 30
    after = files_of(partition)
    assert after != before
    (old,) = change_files(partition.parent, f"old+{name(10, 'log')}")
    assert old.read_bytes() == before[name(10, "log")]
    undoing = undo(only_change(partition))
    assert undoing is not None
    assert files_of(partition) == before
    assert checkpoint_of(partition) == 5
    undo(undoing)
    assert files_of(partition) == after
    assert checkpoint_of(partition) == 30


def test_a_checkpoint_has_the_other_partitions_still(partition: Path) -> None:
    checkpoint = partition.parent / names.CLEANER_CHECKPOINT
    checkpoint.write_text("0\n3\nothers 1 77\nusers 0 5\nothers 0 66\n")
    clean_once(partition)
    assert checkpoint.read_text() == "0\n3\nothers 1 77\nusers 0 30\nothers 0 66\n"
    checkpoint.unlink()
    shutil.rmtree(partition)
    clean_once(build(partition.parent / "again", SEGMENTS))
    assert (partition.parent / "again" / names.CLEANER_CHECKPOINT).read_text() == "0\n1\nusers 0 30\n"


def test_files_keep_owner_mode_and_the_last_segments_time(tmp_path: Path) -> None:
    partition = build(tmp_path, SEGMENTS, modified={0: 5000, 10: 6000, 20: 7123})
    os.chmod(partition / name(0, "log"), 0o640)
    clean_once(partition)
    for kind in ("log", "index", "timeindex"):
        info = (partition / name(0, kind)).stat()
        assert (info.st_mode & 0o777, info.st_mtime_ns) == (0o640, 7123 * 1_000_000), kind


def test_a_copy_leaves_the_source_alone(partition: Path, tmp_path: Path) -> None:
    before, beside = files_of(partition), files_of(partition.parent)
    state = state_of(partition)
    output = tmp_path / "out"
    check_output(str(output))
    cleaning = clean_into(state, lambda staging: clean(state, CONFIG, NOW, staging, compares_keys=False), str(output))
    assert cleaning is not None
    copy_directory_files(str(partition.parent), str(output), [cleaning])
    assert (files_of(partition), files_of(partition.parent)) == (before, beside)
    clean_once(partition)
    assert files_of(output / "users-0") == files_of(partition)
    assert checkpoint_of(output / "users-0") == 30
    for file in sorted(files_of(partition)):
        if file.endswith((".log", ".index", ".timeindex")):
            assert (output / "users-0" / file).stat().st_mtime_ns == (partition / file).stat().st_mtime_ns, file
    with pytest.raises(RefusedError, match="not empty"):
        check_output(str(output))


def test_a_copy_that_fails_is_removed(partition: Path, tmp_path: Path) -> None:
    def fails(_: object) -> Cleaning:
        raise RefusedError("no")

    with pytest.raises(RefusedError):
        clean_into(state_of(partition), fails, str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_not_due_is_copied_as_it_is(partition: Path, tmp_path: Path) -> None:
    state = state_of(partition)
    assert clean_into(state, None, str(tmp_path / "out")) is None
    copy_directory_files(str(partition.parent), str(tmp_path / "out"), [state])
    assert files_of(tmp_path / "out" / "users-0") == files_of(partition)
    assert checkpoint_of(tmp_path / "out" / "users-0") == 5


def test_a_failure_before_the_changes_leaves_nothing(partition: Path) -> None:
    before = files_of(partition)
    (partition / name(20, "log")).write_bytes(b"\xff" * 200)
    with pytest.raises(CleaningError):
        clean_once(partition)
    (partition / name(20, "log")).write_bytes(before[name(20, "log")])
    assert files_of(partition) == before
    assert change_files(partition.parent) == []


def test_the_plan_has_the_steps_of_kafkas_cleaner(partition: Path, tmp_path: Path) -> None:
    """LogSegments are replaced one group after the other; the checkpoint is last."""
    new = partial(os.path.join, tmp_path)
    cleaning = cleaner(partition, GROUPED)(Staging(new, CLEANED))
    plan = cleaning_plan(cleaning, new)
    steps = []
    for base, kinds, gone in ((0, ("log", "index", "timeindex"), (0, 10)), (20, ("log", "index", "timeindex"), (20,))):
        files = [name(base, kind) for kind in kinds]
        files += [file for file in [name(base, "txnindex")] if (tmp_path / f"{file}.cleaned").exists()]
        sizes = [(tmp_path / f"{file}.cleaned").stat().st_size for file in files]
        steps += [(REPLACE, f"{file}.cleaned", "", size) for file, size in zip(files, sizes, strict=True)]
        steps += [(RENAME, f"{file}.swap", f"{file}.cleaned", size) for file, size in zip(files, sizes, strict=True)]
        for offset in gone:
            old = [name(offset, kind) for kind in (*kinds, "txnindex", *(["snapshot"] if offset != base else []))]
            steps += [(REMOVE, file, "", 0) for file in old if (partition / file).exists()]
        steps += [(RENAME, file, f"{file}.swap", size) for file, size in zip(files, sizes, strict=True)]
    steps.append((CHECKPOINT, names.CLEANER_CHECKPOINT, "", 30))
    assert [(each.action, each.name, each.source, each.size) for each in plan.operations] == steps
    removed = {each.name: each.old_size for each in plan.operations if each.action == REMOVE}
    assert removed == {file: (partition / file).stat().st_size for file in removed}
    assert plan.operations[-1].old_size == 5
    unknown = replace(cleaning, state=replace(cleaning.state, checkpoint=None))
    assert cleaning_plan(unknown, new).operations[-1].old_size == -1


def test_where_there_was_no_checkpoint_undo_leaves_none(tmp_path: Path) -> None:
    partition = build(tmp_path / "logs", SEGMENTS)
    clean_once(partition, keep_old=True)
    assert checkpoint_of(partition) == 30
    undo(only_change(partition))
    assert checkpoint_of(partition) is None


def test_a_symbolic_link_is_not_replaced_wherever_it_leads(partition: Path) -> None:
    before = files_of(partition)
    snapshot = partition / name(10, "snapshot")
    elsewhere = snapshot.rename(partition.parent / "elsewhere")
    snapshot.symlink_to(partition / "nothing")
    with pytest.raises(RefusedError, match="a symbolic link"):
        clean_once(partition)
    elsewhere.replace(snapshot)
    assert files_of(partition) == before
    assert change_files(partition.parent) == []


def test_what_is_said_of_a_pass_is_what_there_is(partition: Path) -> None:
    cleaning = clean_once(partition, GROUPED)
    first, second = cleaning.groups
    sizes = {at: (partition / name(at, "log")).stat().st_size for at in (0, 20, 30)}
    assert [(each.base_offset, each.size_after) for each in cleaning.groups] == [(0, sizes[0]), (20, sizes[20])]
    assert first.size_before == GROUPED.segment_bytes
    assert second.size_before == len(b"".join(SEGMENTS[20]))
    assert cleaning.size_after == sum(sizes.values())
    files = {name(group.base_offset, file.kind): file.size for group in cleaning.groups for file in group.files}
    assert files == {file: len(data) for file, data in files_of(partition).items() if file in files}


# --- a copy, and what is around it


def test_a_copy_goes_into_a_directory_that_is_there_and_empty(partition: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    check_output(str(output))
    clean_into(state_of(partition), None, str(output))
    assert files_of(output / "users-0") == files_of(partition)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_copy_belongs_to_whom_the_original_does(partition: Path, tmp_path: Path) -> None:
    paths = (partition, partition / name(30, "log"), partition.parent / names.META_PROPERTIES)
    paths[-1].write_text("version=1\n")
    for path in paths:
        os.chown(path, 1234, 2345)
    cleaning = clean_into(state_of(partition), cleaner(partition), str(tmp_path / "out"))
    assert cleaning is not None
    copy_directory_files(str(partition.parent), str(tmp_path / "out"), [cleaning])
    copied = ("users-0", f"users-0/{name(30, 'log')}", names.META_PROPERTIES)
    infos = [(tmp_path / "out" / each).stat() for each in copied]
    assert {(info.st_uid, info.st_gid) for info in infos} == {(1234, 2345)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_for_originals_belongs_to_whom_the_partition_does(partition: Path, tmp_path: Path) -> None:
    for path in (partition, *partition.iterdir()):
        os.chown(path, 1234, 2345)
    files = new_change(str(partition), str(tmp_path / "backup"))
    clean_in_place(state_of(partition), cleaner(partition), files, keep_old=True)
    info = os.stat(files.directory)
    assert (info.st_uid, info.st_gid) == (1234, 2345)


def test_a_copy_has_the_time_of_the_directory_that_it_was_made_from(partition: Path, tmp_path: Path) -> None:
    os.utime(partition, ns=(5_000_000_000, 6_000_000_000))
    clean_into(state_of(partition), cleaner(partition), str(tmp_path / "out"))
    assert (tmp_path / "out" / "users-0").stat().st_mtime_ns == 6_000_000_000


def test_a_copy_and_all_its_names_are_on_the_disk(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, synced = tmp_path / "out", set[int]()
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    (partition.parent / names.META_PROPERTIES).write_text("version=1\n")
    cleaning = clean_into(state_of(partition), cleaner(partition), str(output))
    assert synced >= {path.stat().st_ino for path in (output, *output.rglob("*"))}
    assert cleaning is not None
    synced.clear()
    copy_directory_files(str(partition.parent), str(output), [cleaning])
    assert synced >= {path.stat().st_ino for path in (output, *output.iterdir()) if path.name != "users-0"}


def test_of_the_files_around_partitions_a_copy_has_those_that_a_broker_starts_with(
    partition: Path, tmp_path: Path
) -> None:
    files = {names.META_PROPERTIES: "version=1\n", names.CLEAN_SHUTDOWN: "", ".lock": "", "notes.txt": "mine"}
    for file, text in files.items():
        (partition.parent / file).write_text(text)
    (partition.parent / names.REPLICATION_CHECKPOINT).write_text("0\n2\nusers 0 31\nothers 0 9\n")
    (partition.parent / names.CLEANER_CHECKPOINT).unlink()
    output = tmp_path / "out"
    cleaning = clean_into(state_of(partition), cleaner(partition), str(output))
    assert cleaning is not None
    for _ in range(2):  # once more after each further pass
        copy_directory_files(str(partition.parent), str(output), [cleaning])
        assert files_of(output) == {
            names.META_PROPERTIES: b"version=1\n",
            names.CLEAN_SHUTDOWN: b"",
            names.REPLICATION_CHECKPOINT: b"0\n1\nusers 0 31\n",
            names.CLEANER_CHECKPOINT: b"0\n1\nusers 0 30\n",
        }


def test_what_was_never_cleaned_is_in_no_cleaners_checkpoint_of_a_copy(partition: Path, tmp_path: Path) -> None:
    write_checkpoint(partition.parent, names.CLEANER_CHECKPOINT, None)
    state = state_of(partition)
    clean_into(state, None, str(tmp_path / "out"))
    copy_directory_files(str(partition.parent), str(tmp_path / "out"), [state])
    assert (tmp_path / "out" / names.CLEANER_CHECKPOINT).read_text() == "0\n0\n"


def test_a_directory_that_is_not_named_as_a_partition_is_cleaned_and_copied_without_lines(
    partition: Path, tmp_path: Path
) -> None:
    unnamed = partition.rename(partition.with_name("users"))
    cleaning = clean_into(state_of(unnamed), cleaner(unnamed), str(tmp_path / "out"))
    assert cleaning is not None
    copy_directory_files(str(unnamed.parent), str(tmp_path / "out"), [cleaning])
    assert (tmp_path / "out" / names.CLEANER_CHECKPOINT).read_text() == "0\n0\n"
    before = (unnamed.parent / names.CLEANER_CHECKPOINT).read_text()
    clean_once(unnamed)
    assert files_of(unnamed) == files_of(tmp_path / "out" / "users")
    assert (unnamed.parent / names.CLEANER_CHECKPOINT).read_text() == before


def test_a_copy_keeps_the_snapshots_that_cleaning_in_place_keeps(tmp_path: Path) -> None:
    partition = build(tmp_path / "logs", SEGMENTS)
    for offset in (0, 10, 20):  # from an unclean start of a broker, say
        shutil.copyfile(partition / name(31, "snapshot"), partition / name(offset, "snapshot"))
    (partition / f"{name(10, 'log')}.deleted").write_bytes(b"gone")
    clean_into(state_of(partition, GROUPED), cleaner(partition, GROUPED), str(tmp_path / "out"))
    clean_once(partition, GROUPED)
    there = files_of(partition)
    assert files_of(tmp_path / "out" / "users-0") == there
    assert [file for file in sorted(there) if file.endswith("snapshot")] == [
        name(offset, "snapshot") for offset in (0, 20, 30, 31)
    ]
    assert there[f"{name(10, 'log')}.deleted"] == b"gone"


# --- whether there is room


READ = sum(map(len, SEGMENTS[0] + SEGMENTS[10] + SEGMENTS[20]))
STAYS = len(SEGMENTS[30][0])


class Room:
    """A file system with so many bytes free, and how often something was cleaned there, on paper or not."""

    def __init__(self, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = self.passes = 0
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free))
        self._cleaner = cleaner(partition)
        self.size_after = self.clean(Staging(None)).counts.size_after

    def clean(self, staging: Staging) -> Cleaning:
        self.passes += 1
        return self._cleaner(staging)


@pytest.fixture
def room(partition: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    """A file system without room so far."""
    return Room(partition, monkeypatch)


@pytest.mark.parametrize("copies", [False, True])
def test_there_has_to_be_room_for_what_will_be_written(
    partition: Path, tmp_path: Path, room: Room, copies: bool
) -> None:
    def run() -> None:
        room.passes = 0
        state = state_of(partition)
        if copies:
            clean_into(state, room.clean, str(tmp_path / "out"))
        else:
            clean_in_place(state, room.clean, new_change(str(partition)), keep_old=True)

    before = files_of(partition)
    most = SPARE_BYTES + READ + copies * STAYS
    least = SPARE_BYTES + room.size_after + copies * STAYS
    assert least < most
    room.free = least - 1
    with pytest.raises(RefusedError, match=f": {least} bytes of space are needed here, and {least - 1} are free"):
        run()
    assert files_of(partition) == before
    assert not change_files(partition.parent)
    assert not (tmp_path / "out" / "users-0").exists()
    room.free = least
    run()
    assert room.passes == 2  # the first on paper, to find out how much it will be
    assert (files_of(partition) == before) == copies


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(("missing", "passes"), [(0, 1), (1, 2)])
def test_where_there_is_room_for_all_that_is_read_nothing_is_tried_on_paper(
    partition: Path, tmp_path: Path, room: Room, copies: bool, missing: int, passes: int
) -> None:
    room.free, room.passes = SPARE_BYTES + READ + copies * STAYS - missing, 0
    if copies:
        clean_into(state_of(partition), room.clean, str(tmp_path / "out"))
    else:
        clean_in_place(state_of(partition), room.clean, new_change(str(partition)), keep_old=True)
    assert room.passes == passes


def test_what_is_copied_as_it_is_needs_room_for_all_of_it(partition: Path, tmp_path: Path, room: Room) -> None:
    room.free = SPARE_BYTES + READ + STAYS - 1
    with pytest.raises(RefusedError, match="bytes of space are needed here"):
        clean_into(state_of(partition), None, str(tmp_path / "out"))
    room.free += 1
    clean_into(state_of(partition), None, str(tmp_path / "out"))
    assert files_of(tmp_path / "out" / "users-0") == files_of(partition)


# --- killed at every step


def run(log_dir: Path, *, keep_old: bool) -> None:
    """What one run does: finish an interrupted one, and clean what is due."""
    partition = log_dir / "users-0"
    finish_interrupted(str(partition))
    if state_of(partition, GROUPED).is_due(GROUPED):
        clean_once(partition, GROUPED, keep_old=keep_old)


def killed(log_dir: Path, at: int, *, keep_old: bool) -> bool:
    """Clean in a child that is killed at change number `at`; whether it got that far."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, KILLED)
        return code == KILLED
    status = 1
    try:
        saboteur = Saboteur(at, None)
        real_fsync = os.fsync

        def fsync(fd: Any) -> None:
            saboteur.step()
            real_fsync(fd)

        os.fsync = fsync
        sys.addaudithook(saboteur.audit)
        run(log_dir, keep_old=keep_old)
        status = 0
    finally:
        os._exit(status)


def kill_points(log_dir: Path, scratch: Path, *, keep_old: bool) -> Iterator[Path]:
    """A copy of the directory for every change, interrupted there."""
    at, goes_on = 0, True
    while goes_on:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(log_dir, copy)
        goes_on = killed(copy, at, keep_old=keep_old)
        yield copy
        shutil.rmtree(copy)


def loaded(log_dir: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records after a broker has started on a copy of the directory."""
    copy = log_dir.parent / f"{log_dir.name}-started"
    shutil.copytree(log_dir, copy, ignore=shutil.ignore_patterns(".kdump-*"))
    partition = copy / "users-0"
    startup = Startup(NOW, clean=True, recovery_point=31, config=CONFIG.loading)
    outcome, plan = plan_recovery(kdump.open_log(str(partition)), startup)
    assert outcome.ok
    assert not outcome.loss.has_data
    assert plan is not None
    apply_plan(plan, new_change(str(partition)), keep_old=False)
    found = contents(partition)
    shutil.rmtree(copy)
    return found


@pytest.mark.parametrize("keep_old", sampled([True, False], 1))
def test_killed_anywhere_a_broker_loses_nothing_and_a_rerun_finishes(
    partition: Path, tmp_path: Path, keep_old: bool
) -> None:
    log_dir = partition.parent
    before = contents(partition)
    done = tmp_path / "done"
    shutil.copytree(log_dir, done)
    run(done, keep_old=keep_old)
    after, files = contents(done / "users-0"), files_of(done / "users-0")
    assert after != before
    count = 0
    for copy in kill_points(log_dir, tmp_path, keep_old=keep_old):
        count += 1
        assert set(after) <= set(loaded(copy)) <= set(before), count
        run(copy, keep_old=keep_old)
        assert files_of(copy / "users-0") == files, count
        assert checkpoint_of(copy / "users-0") == 30, count
        assert keep_old or not change_files(copy), count
    assert count > 30
