"""What the tests of changes share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.formats import names
from tests.change.files import A, B, C


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of three files that tell each other apart, in a log directory."""
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    (tmp_path / "logs" / names.META_PROPERTIES).write_text("version=1\n")
    for file, data in ((A, b"first"), (B, b"second file"), (C, b"a third")):
        (folder / file).write_bytes(data)
        os.utime(folder / file, ns=(0, 1_600_000_000_000_000_000 + len(data)))
    return folder
