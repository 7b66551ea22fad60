"""How the transaction of a batch ended, by the markers behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.encode import NewBatch, encode_batch
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState
from kdump.txns.states import TransactionStates, state_by_next_marker
from tests.topics.building import NOW, Log

PAIR = (b"k", b"v")
CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus"


def states(folder: Path) -> list[str]:
    """The states of all batches, which each of them alone has too."""
    log = PartitionLog(str(folder))
    known = TransactionStates(log)
    batches = batches_of(log)
    found = [known.of(batch) for _, batch in batches]
    assert [state_by_next_marker(log, *each) for each in batches] == found
    return [state.value for state in found]


def batches_of(log: PartitionLog) -> list[tuple[Segment, Batch]]:
    return [(each, batch) for each in log.segments for batch in each.batches() if isinstance(batch, Batch)]


def test_each_transaction_ends_with_the_next_marker_of_its_producer(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0").add(PAIR).add(PAIR, producer=(7, 0)).add(PAIR, producer=(8, 0)).abort(7, 0)
    log.roll().add(PAIR, producer=(7, 0)).commit(8, 0).commit(7, 0).add(PAIR, producer=(8, 0)).write()
    assert states(tmp_path / "t-0") == [
        *("none", "aborted", "committed", "aborted"),
        *("committed", "committed", "committed", "open"),
    ]


@pytest.mark.parametrize("number", range(9))
def test_a_batch_whose_base_offset_is_too_high_changes_no_state(tmp_path: Path, number: int) -> None:
    """No CRC covers it. A marker ends what stands before it in the log, as for a broker that rebuilds its state
    (kafka 4.3.1: ProducerStateManager; its consumer ends at such a batch, or takes later aborts for committed).
    """
    log = Log(tmp_path / "t-0").add(PAIR, producer=(7, 0)).add(PAIR, producer=(7, 0)).commit(7, 0)
    log.add(PAIR, producer=(7, 0)).add(PAIR, producer=(7, 0)).abort(7, 0, first=3)
    log.add(PAIR, producer=(7, 0)).commit(7, 0).add(PAIR).write()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    _, batch = batches_of(PartitionLog(str(tmp_path / "t-0")))[number]
    data[batch.position : batch.position + 8] = (number + 1_000_000).to_bytes(8, "big")
    path.write_bytes(data)
    assert states(tmp_path / "t-0") == [*["committed"] * 3, *["aborted"] * 3, *["committed"] * 2, "none"]


def test_a_transaction_that_is_open_where_offsets_go_back(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0", 50).add(PAIR, producer=(7, 0)).commit(7, 0)
    log.offset = 10
    log.add(PAIR, producer=(8, 0)).add(PAIR, producer=(7, 0)).abort(7, 0, first=11).add(PAIR, producer=(7, 0)).write()
    assert states(tmp_path / "t-0") == ["committed", "committed", "open", "aborted", "aborted", "open"]


def test_a_log_that_grows(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0").add(PAIR, producer=(7, 0)).write()
    known = TransactionStates(PartitionLog(str(tmp_path / "t-0")))
    first, *_ = kdump.open_log(str(tmp_path / "t-0")).batches()
    assert isinstance(first, Batch)
    assert known.of(first) is TxnState.OPEN
    log.abort(7, 0).write()
    *_, marker = kdump.open_log(str(tmp_path / "t-0")).batches()
    assert isinstance(marker, Batch)
    assert known.of(marker) is known.of(first) is TxnState.ABORTED


def test_committed_records_whose_marker_the_cleaner_has_removed(tmp_path: Path) -> None:
    """It removes a COMMIT before the records; the transaction index says where the producer's next one began."""
    Log(tmp_path / "t-0").add(PAIR, producer=(7, 0)).add(PAIR, producer=(7, 1)).abort(7, 1, first=1).write()
    assert states(tmp_path / "t-0") == ["committed", "aborted", "aborted"]


def test_a_batch_that_the_cleaner_emptied_is_no_open_transaction(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0").add(PAIR, producer=(7, 0)).commit(7, 0)
    kept = NewBatch(TRANSACTIONAL, 7, 0, 1, base_offset=2, last_offset=2, base_timestamp=NOW, max_timestamp=NOW)
    log.data += encode_batch([], kept)
    log.offset += 1
    log.write()
    assert states(tmp_path / "t-0") == ["committed", "committed", "committed"]
    log.add(PAIR, producer=(8, 0)).write()
    assert states(tmp_path / "t-0")[-1] == "open"


@pytest.mark.parametrize("folder", sorted(CORPUS.glob("*txn*/topic-0")), ids=lambda folder: folder.parent.name)
def test_brokers_logs(folder: Path) -> None:
    assert {*states(folder)} >= {"committed", "aborted"}


def test_no_more_is_read_than_up_to_the_marker(tmp_path: Path) -> None:
    made = Log(tmp_path / "t-0").add(PAIR, producer=(7, 0)).add(PAIR, producer=(8, 0)).commit(7, 0)
    made.roll().add(PAIR).commit(8, 0).write()
    log = PartitionLog(str(tmp_path / "t-0"))
    first, second, *_ = batches_of(log)
    Path(log.segments[-1].log_path).unlink()
    assert state_by_next_marker(log, *first) is TxnState.COMMITTED
    with pytest.raises(FileNotFoundError):
        state_by_next_marker(log, *second)
