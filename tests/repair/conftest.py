"""The sound partition that the tests of repair damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.repair.damaged import build


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of the sound partition, to be copied."""
    log_dir = tmp_path_factory.mktemp("sound") / "logs"
    build(log_dir)
    return log_dir


@pytest.fixture
def partition(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound partition."""
    shutil.copytree(sound, tmp_path / "logs")
    return tmp_path / "logs" / "orders-0"
