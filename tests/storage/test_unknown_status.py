"""What the system says nothing of is not missing: whoever asks for it hears of the error."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kdump
from kdump.change.change import Change
from kdump.change.journal import changes_of, write
from kdump.change.place import IN_PARTITION, JOURNAL, new_change
from kdump.change.plan import make_plan
from kdump.change.states import state_of
from kdump.change.unfinished import unfinished_in
from kdump.disk.locks import is_log_directory
from kdump.disk.reading import is_directory, is_file, is_named, is_there, list_directory
from kdump.findings.kind import GOES_OFFLINE, REFUSES
from kdump.formats import names
from kdump.operations.safety import SafetyOptions, guarded
from kdump.operations.started_clusters import warnings_of
from kdump.operations.undo import list_changes
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent
from kdump.topics.clusters import Clusters
from tests.commands.running import invoked
from tests.repair.damaged import build, name

UNKNOWN = [errno.EIO, errno.EACCES]
NOWHERE = [errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG]
QUESTIONS = [is_there, is_directory, is_file, is_named]


@pytest.fixture
def no_status(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], None]:
    """Let the system fail to say what is at a path."""

    def fail(path: Path, error: int) -> None:
        def failing(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
            def called(target: str | int, *arguments: object, **named: object) -> os.stat_result:
                if target == str(path):
                    raise OSError(error, os.strerror(error), target)
                return real(target, *arguments, **named)

            return called

        monkeypatch.setattr(os, "stat", failing(os.stat))
        monkeypatch.setattr(os, "lstat", failing(os.lstat))

    return fail


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("error", UNKNOWN)
def test_an_error_is_no_answer(
    question: Callable[[str], bool], error: int, tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    no_status(tmp_path / "file", error)
    with pytest.raises(OSError, match="file") as raised:
        question(str(tmp_path / "file"))
    assert raised.value.errno == error


def test_a_log_directory_of_which_the_system_says_nothing_is_not_changed_without_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: int) -> Callable[..., os.stat_result]:
        def called(target: str, *_: object, **__: object) -> os.stat_result:
            raise OSError(error, os.strerror(error), target)

        return called

    monkeypatch.setattr(os, "lstat", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        is_log_directory(str(tmp_path))
    monkeypatch.setattr(os, "lstat", failing(errno.EACCES))
    assert not is_log_directory(str(tmp_path))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("error", NOWHERE)
def test_a_path_that_leads_nowhere_is_one(
    question: Callable[[str], bool], error: int, tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    no_status(tmp_path / "file", error)
    assert not question(str(tmp_path / "file"))


def test_questions_are_answered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dead").symlink_to("nowhere")
    asked = {each: [question(str(tmp_path / each)) for question in QUESTIONS] for each in ("", "file", "dead", "none")}
    assert asked == {
        "": [True, True, False, True],
        "file": [True, False, True, True],
        "dead": [False, False, False, True],
        "none": [False, False, False, False],
    }


class _Entry:
    """An entry of a directory of a file system that does not say in it what its entries are."""

    def __init__(self, path: Path, error: int) -> None:
        self.path, self.name, self._error = str(path), path.name, error

    def is_dir(self) -> bool:
        raise OSError(self._error, os.strerror(self._error), self.path)


class _Entries(list[_Entry]):
    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@pytest.mark.parametrize("error", UNKNOWN)
def test_a_directory_with_an_entry_that_cannot_be_looked_at_is_not_listed(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", lambda _: _Entries([_Entry(tmp_path / "1-log", error)]))
    with pytest.raises(OSError, match="1-log"):
        list_directory(str(tmp_path))
    with pytest.raises(OSError, match="1-log"):
        PartitionLog(str(tmp_path))


def test_a_link_that_leads_nowhere_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "file").touch()
    assert list_directory(str(tmp_path)) == ([], ["file"])


@pytest.mark.parametrize("error", UNKNOWN)
@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex"])
def test_an_index_that_cannot_be_looked_at_is_unread_and_not_missing(
    error: int, kind: str, tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    partition = build(tmp_path)
    no_status(partition / name(20, kind), error)
    found = {finding.code for finding in kdump.verify(str(partition))}
    assert "KD-READ" in found
    assert not {code for code in found if code.endswith("-MISSING")}


@pytest.mark.parametrize("error", UNKNOWN)
def test_a_directory_that_cannot_be_looked_at_is_not_made_anew(
    error: int, tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    partition = build(tmp_path)
    no_status(partition, error)
    with pytest.raises(OSError, match="orders-0"):
        make_plan(str(partition), {name(0, "log"): NewContent(b"", 0)}, {})


@pytest.fixture
def changed(tmp_path: Path) -> tuple[Path, Change]:
    """A partition of a log directory, and an interrupted change of it."""
    (tmp_path / "meta.properties").touch()
    partition = build(tmp_path)
    change = Change(new_change(str(partition)), str(partition), "repair", 0, (), state_of(str(partition)))
    write(change)
    return partition, change


def test_a_journal_that_cannot_be_looked_at_is_no_missing_one(
    changed: tuple[Path, Change], no_status: Callable[[Path, int], None]
) -> None:
    partition, change = changed
    no_status(Path(change.files.path(JOURNAL)), errno.EIO)
    with pytest.raises(OSError, match="journal"):
        changes_of(str(partition))
    with pytest.raises(OSError, match="journal"):
        list_changes(str(partition))


def test_where_changes_may_lie_they_are_not_taken_for_missing(
    tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    partition, other = build(tmp_path), tmp_path / "orders-1"
    shutil.copytree(partition, other)
    (tmp_path / "meta.properties").touch()
    no_status(partition / IN_PARTITION, errno.EIO)
    with pytest.raises(OSError, match=IN_PARTITION):
        list(unfinished_in(str(tmp_path), [str(partition)]))
    assert list(unfinished_in(str(tmp_path), [str(other)])) == []
    with guarded(str(tmp_path), [str(partition), str(other)], SafetyOptions()) as guard:
        assert set(guard.errors) == {str(partition)}
    listing = list_changes(str(tmp_path))
    assert [getattr(error, "filename", None) for error in listing.unreadable] == [str(partition / IN_PARTITION)]


def test_a_partition_that_may_not_be_entered_holds_no_look_for_changes_up(
    tmp_path: Path, no_status: Callable[[Path, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = build(tmp_path)
    no_status(partition / IN_PARTITION, errno.EACCES)
    with pytest.raises(PermissionError):
        list(unfinished_in(str(tmp_path), [str(partition)]))
    monkeypatch.setattr("kdump.change.unfinished.may_be_entered", lambda _: False)
    assert list(unfinished_in(str(tmp_path), [str(partition)])) == []


def test_metadata_of_which_the_system_says_nothing_is_trouble_and_not_missing(
    tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    for folder in ("disk-1", "disk-2"):
        (tmp_path / folder).mkdir()
    paths = [str(tmp_path / "disk-1"), str(tmp_path / "disk-2")]
    place = tmp_path / "disk-1" / names.CLUSTER_METADATA_DIR
    directory = LogDirectory(paths[1])
    assert not Clusters(paths).of(directory).problems
    no_status(place, errno.EIO)
    (problem,) = Clusters(paths).of(directory).problems
    assert (problem.path, problem.is_unreadable) == (str(place), True)
    (warning,) = warnings_of(Clusters(paths).of(directory))
    assert f": {names.CLUSTER_METADATA_DIR}: Input/output error" in warning


def test_what_goes_offline_may_end_the_process_where_nobody_knows_whether_the_metadata_is_beside_it(
    tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    (tmp_path / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abcdefghijklmnopqrstuv\n")
    (build(tmp_path) / names.PARTITION_METADATA).write_text("no metadata")
    (before,) = (finding for finding in kdump.verify(tmp_path) if finding.code == "KD-META-PARTITION")
    no_status(tmp_path / names.CLUSTER_METADATA_DIR, errno.EIO)
    (finding,) = (finding for finding in kdump.verify(tmp_path) if finding.code == "KD-META-PARTITION")
    assert (before.broker, finding.broker) == (GOES_OFFLINE, REFUSES)
    said = invoked("startup", tmp_path)
    assert said.return_value == 3
    assert f"{names.CLUSTER_METADATA_DIR}: Input/output error" in said.stderr


def test_a_log_directory_inside_that_cannot_be_looked_at_is_no_reason_to_go_on(
    tmp_path: Path, no_status: Callable[[Path, int], None]
) -> None:
    (tmp_path / "disk-1").mkdir()
    no_status(tmp_path / "disk-1" / names.META_PROPERTIES, errno.EIO)
    with pytest.raises(OSError, match=re.escape("meta.properties")):
        kdump.open_directory(str(tmp_path))
