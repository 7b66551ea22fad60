"""A directory that kafka-storage of 4.4 formatted: a snapshot at offset 0 in place of bootstrap.checkpoint, no log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement.running import kdump
from tests.formats.test_kraft_snapshot import FORMATTED

META = "version=1\ncluster.id=a2R1bXAgaXMgYSB0b29sLg\nnode.id=1\ndirectory.id=FzYiNVdphXBVpJQRJWRwHg\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").write_text(META)
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "00000000000000000000-0000000000.checkpoint").write_bytes(FORMATTED)
    return tmp_path


@pytest.mark.parametrize("command", ["ls", "verify", "startup", "doctor", "metadata", "repair", "rebuild-index"])
def test_it_is_sound(log_dir: Path, command: str) -> None:
    """Nothing is missing, and nothing is to be made: the broker gives the log its first segment."""
    said = kdump(log_dir.parent, command, log_dir.name, "--format", "jsonl")
    assert (said.code, [row for row in said.rows if row["type"] == "finding"]) == (0, [])


def test_its_features_are_read(log_dir: Path) -> None:
    said = kdump(log_dir.parent, "metadata", log_dir.name, "--format", "jsonl")
    levels = {row["name"]: row["level"] for row in said.of_type("feature")}
    assert levels["transaction.version"] == 2
    assert said.of_type("cluster")[0]["metadataVersion"] == 30
