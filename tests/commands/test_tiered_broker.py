"""A 4.3.1 broker with tiered storage: segments are gone from its disk, not from the topics, and nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement.running import kdump
from tests.unpacking import unpack

ARCHIVE = Path(__file__).resolve().parent.parent.parent / "fixtures" / "brokers" / "tiered-4.3.1.tar.xz"
REMOTE = {"tiered-0": (0, 625), "tiered-1": (0, 625), "tiered-txn-0": (0, 96), "tiered-short-0": (1250, 1250)}
"""What listOffsets said just before: earliest and latest. Of the last topic retention had deleted everything."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiered")
    unpack(ARCHIVE, folder)
    return folder / "data"


@pytest.mark.parametrize(
    "command", ["verify --deep", "startup", "doctor", "repair", "rebuild-index", "trim", "txns", "metadata"]
)
def test_it_is_sound(data: Path, command: str) -> None:
    name, *options = command.split()
    said = kdump(data.parent, name, *options, data.name, "--format", "jsonl")
    assert (said.code, [row for row in said.rows if row.get("severity") in ("error", "warning")]) == (0, [])


def test_ls_tells_what_is_on_the_disk(data: Path) -> None:
    said = kdump(data.parent, "ls", data.name, "--format", "jsonl")
    rows = {f"{row['topic']}-{row['partition']}": row for row in said.of_type("partition")}
    for name, (_, latest) in REMOTE.items():
        assert (rows[name]["logStartOffset"], rows[name]["logEndOffset"]) == (latest, latest)
    assert (rows["plain-0"]["logStartOffset"], rows["plain-0"]["logEndOffset"]) == (0, 1250)


@pytest.mark.parametrize("name", REMOTE)
def test_lookup_says_what_the_broker_said(data: Path, name: str) -> None:
    for time, offset in zip(("earliest", "latest"), REMOTE[name], strict=True):
        said = kdump(data.parent, "lookup", f"{data.name}/{name}", "--timestamp", time, "--format", "jsonl")
        assert (said.code, said.rows[0]["result"]["offset"]) == (0, offset)
    said = kdump(data.parent, "lookup", f"{data.name}/{name}", "--timestamp", "max", "--format", "jsonl")
    assert (said.code, said.rows[0]["result"]) == (1, None)


def test_retention_takes_nothing(data: Path) -> None:
    said = kdump(data.parent, "retain", data.name, "--segments", "--format", "jsonl")
    segments = said.of_type("segment")
    assert (said.code, len(segments)) == (0, 36)
    assert [row["path"] for row in segments if row["deletedBy"]] == []
