"""docs/library.md: its examples do what it says, and it names what is public."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import kdump

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "library.md"


def test_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "fixtures" / "corpus")
    result = doctest.testfile(str(DOCUMENT), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 20


def test_everything_public_is_in_it() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in kdump.__all__ if name not in text and not name.startswith("__")] == []


def test_every_function_has_an_example() -> None:
    examples = "".join(example.source for example in doctest.DocTestParser().get_examples(DOCUMENT.read_text("utf-8")))
    functions = [name for name in kdump.__all__ if inspect.isfunction(getattr(kdump, name))]
    assert len(functions) > 20
    assert [name for name in functions if f"kdump.{name}(" not in examples] == []
