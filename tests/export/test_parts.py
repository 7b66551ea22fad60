"""Large segments in parts and small ones together: the same rows, exact and resumable, and no sync too many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.commands.cli import cli
from kdump.disk import syncing as durable
from kdump.exports import plan as planning
from kdump.exports.journal import FOLDER, SUCCESS, Journal
from kdump.exports.options import ExportOptions
from kdump.exports.plan import GROUP_BYTES, Unit, groups, plan, segment_name
from kdump.exports.run import LocalEngine, export
from kdump.query.selection import Selection
from kdump.storage.partition import PartitionLog
from tests.commands.logs import batch, write_segment
from tests.export.exporting import NAMES, Failures, data_files, log, offsets, parquet_rows, run
from tests.storage.building import flipped


def cut_small(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have segments cut into parts of about so many bytes."""
    monkeypatch.setattr(planning, "PART_BYTES", size)


def large(folder: Path, batches: int = 60, *, indexes: bool = True) -> Path:
    """A partition of one segment, each batch of ten records."""
    write_segment(folder, 0, [batch(10 * number, 10) for number in range(batches)], indexes=indexes)
    return folder


@pytest.mark.parametrize("indexes", [True, False])
@pytest.mark.parametrize("by", [(), ("topic", "date")])
def test_a_large_segment_is_exported_in_parts(
    indexes: bool, by: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = large(tmp_path / "orders-0", indexes=indexes)
    cut_small(monkeypatch, 3000)
    units = plan([PartitionLog(str(folder))], ExportOptions())
    assert len(units) >= 4
    assert [unit.is_last for unit in units] == [False] * (len(units) - 1) + [True]
    summary = run([folder], tmp_path / "out", ExportOptions(by=by, columns=NAMES))
    assert (summary.units, summary.is_whole) == (len(units), True)
    assert offsets(tmp_path / "out") == list(range(600))
    assert run([folder], tmp_path / "out", ExportOptions(by=by, columns=NAMES)).resumed == len(units)


def test_bounds_of_a_segment_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = large(tmp_path / "orders-0")
    cut_small(monkeypatch, 3000)
    for number, (start, stop) in enumerate([(0, 1), (123, 457), (599, 700)]):
        options = ExportOptions(columns=NAMES, selection=Selection(start, stop))
        run([folder], tmp_path / str(number), options)
        assert offsets(tmp_path / str(number)) == list(range(start, min(stop, 600)))


def test_a_segment_that_is_cut_elsewhere_is_exported_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one piece, in many, in fewer, and grown: nothing of the former cuts is left."""
    folder, target = large(tmp_path / "orders-0"), tmp_path / "out"
    options = ExportOptions(columns=NAMES)
    for size in (1 << 20, 1000, 5000, 1 << 20):
        cut_small(monkeypatch, size)
        count = len(plan([PartitionLog(str(folder))], options))
        summary = run([folder], target, options)
        assert (summary.units, summary.is_whole) == (count, True)
        assert offsets(target) == list(range(600))
        assert len(data_files(target)) == len(list((target / FOLDER).glob("part-*.json"))) == count
    cut_small(monkeypatch, 5000)
    with open(folder / f"{0:020d}.log", "ab") as file:
        file.write(batch(600, 10))
    assert run([folder], target, options).resumed == 0
    assert offsets(target) == list(range(610))


def test_what_a_killed_run_left_of_other_cuts_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = large(tmp_path / "orders-0"), tmp_path / "out"
    cut_small(monkeypatch, 3000)
    run([folder], target, ExportOptions(columns=NAMES))
    for account in (target / FOLDER).glob("part-*.json"):
        account.unlink()
    cut_small(monkeypatch, 7000)
    assert run([folder], target, ExportOptions(columns=NAMES)).resumed == 0
    assert offsets(target) == list(range(600))


def test_damage_in_a_segment_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a damaged log give what the whole gives."""
    batches = [batch(10 * number, 10) for number in range(60)]
    for number in (0, 17, 18, 44, 59):
        batches[number] = flipped(batches[number], -1)
    write_segment(tmp_path / "orders-0", 0, batches)
    whole = run([tmp_path / "orders-0"], tmp_path / "whole", ExportOptions(columns=NAMES))
    cut_small(monkeypatch, 3000)
    parts = run([tmp_path / "orders-0"], tmp_path / "parts", ExportOptions(columns=NAMES))
    assert (whole.units, parts.units >= 4) == (1, True)
    assert (parts.rows, parts.damage) == (whole.rows, whole.damage)
    assert offsets(tmp_path / "parts") == offsets(tmp_path / "whole")


def test_names_of_parts() -> None:
    whole = f"part-orders-0-{7:020d}"
    assert segment_name(f"{whole}-0012") == segment_name(whole) == whole
    assert segment_name("part-orders-0012") == "part-orders-0012"


def unit(size: int) -> Unit:
    return Unit("", "", "", 0, False, 0, size, size, 0)


def test_small_units_are_exported_together() -> None:
    many = groups([unit(1000)] * 10_000, 2)
    assert sum(map(len, many)) == 10_000
    assert 20 < len(many) < 100
    assert [len(group) for group in groups([unit(1000)] * 4, 2)] == [1] * 4
    mixed = groups([unit(5), unit(GROUP_BYTES), unit(5)], 1)
    assert [[each.bytes for each in group] for group in mixed] == [[GROUP_BYTES], [5, 5]]
    assert groups([], 2) == []


@pytest.mark.parametrize("has_syncfs", [True, False])
def test_files_are_on_the_disk_before_they_get_their_names(
    has_syncfs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sync for all files of a group where the system has that, one for each where not; and always before names."""
    if has_syncfs and durable._syncfs() is None:
        pytest.skip("no syncfs here")
    log(tmp_path / "orders-0", segments=30)
    events: list[str] = []
    rename, fsync = os.replace, os.fsync

    def renamed(source: str, end: str, **folders: int) -> None:
        events.append("account" if end.endswith(".json") else "name")
        rename(source, end, **folders)

    def synced(descriptor: int) -> None:
        events.append("sync")
        fsync(descriptor)

    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(durable, "_syncfs", lambda: synced if has_syncfs else None)
    monkeypatch.setattr(planning, "GROUPS_EACH", 0.001)
    units = plan([PartitionLog(str(tmp_path / "orders-0"))], ExportOptions())
    list(export(units, str(tmp_path / "out"), ExportOptions(), LocalEngine(1)))
    first = events.index("name")
    assert events[:first].count("sync") == (2 if has_syncfs else 31)  # one of export.json
    assert events[first : first + 60] == ["name", "account"] * 30
    assert (tmp_path / "out" / SUCCESS).exists()


def test_a_sync_that_fails_leaves_the_units_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(tmp_path / "orders-0")

    def fail(paths: Sequence[str], folder: str) -> None:
        raise OSError(5, "Input/output error", folder)

    monkeypatch.setattr(Journal, "sync", lambda self, paths: fail(paths, self.folder))
    failures: Failures = []
    summary = run([tmp_path / "orders-0"], tmp_path / "out", ExportOptions(), failures)
    assert (summary.failures, summary.rows, summary.is_whole) == (3, 0, False)
    assert not data_files(tmp_path / "out")
    monkeypatch.undo()
    assert run([tmp_path / "orders-0"], tmp_path / "out", ExportOptions()).is_whole


@pytest.mark.parametrize(("system", "release", "answer"), [
    ("Linux", "6.1.0-13-amd64", True), ("Linux", "5.8", True), ("Linux", "5.4.0", False), ("Darwin", "23.1.0", False),
    ("Linux", "strange", False),
])  # fmt: skip
def test_where_one_sync_tells_of_errors(
    system: str, release: str, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "host", release, "", "")))
    assert durable._is_linux_since((5, 8)) is answer


@pytest.mark.parametrize("content", [b"", bytes(300), b'{"source":{"path"'])
def test_an_account_in_pieces_is_none(content: bytes, tmp_path: Path) -> None:
    """As a lost power supply leaves what was not on the disk yet."""
    folder, target = log(tmp_path / "orders-0"), tmp_path / "out"
    run([folder], target, ExportOptions(columns=NAMES))
    next((target / FOLDER).glob("part-*.json")).write_bytes(content)
    summary = run([folder], target, ExportOptions(columns=NAMES))
    assert (summary.resumed, summary.is_whole) == (2, True)
    assert offsets(target) == list(range(120))


def units_by_size(folder: Path, target: int) -> list[tuple[int, int]]:
    """The pieces and the bytes of each unit."""
    units = plan([PartitionLog(str(folder))], ExportOptions(columns=NAMES, target_bytes=target))
    return [(len(each.all), each.bytes) for each in units]


def test_small_segments_go_into_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log(folder, segments=30)
    sizes = [path.stat().st_size for path in sorted(folder.glob("*.log"))]
    target = 4 * max(sizes)
    units = units_by_size(folder, target)
    assert len(units) < 10
    assert sum(pieces for pieces, _ in units) == 30
    assert all(size <= target for _, size in units)
    assert sum(size for _, size in units) == sum(sizes)
    options = ExportOptions(columns=NAMES, target_bytes=target)
    summary = run([folder], tmp_path / "out", options)
    assert summary.files == summary.units == len(units) == len(data_files(tmp_path / "out"))
    whole = run([folder], tmp_path / "whole", ExportOptions(columns=NAMES))
    assert summary.rows == whole.rows
    assert parquet_rows(tmp_path / "out") == parquet_rows(tmp_path / "whole")


def test_a_log_that_grows_changes_only_its_last_file(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log(folder, segments=30)
    options = ExportOptions(columns=NAMES, target_bytes=4 * max(path.stat().st_size for path in folder.glob("*.log")))
    before = run([folder], tmp_path / "out", options)
    kept = {path: path.stat().st_mtime_ns for path in data_files(tmp_path / "out")[:-1]}
    last = sorted(folder.glob("*.log"))[-1]
    base = int(last.stem)
    count = max(seen for seen in offsets(tmp_path / "out")) + 1 - base
    with last.open("ab") as file:
        for number in range(20):
            file.write(batch(base + count + 10 * number, 10))
    again = run([folder], tmp_path / "out", options)
    assert again.resumed == before.units - 1
    assert again.rows == before.rows + 200
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_damage_of_a_segment_in_the_middle_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "orders-0"
    for number in range(3):
        batches = [batch(100 * number + 10 * each, 10) for each in range(5)]
        if number == 1:
            batches[2] = flipped(batches[2], -1)
        write_segment(folder, 100 * number, batches)
    options = ExportOptions(columns=NAMES, target_bytes=1 << 20)
    for resumed in (0, 1):
        summary = run([folder], tmp_path / "out", options)
        assert (summary.units, summary.resumed, summary.rows, summary.damage) == (1, resumed, 140, 1)
    words = ["export", str(folder), f"--to={tmp_path / 'out'}", f"--columns={','.join(NAMES)}", "--target-file-size=1M"]
    assert cli.main(words, standalone_mode=False) == 1
    assert "orders-0/00000000000000000100.log: byte " in capsys.readouterr().err
