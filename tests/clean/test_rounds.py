"""Rounds of Kafka's own cleaner, done again: the same files, byte by byte where nothing was compressed anew."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from kdump.formats.batch import CODEC_MASK
from kdump.releases import KafkaRelease
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.sources import TopicSettings
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import payload_of
from kdump.storage.records import batch_at
from tests.clean.building import clean_once, dry_run, files_of, state_of
from tests.unpacking import unpack

ARCHIVE = Path(__file__).resolve().parent.parent.parent / "fixtures" / "cleaning.tar.xz"


def rounds() -> list[dict[str, Any]]:
    """What the archive says of each round."""
    with tarfile.open(ARCHIVE) as tar:
        lines = tar.extractfile("rounds.jsonl")
        assert lines is not None
        return [json.loads(line) for line in lines]


ROUNDS = rounds()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive."""
    folder = tmp_path_factory.mktemp("rounds")
    unpack(ARCHIVE, folder)
    return folder


@pytest.fixture(params=ROUNDS, ids=lambda row: row["round"])
def round_(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One round."""
    row: dict[str, Any] = request.param
    return row


@pytest.fixture
def partition(archive: Path, round_: dict[str, Any], tmp_path: Path) -> Path:
    """The partition before the round."""
    folder = tmp_path / "logs" / "topic-0"
    shutil.copytree(archive / round_["round"] / "before" / "topic-0", folder)
    for file in folder.glob("*.log"):
        at = round_["modified"].get(file.name, round_["now"]) * 1_000_000
        os.utime(file, ns=(at, at))
    for name, offset in (
        (names.REPLICATION_CHECKPOINT, round_["highWatermark"]),
        (names.CLEANER_CHECKPOINT, round_["firstDirtyOffset"]),
    ):
        (folder.parent / name).write_text(f"0\n1\ntopic 0 {offset}\n")
    return folder


def content(path: Path) -> Iterator[tuple[Any, ...]]:
    """The batches of a .log, those that are compressed without their CRCs and with what is in them."""
    with LogFile(str(path)) as log:
        for block in log.blocks():
            for row in range(block.length):
                found = batch_at(block, row)
                assert found.valid
                if found.attributes & CODEC_MASK:
                    yield found._replace(position=0, size=0, crc=0), payload_of(block, row)
                else:
                    start = found.position - block.data_position
                    yield (bytes(block.data[start : start + found.size]),)


def test_kafkas_own_rounds(archive: Path, round_: dict[str, Any], partition: Path) -> None:
    settings = TopicSettings.of(round_["config"] | {"min.cleanable.dirty.ratio": "0"})
    config = CleaningSettings.of(settings, KafkaRelease.V4_0, converts_legacy=False)
    on_paper = dry_run(partition, config, round_["now"])
    cleaning = clean_once(partition, config, round_["now"])
    expected = archive / round_["round"] / "after" / "topic-0"
    assert (cleaning.end_offset, cleaning.counts.records_after) == (round_["end"], round_["recordsWritten"])
    assert on_paper.counts == cleaning.counts
    assert [group.files for group in on_paper.groups] == [group.files for group in cleaning.groups]
    mine, theirs = files_of(partition), files_of(expected)
    later = {
        name for name in mine.keys() - theirs.keys() if name.endswith(".snapshot")
    }  # Kafka dropped them afterwards
    assert mine.keys() - later == theirs.keys()
    for file, data in theirs.items():
        if file.endswith(".log"):
            assert list(content(partition / file)) == list(content(expected / file)), file
        elif not file.endswith("index") or file.endswith(".txnindex") or _same_log(mine, theirs, file):
            assert mine[file] == data, file
    for file, modified in round_["modifiedAfter"].items():
        assert os.stat(partition / file).st_mtime_ns // 1_000_000 == modified, file
    assert (partition.parent / names.CLEANER_CHECKPOINT).read_text() == f"0\n1\ntopic 0 {round_['end']}\n"
    assert not state_of(partition, config, round_["now"]).is_due(config) or cleaning.is_full


def _same_log(mine: dict[str, bytes], theirs: dict[str, bytes], index: str) -> bool:
    log = f"{index.partition('.')[0]}.log"
    return mine[log] == theirs[log]
