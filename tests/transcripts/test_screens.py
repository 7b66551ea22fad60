"""The screens of the README and the docs are what the sessions have, which are what the commands print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
HAND_MADE = {
    "at-3-am.md": "commands alone",
    "quorum.md": "the disks of three controllers; tests/cluster makes them",
    "serve.md": "serves until it is stopped",
}
"""Pages with other blocks that begin with `$ kdump`, and why no session has them."""


@pytest.fixture
def screens() -> Any:
    spec = importlib.util.spec_from_file_location("docs_screens", ROOT / "docs" / "screens.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_screens_are_current(screens: Any) -> None:
    assert screens.main(["--check"]) == 0, "run python docs/screens.py"


def test_a_screen_that_is_not_is_told_and_written(
    screens: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text((ROOT / "README.md").read_text(encoding="utf-8").replace("DAMAGED BATCH", "BROKEN BATCH"))
    screens.PAGES = (page,)
    assert screens.main(["--check"]) == 1
    assert "is not current" in capsys.readouterr().err
    assert screens.main([]) == 0
    assert page.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_command_that_no_session_has_is_told(screens: Any) -> None:
    with pytest.raises(screens.ScreenError, match=r"has no '\$ kdump frobnicate'"):
        screens.with_screens("<!-- screen: doctor -->\n```text\n$ kdump frobnicate\n```\n")


def test_what_a_command_prints_comes_from_a_session() -> None:
    """A block that shows a command and its output has a marker; a list of commands has none."""
    for page in PAGES:
        text = "" if page.name in HAND_MADE else page.read_text(encoding="utf-8")
        for block in re.finditer(r"((?:<!-- screen: .*-->\n)?)```\w*\n(\$ kdump .*?)```\n", text, re.DOTALL):
            lines = re.sub(r" *\\\n", " ", block[2]).splitlines()
            assert block[1] or all(line.startswith("$ ") for line in lines), f"{page.name}: {lines[0]}"
