"""docs/columns.md: its examples do what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "fixtures" / "corpus")
    result = doctest.testfile(str(ROOT / "docs" / "columns.md"), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 5
