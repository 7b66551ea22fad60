"""isolationLevel, and the options of a Kafka client."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kdump.spark.options import OptionError
from kdump.spark.stream import LogStreamReader
from kdump.txns.isolation_level import Isolation
from tests.spark.building import options_of, rows_of
from tests.topics.building import NOW, Log

COMMITTED, ABORTED, OPEN = (1, 0), (2, 0), (3, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    log = Log(tmp_path / "x-0").add((b"a", b"")).add((b"b", b""), producer=COMMITTED)
    log.add((b"c", b""), producer=ABORTED).commit(*COMMITTED).abort(*ABORTED, first=2)
    log.add((b"d", b""), producer=OPEN).add((b"e", b"")).write()
    return tmp_path


@pytest.mark.parametrize("name", ["isolationLevel", "kafka.isolation.level", "ISOLATIONLEVEL"])
def test_read_committed_rows_are_a_consumers(name: str, root: Path) -> None:
    assert [row["key"] for row in rows_of(options_of(root, **{name: "read_committed"}))] == [b"a", b"b"]
    assert [row["key"] for row in rows_of(options_of(root))] == [b"a", b"b", b"c", b"d", b"e"]


def test_a_stream_waits_for_what_is_open(root: Path) -> None:
    ends = {
        level: LogStreamReader(options_of(root, isolationLevel=level)).latestOffset({}, None)
        for level in ("read_committed", "read_uncommitted")
    }
    assert ends == {"read_committed": {"x": {"0": 5}}, "read_uncommitted": {"x": {"0": 7}}}


def test_options_of_a_client_are_ignored_with_one_note(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ("kafka.bootstrap.servers", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "groupIdPrefix")
    with caplog.at_level(logging.WARNING, "kdump.spark"):
        for _ in range(2):
            assert options_of(root, **dict.fromkeys(names, "x")).isolation is Isolation.READ_UNCOMMITTED
    assert len(caplog.records) == 1
    assert "kafka.bootstrap.servers" in caplog.text


def offsets(root: Path, **options: str) -> list[int]:
    return [row["offset"] for row in rows_of(options_of(root, **options))]


def test_bounds_by_the_time_of_each_partition(root: Path) -> None:
    begin, end = f'{{"x":{{"0":{NOW + 1}}}}}', f'{{"x":{{"0":{NOW + 5}}}}}'
    assert offsets(root, startingOffsetsByTimestamp=begin, endingOffsetsByTimestamp=end) == [1, 2]
    late = f'{{"x":{{"0":{NOW + 1000}}}}}'
    assert offsets(root, startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(OptionError, match="no record is from"):
        offsets(root, startingOffsetsByTimestamp=late)


@pytest.mark.parametrize("text", ["earliest", '{"x":{"0":-2}}', '{"x":5}'])
def test_times_that_are_none(text: str, root: Path) -> None:
    with pytest.raises(OptionError, match="expected times"):
        options_of(root, startingOffsetsByTimestamp=text)
