"""What the system says nothing of is not missing: whoever asks for it hears of the error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kdump
from kdump.change.plan import make_plan
from kdump.disk.locks import is_log_directory
from kdump.disk.reading import is_directory, is_file, is_named, is_there, list_directory
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent
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
