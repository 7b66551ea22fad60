"""What --topic and --partition name and nobody has: the same answer from every command that takes log directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.commands.cli import COMMANDS
from kdump.commands.shell.options import CHOOSE_AMONG_OTHERS, has_common_option
from tests.agreement.running import kdump

SPECS = Path(__file__).parents[1] / "transcripts" / "specs"
MORE = {"lookup": ("--offset", "0"), "schemas": ("--schemas", "data/_schemas-0"), "export": ("--to", "out")}
CHOOSING = sorted(
    name for name in COMMANDS if name != "quorum" and has_common_option("--partition", name)
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
    assert "did you mean orders?" in kdump(home, name, "data", *MORE.get(name, ()), "--topic", "ordres").err


@pytest.mark.parametrize("name", CHOOSING)
def test_a_number_that_nobody_has(name: str, home: Path) -> None:
    said = kdump(home, name, "data", *MORE.get(name, ()), "--partition", "77")
    assert (said.code, said.out) == (3, "")
    assert "no partition has a number that --partition names" in said.err


@pytest.mark.parametrize("name", CHOOSING)
def test_a_path_that_does_not_exist(name: str, home: Path) -> None:
    said = kdump(home, name, "nowhere", *MORE.get(name, ()))
    assert said.code == 3
    assert "nowhere: no such file or directory" in said.err
