"""Open and ended transactions, the last stable offset, the transaction index, and the rule for hanging ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import Problem
from kdump.formats.batch import COMMIT, CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewBatch, encode_batch
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, encode_producer_snapshot
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import replicas
from kdump.topics.hanging import HangReason, hang_reasons
from kdump.topics.transaction_ids import TransactionalId, TransactionalIds, transactional_ids
from kdump.txns.partition import OpenTxn, PartitionTxns, StableLimit, transactions_of
from kdump.txns.txn_index import IndexMismatch, Mismatch
from tests.topics.building import NOW, Log, checkpoint, replica, transaction_pair, unexpected

PAIR = (b"k", b"v")
HOUR = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t-0")


def walked(log: Log, problems: list[Problem] | None = None) -> PartitionTxns:
    met: list[Problem] = [] if problems is None else problems
    found = transactions_of(replica(log.write()), met.append, keep_ended=True)
    if problems is None:
        assert met == []
    return found


# --- open and ended ---


def test_an_open_transaction(log: Log) -> None:
    log.add(PAIR).add(PAIR, PAIR, producer=(7, 2), at=NOW + 5).add(PAIR).add(PAIR, producer=(7, 2), at=NOW + 9)
    found = walked(log)
    (txn,) = found.open
    assert (txn.producer_id, txn.producer_epoch, txn.first_offset, txn.last_offset) == (7, 2, 1, 4)
    assert (txn.first_timestamp, txn.last_timestamp, txn.batches, txn.records) == (NOW + 5, NOW + 9, 2, 3)
    assert (found.end_offset, found.last_stable_offset, found.blocking_txn, found.batches) == (5, 1, txn, 4)


def test_the_log_ends_where_its_last_segment_does(log: Log) -> None:
    """As a broker, and all other commands, find it, whatever the segments before have."""
    log.add(PAIR).roll().add(PAIR, PAIR).write()
    far = Log(log.folder.with_name("far-0"))
    far.offset = 50
    (log.folder / f"{0:020}.log").write_bytes(far.add(PAIR).data)
    assert transactions_of(replica(log), lambda _: None).end_offset == 3


def test_markers_end_transactions(log: Log) -> None:
    log.add(PAIR, producer=(7, 0)).add(PAIR, producer=(8, 0)).commit(8, 0).abort(7, 0, first=0).commit(9, 1)
    found = walked(log)
    assert (found.open, found.commits, found.aborts, found.empty) == ([], 2, 1, 1)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset, txn.is_abort) for txn in found.ended] == [
        (8, 1, 2, False),
        (7, 0, 3, True),
        (9, -1, 4, False),
    ]
    assert [txn.last_stable_offset for txn in found.ended] == [0, 4, 5]
    assert found.last_stable_offset == 5


def test_a_marker_that_compaction_took_out_ends_nothing(log: Log) -> None:
    log.add(PAIR, producer=(7, 0))
    empty = NewBatch(TRANSACTIONAL | CONTROL, 7, 0, base_offset=1, last_offset=1, base_timestamp=-1, max_timestamp=NOW)
    log.data += encode_batch([], empty)
    assert len(walked(log).open) == 1


def test_the_epochs_of_the_markers_before_are_known(log: Log) -> None:
    log.marker(COMMIT, (7, 0), epoch=11).add(PAIR, producer=(7, 0))
    assert walked(log).open[0].coordinator_epoch == 11


def test_plain_and_idempotent_batches_open_nothing(log: Log) -> None:
    log.add(PAIR).data += encode_batch(
        [], NewBatch(0, 7, 0, 0, base_offset=1, last_offset=1, base_timestamp=1, max_timestamp=1)
    )
    assert (walked(log).open, walked(log).end_offset) == ([], 2)


def test_a_transaction_over_segments(log: Log) -> None:
    log.add(PAIR, producer=(7, 0)).roll().add(PAIR).roll().add(PAIR, producer=(7, 0))
    (txn,) = walked(log).open
    assert (txn.first_offset, txn.last_offset) == (0, 2)


def test_a_transaction_whose_beginning_was_deleted(tmp_path: Path) -> None:
    """The earliest snapshot knows of it; one that began in the log is found there."""
    log = Log(tmp_path / "t-0", 100)
    log.add(PAIR).add(PAIR, producer=(8, 0)).roll()
    entry = ProducerEntry(7, 1, 5, 60, 0, NOW - 9, 4, 40)
    data = encode_producer_snapshot([entry, entry._replace(producer_id=8, current_txn_first_offset=101)])
    (log.folder / f"{102:020d}.snapshot").write_bytes(data)
    older, other = walked(log).open
    assert (older.producer_id, older.first_offset, older.is_older, older.last_timestamp) == (7, 40, True, NOW - 9)
    assert (older.coordinator_epoch, other.producer_id, other.first_offset, other.is_older) == (4, 8, 101, False)
    assert walked(log).last_stable_offset == 100
    log.commit(7, 1)
    assert [txn.producer_id for txn in walked(log).open] == [8]


def test_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0", 100).add(PAIR)
    (log.folder / f"{100:020d}.snapshot").write_bytes(b"\0\1")
    problems: list[Problem] = []
    assert walked(log, problems).open == []
    assert len(problems) == 1


# --- last stable offset ---


@pytest.mark.parametrize(
    ("watermark", "start", "expected"),
    [(None, 0, 1), (5, 0, 1), (1, 0, 1), (0, 0, 0), (99, 0, 1), (5, 2, 2)],
)
def test_the_last_stable_offset(log: Log, watermark: int | None, start: int, expected: int) -> None:
    log.add(PAIR).add(PAIR, producer=(7, 0)).add(PAIR, PAIR, PAIR)
    checkpoint(log.folder.parent, "log-start-offset-checkpoint", ("t", 0, start))
    if watermark is not None:
        checkpoint(log.folder.parent, "replication-offset-checkpoint", ("t", 0, watermark))
    assert walked(log).last_stable_offset == expected


@pytest.mark.parametrize(("watermark", "expected"), [(2, 0), (3, 3), (4, 4)])
def test_a_marker_counts_below_the_high_watermark_only(log: Log, watermark: int, expected: int) -> None:
    log.add(PAIR, producer=(7, 0)).add(PAIR).commit(7, 0).add(PAIR)
    checkpoint(log.folder.parent, "replication-offset-checkpoint", ("t", 0, watermark))
    found = walked(log)
    assert (found.last_stable_offset, found.blocking_txn) == (expected, None)


@pytest.mark.parametrize(
    ("watermark", "expected"), [(2, StableLimit.MARKER), (3, StableLimit.HIGH_WATERMARK), (4, None), (None, None)]
)
def test_what_a_consumer_waits_for(log: Log, watermark: int | None, expected: StableLimit | None) -> None:
    log.add(PAIR, producer=(7, 0)).add(PAIR).commit(7, 0).add(PAIR)
    if watermark is not None:
        checkpoint(log.folder.parent, "replication-offset-checkpoint", ("t", 0, watermark))
    assert walked(log).stable_limit is expected


def test_a_consumer_waits_for_an_open_transaction(log: Log) -> None:
    log.add(PAIR).add(PAIR, producer=(7, 0))
    assert walked(log).stable_limit is StableLimit.TRANSACTION
    checkpoint(log.folder.parent, "replication-offset-checkpoint", ("t", 0, 1))
    assert walked(log).stable_limit is StableLimit.HIGH_WATERMARK


# --- the transaction index ---


def index(log: Log) -> Path:
    return log.folder / f"{log.base_offset:020d}.txnindex"


def test_an_index_that_fits(log: Log) -> None:
    log.add(PAIR, producer=(7, 0)).abort(7, 0, first=0).abort(7, 0).roll()
    log.add(PAIR, producer=(7, 0)).abort(7, 0, first=3)
    assert walked(log).mismatches == []


def test_a_missing_index(log: Log) -> None:
    log.add(PAIR, producer=(7, 0)).abort(7, 0)
    assert walked(log).mismatches == [IndexMismatch(Mismatch.MISSING, str(index(log)), 7, 0, 1)]


def test_entries_that_are_too_many(log: Log) -> None:
    log.add(PAIR, producer=(7, 0)).commit(7, 0).write()
    index(log).write_bytes(encode_aborted_txns([AbortedTxn(0, 7, 0, 1, 2)]))
    assert walked(log).mismatches == [IndexMismatch(Mismatch.EXTRA, str(index(log)), 7, 0, 1)]


@pytest.mark.parametrize(("first", "kinds"), [(0, []), (1, []), (2, ["starts late"])])
def test_where_an_entry_begins(log: Log, first: int, kinds: list[str]) -> None:
    """Compaction removes batches but leaves the entry as it is."""
    log.add(PAIR).add(PAIR, producer=(7, 0)).abort(7, 0, first=first)
    assert [mismatch.kind for mismatch in walked(log).mismatches] == kinds


def test_damage_may_have_held_the_marker(log: Log) -> None:
    log.add(PAIR, producer=(7, 0))
    at = len(log.data)
    log.abort(7, 0, first=0).add(PAIR)
    log.data[at + 70] ^= 1
    problems: list[Problem] = []
    assert walked(log, problems).mismatches == []
    assert [problem.position for problem in problems] == [at]


def test_an_index_of_a_later_version(log: Log) -> None:
    log.add(PAIR).write()
    index(log).write_bytes(encode_aborted_txns([AbortedTxn(256, 7, 0, 1, 2)]))
    problems: list[Problem] = []
    walked(log, problems)
    assert [problem.path for problem in problems] == [str(index(log))]


@pytest.mark.parametrize("size", range(6))
def test_a_cut_marker_value(log: Log, size: int) -> None:
    log.add(PAIR, producer=(7, 0))
    log.add((b"\0\0\0\1", bytes(size)), producer=(7, 0), attributes=CONTROL)
    problems: list[Problem] = []
    assert len(walked(log, problems).open) == 1
    assert "marker" in problems[0].text


# --- hanging ---


@pytest.mark.parametrize(("age", "is_late"), [(0, False), (1_199_999, False), (1_200_000, False), (1_200_001, True)])
def test_late_to_the_millisecond(age: int, is_late: bool) -> None:
    txn = OpenTxn(7, 0, 5, 5, NOW, NOW)
    late = [HangReason.LATE] if is_late else []
    assert [*hang_reasons(txn.last_timestamp, NOW + age, is_covered=None)] == late
    assert [*hang_reasons(txn.last_timestamp, NOW + age - 899_000, is_covered=None, max_timeout_ms=1000)] == late


def test_without_a_timestamp_kafka_calls_nothing_late() -> None:
    assert not hang_reasons(OpenTxn(7, 0, 5, 5, -1, -1).last_timestamp, NOW, is_covered=False)


def ids(log: Log, problems: list[Problem] | None = None) -> list[TransactionalId]:
    met: list[Problem] = [] if problems is None else problems
    found = list(transactional_ids(replica(log.write()), met.append))
    if problems is None:
        assert met == []
    return found


@pytest.fixture
def states(tmp_path: Path) -> Log:
    return Log(tmp_path / "__transaction_state-3")


def test_the_last_state_of_an_id(states: Log) -> None:
    states.add(transaction_pair("b", producerId=1), transaction_pair("a", producerId=2, transactionStatus=1))
    states.add(transaction_pair("c")).add((transaction_pair("c")[0], None))
    states.add(transaction_pair("b", producerId=1, producerEpoch=3, transactionStatus=4))
    a, b = ids(states)
    assert (a.transactional_id, a.state, a.producer_id, a.partition) == ("a", "Ongoing", 2, 3)
    assert (b.state, b.producer_epoch, b.timeout_ms) == ("CompleteCommit", 3, 60_000)
    known = TransactionalIds()
    known.add(a)
    assert (known.of_producer(2), known.of_producer(1)) == (a, None)


@pytest.mark.parametrize(
    ("status", "epoch", "partitions", "covers"),
    [
        (1, 5, [0], True),
        (1, 4, [0], True),
        (1, 6, [0], False),
        (1, 5, [1], False),
        (2, 6, [0], True),
        (3, 6, [0], True),
        (4, 5, [0], False),
        (0, 5, [0], False),
        (6, 5, [0], False),
        (7, 6, [0], True),
    ],
)
def test_what_a_state_covers(states: Log, status: int, epoch: int, partitions: list[int], covers: bool) -> None:
    topics = [{"topic": "t", "partitionIds": partitions}]
    fields = {"transactionStatus": status, "producerEpoch": epoch, "transactionPartitions": topics}
    states.add(transaction_pair("a", producerId=7, **fields))
    (found,) = ids(states)
    assert found.covers("t", 0, 5) is covers
    assert not found.covers("u", 0, 5)


@pytest.mark.parametrize(("status", "is_stuck"), [(0, False), (1, False), (2, True), (3, True), (4, False), (7, True)])
def test_stuck_before_the_markers(states: Log, status: int, is_stuck: bool) -> None:
    states.add(transaction_pair("a", transactionStatus=status, transactionLastUpdateTimestampMs=NOW))
    (found,) = ids(states)
    assert found.is_stuck(NOW + 1_200_001) is is_stuck
    assert not found.is_stuck(NOW + 1_200_000)


def test_every_truncation_of_a_state(states: Log) -> None:
    topics = [{"topic": "t", "partitionIds": [0]}]
    key, value = transaction_pair("bad", transactionPartitions=topics, previousProducerId=4)
    assert key is not None
    assert value is not None
    for size in range(len(value)):
        states.add((key, value[:size]))
    for size in range(len(key)):
        states.add((key[:size], value))
    states.add((None, value)).add(transaction_pair("good"))
    problems: list[Problem] = []
    assert [found.transactional_id for found in ids(states, problems)] == ["good"]
    assert len(problems) == len(value) + len(key) + 1


# --- logs that Kafka wrote ---

CASES = ("d-txn-interleaved", "d-txn-small-segs", "d-only-control", "g-txn-0-before", "s-src-txn")


@pytest.mark.parametrize("case", CASES)
def test_as_kafka_has_it(corpus: Path, case: str) -> None:
    """The open transactions are those of the last snapshot, the aborted ones those of the transaction indexes."""
    (folder,) = (path for path in (corpus / "corpus" / case).iterdir() if path.is_dir())
    log = PartitionLog(str(folder))
    found = transactions_of(next(replicas([log], unexpected)), unexpected, keep_ended=True)
    snapshot = max(folder.glob("*.snapshot"))
    entries = decode_producer_snapshot(snapshot.read_bytes())
    assert int(snapshot.stem) == found.end_offset
    assert {(txn.producer_id, txn.first_offset, txn.producer_epoch, txn.last_timestamp, txn.coordinator_epoch)
            for txn in found.open} == {
        (entry.producer_id, entry.current_txn_first_offset, entry.producer_epoch, entry.timestamp,
         entry.coordinator_epoch) for entry in entries if entry.has_open_txn
    }  # fmt: skip
    indexed: list[tuple[int, int, int, int]] = []
    for segment in log.segments:
        if segment.has("txnindex"):
            with segment.txn_index() as index:
                indexed += (entry[1:] for entry in index)
    assert indexed == [
        (txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
        for txn in found.ended
        if txn.is_abort and txn.first_offset >= 0
    ]
    assert found.mismatches == []
