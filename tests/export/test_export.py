"""Exports: the rows of every format are those of the log, and a run that was stopped is gone on with."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kdump.disk.rights import ALL_RIGHTS, Rights
from kdump.errors import KdumpError, RefusedError
from kdump.exports import files, work
from kdump.exports.files import RowLines
from kdump.exports.journal import FOLDER, SUCCESS, Journal, JournalError, Outcome, Result
from kdump.exports.options import ExportFormat, ExportOptionError, ExportOptions
from kdump.exports.outcome import Exported
from kdump.exports.plan import Unit, plan
from kdump.exports.run import LocalEngine, Summary, export
from kdump.exports.work import NO_DATE, by_date, export_units
from kdump.query.selection import Selection
from kdump.storage.partition import PartitionLog
from tests.columns.reading import Case, expected_rows, sound_cases
from tests.commands.logs import EPOCH, batch, write_segment
from tests.export.exporting import NAMES, READERS, data_files, log, offsets, parquet_rows, run
from tests.sampling import sampled
from tests.storage.building import flipped
from tests.topics.building import Log

DAY = 86_400_000


@pytest.mark.parametrize("format_", ExportFormat)
@pytest.mark.parametrize("case", sampled(sound_cases(), 8), ids=lambda case: case.name)
def test_the_rows_of_kafkas_own_logs(case: Case, format_: str, tmp_path: Path) -> None:
    options = ExportOptions(format=format_, columns=NAMES, control=True)
    summary = run([case.folder], tmp_path, options)
    rows = READERS[format_](tmp_path)
    assert sorted(rows, key=repr) == sorted(expected_rows(case.folder), key=repr)
    assert (summary.rows, summary.is_whole) == (len(rows), True)
    assert (tmp_path / SUCCESS).is_file()


def test_directories_are_columns_to_readers(tmp_path: Path) -> None:
    for number in range(2):
        log(tmp_path / f"__orders.eu-{number}")
    run([tmp_path / "__orders.eu-0", tmp_path / "__orders.eu-1"], tmp_path / "out", ExportOptions())
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert table.num_rows == 240
    assert set(table.column("topic").to_pylist()) == {"__orders.eu"}
    assert sorted(set(table.column("partition").to_pylist())) == [0, 1]
    assert "topic" not in pq.ParquetFile(data_files(tmp_path / "out")[0]).schema_arrow.names


def test_everything_in_one_directory(tmp_path: Path) -> None:
    log(tmp_path / "orders-7")
    run([tmp_path / "orders-7"], tmp_path / "out", ExportOptions(by=(), codec="none"))
    table = ds.dataset(tmp_path / "out").to_table()
    assert set(table.column("topic").to_pylist()) == {"orders"}
    assert set(table.column("partition").to_pylist()) == {7}
    assert [path.parent for path in data_files(tmp_path / "out")] == [tmp_path / "out"] * 3
    chunk = pq.ParquetFile(data_files(tmp_path / "out")[0]).metadata.row_group(0).column(0)
    assert chunk.compression == "UNCOMPRESSED"


@pytest.mark.parametrize("most_open", [1, 32])
def test_dates(most_open: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MAX_OPEN", most_open)
    folder = FIXTURES_EXTREME
    run([folder], tmp_path, ExportOptions(by=("date",), columns=NAMES, control=True))
    assert sorted(parquet_rows(tmp_path), key=repr) == sorted(expected_rows(folder), key=repr)
    for path in data_files(tmp_path):
        named = path.parent.name.removeprefix("date=")
        for row in READERS[ExportFormat.PARQUET](path.parent):
            if named == NO_DATE:
                assert row.timestamp == -1 or abs(row.timestamp) > 10**14
            else:
                assert datetime.fromtimestamp(row.timestamp / 1000, UTC).date().isoformat() == named


FIXTURES_EXTREME = next(case.folder for case in sound_cases() if case.name.startswith("c-extreme-ts"))


def test_the_date_of_a_timestamp() -> None:
    times = pa.array([0, -1, -2, DAY - 1, DAY, 10**18], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    found = {date: mask.to_pylist() for date, mask in by_date(times) if mask is not None}
    assert found == {
        "1970-01-01": [True, None, False, True, False, None],
        NO_DATE: [False, True, False, False, False, True],
        "1969-12-31": [False, None, True, False, False, None],
        "1970-01-02": [False, None, False, False, True, None],
    }


def test_bounds_and_columns(tmp_path: Path) -> None:
    log(tmp_path / "orders-0")
    options = ExportOptions(columns=("offset", "value_size"), selection=Selection(30, 50))
    assert run([tmp_path / "orders-0"], tmp_path / "a", options).rows == 20
    table = ds.dataset(tmp_path / "a").to_table()
    assert table.column("offset").to_pylist() == list(range(30, 50))
    assert set(table.column("value_size").to_pylist()) == {8}
    options = ExportOptions(columns=NAMES, selection=Selection(since=EPOCH + 200, until=EPOCH + 500))
    run([tmp_path / "orders-0"], tmp_path / "b", options)
    assert offsets(tmp_path / "b") == list(range(20, 50))


def test_markers_only_when_asked_for(tmp_path: Path) -> None:
    folder = next(case.folder for case in sound_cases() if case.name.startswith("s-src-txn"))
    plain = run([folder], tmp_path / "a", ExportOptions())
    full = run([folder], tmp_path / "b", ExportOptions(control=True, columns=("offset", "is_control")))
    controls = ds.dataset(tmp_path / "b").to_table().column("is_control").to_pylist()
    assert 0 < sum(controls) == full.rows - plain.rows


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    log(tmp_path / "orders-0")
    first = run([tmp_path / "orders-0"], tmp_path / "out", ExportOptions())
    before = {path: path.stat() for path in (tmp_path / "out").rglob("*")}
    second = run([tmp_path / "orders-0"], tmp_path / "out", ExportOptions())
    assert (second.rows, second.files, second.resumed) == (first.rows, first.files, 3)
    after = {path: path.stat() for path in (tmp_path / "out").rglob("*") if path.name != SUCCESS}
    assert all(before[path].st_mtime_ns == info.st_mtime_ns for path, info in after.items() if path.is_file())


class StopError(Exception):
    """The run was killed."""


@pytest.mark.parametrize("step", range(9))
def test_a_run_that_was_killed_is_finished_by_the_next(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill at every rename, in between and after; what the next run leaves is always the whole."""
    log(tmp_path / "orders-0")
    target = tmp_path / "out"
    options = ExportOptions(by=("topic", "date"), columns=NAMES)
    left = [step]
    replace = os.replace

    def kill(source: str, end: str, **folders: int) -> None:
        if left[0] == 0:
            raise StopError
        left[0] -= 1
        replace(source, end, **folders)

    monkeypatch.setattr(os, "replace", kill)
    try:
        run([tmp_path / "orders-0"], target, options)
    except StopError:
        assert not (target / SUCCESS).exists()
    monkeypatch.setattr(os, "replace", replace)
    summary = run([tmp_path / "orders-0"], target, options)
    assert summary.is_whole
    assert offsets(target) == list(range(120))
    assert not list(target.rglob("*.tmp*"))
    assert len(data_files(target)) == summary.files


def test_a_log_that_grew_is_brought_up_to_date(tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0", segments=2)
    run([folder], tmp_path / "out", ExportOptions(columns=NAMES))
    with open(folder / f"{40:020d}.log", "ab") as file:
        file.write(batch(80, 5))
    write_segment(folder, 85, [batch(85, 5)])
    summary = run([folder], tmp_path / "out", ExportOptions(columns=NAMES))
    assert summary.resumed == 1
    assert offsets(tmp_path / "out") == list(range(90))


def test_a_file_that_was_tampered_with_is_written_again(tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0")
    run([folder], tmp_path / "out", ExportOptions(columns=NAMES))
    victim, other = data_files(tmp_path / "out")[:2]
    victim.write_bytes(b"PAR1")
    other.unlink()
    assert run([folder], tmp_path / "out", ExportOptions(columns=NAMES)).resumed == 1
    assert offsets(tmp_path / "out") == list(range(120))


def test_what_is_refused(tmp_path: Path) -> None:
    folder, target = log(tmp_path / "orders-0"), tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(RefusedError, match="is not empty"):
        run([folder], tmp_path / "full", ExportOptions())
    run([folder], target, ExportOptions())
    with pytest.raises(RefusedError, match=r"other options \(format, codec\)"):
        run([folder], target, ExportOptions(format=ExportFormat.CSV))
    (target / "topic=orders" / "mine.txt").write_text("mine")
    with pytest.raises(RefusedError, match="was not written by this export"):
        run([folder], target, ExportOptions())
    assert (target / "topic=orders" / "mine.txt").read_text() == "mine"
    (target / "topic=orders" / "mine.txt").unlink()
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(RefusedError, match="not among the segments"):
        run([folder], target, ExportOptions())
    assert len(data_files(target)) == 3


def test_an_account_that_is_damaged(tmp_path: Path) -> None:
    folder, target = log(tmp_path / "orders-0"), tmp_path / "out"
    run([folder], target, ExportOptions())
    account = next((target / FOLDER).glob("part-*.json"))
    account.write_text('{"rows": "x"}')
    with pytest.raises(JournalError, match="not the account of a unit"):
        run([folder], target, ExportOptions())
    (target / FOLDER / "export.json").write_text("{")
    with pytest.raises(JournalError, match="not the JSON"):
        run([folder], target, ExportOptions())


def test_damage_is_told_and_leaves_an_export_that_is_not_whole(tmp_path: Path) -> None:
    folder, target = tmp_path / "orders-0", tmp_path / "out"
    write_segment(folder, 0, [batch(0, 5), flipped(batch(5, 5), -1), batch(10, 5)])
    summary = run([folder], target, ExportOptions(columns=NAMES))
    assert (summary.rows, summary.damage, summary.is_whole) == (10, 1, False)
    assert not (target / SUCCESS).exists()
    assert offsets(target) == [*range(5), *range(10, 15)]
    again = run([folder], target, ExportOptions(columns=NAMES))
    assert (again.resumed, again.damage, again.is_whole) == (1, 1, False)
    assert run([folder], target, ExportOptions(columns=NAMES, skips_damage=True)).is_whole
    assert (target / SUCCESS).exists()
    assert not run([folder], target, ExportOptions(columns=NAMES)).is_whole
    assert not (target / SUCCESS).exists()


def test_preallocated_zeros_are_no_damage(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, [batch(0, 5), bytes(500)], indexes=False)
    assert run([tmp_path / "orders-0"], tmp_path / "out", ExportOptions()).is_whole


def test_a_segment_that_cannot_be_read_does_not_keep_the_others(tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0")
    options = ExportOptions(columns=NAMES)
    units = plan([PartitionLog(str(folder))], options)
    (folder / f"{40:020d}.log").rename(tmp_path / "away")
    *found, summary = export(units, str(tmp_path / "out"), options, LocalEngine(1))
    assert isinstance(summary, Summary)
    assert (summary.failures, summary.units, summary.is_whole) == (1, 2, False)
    [error] = [each.outcome for each in found if isinstance(each, Exported) and not isinstance(each.outcome, Result)]
    assert isinstance(error, FileNotFoundError)
    (tmp_path / "away").rename(folder / f"{40:020d}.log")
    assert run([folder], tmp_path / "out", options).is_whole
    assert offsets(tmp_path / "out") == list(range(120))


def test_an_engine_that_stops_early_leaves_no_success(tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0")
    options = ExportOptions()

    def engine(units: Sequence[Unit], folder: str, options: ExportOptions) -> Iterator[Outcome]:
        yield from export_units(units[:1], folder, options)
        raise KeyboardInterrupt

    units = plan([PartitionLog(str(folder))], options)
    with pytest.raises(KeyboardInterrupt):
        list(export(units, str(tmp_path / "out"), options, engine))
    assert not (tmp_path / "out" / SUCCESS).exists()
    assert run([folder], tmp_path / "out", options).resumed == 1


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(ExportOptionError, match="'day' is not a level"):
        ExportOptions(by=("day",))
    with pytest.raises(ExportOptionError, match="csv has the codecs none, gzip, zstd, not snappy"):
        ExportOptions(format=ExportFormat.CSV, codec="snappy")
    with pytest.raises(ExportOptionError, match="no column is left"):
        ExportOptions(columns=("topic",))
    with pytest.raises(ExportOptionError, match="named twice"):
        ExportOptions(columns=("offset", "offset"))
    for broker in ("a", "b"):
        log(tmp_path / broker / "orders-0")
    with pytest.raises(ExportOptionError, match="are the same partition"):
        plan([PartitionLog(str(tmp_path / broker / "orders-0")) for broker in "ab"], ExportOptions())


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", 1000)
    monkeypatch.setattr(work, "MAX_HELD", 1500)
    folder = tmp_path / "orders-0"
    write_segment(folder, 0, [batch(n * 100, 100, value_size=200) for n in range(50)])
    run([folder], tmp_path / "out", ExportOptions(columns=NAMES))
    assert offsets(tmp_path / "out") == list(range(5000))


def test_compressed_text_and_quotes(tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0", segments=1)
    options = ExportOptions(format=ExportFormat.CSV, codec="gzip", columns=("offset", "key", "value"))
    run([folder], tmp_path / "out", options)
    path = data_files(tmp_path / "out")[0]
    assert path.name.endswith(".csv.gz")
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))
    assert rows[3] == {"offset": "3", "key": "key-3", "key_base64": "", "value": '{"n":3}', "value_base64": ""}


def test_control_characters_are_escaped_in_json(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array(['\x1b[2J\x9b\u2028"é'.encode()], pa.binary())})
    written = bytearray()
    RowLines(rows.schema, is_csv=False).render(rows, written.extend)
    line = written.decode()
    assert line == '{"value":"\\u001b[2J\\u009b\\u2028\\"é"}\n'
    assert json.loads(line)["value"] == '\x1b[2J\x9b\u2028"é'


def test_the_journal_says_where_it_is(tmp_path: Path) -> None:
    assert Journal(str(tmp_path), ALL_RIGHTS).temporary("x").startswith(str(tmp_path / FOLDER))
    assert issubclass(JournalError, KdumpError)


def test_records_of_aborted_transactions_are_marked(tmp_path: Path) -> None:
    """Also where the marker stands in a later segment than the records."""
    pair = (b"k", b"v")
    log = Log(tmp_path / "t-0").add(pair).add(pair, producer=(7, 0)).add(pair, producer=(8, 0)).roll()
    log.add(pair, producer=(9, 0)).abort(7, 0).commit(8, 0).write()
    run([tmp_path / "t-0"], tmp_path / "out", ExportOptions(ExportFormat.JSONL))
    rows = [json.loads(line) for path in data_files(tmp_path / "out") for line in path.read_text().splitlines()]
    states = {row["offset"]: row["transaction"] for row in rows}
    assert states == {0: "none", 1: "aborted", 2: "committed", 3: "open"}


@pytest.mark.parametrize(("mode", "parent"), [(0o700, 0o755), (0o750, 0o755), (0o755, 0o755), (0o755, 0o700)])
@pytest.mark.parametrize("form", [ExportFormat.PARQUET, ExportFormat.CSV, ExportFormat.JSONL])
def test_an_export_has_no_rights_that_its_source_has_not(
    tmp_path: Path, form: ExportFormat, mode: int, parent: int
) -> None:
    log_dir = tmp_path / "data"
    Log(log_dir / "t-0").add((b"k", b"v")).write()
    (log_dir / "t-0").chmod(mode)
    log_dir.chmod(parent)
    before = os.umask(0)
    try:
        run([log_dir / "t-0"], tmp_path / "out", ExportOptions(form, by=("topic",)))
    finally:
        os.umask(before)
    allowed = mode & parent
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        assert path.stat().st_mode & 0o777 == (allowed if path.is_dir() else allowed & 0o666), path


def test_rights_of_a_group_are_those_of_others_in_another_group() -> None:
    rights = Rights(0o750, os.getegid() + 1)
    assert rights.limit(0o666) == 0o600
    assert rights.limit(0o666, os.getegid() + 1) == 0o640
    assert ALL_RIGHTS.limit(0o777) == 0o777


def test_a_topic_whose_name_is_not_utf8_is_exported_with_the_others(tmp_path: Path) -> None:
    names = ("orders-0", os.fsdecode(b"\xff\xfe-0"), os.fsdecode(b"\xff\xfd-0"))
    for name in names:
        Log(tmp_path / "data" / name).add((b"k", b"v")).write()
    for form in (ExportFormat.PARQUET, ExportFormat.CSV, ExportFormat.JSONL):
        options = ExportOptions(form, columns=("path", "offset"), by=("topic",))
        summary = run([tmp_path / "data" / name for name in names], tmp_path / form, options)
        assert (summary.rows, summary.is_whole) == (3, True)
        folders = {path.parent.name for path in data_files(tmp_path / form)}
        assert folders == {"topic=orders", "topic=%FF%FE", "topic=%FF%FD"}
        options = ExportOptions(form, columns=("topic", "path", "offset"))
        assert run([tmp_path / "data" / name for name in names], tmp_path / f"{form}-alone", options).rows == 3
