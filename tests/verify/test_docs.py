"""docs/findings.md is what the catalogue says, and docs/verify.md has every option."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from kdump.commands.verify.command import command

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "verify.md").read_text(encoding="utf-8")


@pytest.fixture
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("docs_findings", DOCS / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_findings_is_current(generator: Any) -> None:
    assert generator.main(["--check"]) == 0, "run python docs/findings.py"


def test_a_page_that_is_not_current_is_reported_and_written(
    generator: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator.PAGE = tmp_path / "findings.md"
    assert generator.main(["--check"]) == 1
    assert "is not current" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0


def test_every_option_is_told() -> None:
    names = {name for option in command.params for name in option.opts if name.startswith("--")}
    missing = {name for name in names if f"{name} " not in PAGE and f"{name}`" not in PAGE}
    assert missing == {"--verbose", "--color", "--no-header", "--schema"}
