"""`kdump append`: what it reads, how batches are made of it, what it refuses, and what it says."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.write.log_dir import read_offsets
from tests.change.kept import only_change
from tests.commands.running import Run
from tests.rows import rows_in
from tests.sampling import sampled
from tests.write.building import NOW, records
from tests.write.replaying import CONFIGS, contents, fixture_case

AT = f"--now={NOW}"
COMMAND = [sys.executable, "-m", "kdump"]
# Those whose codecs give Kafka's own bytes.
SAME_BYTES = ["e-leader-epochs", "s-src-gzip", "s-src-none", "s-src-v1-gzip", "s-src-zstd"]
OTHER_BYTES = ["f-consumer-offsets", "s-src-lz4", "s-src-snappy", "s-src-txn", "s-src-v0-lz4"]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Runs `kdump append` with an input; the exit code has to be the given one."""

    def append(*arguments: object, text: str | bytes = "", code: int = 0) -> Run:
        runner = Run(capfdbinary, monkeypatch)
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert runner("append", *arguments) == code, runner.err
        return runner

    return append


@pytest.fixture
def dump(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `kdump dump` prints."""

    def dumped(path: Path, *options: str) -> str:
        runner = Run(capfdbinary, monkeypatch)
        assert runner("dump", path, *(options or ("--format", "jsonl", "--raw"))) == 0, runner.err
        return runner.out

    return dumped


def settings(case: str) -> list[str]:
    return [f"--topic-config={name}={value}" for name, value in CONFIGS[case].items()]


def line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


def content(path: Path) -> list[tuple[Any, ...]]:
    return [(record.key, record.value) for record in records(path)]


# --- round trips ---


@pytest.mark.parametrize("case", SAME_BYTES)
def test_kept_offsets_give_the_same_files(case: str, run: Any, dump: Any, tmp_path: Path) -> None:
    source = fixture_case(case).path
    copy = tmp_path / source.name
    text = dump(source)
    how = ("--create", "--keep-offsets", "--index-entries", "append", AT, *settings(case))
    run(copy, *how, text=text)
    want, got = contents(source), contents(copy)
    want.pop(names.PARTITION_METADATA, None)
    assert got == want


@pytest.mark.parametrize("case", sampled([*SAME_BYTES, *OTHER_BYTES], 8))
@pytest.mark.parametrize("keeps", [True, False])
def test_dump_comes_out_the_same(case: str, keeps: bool, run: Any, dump: Any, tmp_path: Path) -> None:
    source = fixture_case(case).path
    copy = tmp_path / source.name
    text = dump(source)
    done = run(copy, "--create", AT, *settings(case), *(["--keep-offsets"] if keeps else []), text=text)
    assert done.out.startswith(f"{source.name}: {len(records(source))} records in ")
    assert [told(row) for row in rows_in(dump(copy))] == [
        told(row) for row in rows_in(text)
    ]


def told(row: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on how well a codec compresses."""
    return {name: value for name, value in row.items() if name not in ("crc", "position", "size", "segment")}


def test_csv_round_trip(run: Any, dump: Any, tmp_path: Path) -> None:
    source = fixture_case("s-src-none").path
    text = dump(source, "--format", "csv")
    run(tmp_path / "topic-0", "--create", "--format", "csv", AT, text=text)
    want = [(each.key, each.value, each.timestamp, each.headers) for each in records(source)]
    assert [(each.key, each.value, each.timestamp, each.headers) for each in records(tmp_path / "topic-0")] == want


def test_appended_twice_offsets_go_on(run: Any, dump: Any, tmp_path: Path) -> None:
    text = dump(fixture_case("s-src-none").path)
    run(tmp_path / "topic-0", "--create", AT, text=text)
    done = run(tmp_path / "topic-0", AT, text=text)
    assert done.out == "topic-0: 364 records in 103 batches at offsets 364\N{EN DASH}727\n"
    assert content(tmp_path / "topic-0") == content(fixture_case("s-src-none").path) * 2


def test_a_producers_batches_appended_twice_are_there_once(run: Any, dump: Any, tmp_path: Path) -> None:
    run(tmp_path / "t-0", "--create", "--format", "lines", "--producer-id", "5", AT, text="a\nb\n")
    text = dump(tmp_path / "t-0")
    done = run(tmp_path / "t-0", AT, text=text)
    assert done.out == "t-0: 1 batch skipped that the producer had sent before\n"
    done = run(tmp_path / "t-0", "--repack", AT, text=text)
    assert done.out == "t-0: 2 records in 1 batch at offsets 2\N{EN DASH}3\n"


# --- what is read ---


def test_lines(run: Any, tmp_path: Path) -> None:
    text = b"plain\r\n\nNULL\n\xff\xfe"
    run(tmp_path / "t-0", "--create", "--format", "lines", "--null-marker", "NULL", AT, text=text)
    assert content(tmp_path / "t-0") == [(None, b"plain"), (None, b""), (None, None), (None, b"\xff\xfe")]


def test_lines_with_keys(run: Any, tmp_path: Path) -> None:
    how = ("--format", "lines", "--key-separator", "=>", "--null-marker", "-", "--timestamp", "2023-11-14T22:13:20Z")
    run(tmp_path / "t-0", "--create", *how, AT, text="a=>b=>c\n=>\n-=>-\n")
    assert content(tmp_path / "t-0") == [(b"a", b"b=>c"), (b"", b""), (None, None)]
    assert {record.timestamp for record in records(tmp_path / "t-0")} == {NOW}


def test_jsonl(run: Any, tmp_path: Path) -> None:
    text = line(value="ü", key=None, timestamp=NOW) + "\n  \n"
    text += line(type="record", valueBase64="/wA=", keyBase64="", headers=[{"key": "h", "valueBase64": "AA=="}])
    text += line(value="", headers=[{"key": "a", "value": None}, {"keyBase64": "/w==", "value": "x"}], timestamp=-1)
    run(tmp_path / "t-0", "--create", "--timestamp", str(NOW - 5), AT, text=text)
    found = records(tmp_path / "t-0")
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        (None, "ü".encode(), NOW, ()),
        (b"", b"\xff\0", NOW - 5, ((b"h", b"\0"),)),
        (None, b"", -1, ((b"a", None), (b"\xff", b"x"))),
    ]


def test_csv(run: Any, tmp_path: Path) -> None:
    text = 'value,isControl,key,valueBase64\r\n"a ""b""\r\nc, d",false,k,\r\n,,"",AAE=\r\nmarker,true,x,\r\n\r\n'
    run(tmp_path / "t-0", "--create", "--format", "csv", AT, text=text)
    assert content(tmp_path / "t-0") == [(b"k", b'a "b"\r\nc, d'), (b"", b"\0\1")]


@pytest.mark.parametrize("format_", ["jsonl", "csv", "lines"])
def test_empty_input(format_: str, run: Any, tmp_path: Path) -> None:
    done = run(tmp_path / "t-0", "--create", "--format", format_)
    assert done.out == "t-0: no records in the input: nothing was appended\n"
    assert (tmp_path / "t-0" / f"{0:020}.log").exists()


def test_input_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x\n")
    run(tmp_path / "t-0", "--create", "--format", "lines", "--input", tmp_path / "in")
    run(tmp_path / "t-0", "--input", tmp_path / "nowhere", code=2)


BATCH = {"type": "batch", "topic": "t", "partition": 0}
BAD = {
    "not JSON": ("{", "line 1: not JSON"),
    "no object": ("[1]", "line 1: not a JSON object"),
    "too deep": ("[" * 100_000, "line 1: not JSON that can be read"),
    "not UTF-8": (b'{"value":"\xff"}', "line 1: not UTF-8 at byte 10"),
    "type": (line(type="leaderEpoch"), "an object of type 'leaderEpoch'"),
    "value": (line(value=5), "value is 5: expected text, null, or valueBase64"),
    "decoded": (line(key={"name": "OffsetCommit"}), "dump it with --raw"),
    "both": (line(value="x", valueBase64="AA=="), "both value and valueBase64"),
    "base64": (line(valueBase64="A"), "valueBase64 is 'A': expected base64"),
    "base64 of": (line(valueBase64=["ü"]), "expected base64"),
    "surrogate": ('{"value":"\\ud800"}', "half a surrogate pair"),
    "timestamp": (line(value="x", timestamp=1 << 63), "timestamp is 9223372036854775808"),
    "truth": (line(value="x", timestamp=True), "timestamp is True: expected a number"),
    "headers": (line(value="x", headers={"a": "b"}), "headers is {'a': 'b'}: expected a list of objects"),
    "header": (line(value="x", headers=[{"value": "b"}]), "a header without a key"),
    "codec": (line(**BATCH, codec="brotli"), "codec is 'brotli'"),
    "magic": (line(**BATCH, magic=3), "magic is 3: expected a number from 0 to 2"),
    "epoch": (line(**BATCH, producerEpoch=40000), "producerEpoch is 40000"),
    "control": (line(**BATCH, isControl="yes"), "isControl is 'yes': expected true or false"),
}


@pytest.mark.parametrize("name", BAD)
def test_input_that_is_wrong_from_the_start(name: str, run: Any, tmp_path: Path) -> None:
    text, complaint = BAD[name]
    done = run(tmp_path / "t-0", "--create", text=text, code=3)
    assert complaint in done.err
    assert not (tmp_path / "t-0").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "line 1: the first row has to name the columns"),
        ("key,value\n1\n", "line 2: a row of 1 cells where the first has 2"),
        ('key,value\n"1\n2', "line 3: a quote that is not closed"),
        ('key,value\n1,a"b"\n', "line 2: no cell of a CSV row at character 2"),
        ("key,timestamp\n1,x\n", "line 2: timestamp is 'x'"),
        ("key,headers\n1,[\n", "line 2: headers is not JSON"),
        ("value,value\n1,2\n", "line 1: value is given twice"),
    ],
)
def test_bad_csv(text: str, complaint: str, run: Any, tmp_path: Path) -> None:
    assert complaint in run(tmp_path / "t-0", "--create", "--format", "csv", text=text, code=3).err


def test_input_that_is_wrong_later_leaves_what_came_before(run: Any, tmp_path: Path) -> None:
    text = line(value="a") + line(value="b") + "nonsense\n"
    done = run(tmp_path / "t-0", "--create", "--repack", "--batch-records", 1, AT, text=text, code=3)
    assert "line 3: not JSON" in done.err
    assert "Appended before: 1 record in 1 batch at offset 0." in done.err
    assert content(tmp_path / "t-0") == [(None, b"a")]


def test_rows_say_what_was_appended_before_an_error(run: Any, tmp_path: Path) -> None:
    text = line(value="a") + line(value="b") + "nonsense\n"
    options = ("--create", "--repack", "--batch-records", 1, "--report-format", "jsonl", AT)
    done = run(tmp_path / "t-0", *options, text=text, code=3)
    row, summary = done.rows
    assert (row["firstOffset"], row["lastOffset"], row["batches"], row["records"]) == (0, 0, 1, 1)
    assert (row["path"], row["logEndOffset"]) == (str(tmp_path / "t-0"), 1)
    assert summary == {"type": "summary", "isComplete": False, "verdict": "incomplete", "exitCode": 3}


def test_rows_say_what_the_producer_had_sent_before(run: Any, tmp_path: Path) -> None:
    options = ("--format", "lines", "--producer-id", 7, "--base-sequence", 0, "--any-producer-id", "-o", "jsonl", AT)
    run(tmp_path / "t-0", "--create", *options, text="a\n")
    [row] = [row for row in run(tmp_path / "t-0", *options, text="a\n").rows if row["type"] == "append"]
    assert (row["batches"], row["duplicateBatches"], row["firstOffset"], row["lastOffset"]) == (0, 1, None, None)
    assert row["logEndOffset"] == 1


def test_two_partitions_at_once(run: Any, tmp_path: Path) -> None:
    text = line(**BATCH) + line(value="a", topic="t", partition=0) + line(value="b", topic="u", partition=0)
    done = run(tmp_path / "t-0", "--create", text=text, code=3)
    assert "line 3: of u-0, after others of t-0" in done.err
    run(tmp_path / "t-0", "--create", "--repack", text=text)
    assert content(tmp_path / "t-0") == [(None, b"a"), (None, b"b")]


# --- batches ---


def test_packing_options(run: Any, dump: Any, tmp_path: Path) -> None:
    how: tuple[object, ...] = ("--codec", "zstd", "--level", 5, "--batch-records", 3, "--leader-epoch", 8)
    how += ("--producer-id", 6, "--producer-epoch", 2, "--base-sequence", 100, "--start-offset", 50)
    how += ("--topic-id", format_uuid(b"x" * 16))
    run(tmp_path / "t-0", "--create", "--format", "lines", *how, AT, text="1\n2\n3\n4\n")
    rows = rows_in(dump(tmp_path / "t-0", "--format", "jsonl", "--batches-only"))
    fields = ("codec", "partitionLeaderEpoch", "producerId", "producerEpoch", "baseSequence", "baseOffset", "count")
    assert [[row[name] for name in fields] for row in rows] == [
        ["zstd", 8, 6, 2, 100, 50, 3],
        ["zstd", 8, 6, 2, 103, 53, 1],
    ]
    assert (tmp_path / "t-0" / names.PARTITION_METADATA).read_bytes().endswith(format_uuid(b"x" * 16).encode())


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int, run: Any, dump: Any, tmp_path: Path) -> None:
    run(tmp_path / "t-0", "--create", "--format", "lines", "--magic", magic, "--codec", "gzip", AT, text="1\n2\n")
    (row,) = rows_in(dump(tmp_path / "t-0", "--format", "jsonl", "--batches-only"))
    assert (row["magic"], row["codec"], row["lastOffset"]) == (magic, "gzip", 1)


@pytest.mark.parametrize("ending", ["commit", "abort", "open"])
def test_transactions(ending: str, run: Any, dump: Any, tmp_path: Path) -> None:
    how = ("--format", "lines", "--producer-id", 6, "--transactional", ending, "--coordinator-epoch", 3)
    done = run(tmp_path / "t-0", "--create", *how, AT, text="1\n2\n")
    rows = [row for row in rows_in(dump(tmp_path / "t-0")) if row["type"] == "record"]
    assert [row["isControl"] for row in rows] == [False, False] + ([] if ending == "open" else [True])
    end = "" if ending == "open" else ", the marker of a transaction"
    assert done.out.endswith(f"offsets 0\N{EN DASH}1{end}\n")
    assert (tmp_path / "t-0" / f"{0:020}.txnindex").exists() == (ending == "abort")
    run(tmp_path / "t-0", *how[:4], "--transactional", "commit", AT, text="3\n")
    assert len(records(tmp_path / "t-0")) == (4 if ending == "open" else 5)


def test_topic_configuration(run: Any, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("log.segment.bytes=200\nlog.preallocate=true\nother=1\n")
    how = ("--config", tmp_path / "server.properties", "--topic-config", "segment.bytes=100", "--format", "lines")
    run(tmp_path / "t-0", "--create", *how, "--batch-records", 1, AT, text="1\n2\n3\n")
    assert [path.stat().st_size for path in sorted((tmp_path / "t-0").glob("*.log"))] == [69, 69, 69]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--topic-config", "segment.byte=1"), "did you mean 'segment.bytes'?"),
        (("--topic-config", "segment.bytes"), "expected NAME=VALUE"),
        (("--topic-config", "segment.bytes=1"), "expected a number from 14 to 2147483647"),
        (("--topic-config", "cleanup.policy=keep"), "expected delete, compact or both"),
        (("--key-separator", ":"), "is for --format lines"),
        (("--keep-offsets", "--repack"), "--repack cannot be used with it"),
        (("--keep-offsets", "--codec", "gzip"), "--codec cannot be used with it"),
        (("--keep-offsets", "--format", "csv"), "--format csv cannot be used with it"),
        (("--transactional", "commit"), "need a --producer-id"),
        (("--magic", "1", "--codec", "zstd"), "ZStandard compression is not supported for magic 1"),
        (("--codec", "snappy", "--level", "3"), "snappy has no levels"),
        (("--codec", "gzip", "--level", "10"), "gzip has the levels 1 to 9"),
        (("--topic-id", "x"), "is not URL-safe base64"),
        (("--timestamp", "soon"), "neither a number of milliseconds nor ISO 8601"),
    ],
)
def test_wrong_usage(options: tuple[str, ...], complaint: str, run: Any, tmp_path: Path) -> None:
    done = run(tmp_path / "t-0", "--create", *options, text=line(value="x"), code=2)
    assert complaint in " ".join(done.err.split())
    assert not (tmp_path / "t-0").exists()


def test_ignore_lock_takes_the_name_of_the_directory(run: Any, tmp_path: Path) -> None:
    done = run(tmp_path / "t-0", "--create", "--ignore-lock", "t-1", text=line(value="x"), code=4)
    assert "--ignore-lock t-1: the directory is called" in " ".join(done.err.split())
    assert not (tmp_path / "t-0").exists()


def test_not_a_partition(run: Any, tmp_path: Path) -> None:
    assert "expected a partition directory" in run(tmp_path / "orders", "--create", code=2).err
    assert "does not exist" in run(tmp_path / "orders-0", code=3).err


def test_packing_options_for_batches_that_are_told(run: Any, tmp_path: Path) -> None:
    text = line(**BATCH) + line(value="a", topic="t", partition=0)
    done = run(tmp_path / "t-0", "--create", "--codec", "gzip", text=text, code=3)
    assert "--codec is for new ones: add --repack" in done.err
    run(tmp_path / "t-0", "--create", "--codec", "gzip", "--repack", text=text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (line(value="x"), "a record without the line of its batch"),
        (line(**BATCH), "A batch without records"),
        (line(**BATCH, baseOffset=5, lastOffset=1 << 40), "cannot have offsets from 5 to 1099511627776"),
        (line(**BATCH, magic=1, codec="zstd") + line(value="x", topic="t", partition=0), "ZStandard"),
        (
            line(**BATCH, magic=1) + line(value="x", topic="t", partition=0, offset=3, headers=[{"key": "h"}]),
            "does not support record headers",
        ),
    ],
)
def test_offsets_that_cannot_be_kept(text: str, complaint: str, run: Any, tmp_path: Path) -> None:
    done = run(tmp_path / "t-0", "--create", "--keep-offsets", text=text, code=3)
    assert complaint in done.err
    assert content(tmp_path / "t-0") == []


# --- refusals ---


def test_what_the_broker_refuses(run: Any, tmp_path: Path) -> None:
    text = line(value="a", timestamp=NOW) + line(value="b", timestamp=NOW + 10_000_000)
    done = run(tmp_path / "t-0", "--create", "--repack", "--batch-records", 1, AT, text=text, code=3)
    assert "up to line 2: InvalidTimestampException: Timestamp 1700010000000 of message" in done.err
    assert content(tmp_path / "t-0") == [(None, b"a")]


def test_a_damaged_log_is_left_alone(run: Any, tmp_path: Path) -> None:
    run(tmp_path / "t-0", "--create", "--format", "lines", text="a\n")
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-3])
    before = contents(tmp_path / "t-0")
    done = run(tmp_path / "t-0", "--format", "lines", text="b\n", code=4)
    assert "first: kdump repair" in done.err
    assert contents(tmp_path / "t-0") == before


def test_files_made_anew_are_told_of(run: Any, tmp_path: Path) -> None:
    run(tmp_path / "t-0", "--create", "--format", "lines", text="a\n")
    (tmp_path / "t-0" / f"{0:020}.timeindex").unlink()
    done = run(tmp_path / "t-0", "--format", "lines", "--unclean", text="b\n")
    assert "note: t-0: indexes and snapshots were rebuilt" in done.err
    assert only_change(tmp_path / "t-0").id in done.err


def test_log_directory_is_brought_up_to_date(run: Any, tmp_path: Path) -> None:
    (tmp_path / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (tmp_path / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":7}')
    run(tmp_path / "t-0", "--create", "--format", "lines", text="a\nb\n")
    assert read_offsets(str(tmp_path), names.REPLICATION_CHECKPOINT) == {("t", 0): 2}
    assert (tmp_path / names.CLEAN_SHUTDOWN).read_text() == '{"version":0,"brokerEpoch":7}'


@pytest.mark.parametrize("format_", ["text", "jsonl"])
def test_interrupted(format_: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "append", str(tmp_path / "t-0"), "--create", "--format=lines", "--batch-records=1", "-o", format_],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin
        child.stdin.write(b"1\n2\n3\n")
        child.stdin.flush()
        path = tmp_path / "t-0" / f"{0:020}.log"
        until = time.monotonic() + 60
        while time.monotonic() < until and not (path.exists() and path.stat().st_size >= 138):
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    assert child.returncode == 130
    if format_ == "text":
        assert out.decode() == "t-0: 2 records in 2 batches at offsets 0\N{EN DASH}1\n"
    else:
        row, summary = rows_in(out)
        assert (row["firstOffset"], row["lastOffset"]) == (0, 1)
        assert summary == {"type": "summary", "isComplete": False, "verdict": "interrupted", "exitCode": 130}
    assert b"interrupted: what was appended stays" in err
    assert content(tmp_path / "t-0") == [(None, b"1"), (None, b"2")]
    assert (tmp_path / "t-0" / f"{2:020}.snapshot").exists()


def test_input_is_not_read_where_the_log_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "append", str(tmp_path / "t-0")], input=b"{}", capture_output=True, check=False)
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_told_with_the_partition(
    run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full-0"
    run("--create", "--format", "lines", path, AT, text="a\n")
    with monkeypatch.context() as patch:

        def fail(*args: object) -> int:
            raise OSError(28, "No space left on device")

        patch.setattr("os.pwrite", fail)
        found = run("--format", "lines", path, AT, text="b\n", code=3)
    assert found.err == f"kdump: {path}: No space left on device\n"
    assert content(path) == [(None, b"a")]


def test_a_directory_without_a_log_asks_for_create(run: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    done = run(tmp_path / "orders-0", "--format", "lines", text="a\n", code=4)
    assert "--create begins one" in done.err
    run(tmp_path / "orders-0", "--create", "--format", "lines", text="a\n")
