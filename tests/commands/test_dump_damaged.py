"""`kdump dump --include-damaged` and `--kept`: what can be read of damaged batches and of what changes took out."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kdump.commands.cli import cli
from kdump.formats.codecs import GZIP
from tests.commands.logs import batch, record, write_segment

FLIPPED_AT = 110
"""A byte of a value in the first batch of `batch(...)`."""


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def objects(*arguments: object) -> list[dict[str, Any]]:
    return rows_of(run("dump", "--format", "jsonl", *arguments))


def rows_of(result: Result) -> list[dict[str, Any]]:
    """The rows of a result, without what is around them."""
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [row for row in rows if row["type"] not in ("header", "summary")]


def flipped(data: bytes, at: int = FLIPPED_AT) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Offsets 0 to 14, of which the batch 5 to 9 has a flipped bit in a value."""
    return write_segment(tmp_path / "orders-0", 0, [batch(0, 5), flipped(batch(5, 5)), batch(10, 5)], indexes=False)


def test_records_of_a_damaged_batch_are_shown_and_marked(log: Path) -> None:
    found = objects(log, "--include-damaged")
    assert [row["isValid"] for row in found if row["type"] == "batch"] == [True, False, True]
    records = {row["offset"]: row for row in found if row["type"] == "record"}
    assert sorted(records) == list(range(15))
    assert [offset for offset, row in records.items() if not row["isValid"]] == [5, 6, 7, 8, 9]
    assert records[9]["value"].encode() == record(9).value
    assert run("dump", log, "--include-damaged").return_value == 1


def test_without_the_option_they_are_left_out_and_it_is_named(log: Path) -> None:
    assert 5 not in [row.get("offset") for row in objects(log)]
    assert "(--include-damaged shows what can be read); the dump continues" in run("dump", log).stderr
    assert "--include-damaged" not in run("dump", log, "--include-damaged").stderr


def test_text_and_csv_mark_them(log: Path) -> None:
    lines = [line for line in run("dump", log, "--include-damaged").stdout.splitlines() if line.startswith("batch")]
    assert [line.endswith("BAD CRC") for line in lines] == [False, True, False]
    rows = csv.DictReader(io.StringIO(run("dump", log, "--include-damaged", "--format", "csv").stdout))
    assert [row["isValid"] for row in rows] == ["true"] * 5 + ["false"] * 5 + ["true"] * 5


def test_what_is_left_of_a_batch_that_is_cut_off(log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[:-60])
    result = objects(log, "--include-damaged")
    assert [row["offset"] for row in result if row["type"] == "record" and not row["isValid"]][5:] == [10, 11]


def test_a_size_that_leads_too_far_does_not_swallow_what_follows(tmp_path: Path) -> None:
    bad = bytearray(batch(5, 5))
    bad[10] = 0x7F
    log = write_segment(tmp_path / "orders-0", 0, [batch(0, 5), bytes(bad), batch(10, 5)], indexes=False)
    found = [row["offset"] for row in objects(log, "--include-damaged") if row["type"] == "record"]
    assert found == list(range(15))


def test_selection_holds_for_damaged_batches_too(log: Path) -> None:
    found = objects(log, "--include-damaged", "--offsets", "7:11")
    assert [row["offset"] for row in found if row["type"] == "record"] == [7, 8, 9, 10]


def test_a_compressed_batch_that_cannot_be_unpacked_shows_its_header(tmp_path: Path) -> None:
    bad = flipped(batch(5, 5, attributes=GZIP), 75)
    log = write_segment(tmp_path / "orders-0", 0, [batch(0, 5), bad, batch(10, 5)], indexes=False)
    found = objects(log, "--include-damaged")
    assert [(row["baseOffset"], row["isValid"]) for row in found if row["type"] == "batch"] == [
        (0, True), (5, False), (10, True)
    ]  # fmt: skip


@pytest.mark.parametrize("tail", [bytes(300), b"\xff" * 300, b"\0" * 7 + b"\x0a" + b"\x7f" * 300])
def test_bytes_that_are_no_batch_are_not_shown_as_one(log: Path, tail: bytes) -> None:
    log.write_bytes(log.read_bytes() + tail)
    rows = objects(log, "--include-damaged", "--batches-only")
    assert [row["baseOffset"] for row in rows] == [0, 5, 10]


def test_append_does_not_take_records_of_damaged_batches(log: Path, tmp_path: Path) -> None:
    write_segment(tmp_path / "data" / "orders-1", 0, [batch(0, 1)])
    for form in ("jsonl", "csv"):
        dumped = tmp_path / f"dumped.{form}"
        dumped.write_text(run("dump", log, "--include-damaged", "--format", form).stdout)
        arguments = ["append", str(tmp_path / "data" / "orders-1"), "--format", form, "--repack"]
        result = CliRunner().invoke(cli, arguments, input=dumped.read_text(), standalone_mode=False)
        assert "damaged batch" in str(result.exception) + result.stderr


# --- what changes keep


@pytest.fixture
def salvaged(log: Path) -> Path:
    """The log directory, after a salvage."""
    data = log.parent.parent
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=rcgwS63sW_WjGHkJwoys6Q\n")
    result = run("repair", log.parent, "--strategy", "salvage", "--only-copy", "--apply", "--accept-loss", "all")
    assert result.return_value in (0, None), result.output
    return data


def test_what_salvage_cut_out_can_be_read(salvaged: Path) -> None:
    rows = objects(salvaged / "orders-0", "--kept")
    assert [(row["segment"], row["offset"], row["isValid"]) for row in rows if row["type"] == "record"] == [
        (0, offset, False) for offset in range(5, 10)
    ]
    assert {row["topic"] for row in rows} == {"orders"}
    text = run("dump", salvaged / "orders-0", "--kept").stdout
    assert "of 00000000000000000000.log, taken out by repair salvage (" in text.splitlines()[0]


def test_also_of_a_partition_that_was_deleted(salvaged: Path) -> None:
    shutil.rmtree(salvaged / "orders-0")
    (salvaged / "orders-1").mkdir()
    rows = objects(salvaged, "--kept")
    assert [row["offset"] for row in rows if row["type"] == "record"] == [5, 6, 7, 8, 9]


def test_what_truncate_cut_off_can_be_read(log: Path) -> None:
    run("repair", log.parent, "--strategy", "truncate", "--apply", "--accept-loss", "all")
    rows = [row for row in objects(log.parent, "--kept") if row["type"] == "record"]
    assert [(row["offset"], row["isValid"]) for row in rows] == [
        *((offset, False) for offset in range(5, 10)),
        *((offset, True) for offset in range(10, 15)),
    ]


def test_undone_changes_keep_nothing(salvaged: Path) -> None:
    id_ = rows_of(run("undo", salvaged, "--format", "jsonl"))[0]["id"]
    run("undo", salvaged / "orders-0", "--change", id_, "--apply")
    done = run("dump", salvaged / "orders-0", "--kept")
    assert done.stdout == ""
    assert "orders-0: no change keeps anything of its logs" in done.stderr


def test_a_file_keeps_nothing(log: Path) -> None:
    with pytest.raises(Exception, match="is a file"):
        run("dump", log, "--kept")
