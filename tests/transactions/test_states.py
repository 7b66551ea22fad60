"""How the transaction of a batch ended, by the markers behind it."""

from __future__ import annotations

from pathlib import Path

import kdump
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, TxnState
from kdump.transactions.states import TransactionStates
from tests.topics.building import Log

PAIR = (b"k", b"v")


def states(folder: Path) -> list[str]:
    known = TransactionStates(PartitionLog(str(folder)))
    return [known.of(each) for each in kdump.open_log(str(folder)).batches() if isinstance(each, Batch)]


def test_each_transaction_ends_with_the_next_marker_of_its_producer(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0").add(PAIR).add(PAIR, producer=(7, 0)).add(PAIR, producer=(8, 0)).abort(7, 0)
    log.roll().add(PAIR, producer=(7, 0)).commit(8, 0).commit(7, 0).add(PAIR, producer=(8, 0)).write()
    assert states(tmp_path / "t-0") == [
        *("none", "aborted", "committed", "aborted"),
        *("committed", "committed", "committed", "open"),
    ]


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
