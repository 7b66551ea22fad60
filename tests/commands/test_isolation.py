"""`--isolation` of dump, export, stats and lookup."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import kdump
from kdump.operations.lookup import Located
from kdump.query.lookup import TimestampOffset
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState
from kdump.txns.states import TransactionStates
from tests.commands.running import Run, invoked
from tests.topics.building import Log, Pair

A, B = (1000, 0), (2000, 0)


def pairs(*names: str) -> list[Pair]:
    return [(name.encode(), b"") for name in names]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Records by no producer (small letters), committed (A to C), aborted (x to z) and open ones (o), and more."""
    made = Log(tmp_path / "orders-0")
    made.add(*pairs("a", "b")).add(*pairs("A"), producer=A).add(*pairs("x"), producer=B)
    made.add(*pairs("B"), producer=A).commit(*A).abort(*B, first=3)
    made.roll()
    made.add(*pairs("y"), producer=A).add(*pairs("c")).roll()
    made.add(*pairs("z"), producer=A).abort(*A, first=7).add(*pairs("C"), producer=A).commit(*A)
    made.add(*pairs("d")).add(*pairs("o"), producer=B).add(*pairs("e"))
    return made.write()


def test_dump_prints_what_a_consumer_gets(log: Log, run: Run) -> None:
    assert run("dump", log.folder, "--isolation", "read_committed", "--format", "jsonl") == 0
    assert "".join(row["key"] for row in run.of_type("record")) == "abABcCd"
    assert {row["transaction"] for row in run.of_type("record")} == {"none", "committed"}


def test_dump_of_one_file_knows_the_transactions_of_its_partition(log: Log, run: Run) -> None:
    last = max(log.folder.glob("*.log"))
    assert run("dump", last, "--isolation", "read_committed", "--format", "jsonl") == 0
    assert "".join(row["key"] for row in run.of_type("record")) == "Cd"


def test_dump_follows_only_what_comes_at_once(log: Log, run: Run) -> None:
    assert run("dump", log.folder, "--isolation", "read_committed", "--follow") == 2
    assert "--follow" in run.err


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_export_writes_what_a_consumer_gets(format_: str, log: Log, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--isolation", "read_committed", "--format", format_, "--columns", "key", "--by", "none")
    assert invoked("export", log.folder, "--to", out, *options).return_value == 0
    text = "".join(path.read_text() for path in sorted(out.glob(f"*.{format_}")))
    text = text.replace("key_base64", "").replace("key", "")
    assert "".join(filter(str.isalpha, text)) == "abABcCd"


def test_stats_count_what_a_consumer_gets(log: Log, run: Run) -> None:
    assert run("stats", log.folder, "--records", "--format", "jsonl", "--isolation", "read_committed") == 0
    (row,) = run.of_type("partition")
    assert row["records"] == 7


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--timestamp", "latest"), 0, "offset 14, the last stable offset"),
        (("--timestamp", "max"), 1, "no record has that time"),
        (("--offset", "15"), 1, "offset 15 is not below the last stable offset 14: read_committed consumers wait"),
        (("--offset", "13"), 0, "13"),
    ],
)
def test_lookup_answers_a_consumer(options: tuple[str, str], code: int, words: str, log: Log, run: Run) -> None:
    assert run("lookup", log.folder, *options, "--isolation", "read_committed") == code
    assert words in run.out


@pytest.mark.parametrize(
    ("offset", "state"),
    [(0, "none"), (2, "committed"), (3, "aborted"), (6, "aborted"), (7, "aborted"), (11, "committed"), (14, "open")],
)
def test_lookup_says_how_the_transaction_ended(offset: int, state: str, log: Log, run: Run) -> None:
    assert run("lookup", log.folder, "--offset", offset, "--format", "jsonl") == 0
    (row,) = run.of_type("answer")
    assert (row["batchBaseOffset"], row["transaction"]) == (offset, state)
    assert run("lookup", log.folder, "--offset", offset) == 0
    assert run.out.endswith("\n" if state == "none" else f", transaction {state}\n")
    assert (", transaction" in run.out) == (state != "none")


def test_lookup_of_a_time_says_how_the_transaction_of_its_record_ended(log: Log, run: Run) -> None:
    (last,) = kdump.lookup(log.folder, timestamp=-3)
    assert isinstance(last, Located)
    assert isinstance(last.found, TimestampOffset)
    (batch,) = kdump.open_log(str(log.folder)).batches(last.found.offset, last.found.offset + 1)
    assert isinstance(batch, Batch)
    assert last.transaction is TransactionStates(PartitionLog(str(log.folder))).of(batch)
    assert run("lookup", log.folder, "--timestamp", "max") == 0
    assert (f", transaction {last.transaction}" in run.out) == (last.transaction is not TxnState.NONE)
    for time in ("earliest", "latest"):
        assert run("lookup", log.folder, "--timestamp", time, "--format", "jsonl") == 0
        assert [row["transaction"] for row in run.of_type("answer")] == [None]


def test_lookup_answers_where_the_log_behind_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Log(tmp_path / "orders-0").add(*pairs("A"), producer=A).roll().add(*pairs("b")).roll().commit(*A).write()
    opened = Segment.open_log

    def open_log(segment: Segment) -> LogFile:
        if segment.base_offset == 1:
            raise OSError(errno.EIO, "Input/output error", segment.log_path)
        return opened(segment)

    monkeypatch.setattr(Segment, "open_log", open_log)
    (found,) = kdump.lookup(made.folder, offset=0)
    assert isinstance(found, Located)
    assert (found.exists, found.transaction) == (True, TxnState.UNKNOWN)
