"""`kdump lookup`: its answers are the broker's, its words say what they mean, and bad input is named."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.formats import names
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.query.inventory import partition_info
from kdump.storage.facts import log_end_offset
from kdump.storage.replica import Replica
from tests.commands.logs import EPOCH, STEP, batch, write_partition, write_segment
from tests.rows import rows_in

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"


def lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of `fixtures/`."""
    with open(FIXTURES / name, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows]


FOLDERS = {case["case"]: FIXTURES / "corpus" / case["dir"] for case in lines("cases.jsonl")}


class Run:
    """Runs `kdump lookup` in this process and keeps what came out."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._capture = capture
        self._patch = patch
        self._requests = folder / "requests"

    def __call__(self, path: object, *arguments: object) -> int:
        from kdump.commands.cli import main

        self._patch.setattr(sys, "argv", ["kdump", "lookup", str(path), *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        self.out, self.err = self._capture.readouterr()
        assert isinstance(done.value.code, int)
        return done.value.code

    def batch(self, path: object, requests: list[object], *arguments: object) -> int:
        """Ask everything at once; requests that are text are lines as they are."""
        texts = [each if isinstance(each, str) else json.dumps(each) for each in requests]
        self._requests.write_text("\n".join(texts))
        return self(path, "--batch", self._requests, *arguments)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_in(self.out)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return Run(capfd, monkeypatch, tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory: orders-0 with offsets 0 to 59 and log start 5, orders-1 with 0 to 19, one to be deleted."""
    folder = tmp_path / "data"
    write_partition(folder / "orders-0")
    write_partition(folder / "orders-1", segments=1)
    write_partition(folder / f"orders-2.{'0123456789abcdef' * 2}-delete", segments=1)
    (folder / names.LOG_START_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    return folder


@pytest.mark.parametrize("row", lines("lookups.jsonl"), ids=lambda row: row["case"])
def test_answers_are_the_brokers(run: Run, row: dict[str, Any]) -> None:
    folder = FOLDERS[row["case"]]
    assert run.batch(folder, row["requests"], "--log-start-offset", row["logStartCheckpoint"]) == 0
    assert run.err == ""
    found = [{key: got.get(key) for key in want} for got, want in zip(run.rows, row["answers"], strict=True)]
    assert found == row["answers"]


def test_an_offset_in_words(run: Run, data: Path) -> None:
    assert run(data / "orders-0", "--offset", 27) == 0
    log = data / "orders-0" / "00000000000000000020.log"
    place = f"at byte {len(batch(20, 5))} of {log.name}, {len(batch(25, 5))} bytes"
    assert run.out == f"offset 27: batch 25\N{EN DASH}29 {place}\n"
    assert run(data / "orders-0", "--offset", 60) == 1
    assert run.out == "offset 60 is the log end offset: nothing is there yet\n"
    assert run(data / "orders-0", "--offset", 61) == 1
    assert run.out == "offset 61 does not exist: log end offset 60 (OFFSET_OUT_OF_RANGE)\n"
    assert run(data / "orders-0", "--offset", 4) == 1
    assert run.out == "offset 4 does not exist: log start offset 5 (OFFSET_OUT_OF_RANGE)\n"
    assert run(data / "orders-0", "--offset", 4, "--log-start-offset", 0) == 0


def test_the_end_of_a_torn_log_is_the_same_everywhere(run: Run, data: Path) -> None:
    """The log ends inside a batch that the index and the high watermark know: it is not there for any command."""
    log = data / "orders-0" / "00000000000000000040.log"
    log.write_bytes(log.read_bytes()[:-1])
    (data / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 60\n")
    torn = kdump.open_log(str(data / "orders-0"))
    assert log_end_offset(torn) == partition_info(torn).end_offset == Replica(torn, 0, None).end_offset() == 55
    assert run(data / "orders-0", "--offset", 57) == 1
    assert run.out.splitlines() == [
        "offset 57 does not exist: log end offset 55 (OFFSET_OUT_OF_RANGE)",
        f"Committed offsets 55\N{EN DASH}59 are missing: kdump doctor {data}/orders-0",
    ]
    assert run(data / "orders-0", "--timestamp", "latest", "--format", "jsonl") == 0
    assert run.rows[0]["result"]["offset"] == 55


def test_a_batch_that_fails_its_crc_is_named(run: Run, data: Path) -> None:
    log = data / "orders-0" / "00000000000000000020.log"
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    assert run(data / "orders-0", "--offset", 38) == 1
    assert run.out.endswith("\n! The batch fails its CRC: consumers stop here. kdump explain KD-LOG-CRC\n")
    assert run(data / "orders-0", "--offset", 38, "--format", "jsonl") == 1
    assert (run.rows[0]["isFound"], run.rows[0]["isValid"], run.rows[0]["transaction"]) == (True, False, None)


def test_after_a_crash_the_newest_record_is_found_by_time(run: Run, data: Path) -> None:
    """The time index of a killed broker's last segment lags: recovery completes it before the broker answers."""
    times = data / "orders-0" / "00000000000000000040.timeindex"
    times.write_bytes(b"")
    newest = EPOCH + 59 * STEP
    os.utime(times.with_suffix(".log"), (1, 1))
    for time in (newest, "max"):
        assert run(data / "orders-0", "--timestamp", time, "--format", "jsonl") == 0
        assert run.rows[0]["result"]["offset"] == 59
    (data / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    assert run(data / "orders-0", "--timestamp", newest, "--format", "jsonl") == 1


def test_after_a_crash_entries_of_a_truncated_log_lead_nowhere(run: Run, data: Path) -> None:
    stale = encode_offset_entries([OffsetIndexEntry(500, 1 << 20), OffsetIndexEntry(600, 2 << 20)], 40)
    index = data / "orders-0" / "00000000000000000040.index"
    index.write_bytes(index.read_bytes() + stale)
    times = index.with_suffix(".timeindex")
    times.write_bytes(times.read_bytes() + encode_time_entries([TimeIndexEntry(EPOCH + 900 * STEP, 600)], 40))
    assert run(data / "orders-0", "--timestamp", "latest", "--format", "jsonl") == 0
    assert run.rows[0]["result"]["offset"] == 60
    assert run(data / "orders-0", "--timestamp", EPOCH + 100 * STEP) == 1
    assert run(data / "orders-0", "--timestamp", EPOCH + 55 * STEP, "--format", "jsonl") == 0
    assert run.rows[0]["result"]["offset"] == 55


def test_an_offset_in_a_gap(run: Run, data: Path) -> None:
    write_segment(data / "orders-0", 0, [batch(0, 5), batch(10, 5)])
    assert run(data / "orders-0", "--offset", 7) == 0
    place = f"at byte {len(batch(0, 5))} of {0:020d}.log, {len(batch(10, 5))} bytes"
    assert run.out == f"no record has offset 7; next: batch 10\N{EN DASH}14 {place}\n"


def test_the_log_ends_with_a_gap(run: Run, data: Path) -> None:
    (data / "orders-1" / "00000000000000000030.log").touch()
    assert run(data / "orders-1", "--offset", 25) == 1
    assert run.out == "no batch has offset 25 or a later one, up to the log end offset 30\n"


def test_times_in_words(run: Run, data: Path) -> None:
    log = data / "orders-0"
    assert run(log, "--timestamp", EPOCH + 7 * STEP - 3) == 0
    assert run.out == "offset 7, 2023-11-14T22:13:20.070Z, leader epoch 5\n"
    assert run(log, "--timestamp", "2023-11-14T22:13:20.070Z") == 0
    assert run.out.startswith("offset 7,")
    assert run(log, "--timestamp", "latest") == 0
    assert run.out == "offset 60, the log end offset\n"
    assert run(log, "--timestamp", "earliest") == 0
    assert run.out == "offset 5, the log start offset\n"
    assert run(log, "--timestamp", "max") == 0
    assert run.out.startswith("offset 59,")
    assert run(log, "--timestamp", "2100-01-01") == 1
    assert "a broker answers offset -1" in run.out
    assert run.out.endswith("goes to the log end offset 60\n")
    assert run(log, "--timestamp", -5) == 0
    assert run.out == "offset -1: what is in tiered storage is not known here\n"


def place(data: Path, partition: int) -> dict[str, object]:
    path = str(data / f"orders-{partition}")
    return {"topic": "orders", "partition": partition, "path": path, "remoteLogStartOffset": None}


def test_every_partition_of_a_log_directory(run: Run, data: Path) -> None:
    assert run(data, "--timestamp", EPOCH + 300) == 1
    first, second = run.out.splitlines()
    assert first.startswith("orders-0: offset 30,")
    assert second.startswith("orders-1: no record has that time")
    assert run(data, "--timestamp", EPOCH + 300, "--format", "jsonl") == 1
    found = {"result": {"offset": 30, "timestamp": EPOCH + 300, "leaderEpoch": 5}, "transaction": "none"}
    missing = {"result": None, "transaction": None}
    assert run.rows == [
        {"type": "answer", **place(data, 0), **found, "logStartOffset": 5, "logEndOffset": 60},
        {"type": "answer", **place(data, 1), **missing, "logStartOffset": 0, "logEndOffset": 20},
    ]


def test_one_partition_of_a_log_directory(run: Run, data: Path) -> None:
    assert run(data, "--offset", 10, "--topic", "orders", "--partition", 1, "--format", "jsonl") == 0
    (row,) = run.rows
    position = len(batch(0, 5) + batch(5, 5))
    assert row == {
        "type": "answer",
        **place(data, 1), "segment": 0, "indexOffset": 0, "indexPosition": 0, "isFound": True,
        "batchBaseOffset": 10, "batchLastOffset": 14, "position": position, "size": len(batch(10, 5)),
        "isValid": True,
        "logStartOffset": 0, "logEndOffset": 20, "transaction": "none",
    }  # fmt: skip
    assert run(data, "--offset", 10, "--partition", 2) == 3
    assert run.err.strip().endswith("data: no partition here has a number that --partition names")
    assert run(data / "orders-1", "--offset", 10, "--topic", "clicks") == 3


def test_the_steps_are_shown(run: Run, data: Path) -> None:
    assert run(data / "orders-0", "--offset", 27, "--explain") == 0
    shown = run.out.splitlines()
    assert shown[0] == "  segment 20: the largest base offset that is not above 27"
    assert shown[1] == "  offset index: no entries"
    assert shown[-2].startswith("  batch at byte ")
    assert shown[-1].startswith("offset 27: batch 25")
    assert run(data, "--timestamp", EPOCH, "--explain", "--format", "jsonl", "--partition", 1) == 0
    assert len(run.rows) == 1
    assert f"  orders-1: segment 0: largest timestamp {EPOCH + 190}" in run.err


def test_many_requests(run: Run, data: Path) -> None:
    txns = [AbortedTxn(0, 7, 21, 24, 25), AbortedTxn(0, 8, 23, 29, 30)]
    (data / "orders-0" / "00000000000000000020.txnindex").write_bytes(encode_aborted_txns(txns))
    requests: list[object] = [
        {"offset": 3}, "", {"timestamp": EPOCH + 1000}, {"timestamp": -1}, {"aborted": [25, 60]}, {"offset": -1}
    ]  # fmt: skip
    assert run.batch(data / "orders-0", requests) == 0
    offset, time, latest, aborted, before = run.rows
    assert (offset["isFound"], offset["batchBaseOffset"], offset["batchLastOffset"]) == (True, 0, 4)
    assert time == {"result": None}
    assert latest == {"result": {"offset": 60, "timestamp": -1, "leaderEpoch": None}}
    assert aborted == {"aborted": [{"producerId": 8, "firstOffset": 23, "lastOffset": 29, "lastStableOffset": 30}]}
    assert before.pop("isFound") is False
    assert set(before) == set(offset) - {"isFound"}
    assert set(before.values()) == {None}


def test_a_request_that_meets_damage_gets_an_error_and_the_others_their_answers(run: Run, data: Path) -> None:
    log = data / "orders-0" / "00000000000000000000.log"
    log.write_bytes(batch(0, 5) + b"\0\0\0\1" * 20)
    assert run.batch(data / "orders-0", [{"offset": 7}, {"offset": 27}]) == 3
    bad, good = run.rows
    assert list(bad) == ["error"]
    assert str(log) in bad["error"]
    assert good["isFound"] is True


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"offset": "x"}, 'expected {"offset": N}'),
        ({"aborted": [1]}, 'expected {"offset": N}'),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"a\u202eb"', 'found "a\\u202eb"'),
    ],
)
def test_requests_that_are_none(run: Run, data: Path, request_: object, words: str) -> None:
    assert run.batch(data / "orders-0", [{"offset": 1}, request_]) == 2
    assert "line 2" in run.err
    assert words in run.err
    assert len(run.rows) == 1


def test_requests_that_are_no_text(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\xff\xfe\0{")
    assert run(data / "orders-0", "--batch", tmp_path / "noise") == 2
    assert "line 1: not JSON" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --offset, --timestamp and --batch (found none of them)."),
        (["--offset", "1", "--timestamp", "1"], "found --offset and --timestamp"),
        (["--timestamp", "yesterday"], "is neither a number of milliseconds nor ISO 8601"),
        (["--offset", "x"], "'x': expected a whole number"),
        (["--offset", "latest"], "--offset: for the latest offset, give --timestamp latest"),
        (["--batch", "/nonexistent"], "No such file"),
    ],
)
def test_wrong_usage(run: Run, data: Path, arguments: list[str], words: str) -> None:
    assert run(data, *arguments) == 2
    assert words in run.err.replace("\n", " ")


def test_requests_for_several_partitions(run: Run, data: Path) -> None:
    assert run.batch(data, [{"offset": 1}]) == 2
    assert "--batch asks one partition" in run.err
    assert run.batch(data, [{"offset": 1}], "--partition", 1) == 0


def test_paths_that_lead_nowhere(run: Run, data: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "none", "--offset", 1) == 3
    assert "none does not exist" in run.err
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", "--offset", 1) == 3
    assert "neither a partition directory" in run.err
    assert run(data / "orders-0" / "00000000000000000000.log", "--offset", 1) == 2
    assert "is a file: give the partition directory that it is in" in run.err
    assert run.out == ""


def test_a_partition_that_cannot_be_read_is_named_and_the_others_are_looked_at(run: Run, data: Path) -> None:
    log = data / "orders-0" / "00000000000000000040.log"
    log.unlink()
    os.symlink(log, data / "orders-0" / "x")  # leads nowhere, and is nobody's file
    (data / "orders-0" / "00000000000000000020.index").write_bytes(bytes.fromhex("00000001" + "000fffff"))
    (data / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')  # else a broker rebuilds it first
    assert run(data, "--offset", 30) == 3
    assert "an entry leads to byte 1048575 of a log of" in run.err
    assert "rebuild the index" in run.err
    assert run.out.startswith("orders-1: offset 30 does not exist")


def test_a_checkpoint_that_cannot_be_read_counts_as_empty(run: Run, data: Path) -> None:
    (data / names.LOG_START_CHECKPOINT).write_text("0\n1\nnonsense\n")
    assert run(data, "--timestamp", "earliest") == 0
    assert run.out.splitlines() == [f"orders-{n}: offset 0, the log start offset" for n in range(2)]
    assert run.err.count("treated as empty, as a broker does") == 1


def test_a_name_cannot_drive_the_terminal(run: Run, tmp_path: Path) -> None:
    write_partition(tmp_path / "data" / "or\x1b[2Jders-0", segments=1)
    assert run(tmp_path / "data", "--offset", 0) == 0
    assert "\x1b" not in run.out
    assert run.out.startswith("or\\x1b[2Jders-0: batch")
