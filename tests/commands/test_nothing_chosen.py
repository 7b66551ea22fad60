"""What --topic and --partition name and nobody has: the same answer from every command that takes log directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.commands.cli import COMMANDS
from kdump.commands.shell.options import CHOOSE_AMONG_OTHERS, COMMON
from tests.agreement.running import kdump

SPECS = Path(__file__).parents[1] / "transcripts" / "specs"
MORE = {"lookup": ("--offset", "0"), "schemas": ("--schemas", "data/_schemas-0"), "export": ("--to", "out")}
TAKES_PARTITION = next(applies for option, applies, _ in COMMON if option == "--partition")
CHOOSING = sorted(
    name for name in COMMANDS if name != "quorum" and TAKES_PARTITION(name)
    and name not in CHOOSE_AMONG_OTHERS | {"fixture"}
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert kdump(folder, "fixture", "build", SPECS / "shop.yaml", "data").code == 0
    return folder


@pytest.mark.parametrize("name", CHOOSING)
def test_a_topic_that_nobody_has(name: str, home: Path) -> None:
    for path in ("data", "data/orders-0"):
        said = kdump(home, name, path, *MORE.get(name, ()), "--topic", "ordres")
        assert said.code == 3
        assert "no partition has a topic that matches ordres" in said.err
    assert "Did you mean 'orders'?" in kdump(home, name, "data", *MORE.get(name, ()), "--topic", "ordres").err


@pytest.mark.parametrize("name", CHOOSING)
def test_a_number_that_nobody_has(name: str, home: Path) -> None:
    said = kdump(home, name, "data", *MORE.get(name, ()), "--partition", "77")
    assert (said.code, said.out) == (3, "")
    assert "no partition here has a number that --partition names" in said.err


@pytest.mark.parametrize("name", CHOOSING)
def test_a_path_that_does_not_exist(name: str, home: Path) -> None:
    said = kdump(home, name, "nowhere", *MORE.get(name, ()))
    assert said.code == 3
    assert "nowhere does not exist" in said.err


NOT_KAFKAS = "neither a partition directory (no <base offset>.log in it) nor a log directory"
WRONG_PATHS = {
    "empty": NOT_KAFKAS,
    "notes.txt": "not the name of a file that Kafka writes",
    "pipe": "neither a file nor a directory",
    "dangling": "a symbolic link to nowhere, which does not exist",
    "around": "not a log directory; it holds 1: kdump ",
}
TAKES_PATHS = sorted({*CHOOSING, "metadata", "undo"})
EMPTY_IS_A_DISK = {"replicas"}  # that of a broker that has lost everything
STOPS = {"serve", "export", "schemas", "metadata", "lookup"}  # all or nothing, no schemas here, one PATH


@pytest.fixture(scope="module")
def wrong(home: Path) -> Path:
    (home / "empty").mkdir()
    (home / "notes.txt").write_text("x")
    os.mkfifo(home / "pipe")
    (home / "dangling").symlink_to("nowhere")
    (home / "around").mkdir()
    (home / "around" / "data").symlink_to(home / "data")
    return home


@pytest.mark.parametrize("path", WRONG_PATHS)
@pytest.mark.parametrize("name", TAKES_PATHS)
def test_what_is_not_kafkas(name: str, path: str, wrong: Path) -> None:
    said = kdump(wrong, name, path, *MORE.get(name, ()))
    assert said.code == 3
    assert "OK." not in said.out
    if path != "empty" or name not in EMPTY_IS_A_DISK:
        assert WRONG_PATHS[path] in said.err


@pytest.mark.parametrize("name", [name for name in TAKES_PATHS if name not in STOPS])
def test_the_rest_is_done(name: str, wrong: Path) -> None:
    alone = kdump(wrong, name, "data", *MORE.get(name, ()))
    said = kdump(wrong, name, "data", "notes.txt", *MORE.get(name, ()))
    assert said.code == 3
    assert len(said.out.splitlines()) >= len(alone.out.splitlines()) - 1
    assert "OK." not in said.out


TAKES_FILES = {"ls", "dump", "verify", "metadata", "rebuild-index", "trim"}


@pytest.mark.parametrize("name", sorted(set(TAKES_PATHS) - TAKES_FILES))
def test_a_file_where_its_directory_is_meant(name: str, wrong: Path) -> None:
    said = kdump(wrong, name, "data/orders-0/00000000000000000000.log", *MORE.get(name, ()))
    assert (said.code, said.out) == (2, "")
    assert "is a file: give the partition directory that it is in" in said.err
