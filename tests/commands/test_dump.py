"""`kdump dump`, through the real command: what it prints of good and damaged logs in its three formats."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kdump
from kdump.commands.cli import cli
from kdump.commands.dump import command as dump_module
from kdump.formats.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.codecs import GZIP, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from kdump.interchange.fields import BATCH_COLUMNS, RECORD_COLUMNS
from kdump.interchange.file_rows import TABLES
from kdump.storage.damage import Damage
from kdump.storage.log_reader import BUFFER_SIZE, LogFile
from kdump.storage.records import Record
from tests.commands.logs import EPOCH, STEP, batch, write_partition, write_segment
from tests.commands.terminal import on_terminal
from tests.kernels.seeds import mended
from tests.rows import rows_in
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"
COMMAND = [sys.executable, "-m", "kdump", "dump"]
UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

NASTY = "\x1b]0;owned\x07\x9b31m\r\x7f\u202egnp.exe\u2028\u2066\0".encode()


def run(*arguments: object) -> Result:
    """The command in this process; its return value is the exit code, as in the real one."""
    result = CliRunner().invoke(cli, ["dump", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    # in C's environment, which a child has unless it is given one, readline may have put the terminal's width
    given = {"env": dict(os.environ), **options}
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, check=False, **given)


def objects(*arguments: object) -> list[dict[str, Any]]:
    """What jsonl gives, every line of it parsed."""
    return rows_in(run("--format", "jsonl", *arguments).stdout)


def rows(*arguments: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run("--format", "csv", *arguments).stdout, newline="")))


def offsets(*arguments: object) -> list[int]:
    return [item["offset"] for item in objects(*arguments) if item["type"] == "record"]


def content(item: dict[str, Any], name: str) -> bytes | None:
    """The bytes behind a name and its twin."""
    twin = item.get(f"{name}Base64")
    if twin is not None:
        assert item[name] is None
        return base64.b64decode(twin, validate=True)
    value = item[name]
    return None if value is None else value.encode()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Offsets 0 to 59 in three segments."""
    return write_partition(tmp_path / "orders-0", codecs=(0, 1, 4))


# --- jsonl


@pytest.mark.parametrize("case", sampled(sorted(path.name for path in CORPUS.iterdir()), 12))
def test_every_record_of_kafkas_own_logs(case: str) -> None:
    """All records and batches are there with their bytes, and nothing in the output drives a terminal."""
    for path in sorted(CORPUS.glob(f"{case}/*/")):
        log = kdump.open_log(str(path))
        if not log.segments:
            continue
        found = objects(path, "--raw")
        batches = [item for segment in log.segments for item in segment.batches() if not isinstance(item, Damage)]
        records = [item for item in log.records() if isinstance(item, Record)]
        assert [item["position"] for item in found if item["type"] == "batch"] == [item.position for item in batches]
        given = [item for item in found if item["type"] == "record"]
        assert [(item["offset"], item["timestamp"], item["sequence"]) for item in given] == [
            (item.offset, item.timestamp, item.sequence) for item in records
        ]
        assert [(content(item, "key"), content(item, "value")) for item in given] == [
            (item.key, item.value) for item in records
        ]
        headers = [[(content(pair, "key"), content(pair, "value")) for pair in item["headers"]] for item in given]
        assert headers == [list(item.headers) for item in records]
        for form in ("jsonl", "csv", "text"):
            for options in ((), ("--raw",)):
                assert not UNSAFE.search(run(path, "--format", form, *options).stdout)


def test_a_record_and_its_batch(tmp_path: Path) -> None:
    headers = [(b"a", b"x"), (b"a", None), (b"\xff", b"\xfe"), (b"", b"")]
    records = [
        NewRecord(7, EPOCH, b"k\xc3\xa9y", b"\xff\0", headers),
        NewRecord(8, EPOCH + 5, None, b""),
        NewRecord(9, EPOCH + 1, b"", None),
    ]
    data = encode_batch(records, NewBatch(TRANSACTIONAL, 4001, 3, 2**31 - 2, 6))
    path = write_segment(tmp_path / "my-topic-12", 7, [data], indexes=False)
    head, first, second, third = objects(path)
    assert head == {
        "type": "batch",
        "topic": "my-topic",
        "partition": 12,
        "segment": 7,
        "position": 0,
        "size": len(data),
        "baseOffset": 7,
        "lastOffset": 9,
        "magic": 2,
        "codec": "none",
        "crc": int.from_bytes(data[17:21], "big"),
        "isValid": True,
        "timestampType": "CreateTime",
        "baseTimestamp": EPOCH,
        "maxTimestamp": EPOCH + 5,
        "deleteHorizonMs": None,
        "producerId": 4001,
        "producerEpoch": 3,
        "baseSequence": 2**31 - 2,
        "lastSequence": 0,
        "count": 3,
        "partitionLeaderEpoch": 6,
        "isTransactional": True,
        "isControl": False,
        "transaction": "open",
    }
    assert first == {
        "type": "record",
        "topic": "my-topic",
        "partition": 12,
        "segment": 7,
        "offset": 7,
        "timestamp": EPOCH,
        "timestampType": "CreateTime",
        "key": "kéy",
        "value": None,
        "valueBase64": "/wA=",
        "headers": [
            {"key": "a", "value": "x"},
            {"key": "a", "value": None},
            {"key": None, "keyBase64": "/w==", "value": None, "valueBase64": "/g=="},
            {"key": "", "value": ""},
        ],
        "producerId": 4001,
        "producerEpoch": 3,
        "sequence": 2**31 - 2,
        "isTransactional": True,
        "isControl": False,
        "transaction": "open",
        "leaderEpoch": 6,
        "position": 0,
        "isValid": True,
    }
    assert (second["key"], second["value"], second["headers"], second["sequence"]) == (None, "", [], 2**31 - 1)
    assert (third["key"], third["value"], third["sequence"]) == ("", None, 0)
    assert not second.keys() & {"keyBase64", "valueBase64"}


def test_the_order_of_fields_is_that_of_the_columns(partition: Path) -> None:
    head, record = rows_in(run(partition, "--format", "jsonl", "--limit", 1).stdout)
    assert list(head) == ["type", *BATCH_COLUMNS]
    assert list(record) == ["type", *(name for name in RECORD_COLUMNS if "Base64" not in name)]


def test_old_formats(tmp_path: Path) -> None:
    data = [
        encode_message(NewRecord(0, -1, b"k", b"v"), 0),
        encode_wrapper([NewRecord(offset, EPOCH, b"k", b"v") for offset in (3, 5)], 1, 2, append_time=EPOCH + 9),
    ]
    path = write_segment(tmp_path / "t-0", 0, data, indexes=False)
    message, old, wrapper, first, last = objects(path)
    assert (message["magic"], message["baseOffset"], message["count"], message["codec"]) == (0, 0, 1, "none")
    assert (old["timestampType"], old["timestamp"], old["producerId"]) == ("NoTimestampType", -1, -1)
    assert (wrapper["magic"], wrapper["baseOffset"], wrapper["lastOffset"]) == (1, None, 5)
    assert (wrapper["count"], wrapper["codec"]) == (None, "snappy")
    assert (first["offset"], first["timestamp"], first["timestampType"]) == (3, EPOCH + 9, "LogAppendTime")
    assert (last["offset"], last["position"]) == (5, len(data[0]))


def test_a_directory_that_is_no_partitions(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "recovered", 0, [batch(0, 1)], indexes=False)
    _, record = objects(path)
    assert (record["topic"], record["partition"], record["segment"]) == (None, None, 0)
    assert objects(path.parent) == objects(path)


def test_a_kraft_snapshot_belongs_to_no_segment() -> None:
    found = objects(CORPUS / "f-cluster-metadata" / "__cluster_metadata-0", "--include", "kraft-snapshot")
    assert {(item["topic"], item["segment"]) for item in found} == {("__cluster_metadata", None)}
    assert any(item["type"] == "record" and not item["isControl"] for item in found)


# --- csv


def test_csv_says_the_same(partition: Path) -> None:
    given = [item for item in objects(partition) if item["type"] == "record"]
    found = rows(partition)
    assert list(found[0]) == list(RECORD_COLUMNS)
    for row, item in zip(found, given, strict=True):
        assert json.loads(row["headers"]) == item["headers"]
        for name in set(RECORD_COLUMNS) - {"headers"}:
            value = item.get(name)
            assert row[name] == ("" if value is None else value if isinstance(value, str) else json.dumps(value))
    heads = objects(partition, "--batches-only")
    assert [row["crc"] for row in rows(partition, "--batches-only")] == [str(item["crc"]) for item in heads]
    assert list(rows(partition, "--batches-only")[0]) == list(BATCH_COLUMNS)


def test_csv_tells_null_from_empty_and_keeps_controls_out(tmp_path: Path) -> None:
    contents = [(None, b""), (b"", None), (b'a"b,c', b"line\nline\ttab"), (NASTY, b"\xff"), (b"cr\r", b"lf\n")]
    records = [NewRecord(offset, EPOCH, key, value, [(NASTY, NASTY)]) for offset, (key, value) in enumerate(contents)]
    path = write_segment(tmp_path / "t-0", 0, [encode_batch(records)], indexes=False)
    text = run(path, "--format", "csv").stdout
    lines = text.split("\n")
    assert lines[1].startswith('"t",0,0,0,1700000000000,"CreateTime",,,"",,"[{')
    assert lines[2].startswith('"t",0,0,1,1700000000000,"CreateTime","",,,,"[{')
    found = rows(path)
    assert [row["key"] for row in found] == ["", "", 'a"b,c', "", ""]
    assert base64.b64decode(found[3]["keyBase64"]) == NASTY
    assert base64.b64decode(found[4]["keyBase64"]) == b"cr\r"
    assert [row["value"] for row in found[2:]] == ["line\nline\ttab", "", "lf\n"]
    assert not UNSAFE.search(text)
    assert json.loads(found[0]["headers"]) == [{"key": NASTY.decode(), "value": NASTY.decode()}]


def test_csv_wants_one_kind_of_rows(partition: Path) -> None:
    done = process(partition, "--format", "csv", "--include", "log,index")
    assert done.returncode == 2
    assert b"rows of one kind" in done.stderr
    assert b"offsetIndexEntry, record" in done.stderr
    assert done.stdout == b""


# --- text


def test_text(tmp_path: Path) -> None:
    records = [
        NewRecord(9, EPOCH, b"user-1", b'{"a":"x"}', [(b"trace", b"a1"), (b"n", None)]),
        NewRecord(10, EPOCH + 1234, None, b""),
        NewRecord(11, 5, b"null", b"null"),
        NewRecord(12, -1, b"\0\0\0\1", b"\xff" * 100),
        NewRecord(13, 253402300800000, b"k", b"two\nlines\t\x1b[31m \\n"),
    ]
    marker = NewRecord(14, EPOCH, b"\0\0\0\1", b"\0\0\0\0\0\7")
    data = [
        encode_batch(records, NewBatch(3, 77, 1, 5, 2)),
        encode_batch([marker], NewBatch(TRANSACTIONAL | CONTROL, 77, 1)),
        encode_message(NewRecord(15, -1, b"old", None), 0),
        encode_wrapper([NewRecord(17, EPOCH, b"o", b"v")], 1, 1),
    ]
    path = write_segment(tmp_path / "t-0", 9, data, indexes=False)
    at = [0, len(data[0]), len(data[0] + data[1]), len(b"".join(data[:3]))]
    size = len(b"".join(data))
    sizes = [f"{len(item):>7} bytes" for item in data]
    assert run(path).stdout.splitlines() == [
        f"{path}  {size} bytes",
        f"batch 9\N{EN DASH}13          5 records    at byte {at[0]:<3}  {sizes[0]}  v2 lz4"
        "     CreateTime +10000-01-01T00:00:00.000Z"
        "  epoch 2  producer 77 epoch 1  seq 5\N{EN DASH}9",
        '   9  2023-11-14T22:13:20.000Z    user-1                {"a":"x"}',
        "      header trace  a1",
        "      header n      null",
        '  10  2023-11-14T22:13:21.234Z    null                  ""',
        '  11  1970-01-01T00:00:00.005Z    "null"                "null"',
        f"  12  no time                     0x00000001 (4 bytes)  0x{'ff' * 64}… (100 bytes)",
        "  13  +10000-01-01T00:00:00.000Z  k                     two\\nlines\\t\\x1b[31m \\n",
        f"batch 14            1 record     at byte {at[1]:<3}  {sizes[1]}  v2 none    CreateTime"
        " 2023-11-14T22:13:20.000Z  epoch -1  producer 77 epoch 1  transaction committed  control",
        "  14  2023-11-14T22:13:20.000Z  COMMIT  coordinator epoch 7",
        f"batch 15            1 record     at byte {at[2]:<3}  {sizes[2]}  v0 none    no time",
        "  15    old  null",
        f"batch \N{EN DASH}17           ? records    at byte {at[3]:<3}  {sizes[3]}  v1 gzip    CreateTime"
        " 2023-11-14T22:13:20.000Z",
        "  17  2023-11-14T22:13:20.000Z  o  v",
    ]
    assert f"0x{'ff' * 100} (100 bytes)" in run(path, "--full").stdout


def test_kraft_control_records_are_decoded() -> None:
    text = run(CORPUS / "f-cluster-metadata" / "__cluster_metadata-0", "--raw").stdout
    assert 'KRAFT_VERSION  {"version": 0, "kRaftVersion": 1}' in text
    assert 'KRAFT_VOTERS  {"version": 0, "voters": [{"voterId": 1,' in text


def test_a_payload_does_not_drive_the_terminal(tmp_path: Path) -> None:
    """In every format, on a terminal, wherever bytes come from: keys, values, headers, names of directories."""
    folder = tmp_path / "t\x1b[2J\u202e-0"
    record = NewRecord(0, EPOCH, NASTY, NASTY, [(NASTY, NASTY)])
    path = write_segment(folder, 0, [encode_batch([record]), b"garbage"], indexes=False)
    (folder / f"{0:020d}.index").write_bytes(bytes(7))
    for form in ("text", "jsonl", "csv"):
        written = on_terminal("dump", path, "--format", form, "--color", "never")
        assert "no" in written
        assert not UNSAFE.search(written.replace("\r\n", "\n"))
    both = process(path, "--format", "text")
    assert not UNSAFE.search((both.stdout + both.stderr).decode())
    assert b"t\\x1b[2J\\u202e-0" in both.stdout
    missing = process(tmp_path / "\x1b[2J")
    assert missing.returncode == 3
    assert b"\x1b" not in missing.stderr
    index = process(folder, "--include", "index")
    assert b"\x1b" not in index.stdout + index.stderr
    assert b"7 bytes are left" in index.stderr


def test_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/t\xff-0"
    try:
        os.mkdir(name)
    except OSError:
        pytest.skip("the file system takes UTF-8 only")
    with open(name + b"/00000000000000000000.log", "wb") as file:
        file.write(batch(0, 1))
    done = subprocess.run([*COMMAND, name], capture_output=True, check=True)
    assert b"/t\\xff-0/" in done.stdout
    done = subprocess.run([*COMMAND, name, "--format", "jsonl"], capture_output=True, check=True)
    assert rows_in(done.stdout)[0]["topic"] == "t\udcff"


def test_colour_is_for_terminals(partition: Path) -> None:
    red = "\x1b["
    assert red not in run(partition).stdout
    assert red in run(partition, "--color", "always").stdout
    assert red in on_terminal("dump", partition)
    assert red not in on_terminal("dump", partition, NO_COLOR="1")
    assert red not in on_terminal("dump", partition, TERM="dumb")
    assert red not in on_terminal("dump", partition, "--color", "never")
    assert red not in on_terminal("dump", partition, "--format", "jsonl")
    stripped = re.sub(r"\x1b\[\d*m", "", run(partition, "--color", "always").stdout)
    assert stripped == run(partition).stdout


# --- selecting


def test_filters(partition: Path) -> None:
    assert offsets(partition) == list(range(60))
    assert offsets(partition, "--offsets", "18:22") == [18, 19, 20, 21]
    assert offsets(partition, "--offsets", "57:") == [57, 58, 59]
    assert offsets(partition, "--offsets", ":3") == [0, 1, 2]
    assert offsets(partition, "--offsets", "33") == [33]
    assert offsets(partition, "--since", EPOCH + 57 * STEP) == [57, 58, 59]
    assert offsets(partition, "--since", "2023-11-14T22:13:20.570") == [57, 58, 59]
    assert offsets(partition, "--since", "2023-11-14T23:13:20.570+01:00") == [57, 58, 59]
    assert offsets(partition, "--until", "2023-11-14T22:13:20.020Z") == [0, 1]
    assert offsets(partition, "--until", "2023-11-14") == []
    assert offsets(partition, "--key", "key-3") == list(range(3, 60, 7))
    assert offsets(partition, "--key", "hex:6b65792d33") == list(range(3, 60, 7))
    assert offsets(partition, "--key", "base64:a2V5LTM=") == list(range(3, 60, 7))
    assert offsets(partition, "--key", "re:^key-[35]$", "--offsets", ":13") == [3, 5, 10, 12]
    assert offsets(partition, "--key", "text:re:x") == []
    assert offsets(partition, "--header", "parity", "--limit", 3) == [0, 3, 6]
    assert offsets(partition, "--header", "parity=even", "--limit", 3) == [0, 6, 12]
    assert offsets(partition, "--header", "parity", "--header", "parity=re:^o", "--limit", 2) == [3, 9]
    assert offsets(partition, "--header", "other") == []
    assert offsets(partition, "--producer-id", -1, "--limit", 2) == [0, 1]
    assert offsets(partition, "--producer-id", 5) == []
    together = ("--offsets", "10:50", "--since", EPOCH + 200, "--until", EPOCH + 400, "--header", "parity=odd")
    assert offsets(partition, *together, "--key", "re:[16]$") == [27]
    assert offsets(partition, "--no-index", "--offsets", "33") == [33]


def test_of_batches_those_with_something_to_show(partition: Path) -> None:
    found = objects(partition, "--key", "key-3", "--offsets", ":20")
    assert [(item["type"], item.get("offset", item.get("baseOffset"))) for item in found] == [
        ("batch", 0),
        ("record", 3),
        ("batch", 10),
        ("record", 10),
        ("batch", 15),
        ("record", 17),
    ]
    only = objects(partition, "--key", "key-3", "--offsets", ":20", "--batches-only")
    assert only == [item for item in found if item["type"] == "batch"]
    assert [item["baseOffset"] for item in objects(partition, "--batches-only", "--limit", 2)] == [0, 5]


def test_limit_counts_across_files(partition: Path, tmp_path: Path) -> None:
    other = write_partition(tmp_path / "orders-1", segments=1)
    assert offsets(partition, other, "--limit", 61) == [*range(60), 0]
    assert offsets(partition, other, "--limit", 60) == list(range(60))
    text = run(partition, other, "--limit", 60).stdout
    assert "orders-1" not in text
    assert len(objects(partition, "--include", "timeindex", "--limit", 2)) == 2


def test_titles_of_files_with_nothing_to_show_are_left_out(partition: Path) -> None:
    text = run(partition, "--key", "key-3", "--offsets", "20:25").stdout
    path = partition / f"{20:020d}.log"
    assert [line for line in text.splitlines() if ".log" in line] == [f"{path}  {path.stat().st_size} bytes"]


def test_bounds_save_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_partition(tmp_path / "t-0", segments=3, batches=60, records=8, value_size=8000)
    opened: list[LogFile] = []
    original = LogFile.__init__

    def init(self: LogFile, path: str) -> None:
        original(self, path)
        opened.append(self)

    monkeypatch.setattr(LogFile, "__init__", init)
    assert offsets(path, "--offsets", "950:953") == [950, 951, 952]
    assert offsets(path, "--since", EPOCH + 1437 * STEP) == [1437, 1438, 1439]
    assert [Path(log.path).name for log in opened] == [f"{480:020d}.log", f"{960:020d}.log"]
    assert sum(log.bytes_read for log in opened) <= 2 * (BUFFER_SIZE + 1000)


# --- damage


def test_damage_is_skipped_and_reported(partition: Path) -> None:
    path = partition / f"{20:020d}.log"
    data = bytearray(path.read_bytes())
    first, second = len(batch(20, 5)), len(batch(25, 5, attributes=1))
    data[first + 70] ^= 1
    path.write_bytes(data + b"\1" * 50)
    done = process(partition, "--format", "jsonl")
    assert done.returncode == 1
    found = rows_in(done.stdout)
    assert [item["offset"] for item in found if item["type"] == "record"] == [*range(25), *range(30, 60)]
    crc, tail = done.stderr.decode().splitlines()
    assert crc.startswith(f"kdump: {path}: byte {first}: batch 25\N{EN DASH}29 (5 records, {second} bytes) fails")
    assert crc.endswith(f"; the dump continues at byte {first + second}")
    assert tail.startswith(f"kdump: {path}: byte {len(data)}: ")
    assert tail.endswith("; nothing that can be trusted follows")


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("i-crc-payload-active", "fails its CRC: stored 0x"),
        ("i-size-0-first", "Found record size 0"),
        ("i-zero-batch-mid-active", "Found record size 0"),
        ("i-trunc-mid-batch-active", "the log ends inside batch "),
        ("i-garbage-append5-active", "the log ends inside the header of a batch: 5 bytes"),
        ("i-v1-none-keylen", "cannot all be read"),
    ],
)
def test_damage_of_kafkas_own_logs(case: str, text: str) -> None:
    (path,) = CORPUS.glob(f"{case}/*/")
    for form in ("text", "jsonl", "csv"):
        done = run(path, "--format", form)
        assert done.return_value == 1
        (line,) = done.stderr.splitlines()
        assert re.match(rf"kdump: {re.escape(str(path))}/\d{{20}}\.log: byte \d+: ", line)
        assert text in line


def test_zeros_that_preallocation_left_are_no_damage() -> None:
    (path,) = CORPUS.glob("h-prealloc-log/*/")
    done = run(path)
    assert done.return_value == 0
    assert "KiB of zeros up to the end" in done.stderr
    assert run(*path.glob("*.log")).return_value == 0


def test_zeros_before_the_last_segment_are_damage(partition: Path) -> None:
    first = sorted(partition.glob("*.log"))[0]
    first.write_bytes(first.read_bytes() + bytes(100))
    assert run(first).return_value == 1


def test_decompression_is_bounded(tmp_path: Path) -> None:
    bomb = encode_batch([NewRecord(0, EPOCH, b"k", bytes(5 << 20))], NewBatch(attributes=4))
    path = write_segment(tmp_path / "t-0", 0, [bomb, batch(1, 1)], indexes=False)
    done = run(path, "--max-decompressed-size", "1M", "--format", "jsonl")
    assert done.return_value == 1
    assert "more than the limit of 1048576 bytes" in done.stderr
    assert [row["type"] for row in rows_in(done.stdout)] == ["batch", "batch", "record"]
    assert run(path, "--max-decompressed-size", "6M").return_value == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs a limit on memory that holds")
@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_bomb_in_little_memory(codec: int, tmp_path: Path) -> None:
    """A batch that fits the limit but not the memory is passed over like one that does not fit the limit."""
    head = encode_batch([NewRecord(0, EPOCH, b"k", b"v")], NewBatch(attributes=codec))[:HEADER_SIZE]
    bomb = mended(head + compress(codec, bytes(1 << 20)) * 300)
    path = write_segment(tmp_path / "t-0", 0, [bomb, batch(1, 1)], indexes=False)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))

    done = process(path, "--format", "jsonl", preexec_fn=limit)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert "There is not enough memory for what the payload decompresses to" in line
    assert [row["type"] for row in rows_in(done.stdout)] == ["batch", "batch", "record"]


# --- other files


def test_other_files(tmp_path: Path) -> None:
    folder = write_partition(tmp_path / "t-3", segments=1, batches=4, records=5, value_size=2000)
    (folder / f"{0:020d}.txnindex").write_bytes(encode_aborted_txns([AbortedTxn(0, 7, 1, 5, 2)]))
    state = ProducerEntry(7, 1, 9, 120, 4, EPOCH, 3, -1)
    (folder / f"{20:020d}.snapshot").write_bytes(encode_producer_snapshot([state]))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: ESIzRFVmd4gBI0VniavN7w")
    (folder / "quorum-state").write_text(
        '{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"ESIzRFVmd4gBI0VniavN7w","data_version":1}'
    )
    checkpoint = format_offset_checkpoint([OffsetCheckpointEntry("t", 3, 20)])
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(checkpoint)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=4\n")
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    found = {item["type"]: item for item in objects(tmp_path, "--include", "all")}
    assert found.keys() == {"batch", "record"} | {table.type for table in TABLES.values()}
    place = {"topic": "t", "partition": 3}
    log = f"{folder}/{0:020d}"
    assert found["offsetIndexEntry"] == {
        "type": "offsetIndexEntry", "file": f"{log}.index", **place, "segment": 0, "offset": 19,
        "position": sum(len(batch(first, 5, value_size=2000)) for first in (0, 5, 10)),
    }
    assert found["timeIndexEntry"] == {
        "type": "timeIndexEntry", "file": f"{log}.timeindex", **place, "segment": 0,
        "timestamp": EPOCH + 19 * STEP, "offset": 19,
    }
    assert found["abortedTransaction"] == {
        "type": "abortedTransaction", "file": f"{log}.txnindex", **place, "segment": 0, "version": 0,
        "producerId": 7, "firstOffset": 1, "lastOffset": 5, "lastStableOffset": 2,
    }
    assert found["producerState"] == {
        "type": "producerState", "file": f"{folder}/{20:020d}.snapshot", **place, "snapshotOffset": 20,
        "producerId": 7, "producerEpoch": 1, "lastSequence": 9, "lastOffset": 120, "offsetDelta": 4,
        "timestamp": EPOCH, "coordinatorEpoch": 3, "currentTxnFirstOffset": -1,
    }
    assert found["offsetCheckpoint"] == {
        "type": "offsetCheckpoint", "file": f"{tmp_path}/recovery-point-offset-checkpoint", **place, "offset": 20,
    }
    assert found["leaderEpoch"] == {
        "type": "leaderEpoch", "file": f"{folder}/leader-epoch-checkpoint", **place, "epoch": 5, "startOffset": 0,
    }
    assert found["partitionMetadata"] == {
        "type": "partitionMetadata", "file": f"{folder}/partition.metadata", **place, "version": 0,
        "topicId": "ESIzRFVmd4gBI0VniavN7w",
    }
    assert found["quorumState"] == {
        "type": "quorumState", "file": f"{folder}/quorum-state", **place, "dataVersion": 1, "leaderId": 1,
        "leaderEpoch": 2, "votedId": -1, "votedDirectoryId": "ESIzRFVmd4gBI0VniavN7w", "clusterId": None,
        "appliedOffset": None, "currentVoters": None,
    }
    assert found["metaProperties"] == {
        "type": "metaProperties", "file": f"{tmp_path}/meta.properties", "version": 1, "clusterId": "c", "nodeId": 4,
        "directoryId": None,
    }
    assert found["cleanShutdown"] == {
        "type": "cleanShutdown", "file": f"{tmp_path}/.kafka_cleanshutdown", "brokerEpoch": None,
    }
    assert objects(f"{log}.txnindex") == [found["abortedTransaction"]]
    (row,) = rows(f"{log}.txnindex")
    assert row == {name: str(value) for name, value in found["abortedTransaction"].items() if name != "type"}
    assert run(f"{log}.txnindex").stdout.splitlines()[1:] == [
        "  version  producerId  firstOffset  lastOffset  lastStableOffset",
        "        0           7            1           5                 2",
    ]
    assert "2023-11-14T22:13:20.190Z      19" in run(f"{log}.timeindex").stdout


def test_a_preallocated_index_ends_with_its_last_entry(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / f"{5:020d}.index"
    path.parent.mkdir()
    path.write_bytes(bytes.fromhex("0000000100000010 0000000000000000 0000000300000020") + bytes(8000))
    assert [(item["offset"], item["position"]) for item in objects(path)] == [(6, 16), (5, 0), (8, 32)]
    path.write_bytes(bytes(80))
    assert objects(path) == []
    assert "no entries" in run(path).stdout


def test_other_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{9:020d}.snapshot").write_bytes(bytes(10))
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n5 0\n")
    (folder / f"{0:020d}.txnindex").write_bytes(b"\1" * 35)
    done = process(folder, "--include", "snapshot,checkpoints,txnindex", "--format", "jsonl")
    assert done.returncode == 1
    assert [row["type"] for row in rows_in(done.stdout)] == ["abortedTransaction"]
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 4
    assert all(line.startswith(f"kdump: {folder}/") for line in lines)
    assert any("unknown file version 0" in line for line in lines)
    assert any("found only [1]" in line for line in lines)
    assert any("byte 0: Unexpected aborted transaction version 257" in line for line in lines)
    assert any("byte 34: 1 bytes are left" in line for line in lines)


# --- paths


def test_paths_of_every_sort(partition: Path, tmp_path: Path) -> None:
    log = partition / f"{20:020d}.log"
    assert offsets(log) == list(range(20, 40))
    assert offsets(tmp_path) == list(range(60))
    assert offsets(log, partition) == [*range(20, 40), *range(60)]
    assert offsets(f"{partition}/*[02]0.log") == [*range(20), *range(20, 40)]
    deleted = log.rename(f"{log}.deleted")
    assert offsets(partition) == [*range(20), *range(40, 60)]
    assert offsets(deleted) == list(range(20, 40))


def test_paths_that_are_nothing(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "copy of 00.log").write_bytes(b"")
    whole = len(process(partition).stdout.splitlines())
    for path, code, text in (
        (tmp_path / "missing-0", 3, "does not exist"),
        (tmp_path / "none*", 3, "nothing matches this pattern"),
        (tmp_path / "empty-0", 0, "there is nothing to dump in it (log)"),
        (tmp_path / "notes.txt", 3, "not the name of a file"),
        (tmp_path / "plain", 3, "neither a partition directory"),
        (tmp_path / "copy of 00.log", 3, "begins with an offset"),
    ):
        done = process(partition, path)
        assert done.returncode == code
        assert text in done.stderr.decode()
        assert str(path) in done.stderr.decode()
        assert len(done.stdout.splitlines()) == whole  # the rest is dumped
    (partition / "copy of 00.log").write_bytes(b"")
    done = process(partition, "--format", "jsonl")
    assert done.returncode == 1
    assert b"copy of 00.log: skipped" in done.stderr
    assert len(rows_in(done.stdout.decode())) == 72


def test_a_file_that_cannot_be_read_does_not_end_the_dump(partition: Path) -> None:
    path = partition / f"{20:020d}.log"
    path.unlink()
    path.symlink_to("gone")
    os.symlink(partition, partition.parent / "other-0")
    done = process(path, partition / f"{40:020d}.log", "--format", "jsonl")
    assert done.returncode == 3
    assert f"kdump: {path}: a symbolic link to gone, which does not exist" in done.stderr.decode()
    assert len(rows_in(done.stdout.decode())) == 24


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "Missing argument 'PATH...'"),
        (("x", "--format", "jsno"), "'jsno' is not one of text, json, jsonl, csv. Did you mean 'json'?"),
        (("x", "--offsets", "5..9"), "--offsets: '5..9': expected A-B, A:B, A: or N"),
        (("x", "--offsets", "9:5"), "'9:5' is empty"),
        (("x", "--offsets", ":"), "':': expected A-B"),
        (("x", "--offsets", "99999999999999999999"), "the largest offset is 9223372036854775807"),
        (("x", "--since", "yesterday"), "'yesterday' is neither a number of milliseconds nor ISO 8601"),
        (("x", "--key", "hex:0g"), "'0g' is not hex"),
        (("x", "--key", "base64:!"), "'!' is not base64"),
        (("x", "--key", "re:("), "'(' is not a regular expression"),
        (("x", "--header", "=x"), "'=x' names no header"),
        (("x", "--limit", "0"), "--limit: 0: expected a whole number from 1 on"),
        (("x", "--include", "logs"), "'logs' is not one of log, index"),
        (("x", "--max-decompressed-size", "big"), "'big' is not a size"),
        (("x", "--ofsets", "1:2"), "--offsets"),
    ],
)
def test_a_wrong_command_line(arguments: tuple[str, ...], text: str) -> None:
    done = process(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert text in done.stderr.decode()


# --- what it leaves alone, how it ends


def test_nothing_is_changed_on_disk(tmp_path: Path) -> None:
    import shutil

    for case in ("s-src-txn", "i-idx-swap-first", "h-prealloc-log", "z-3-134"):
        shutil.copytree(CORPUS / case, tmp_path / case)
    before = snapshot(tmp_path)
    for copy in sorted(tmp_path.iterdir()):
        run(copy, "--include", "all")
        run(copy, "--offsets", "5:10", "--since", EPOCH)
        run(copy, "--format", "jsonl", "--batches-only")
    assert snapshot(tmp_path) == before


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file with its content, mode and times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (digest, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    path = write_partition(tmp_path / "t-0", segments=1, batches=200, records=50)
    with subprocess.Popen([*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read().strip() == b""
        assert child.wait() == 0


@pytest.mark.parametrize("format_", ["text", "jsonl"])
def test_an_interrupt_ends_it_with_a_whole_line(format_: str, tmp_path: Path) -> None:
    path = write_partition(tmp_path / "t-0", segments=1, batches=400, records=50, value_size=100)
    arguments = [*COMMAND, str(path), "--format", format_]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)  # and no more: it waits for us, in the midst of its work
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
        assert child.stderr.read().strip() == b"Interrupted: what is printed is incomplete."
        assert child.wait() == 130
    assert "batch 19950\N{EN DASH}19999".encode() not in rest
    assert b'"offset":19999' not in rest
    assert rest.endswith(b"\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(partition: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, str(partition)], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert b"cannot write to standard output: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_following_until_interrupted(partition: Path) -> None:
    """What is appended and rolled comes out at once; Ctrl-C ends it with 130 and whole lines."""
    last = partition / f"{40:020d}.log"
    arguments = [*COMMAND, str(partition), "--follow", "--format", "jsonl", "--offsets", "58:"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        lines = (json.loads(line) for line in child.stdout)
        assert next(lines)["type"] == "header"
        assert [next(lines).get("offset") for _ in range(3)] == [None, 58, 59]
        with last.open("ab") as file:
            file.write(batch(60, 1))
        assert [next(lines).get("offset") for _ in range(2)] == [None, 60]
        write_segment(partition, 61, [batch(61, 1)])
        assert [next(lines).get("segment") for _ in range(2)] == [61, 61]
        os.truncate(partition / f"{61:020d}.log", 0)
        assert b"was cut to 0" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == b""
        assert child.stderr.read().strip() == b""
        assert child.wait() == 130


def test_following_ends_with_the_limit(partition: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, str(tmp_path), "--follow", "--format", "jsonl", "--limit", "61"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        for _ in range(1 + 72):
            child.stdout.readline()
        write_segment(tmp_path / "new-0", 0, [batch(0, 5)], indexes=False)
        rest = rows_in(child.stdout.read().decode())
        assert [(item["type"], item["topic"]) for item in rest] == [("batch", "new"), ("record", "new")]
        assert child.wait() == 0


def test_following_wants_a_log(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\n")
    done = process(tmp_path / "meta.properties", "--follow")
    assert done.returncode == 2
    assert b"--follow follows logs" in done.stderr


# --- its documentation


def test_the_schema_is_documented() -> None:
    """docs/dump-format.md has a table for every type, with its fields in their order."""
    text = (ROOT / "docs" / "dump-format.md").read_text(encoding="utf-8")
    documented = {
        section.split("\n", 1)[0].partition(":")[0].strip(): re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    }
    expected = {"record": RECORD_COLUMNS, "batch": BATCH_COLUMNS}
    expected |= {table.type: table.all_columns() for table in TABLES.values()}
    assert {name: tuple(fields) for name, fields in documented.items() if name != "CSV"} == expected


def test_the_examples_are_what_it_prints(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "dump-format.md").read_text(encoding="utf-8")
    record = NewRecord(0, EPOCH, b"user-1", b"\xff\0", [(b"trace", b"a1")])
    path = write_segment(tmp_path / "orders-0", 0, [encode_batch([record], NewBatch(leader_epoch=3))], indexes=False)
    for language, form in (("json", "jsonl"), ("csv", "csv")):
        assert f"```{language}\n{run(path, '--format', form, '--no-header').stdout}```" in text


def test_every_option_has_a_help_text() -> None:
    import click

    for option in dump_module.command.params:
        if isinstance(option, click.Option):
            assert option.help
    text = run("--help").stdout
    assert "Examples:" in text
    assert "Exit codes:" in text
