"""What Kafka's own loading made of the log directories of `fixtures/`: every file, byte for byte, and the offsets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import TopicSettings
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
KAFKAS_CLOCK = 1_700_086_400_000


def lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of `fixtures/`."""
    with open(FIXTURES / name, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows]


FOLDERS = {case["case"]: FIXTURES / "corpus" / case["dir"] for case in lines("cases.jsonl")}
ROWS = lines("startup.jsonl")


def test_there_are_sound_and_damaged_cases_after_clean_and_unclean_shutdowns() -> None:
    assert len(ROWS) > 40
    assert {row["clean"] for row in ROWS} == {False, True}
    assert {row["case"][0] for row in ROWS} >= set("bcdefghisz")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case']}-{'clean' if row['clean'] else 'unclean'}")
def test_loading_leaves_what_kafkas_leaves(row: dict[str, Any]) -> None:
    log = PartitionLog(str(FOLDERS[row["case"]]))
    startup = Startup(
        KAFKAS_CLOCK, row["clean"], 0, row["logStartCheckpoint"], LoadingSettings.of(TopicSettings.of(row["config"]))
    )
    outcome = load_log(log, startup)
    assert outcome.failure is None
    assert outcome.files is not None
    assert (outcome.log_start_offset, outcome.log_end_offset) == (row["logStartOffset"], row["logEndOffset"])
    found = {}
    for name, recipe in outcome.files.items():
        content = b"".join(content_of(log.path, recipe))
        found[name] = [recipe.size, hashlib.sha256(content).hexdigest()[:16]]
        assert len(content) == recipe.size
    assert found == row["files"]
