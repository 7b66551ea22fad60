"""A journal is input: it says what is done to finish a change, or to take it back, and anybody may have written it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kdump.change import place
from kdump.change.apply import apply_plan
from kdump.change.change import Change, ChangeState
from kdump.change.interrupted import finish_interrupted
from kdump.change.journal import Changes, changes_of
from kdump.change.place import ChangeFiles, new_change
from kdump.change.plan import REMOVE, REPLACE, TRUNCATE, make_plan
from kdump.change.undo import close, prune, roll_back, undo
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.operations.undo import list_changes
from kdump.storage.recipe import NewContent, Recipe, SourceBytes
from tests.change.files import A, B, C
from tests.change.kept import change_files, killed_after, only_change

Row = dict[str, Any]
ROOT = os.geteuid() == 0
OTHER = 4321
"""A user who has nothing to do with the directory."""
TOO_DEEP = "[" * 100_000


@pytest.fixture
def outside(partition: Path) -> Path:
    """A directory beside the log directory, with a file that has the name of one of the partition."""
    folder = partition.parent.parent / "outside"
    folder.mkdir()
    (folder / A).write_bytes(b"a file of somebody else")
    (folder / f"{place.PREFIX}x").write_bytes(b"and another")
    return folder


def all_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def changed(partition: Path, wanted: Mapping[str, Recipe], files: ChangeFiles) -> Change:
    return apply_plan(make_plan(str(partition), wanted, {}), files, command="repair")


def interrupted(partition: Path, steps: int = 0) -> Path:
    """The journal of a change that cuts, replaces and removes a file, and was interrupted."""
    wanted: dict[str, Recipe] = {A: SourceBytes(A, 0, 3), B: NewContent(b"new", 3)}
    with killed_after(steps):
        changed(partition, wanted, new_change(str(partition)))
    (path,) = change_files(partition.parent, place.JOURNAL)
    return path


def step_of(row: Row, action: str) -> Row:
    found: Row = next(step for step in row["steps"] if step["operation"]["action"] == action)
    return found


def in_step(action: str, key: str, value: object) -> Callable[[Row], None]:
    def forge(row: Row) -> None:
        step = step_of(row, action)
        (step if key in step else step["operation"])[key] = value

    return forge


def put(key: str, value: object) -> Callable[[Row], None]:
    return lambda row: row.update({key: value})


LEADS_OUT = {
    "the directory beside": put("path", "../outside"),
    "an absolute path": put("path", "/etc"),
    "a longer way out": put("path", "orders-0/../../outside"),
    "another partition": put("path", "orders-1"),
    "a partition in a directory": put("path", "orders-0/orders-1"),
    "an end in the path": put("path", "orders-0\0"),
    "another change": put("id", "20010101T000000"),
    "a name that leads out": in_step(TRUNCATE, "name", f"../../outside/{A}"),
    "an absolute name": in_step(REMOVE, "name", "/etc/passwd"),
    "no name": in_step(REPLACE, "name", ""),
    "the directory's name": in_step(REMOVE, "name", "."),
    "the name of that around": in_step(REMOVE, "name", ".."),
    "an end in a name": in_step(REMOVE, "name", f"{A}\0"),
    "a source that leads out": in_step(REPLACE, "source", f"../{A}"),
    "a rename of nothing": in_step(REPLACE, "action", "rename"),
    "no checkpoint": in_step(REMOVE, "action", "checkpoint"),
    "kept under a name of the log directory": in_step(REMOVE, "kept", names.META_PROPERTIES),
    "kept under another change's name": in_step(REMOVE, "kept", f"{place.PREFIX}20010101T000000+orders-0+old+x"),
    "a new file of the log directory": in_step(REPLACE, "staged", names.META_PROPERTIES),
    "no new file": in_step(REPLACE, "staged", ""),
    "a cut under another name": put(
        "cuts", [{"cut": {"file": A, "start": 0, "stop": 1, "why": ""}, "file": "../outside/x"}]
    ),
    "a file of the partition elsewhere": lambda row: row["before"]["files"].update({"../x": [0, 0]}),
}
"""What a journal may say that leads out of the partition, or to files that are not the change's."""

NO_JOURNAL = {
    "a size that is text": in_step(TRUNCATE, "size", "5"),
    "a size below 0": in_step(TRUNCATE, "size", -1),
    "a size without end": in_step(TRUNCATE, "size", float("inf")),
    "no size": in_step(TRUNCATE, "size", float("nan")),
    "a size of 400 digits": in_step(TRUNCATE, "size", 10**400),
    "an inode that is a list": in_step(REMOVE, "inode", []),
    "a name that is a number": in_step(REMOVE, "name", 5),
    "a kept file that is a number": in_step(REMOVE, "kept", 5),
    "a reason that is none": in_step(REMOVE, "why", None),
    "a time after all calendars": put("begun", 10**30),
    "a path that is a number": put("path", 5),
    "steps that are none": put("steps", None),
    "an end that is text": put("logEndOffset", "x"),
    "digests that are a list": put("digests", []),
    "a release to come": put("version", 3),
}
"""What no kdump of this release writes."""


def forged(path: Path, forge: Callable[[Row], None]) -> None:
    row = json.loads(path.read_bytes())
    forge(row)
    path.write_text(json.dumps(row))


@pytest.mark.parametrize("state", [ChangeState.INTERRUPTED, ChangeState.DONE])
@pytest.mark.parametrize("what", LEADS_OUT)
def test_what_leads_out_is_refused(partition: Path, outside: Path, what: str, state: ChangeState) -> None:
    path = interrupted(partition)
    forged(path, put("state", state))
    forged(path, LEADS_OUT[what])
    before = all_of(partition.parent.parent)
    with pytest.raises(RefusedError, match="kdump does nothing that it says"):
        finish_interrupted(str(partition))
    listing = list_changes(str(partition.parent))
    assert [type(error) for error in listing.unreadable] == [RefusedError]
    assert listing.changes == ()
    assert all_of(partition.parent.parent) == before


@pytest.mark.parametrize("what", NO_JOURNAL)
def test_what_no_kdump_writes_is_no_journal(partition: Path, what: str) -> None:
    path = interrupted(partition)
    forged(path, NO_JOURNAL[what])
    before = all_of(partition.parent)
    with pytest.raises(KdumpError, match="not a journal of a change that this release of kdump can read"):
        finish_interrupted(str(partition))
    assert all_of(partition.parent) == before


@pytest.mark.parametrize("content", ["", "5", "[]", TOO_DEEP, '{"version": 2}', "\0"])
def test_other_documents(partition: Path, content: str) -> None:
    path = interrupted(partition)
    path.write_text(content)
    with pytest.raises(KdumpError, match="not a journal"):
        changes_of(str(partition))


def test_a_directory_of_backups_that_leads_out(partition: Path, outside: Path) -> None:
    """A name that looks as if the directory were one of backups: a partition is still one of the log directory."""
    path = interrupted(partition)
    log_dir = partition.parent
    other = path.with_name(path.name.replace("orders-0", "outside"))
    path.rename(other)
    other.write_text(other.read_text().replace("+orders-0+", "+outside+"))
    forged(other, put("path", "../outside"))
    changes = Changes(str(log_dir))
    assert changes.all() == []
    assert [type(error) for error in changes.unreadable] == [RefusedError]


@pytest.mark.parametrize("end", [roll_back, finish_interrupted, undo])
def test_a_link_in_the_place_of_a_file_stays(partition: Path, outside: Path, end: Callable[..., object]) -> None:
    """As in a journal that was planted with it: the size and the time of the link are those that it has noted."""
    path = interrupted(partition)
    (partition / A).unlink()
    (partition / A).symlink_to(outside / A)
    info = (partition / A).lstat()
    forged(path, lambda row: row["before"]["files"].update({A: [info.st_size, info.st_mtime_ns]}))
    before = all_of(outside)
    with pytest.raises(RefusedError, match="a symbolic link"):
        end(only_change(partition) if end is not finish_interrupted else str(partition))
    assert all_of(outside) == before
    assert only_change(partition).is_interrupted


def test_new_files_of_another_directory(partition: Path, outside: Path) -> None:
    path = interrupted(partition)
    prefix = only_change(partition).files.prefix
    (outside / f"{prefix}new+x").write_bytes(b"new")
    forged(path, in_step(REPLACE, "staged", f"../outside/{prefix}new+x"))
    before = all_of(partition.parent.parent)
    with pytest.raises(RefusedError, match="where none of its change lie"):
        finish_interrupted(str(partition))
    forged(path, put("undoes", "20010101T000000"))
    with pytest.raises(RefusedError, match="where none of its change lie"):
        finish_interrupted(str(partition))
    forged(path, put("undoes", ""))
    assert all_of(partition.parent.parent) == before
    close(only_change(partition))
    prune(only_change(partition))
    assert (outside / f"{prefix}new+x").read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_a_journal_is_a_file(partition: Path, outside: Path, kind: str) -> None:
    path = interrupted(partition)
    path.rename(outside / "journal")
    if kind == "link":
        path.symlink_to(outside / "journal")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    before = all_of(partition)
    with pytest.raises(RefusedError, match="not a regular file: kdump does nothing that it says"):
        finish_interrupted(str(partition))
    assert all_of(partition) == before


def test_only_the_owner_of_the_directory_and_whoever_runs_this_are_believed(partition: Path) -> None:
    path = interrupted(partition)
    if ROOT:
        os.chown(path, OTHER, OTHER)
        before = all_of(partition.parent)
        with pytest.raises(RefusedError, match="nor runs this: kdump does nothing that it says"):
            finish_interrupted(str(partition))
        assert all_of(partition.parent) == before
        os.chown(path, 0, 0)
    finish_interrupted(str(partition))
    assert (partition / B).read_bytes() == b"new"
    assert not (partition / C).exists()


def test_a_note_that_leads_to_no_path(partition: Path) -> None:
    backups = partition.parent.parent / "backups"
    backups.mkdir()
    files = new_change(str(partition), str(backups))
    with killed_after(0):
        changed(partition, {A: SourceBytes(A, 0, 3)}, files)
    (note,) = change_files(partition.parent, place.ELSEWHERE)
    assert [each.id for each in changes_of(str(partition))] == [files.id]
    note.write_text('{"directory": "a\\u0000b", "state": "done"}')
    with pytest.raises(RefusedError, match="kdump does nothing that it says"):
        changes_of(str(partition))
    note.write_text('{"directory": 5, "state": "done"}')
    with pytest.raises(KdumpError, match="not a note"):
        changes_of(str(partition))


def test_an_undo_takes_originals_from_where_the_change_kept_them(partition: Path) -> None:
    """Those of the change are elsewhere, and those of its undo in the log directory: that is no way out."""
    backups = partition.parent.parent / "backups"
    backups.mkdir()
    before = all_of(partition)
    change = changed(partition, {A: SourceBytes(A, 0, 3)}, new_change(str(partition), str(backups)))
    with killed_after(0):
        undo(change)
    (finished,) = finish_interrupted(str(partition))
    assert finished.undoes == change.id
    assert all_of(partition) == before
