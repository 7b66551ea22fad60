"""`kdump ls`: tables, JSON lines, what is selected and in which order, and what is said of what cannot be read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kdump.disk.reading import list_directory
from kdump.formats import names
from tests.commands.running import Run
from tests.sampling import sampled
from tests.storage.building import batch, batches, segment_file

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "fixtures" / "corpus"
UNIQUE = "0123456789abcdef" * 2

SHAPES: dict[str, dict[str, Any]] = {
    "logDirectory": {
        "path": str, "clusterId": (str, None), "nodeId": (int, None), "directoryId": (str, None),
        "hasCleanShutdown": bool, "brokerEpoch": (int, None), "release": (str, None), "isController": bool,
        "partitions": int, "checkpointEntries": dict,
        "checkpointedButMissing": list, "notPartitions": list, "leftovers": list, "problems": list,
    },
    "partition": {
        "path": str, "logDirectory": (str, None), "topic": (str, None), "partition": (int, None), "state": str,
        "uniqueId": (str, None), "topicId": (str, None), "logStartOffset": (int, None),
        "remoteLogStartOffset": (int, None), "logEndOffset": (int, None),
        "records": (int, None), "segments": int, "size": int, "totalSize": int, "firstTimestamp": (int, None),
        "largestTimestamp": (int, None), "codecs": list, "checkpoints": dict, "leaderEpochs": list,
        "producerSnapshots": list, "kraftSnapshots": list, "leftovers": list, "replaced": list, "orphans": list,
        "strangeFiles": list,
        "problems": list, "placement": (dict, None),
    },
    "segment": {
        "path": str, "topic": (str, None), "partition": (int, None), "baseOffset": int, "endOffset": (int, None),
        "records": (int, None), "batches": (int, None), "size": int, "usedSize": (int, None), "allocatedSize": int,
        "hasZeroTail": bool, "firstTimestamp": (int, None), "largestTimestamp": (int, None), "codecs": list,
        "magics": list, "isComplete": bool, "offsetIndex": (dict, None), "timeIndex": (dict, None),
        "transactionIndex": (dict, None), "damage": list, "error": (str, None),
    },
    "file": {"path": str, "kind": str, "size": int},
    "duplicate": {"topic": str, "partition": int, "paths": list},
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with partitions of several topics and states."""
    folder = tmp_path / "data"
    for number, (name, count) in enumerate([("orders-0", 3), ("orders-10", 1), ("orders-2", 9), ("clicks-0", 2)]):
        segment_file(folder / name, b"".join(batches(count, timestamp=1_700_000_000_000 + number)))
    segment_file(folder / f"gone-0.{UNIQUE}-delete", batch(0))
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    (folder / names.REPLICATION_CHECKPOINT).write_text("0\n2\norders 0 6\norders 2 17\n")
    return folder


def test_a_log_directory(run: Run, data: Path) -> None:
    assert run("ls", data) == 0
    assert run.err == ""
    size = sum(path.stat().st_size for path in data.rglob("*.log"))
    assert run.lines[:2] == [
        f"{data}   broker 3, unclean shutdown; 5 partitions, 5 segments, {size} bytes",
        "  cluster abc",
    ]
    rows = run.table("PARTITION")
    assert [row["PARTITION"] for row in rows] == [
        "clicks-0",
        f"gone-0.{UNIQUE}-delete",
        "orders-0",
        "orders-2",
        "orders-10",
    ]
    assert [row.get("STATE", "") for row in rows] == ["", "delete", "", "", ""]
    orders = rows[2]
    assert (orders["LOG START"], orders["LOG END"], orders["RECORDS"], orders["SEGMENTS"]) == ("0", "6", "6", "1")
    assert (orders["RECOVERY POINT"], orders["HIGH WM"]) == ("5", "6")
    assert rows[3]["RECOVERY POINT"] == "-"
    assert orders["FIRST RECORD"] == orders["LAST RECORD"] == "2023-11-14T22:13:20Z"
    assert orders["CODECS"] == "none"
    assert "CLEANED TO" not in run.out
    assert "EPOCH" not in run.out


def test_a_clean_shutdown_is_said(run: Run) -> None:
    assert run("ls", CORPUS / "s-src-gzip") == 0
    assert "clean shutdown (broker epoch 42)" in run.out
    assert "directory id AAAAAAAAAE0AAAAAAAAAWA" in run.out


@pytest.mark.parametrize(("epoch", "words"), [(0, "clean shutdown (broker epoch 0);"), (-1, "clean shutdown;")])
def test_the_first_broker_epoch_is_said_and_that_there_is_none_is_not(
    run: Run, data: Path, epoch: int, words: str
) -> None:
    (data / names.CLEAN_SHUTDOWN).write_text(f'{{"version":0,"brokerEpoch":{epoch}}}')
    assert run("ls", data) == 0
    assert f"broker 3, {words}" in run.lines[0]


def test_a_partition_directory_lists_its_segments(run: Run) -> None:
    assert run("ls", CORPUS / "s-src-txn" / "topic-0") == 0
    assert run.lines[1:6] == [
        "  topic id ESIzRFVmd4gBI0VniavN7w",
        "  log start offset 0, log end offset 557, 557 records, 65.6 KiB in 5 segments",
        "  high watermark 557, recovery point 557",
        "  1 leader epoch, the last is 3 from offset 0",
        "  5 producer snapshots, the last at offset 557",
    ]
    rows = run.table("BASE OFFSET")
    assert [row["BASE OFFSET"] for row in rows] == ["0", "142", "289", "406", "538"]
    assert [row["LAST"] for row in rows] == ["141", "288", "405", "537", "556"]
    assert [row["BATCHES"] for row in rows] == ["28", "24", "19", "31", "11"]
    assert [row["INDEX"] for row in rows] == ["15", "15", "12", "16", "3"]
    assert [row["TIMEINDEX"] for row in rows] == ["12", "15", "9", "14", "4"]
    assert [row["TXNINDEX"] for row in rows] == ["1", "2", "2", "2", "1"]


def test_segments_are_listed_or_not_as_told(run: Run, data: Path) -> None:
    run("ls", data, "--segments")
    assert run.out.count("BASE OFFSET") == 5
    run("ls", data / "orders-0", "--no-segments")
    assert "BASE OFFSET" not in run.out
    assert "6 records" in run.out
    run("ls", data, "--segments", "--format", "jsonl")
    assert len(run.of_type("segment")) == 5
    run("ls", data, "--format", "jsonl")
    assert run.of_type("segment") == []
    run("ls", data / "orders-0", "--format", "jsonl")
    assert len(run.of_type("segment")) == 1


def test_a_segment(run: Run, data: Path) -> None:
    path = data / "orders-0" / "00000000000000000000.log"
    assert run("ls", path) == 0
    (row,) = run.table("BASE OFFSET")
    assert (row["LAST"], row["RECORDS"]) == ("5", "6")
    assert run("ls", path, "--format", "jsonl") == 0
    (segment,) = run.rows
    assert (segment["topic"], segment["partition"], segment["path"]) == ("orders", 0, str(path))


def test_other_files_show_their_size(run: Run, data: Path) -> None:
    path = data / names.META_PROPERTIES
    assert run("ls", path) == 0
    assert run.out == f"{path.stat().st_size:>4} bytes  {path}\n"
    assert run("ls", path, "--format", "jsonl") == 0
    assert run.rows == [{"type": "file", "path": str(path), "kind": "meta.properties", "size": path.stat().st_size}]


def test_everything_in_a_log_directory_can_be_named(run: Run, data: Path) -> None:
    """As a shell does for `kdump ls data/*`."""
    assert run("ls", *sorted(data.iterdir())) == 0
    assert run.out.count("BASE OFFSET") == 5


@pytest.mark.parametrize("case", sampled(sorted(path.name for path in CORPUS.iterdir()), 8))
@pytest.mark.parametrize("extra", [(), ("--count",)])
def test_json_lines_are_as_documented(run: Run, case: str, extra: tuple[str, ...]) -> None:
    assert run("ls", CORPUS / case, "--segments", "--format", "jsonl", *extra) == 0
    assert run.rows[0]["type"] == "logDirectory"
    for row in run.rows:
        shape = SHAPES[row.pop("type")]
        assert list(row) == list(shape)
        for name, kinds in shape.items():
            value, allowed = row[name], kinds if isinstance(kinds, tuple) else (kinds,)
            assert type(value) in allowed or (value is None and None in allowed), name


def test_the_document_has_every_field() -> None:
    text = (ROOT / "docs" / "ls-format.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(SHAPES)
    for kind, shape in SHAPES.items():
        assert [name for name in shape if f"`{name}`" not in sections[kind]] == []


@pytest.mark.parametrize("case", sampled(sorted(path.name for path in CORPUS.iterdir()), 8))
def test_text_says_what_json_says(run: Run, case: str) -> None:
    run("ls", CORPUS / case, "--segments", "--format", "jsonl")
    segments = run.of_type("segment")
    assert run("ls", CORPUS / case, "--segments") == 0
    if not segments:
        assert "! no segments" in run.out
        return
    rows = run.table("BASE OFFSET")
    assert [int(row["BASE OFFSET"]) for row in rows] == [segment["baseOffset"] for segment in segments]
    lasts = [
        str(segment["endOffset"] - 1) if segment["endOffset"] > segment["baseOffset"] else "-" for segment in segments
    ]
    assert [row.get("LAST", "-") for row in rows] == lasts


def test_json_of_a_partition(run: Run) -> None:
    run("ls", CORPUS / "s-src-txn", "--format", "jsonl")
    directory, partition = run.rows
    assert directory["checkpointEntries"] == {"logStart": 0, "recoveryPoint": 1, "highWatermark": 1, "cleaner": None}
    assert partition["state"] == "live"
    assert partition["logDirectory"] == str(CORPUS / "s-src-txn")
    assert partition["checkpoints"] == {
        "logStart": None,
        "recoveryPoint": 557,
        "highWatermark": 557,
        "cleaner": None,
    }
    assert partition["producerSnapshots"] == [142, 289, 406, 538, 557]
    assert partition["leaderEpochs"] == [{"epoch": 3, "startOffset": 0}]


def test_topics(run: Run, data: Path) -> None:
    assert run("ls", data, "--topic", "ord*", "--format", "jsonl") == 0
    assert [row["topic"] for row in run.of_type("partition")] == ["orders"] * 3
    assert run.rows[0]["partitions"] == 5
    assert run("ls", data, "--topic", "clicks", "--topic", "gone", "--format", "jsonl") == 0
    assert [row["topic"] for row in run.of_type("partition")] == ["clicks", "gone"]
    run("ls", data, "--topic", "ord*")
    assert "; 3 of 5 partitions, 3 segments" in run.out


def test_a_topic_that_nothing_has_is_an_error(run: Run, data: Path) -> None:
    assert run("ls", data, "--topic", "payments*") == 3
    assert run.err == "kdump: no partition has a topic that matches payments*\n"


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("name", [("clicks", 0), ("gone", 0), ("orders", 0), ("orders", 2), ("orders", 10)]),
        ("size", [("orders", 2), ("orders", 0), ("clicks", 0), ("gone", 0), ("orders", 10)]),
        ("end", [("orders", 2), ("orders", 0), ("clicks", 0), ("gone", 0), ("orders", 10)]),
        ("records", [("orders", 2), ("orders", 0), ("clicks", 0), ("gone", 0), ("orders", 10)]),
        ("time", [("clicks", 0), ("orders", 2), ("orders", 10), ("orders", 0), ("gone", 0)]),
        ("segments", [("clicks", 0), ("gone", 0), ("orders", 0), ("orders", 2), ("orders", 10)]),
    ],
)
def test_orders(run: Run, data: Path, key: str, wanted: list[tuple[str, int]]) -> None:
    assert run("ls", data, "--sort", key, "--format", "jsonl") == 0
    assert [(row["topic"], row["partition"]) for row in run.of_type("partition")] == wanted


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("z-3-29", "! topic-0: 3 files waiting for deletion (.deleted), 0 bytes: 00000000000000000000.index.deleted, "),
        ("z-3-93", "of a replacement of segments that was not finished (.swap)"),
        ("z-3-141", "4 files of an unfinished cleaning (.cleaned), 2491 bytes: 00000000000000000646.index.cleaned, "),
        ("z-3-134", "! topic-0: 00000000000000002978.index: an index without its .log"),
        ("h-prealloc-log", "! topic-0/00000000000000000000.log: zeros from byte 61612 on: preallocated, or never"),
        ("i-trunc-mid-batch-active", "byte 11863: the log ends inside batch "),
        ("i-zero-batch-mid-active", "byte 1623: Found record size 0 smaller than minimum record overhead (14)"),
    ],
)
def test_what_is_out_of_place_is_said_and_is_no_failure(run: Run, case: str, said: str) -> None:
    assert run("ls", CORPUS / case) == 0
    assert said in run.out
    assert run("ls", CORPUS / case, "--segments") == 0
    assert said.removeprefix("! topic-0: ").removeprefix("! topic-0/") in run.out


def test_used_sizes_show_where_they_differ(run: Run) -> None:
    run("ls", CORPUS / "h-prealloc-log", "--segments")
    (row,) = run.table("BASE OFFSET")
    assert (row["SIZE"], row["USED"]) == ("128.0 KiB", "60.2 KiB")
    said = ".index and .timeindex are still preallocated: the broker trims them at its next start"
    assert f"  00000000000000000000.log: {said}" in run.lines
    run("ls", CORPUS / "s-src-gzip", "--segments")
    assert "USED" not in run.out


def test_old_formats_show(run: Run) -> None:
    run("ls", CORPUS / "s-src-v0-lz4", "--segments")
    assert run.table("BASE OFFSET")[0]["FORMAT"] == "v0"
    assert "RECORDS" not in run.out
    run("ls", CORPUS / "s-src-v0-lz4", "--segments", "--count")
    assert run.table("BASE OFFSET")[0]["RECORDS"].isdigit()


def test_missing_indexes_show(run: Run, data: Path) -> None:
    run("ls", data / "orders-0")
    assert "! 00000000000000000000.log: there is no .index" in run.out
    assert "TIMEINDEX" not in run.out


def test_strange_directories_and_checkpoint_entries(run: Run, data: Path) -> None:
    (data / "lost+found").mkdir()
    (data / names.CLEANER_CHECKPOINT).write_text("0\n1\nvanished 3 7\n")
    (data / "orders-0" / "notes.txt").write_text("x")
    assert run("ls", data) == 0
    assert "! lost+found: not the name of a partition, so the broker does not start" in run.out
    assert "! vanished-3: in a checkpoint, but there is no such directory" in run.out
    assert "! orders-0: notes.txt: not a name that Kafka gives" in run.out


def test_what_cannot_be_parsed_is_said(run: Run, data: Path) -> None:
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("7\n")
    assert run("ls", data) == 0
    assert "! Unrecognised version:7, expected version: 0 in checkpoint file at: " in run.out
    assert run("ls", data, "--format", "jsonl") == 0
    assert len(run.rows[0]["problems"]) == 1


def test_a_partition_in_two_places(run: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "other")
    assert run("ls", data, tmp_path / "other", "--topic", "clicks") == 0
    assert f"! clicks-0 is in 2 places: {data}/clicks-0, {tmp_path}/other/clicks-0" in run.out
    assert run("ls", data / "clicks-0", tmp_path / "other" / "clicks-0", "--format", "jsonl") == 0
    assert run.of_type("duplicate") == [
        {
            "type": "duplicate",
            "topic": "clicks",
            "partition": 0,
            "paths": [f"{data}/clicks-0", f"{tmp_path}/other/clicks-0"],
        }
    ]
    assert run("ls", data, data, "--format", "jsonl") == 0
    assert run.of_type("duplicate") == []


def test_a_path_that_nothing_has(run: Run, data: Path) -> None:
    """The others are listed all the same."""
    assert run("ls", data / "nothing", data / "orders-0") == 3
    assert run.err.splitlines() == [
        f"kdump: {data}/nothing does not exist",
        "INCOMPLETE. 1 PATH could not be read; the rest was.",
    ]
    assert "log end offset 6" in run.out


def test_a_pattern(run: Run, data: Path) -> None:
    assert run("ls", data / "orders-*", "--format", "jsonl") == 0
    assert len(run.of_type("partition")) == 3
    assert run("ls", data / "payments-*") == 3
    assert "payments-*: nothing matches this pattern" in run.err


@pytest.mark.parametrize("arguments", [(), ("--sort", "colour", "."), ("--format", "csv", "."), ("--nonsense", ".")])
def test_wrong_command_lines(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("ls", *arguments) == 2
    assert run.out == ""


def test_files_that_are_not_kafkas(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert run("ls", tmp_path / "notes.txt") == 3
    assert "notes.txt" in run.err
    assert run("ls", tmp_path) == 3
    assert "neither a partition directory" in run.err
    (tmp_path / "disk-1").mkdir()
    (tmp_path / "disk-1" / "meta.properties").write_text("version=1\n")
    assert run("ls", tmp_path) == 3
    assert f"it holds 1: kdump ls {tmp_path / 'disk-1'}" in run.err


def test_what_cannot_be_read_does_not_stop_the_rest(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user may do: the system call itself is made to fail."""
    from kdump.disk import reading as files

    really = files.open_for_reading

    def refuse(path: str) -> int:
        if "orders-0" in path and path.endswith(".log"):
            raise PermissionError(13, "Permission denied", path)
        return really(path)

    monkeypatch.setattr(files, "open_for_reading", refuse)
    assert run("ls", data, "--format", "jsonl", "--segments") == 3
    path = f"{data}/orders-0/00000000000000000000.log"
    assert run.err == f"kdump: {path}: Permission denied\n"
    errors = {row["path"]: row["error"] for row in run.of_type("segment") if row["error"]}
    assert errors == {path: "Permission denied"}
    assert len(run.of_type("partition")) == 5
    assert run("ls", data) == 3
    assert "! orders-0/00000000000000000000.log: cannot be read: Permission denied" in run.out


def test_a_partition_that_cannot_be_looked_into(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.storage import partition

    def refuse(path: str) -> tuple[list[str], list[str]]:
        if path.endswith("orders-0"):
            raise PermissionError(13, "Permission denied", path)
        return list_directory(path)

    monkeypatch.setattr(partition, "list_directory", refuse)
    assert run("ls", data, "--format", "jsonl") == 3
    assert run.err == (
        f"kdump: {data}/orders-0: Permission denied\nINCOMPLETE. 1 of 5 partitions could not be read.\n"
    )
    assert len(run.of_type("partition")) == 4


def test_names_from_the_disk_cannot_drive_the_terminal(run: Run, data: Path) -> None:
    evil = "x\x1b]0;owned\x07\x9b31m\u202e"
    segment_file(data / f"{evil}-0", batch(0))
    (data / evil).mkdir()
    (data / "orders-0" / evil).write_text("x")
    (data / names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=\\u001b[31m\n")
    (data / names.CLEANER_CHECKPOINT).write_text(f"0\n1\n{evil} 3 7\n")
    (data / names.LOG_START_CHECKPOINT).write_text(f"0\n1\n{evil}\n")
    for arguments in ((), ("--segments",), ("--format", "jsonl"), ("--topic", evil)):
        run("ls", data, data / f"{evil}-0", data / evil / "gone", *arguments)
        for text in (run.out, run.err):
            assert re.findall("[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]", text) == []
    run("ls", data, "--format", "jsonl", "--topic", "x*")
    assert [row["topic"] for row in run.of_type("partition")] == [evil]


def test_names_that_are_no_text(run: Run, data: Path) -> None:
    folder = os.path.join(os.fsencode(data), b"caf\xe9-0")
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    assert run("ls", data) == 0
    assert "caf\\xe9-0" in run.out
    assert run("ls", data, "--format", "jsonl") == 0
    assert os.fsencode(run.of_type("partition")[0]["path"]) == folder


def test_colour_only_where_it_is_wanted(run: Run, data: Path) -> None:
    run("ls", data)
    assert "\x1b" not in run.out
    plain = run.out
    run("ls", data, "--color", "always")
    assert "\x1b[" in run.out
    assert re.sub(r"\x1b\[\d+m", "", run.out) == plain


def test_nothing_heavy_is_imported(data: Path) -> None:
    program = (
        "import sys; sys.argv = ['kdump', 'ls', sys.argv[1], '--segments']\n"
        "from kdump.commands.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'numpy', 'pyarrow', 'pyspark', 'lz4', 'zstandard', 'snappy'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, data], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "orders-0" in done.stdout


def test_the_real_command(data: Path) -> None:
    command = Path(sys.executable).with_name("kdump")
    done = subprocess.run([command, "ls", data], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "orders-10" in done.stdout


def test_a_reader_that_goes_away(data: Path) -> None:
    command = Path(sys.executable).with_name("kdump")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([command, "ls", data], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_checkpoint_beside_a_partition_that_cannot_be_used_is_named(run: Run, data: Path) -> None:
    checkpoint = data / "recovery-point-offset-checkpoint"
    checkpoint.write_text("not a checkpoint\n")
    assert run("ls", data / "orders-0") == 0
    assert f"Malformed line in checkpoint file [{checkpoint}]: not a checkpoint" in run.out
