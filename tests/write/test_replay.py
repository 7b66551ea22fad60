"""Kafka's own logs, appended again batch by batch: every file comes out as Kafka wrote it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME
from kdump.formats.codecs import GZIP, NONE, ZSTD
from kdump.formats.encode import NewRecord
from kdump.interchange.dumped import DumpedBatch
from kdump.storage.decoded import BadBatch
from kdump.storage.records import Batch, Record, batch_at, records_of
from kdump.write.dumped_batch import as_stored
from kdump.write.incoming import BatchReader
from tests.write.replaying import (
    CONFIGS,
    Case,
    as_follower,
    as_leader,
    batches,
    corpus_cases,
    differences,
    fixture_case,
)

# Kafka's libraries for these compress to other bytes than ours do, and a leader compresses v0 anew.
COMPRESSED_ANEW = {"b-v0-lz4", "b-v0-snappy", "s-src-v0-lz4", "s-src-v0-snappy"}
# A leader gives offsets without gaps; of the others the configuration changed on the way.
NOT_OF_ONE_LEADER = {"b-v0-lz4-gaps", "b-v1-gzip-gaps", "c-mixed-magic", "e-sparse-edge", "e-sparse-offsets"}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_as_follower(name: str, tmp_path: Path) -> None:
    case = fixture_case(name)
    assert differences(case, as_follower(case, tmp_path / "data")) == []


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - COMPRESSED_ANEW - NOT_OF_ONE_LEADER))
def test_as_leader(name: str, tmp_path: Path) -> None:
    case = fixture_case(name)
    assert differences(case, as_leader(case, tmp_path / "data")) == []


def test_leader_that_compresses_anew(tmp_path: Path) -> None:
    case = fixture_case("s-src-v0-lz4")
    made = as_leader(case, tmp_path / "data")
    assert contents_of(case._replace(path=made)) == contents_of(case)


# What was deleted before cannot be appended: the first snapshot tells of it.
DELETED_HISTORY = {"e-log-start-offset": ["00000000000000000374.snapshot"]}


def test_whole_corpus(corpus: Path, tmp_path: Path) -> None:
    found = replayed(corpus, tmp_path, as_follower, set())
    assert found == DELETED_HISTORY


def test_whole_corpus_as_leader(corpus: Path, tmp_path: Path) -> None:
    found = replayed(corpus, tmp_path, as_leader, COMPRESSED_ANEW | NOT_OF_ONE_LEADER)
    assert found == DELETED_HISTORY


def replayed(
    corpus: Path, tmp_path: Path, replay: Callable[[Case, Path], Path], leaves_out: set[str]
) -> dict[str, list[str]]:
    """The files that come out otherwise, by case."""
    found = {}
    for number, case in enumerate(corpus_cases(corpus)):
        if case.name not in leaves_out:
            found[case.name] = differences(case, replay(case, tmp_path / str(number)))
    assert len(found) > 50
    return {name: files for name, files in found.items() if files}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_encoded_again(name: str) -> None:
    same, compared = encoded_again(fixture_case(name))
    assert same == compared


def test_corpus_encoded_again(corpus: Path) -> None:
    same, compared = map(sum, zip(*map(encoded_again, corpus_cases(corpus)), strict=True))
    assert same == compared
    assert compared > 20_000


def encoded_again(case: Case) -> tuple[int, int]:
    """Of how many batches that Kafka did not stamp, and compressed reproducibly, the same bytes come out again."""
    reader = BatchReader("topic-0")
    same = compared = 0
    for data in batches(case):
        batch, records = decoded(reader, data)
        again = as_stored(told(batch), records)
        if batch.attributes & CODEC_MASK in (NONE, GZIP, ZSTD) and not told(batch).is_append_time:
            compared += 1
            same += again == data
        else:
            assert content(decoded(reader, again)[1]) == content(records)
    return same, compared


def decoded(reader: BatchReader, data: bytes) -> tuple[Batch, list[NewRecord]]:
    block = reader.read(data)
    records = []
    for record in records_of(block):
        assert isinstance(record, Record)
        records.append(NewRecord(record.offset, record.timestamp, record.key, record.value, record.headers))
    return batch_at(block, 0), records


def content(records: list[NewRecord]) -> list[tuple[object, ...]]:
    return [tuple(record) for record in records]


def told(batch: Batch) -> DumpedBatch:
    """What a dump says of a batch."""
    return DumpedBatch(
        batch.magic,
        batch.attributes & CODEC_MASK,
        batch.magic > 0 and bool(batch.attributes & LOG_APPEND_TIME),
        batch.is_transactional,
        batch.is_control,
        batch.delete_horizon is not None,
        None if batch.is_wrapper else batch.base_offset,
        batch.last_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.leader_epoch,
    )


def contents_of(case: Case) -> list[tuple[object, ...]]:
    """All records of a log."""
    reader = BatchReader("topic-0")
    found: list[tuple[object, ...]] = []
    for data in batches(case):
        for record in records_of(reader.read(data)):
            assert not isinstance(record, BadBatch)
            found.append(record[:6])
    return found
