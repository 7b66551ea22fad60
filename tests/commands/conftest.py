"""What the tests of commands share."""

from __future__ import annotations

import pytest

from tests.commands.running import Run


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`kdump` with arguments; gives its exit code."""
    return Run(capfdbinary, monkeypatch)
