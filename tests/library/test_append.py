"""Appending an input and rolling, from Python."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kdump
from kdump.commands.cli import cli
from kdump.errors import BrokerRunsError, ConfigError, InUseError, NameFormatError
from kdump.formats.codecs import GZIP
from kdump.interchange.lines import InterchangeError
from kdump.operations.dump_rows import RecordRow
from tests.locked import broker_on
from tests.test_library_operations import content

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
TIME = 1_700_000_000_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return shutil.copytree(CORPUS / "s-src-none", tmp_path / "data")


def test_what_was_dumped_is_appended(data: Path, tmp_path: Path) -> None:
    dumped = CliRunner().invoke(cli, ["dump", str(data / "topic-0"), "-o", "jsonl"], standalone_mode=False).stdout_bytes
    copy = tmp_path / "topic-0"
    options = kdump.AppendOptions(keeps_offsets=True)
    create = kdump.Opening(create=kdump.NewLog())
    done = kdump.append_from(copy, io.BytesIO(dumped), options=options, opening=create)
    records = list(kdump.open_log(data / "topic-0").records())
    assert done.tally.records == len(records)
    assert [(each.offset, each.value) for each in kdump.open_log(copy).records() if isinstance(each, kdump.Record)] == [
        (each.offset, each.value) for each in records if isinstance(each, kdump.Record)
    ]


def test_lines_become_batches_of_a_producer(data: Path) -> None:
    options = kdump.AppendOptions(kdump.Packing(codec=GZIP, batch_records=2), producer_id=7, ending="abort")
    reading = kdump.Reading(lambda: TIME, key_separator=b":", null_marker=b"-")
    done = kdump.append_from(
        data / "topic-0", io.BytesIO(b"a:1\nb:-\nc:3\n"), format="lines", reading=reading, options=options
    )
    assert (done.tally.batches, done.tally.records, done.tally.markers, done.change) == (2, 3, 1, None)
    rows = kdump.dump(data / "topic-0", selection=kdump.Selection(done.tally.first_offset))
    found = [row for row in rows if isinstance(row, RecordRow) and not row.batch.is_control]
    assert [(row.key, row.value, row.record.timestamp) for row in found] == [
        (b"a", b"1", TIME), (b"b", None, TIME), (b"c", b"3", TIME)
    ]  # fmt: skip
    assert {(str(row.transaction), row.batch.codec, row.batch.producer_id) for row in found} == {("aborted", "gzip", 7)}


def test_wrong_input_and_wrong_calls(data: Path) -> None:
    partition = data / "topic-0"
    before = content(data)
    with pytest.raises(InterchangeError, match="line 1"):
        kdump.append_from(partition, io.BytesIO(b'{"hello":1}\n'))
    with pytest.raises(ValueError, match="format is 'xml': expected jsonl, csv, lines"):
        kdump.append_from(partition, io.BytesIO(b""), format="xml")
    with pytest.raises(ValueError, match="need a producer_id"):
        kdump.AppendOptions(ending="commit")
    with pytest.raises(ValueError, match="producer_epoch is 40000"):
        kdump.AppendOptions(producer_id=1, producer_epoch=40_000)
    with pytest.raises(TypeError, match="options is"):
        kdump.append_from(partition, io.BytesIO(b""), options="gzip")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="release is 4"):
        kdump.roll(partition, release=4)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        kdump.roll(partition, config={"retention.ms": "1"})
    with pytest.raises(NameFormatError, match="is a log directory"):
        kdump.roll(data)
    assert content(data) == before


@pytest.mark.parametrize("source", ["x.jsonl", Path("x.jsonl"), b"value", None, io.StringIO("value")])
def test_what_is_no_stream_of_bytes_is_refused_before_the_log_is_opened(data: Path, source: Any) -> None:
    before = content(data)
    with pytest.raises(TypeError, match=r"source is .*: expected a stream of bytes"):
        kdump.append_from(data / "topic-0", source, format="lines")
    assert content(data) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"reading": kdump.Reading(3)}, "timestamp is 3"),  # type: ignore[arg-type]
        ({"reading": kdump.Reading(lambda: TIME, keeps_batches=1)}, "keeps_batches is 1"),  # type: ignore[arg-type]
        ({"reading": kdump.Reading(lambda: TIME, key_separator=":")}, "key_separator is ':'"),  # type: ignore[arg-type]
        ({"reading": kdump.Reading(lambda: TIME, key_separator=b"")}, "key_separator is empty"),
        ({"reading": kdump.Reading(lambda: TIME, null_marker="-")}, "null_marker is '-'"),  # type: ignore[arg-type]
    ],
)
def test_how_input_is_read_is_checked_before_the_log_is_opened(
    data: Path, arguments: dict[str, Any], named: str
) -> None:
    before = content(data)
    with pytest.raises((TypeError, ValueError), match=named):
        kdump.append_from(data / "topic-0", io.BytesIO(b"a:1\n"), format="lines", **arguments)
    assert content(data) == before


def test_options_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="packing is 'gzip'"):
        kdump.AppendOptions(packing="gzip")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="codec is 'gzip'"):
        kdump.AppendOptions(kdump.Packing(codec="gzip"))  # type: ignore[arg-type]
    wrongs: tuple[dict[str, Any], ...]
    wrongs = ({"codec": 5}, {"magic": 3}, {"batch_records": 0}, {"batch_bytes": -1}, {"producer_epoch": 99_999})
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is "):
            kdump.AppendOptions(kdump.Packing(**wrong))
    with pytest.raises(TypeError, match="keeps_offsets is 1"):
        kdump.AppendOptions(keeps_offsets=1)  # type: ignore[arg-type]


def test_a_segment_is_rolled_once(data: Path) -> None:
    end = kdump.open_log(data / "topic-0").segments[-1]
    rolled = kdump.roll(data / "topic-0")
    assert rolled.base_offset is not None
    assert rolled.base_offset > end.base_offset
    assert kdump.open_log(data / "topic-0").segments[-1].base_offset == rolled.base_offset
    assert kdump.roll(data / "topic-0").base_offset is None


def test_beside_a_broker_nothing_is_written(data: Path) -> None:
    with broker_on(data):
        before = content(data)
        with pytest.raises(BrokerRunsError):
            kdump.roll(data / "topic-0")
        with pytest.raises(BrokerRunsError):
            kdump.append_from(data / "topic-0", io.BytesIO(b"x\n"), format="lines")
        with pytest.raises(kdump.RefusedError, match="ignore_lock is 'topic-1': the directory is called"):
            kdump.roll(data / "topic-0", opening=kdump.Opening(ignore_lock="topic-1"))
        assert content(data) == before
        assert kdump.roll(data / "topic-0", opening=kdump.Opening(ignore_lock="topic-0")).base_offset is not None


def test_what_this_process_is_writing_is_changed_by_nobody_else_in_it(data: Path) -> None:
    """A process is granted a lock that it holds, and loses it once either is let go."""
    partition = data / "topic-0"
    others: list[Callable[[], object]] = [
        lambda: kdump.roll(partition),
        lambda: kdump.append_from(partition, io.BytesIO(b"a\n"), format="lines"),
        lambda: list(kdump.repair(data, apply=True)),
        lambda: list(kdump.retain(data, settings={"retention.ms": "0"}, apply=True)),
    ]
    with kdump.append(partition) as writer:
        for other in others:
            with pytest.raises(InUseError, match="this program is changing it already"):
                other()
        (written,) = writer.append([kdump.Message(b"value", b"key", TIME)])
    *_, last = kdump.open_log(partition).records(errors="raise")
    assert isinstance(last, kdump.Record)
    assert (last.offset, last.value) == (written.first_offset, b"value")
    assert kdump.roll(partition).base_offset == last.offset + 1


def test_a_partition_in_no_log_directory_is_changed_by_one_at_a_time(tmp_path: Path) -> None:
    partition, other = tmp_path / "topic-0", tmp_path / "topic-1"
    for path in (partition, other):
        shutil.copytree(CORPUS / "s-src-none" / "topic-0", path)
    (tmp_path / "link").symlink_to(tmp_path)
    create = kdump.Opening(create=kdump.NewLog())
    with kdump.append(partition) as writer, kdump.append(tmp_path / "topic-2", opening=create):
        for path, opening in ((partition, None), (tmp_path / "link" / "topic-0", None), (tmp_path / "topic-2", create)):
            with pytest.raises(InUseError, match="this program is changing it already"):
                kdump.roll(path, opening=opening)
        with pytest.raises(InUseError):
            list(kdump.repair(partition, apply=True))
        kdump.roll(other)
        writer.append([kdump.Message(b"value", b"key", TIME)])
    kdump.roll(partition)


def test_the_release_decides_the_index(data: Path) -> None:
    with kdump.append(data / "topic-0", release="3.9") as old:
        assert not old.config.index_per_batch
    with kdump.append(data / "topic-0", release="3.9", index_per_batch=True) as new:
        assert new.config.index_per_batch


def test_compact_knows_the_release_and_old_formats(tmp_path: Path) -> None:
    data = shutil.copytree(CORPUS / "s-src-v1-gzip", tmp_path / "data")
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    magics = {}
    for release, converts in (("3.9", None), ("4.1", None), ("4.1", False), ("3.9", True)):
        output = tmp_path / f"{release}-{converts}"
        list(kdump.compact(data, topic_configs={"top*": config}, release=release, converts_old_formats=converts,
             compares_keys=True, output=output))  # fmt: skip
        batches = kdump.open_log(output / "topic-0").segments[0].batches()
        magics[release, converts] = {each.magic for each in batches if isinstance(each, kdump.Batch)}
    assert magics == {("3.9", None): {1}, ("4.1", None): {2}, ("4.1", False): {1}, ("3.9", True): {2}}
    (passed,) = kdump.compact(data, topic_configs={"other": config})
    assert type(passed).__name__ == "Skipped"
