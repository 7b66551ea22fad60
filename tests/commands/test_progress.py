"""Progress of the commands that walk logs: on a terminal a bar, in a pipe nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.commands.shell import progress
from kdump.commands.shell.progress import PathCounter, Progress, ReadingBar
from kdump.disk.reading import ReadOnlyFile
from tests.agreement.running import kdump

SPECS = Path(__file__).parents[1] / "transcripts" / "specs"
WALKING = {
    "dump": ("dump", "data"),
    "groups": ("groups", "data"),
    "txns": ("txns", "data"),
    "schemas": ("schemas", "data", "--schemas", "data/_schemas-0"),
    "replicas": ("replicas", "data"),
    "lookup": ("lookup", "data", "--timestamp", "latest"),
    "undo": ("undo", "data"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert kdump(folder, "fixture", "build", SPECS / "shop.yaml", "data").code == 0
    return folder


@pytest.mark.parametrize("name", ["dump", "groups", "txns", "schemas", "replicas"])
def test_a_walk_tells_how_far_it_is(name: str, home: Path) -> None:
    Progress.current = None
    kdump(home, *WALKING[name])
    assert isinstance(Progress.current, ReadingBar)


@pytest.mark.parametrize("name", sorted(WALKING))
def test_a_pipe_gets_no_progress(name: str, home: Path) -> None:
    said = kdump(home, *WALKING[name])
    assert "\r" not in said.err + said.out
    assert "%" not in said.err


def test_each_byte_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(1000))
    with ReadingBar([str(tmp_path)]) as bar, ReadOnlyFile(str(path)) as file:
        assert bar.line() == "nothing is read yet of 1000 bytes"
        file.read(0, 5)
        assert bar.line().startswith("<1 %  5 bytes of 1000 bytes")
        file.read(0, 500)
        file.read(100, 300)
        assert bar.line().startswith("50 %  500 bytes of 1000 bytes")
        file.read_into(memoryview(bytearray(500)), 500)
        assert bar.line().startswith("100 %  1000 bytes of 1000 bytes")
    with ReadOnlyFile(str(path)) as file:
        file.read(0, 500)


def test_the_line_is_no_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_columns", lambda: 20)
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(progress, "shows_progress", lambda: True)
    monkeypatch.setattr(PathCounter, "line", lambda _: "61 %  3.4 of 5.6 TiB  412 MiB/s")
    list(PathCounter().over([1]))
    assert capsys.readouterr().err == "\r\x1b[K61 %  3.4 of 5.6 Ti\r\x1b[K"


def test_export_tells_how_far_it_is_before_it_writes(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(progress, "shows_progress", lambda: True)
    assert "export  0 of 5 partitions" in kdump(home, "export", "data", "--to", tmp_path / "out").err
