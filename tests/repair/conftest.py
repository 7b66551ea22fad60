"""The sound partition that the tests of repair damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def partition(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound partition."""
    shutil.copytree(sound, tmp_path / "logs")
    return tmp_path / "logs" / "orders-0"
