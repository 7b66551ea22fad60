"""Output grows with what is wrong, not with partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement.running import kdump

SPEC = """
seed: many
clock: 2026-11-20T02:10:00Z
shutdown: killed
topics:
  - name: orders
    partitions: 300
    config: {segment.index.bytes: 4096}
    steps:
      - append: {records: 4, batch_records: 2, value: {shape: text, size: 20}}
faults:
  - {fault: flip-payload-bit, topic: orders, partition: 17, batch: 0}
  - {fault: truncate-tail, topic: orders, partition: 42}
  - {fault: truncate-tail, topic: orders, partition: 142}
  - {fault: timeindex-missing, topic: orders, partition: 7}
"""
COMMANDS = (
    "doctor", "verify", "startup", "stats", "retain", "txns", "repair", "rebuild-index", "trim", "compact", "undo",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "many.yaml").write_text(SPEC)
    assert kdump(folder, "fixture", "build", "many.yaml", "data").code == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_more_than_a_screen_or_two(command: str, home: Path) -> None:
    said = kdump(home, command, "data")
    assert len(said.out.splitlines()) <= 60


def test_what_is_not_routine_is_shown(home: Path) -> None:
    for name in ("orders-17", "orders-42", "orders-142"):
        assert name in kdump(home, "repair", "data").out
        assert name in kdump(home, "doctor", "data").out
    assert kdump(home, "repair", "data", "--format", "jsonl").out.count('"type":"partition"') == 300
