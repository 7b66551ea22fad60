"""What batches and markers do to the state of a producer, and what is out of the ordinary in them."""

from __future__ import annotations

import pytest

from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.sequences import MAX_SEQUENCE
from kdump.txns.producers import (
    CompletedTxn,
    CoordinatorWentBack,
    EpochWentBack,
    NotInTransaction,
    PendingProducers,
    Producer,
    ProducerTable,
    SequenceGap,
    TransactionEnded,
    TransactionOpened,
)


def producer(epoch: int = 4, last: int = 9) -> Producer:
    """A producer whose last batch has sequence numbers up to `last`."""
    found = Producer()
    found.take_batch(epoch, last, 100, 100, 5)
    return found


@pytest.mark.parametrize(
    ("last", "epoch", "sequence", "event"),
    [
        (9, 4, 10, None),
        (9, 4, 12, SequenceGap(12, 9, 2, 4, 4)),
        (9, 4, 9, SequenceGap(9, 9, MAX_SEQUENCE, 4, 4)),
        (MAX_SEQUENCE, 4, 0, None),
        (MAX_SEQUENCE, 4, 3, SequenceGap(3, MAX_SEQUENCE, 3, 4, 4)),
        (MAX_SEQUENCE - 1, 4, -1, SequenceGap(-1, MAX_SEQUENCE - 1, 0, 4, 4)),
        (9, 5, 0, None),
        (9, 5, 10, SequenceGap(10, -1, 10, 5, 4)),
        (9, 3, 10, EpochWentBack(3, 4)),
    ],
)
def test_epochs_and_sequences_go_on(
    last: int, epoch: int, sequence: int, event: EpochWentBack | SequenceGap | None
) -> None:
    assert producer(last=last).check_batch(epoch, sequence) == event


def test_whatever_an_unknown_producer_begins_with_is_believed() -> None:
    assert Producer().check_batch(3, 77) is None
    pending = Producer().pending()
    pending.take_batch(3, 77, 0, 0, 1)
    assert pending.check_batch(3, 99) is None


def test_a_pending_batch_goes_on_from_the_one_that_counts() -> None:
    pending = producer().pending()
    assert pending.check_batch(4, 10) is None
    assert pending.check_batch(4, 11) == SequenceGap(11, 9, 1, 4, 4)
    pending.enter_epoch(5)
    assert pending.check_batch(5, 1) == SequenceGap(1, -1, 1, 5, 5)


def test_a_transaction_opens_with_its_first_batch_and_takes_no_others() -> None:
    found = producer()
    assert found.join_txn(101, is_transactional=False) is None
    assert found.join_txn(102, is_transactional=True) == TransactionOpened(102)
    assert found.join_txn(103, is_transactional=True) is None
    assert found.join_txn(104, is_transactional=False) == NotInTransaction(102)


def test_a_marker_ends_what_is_open_and_a_new_epoch_forgets_the_batches() -> None:
    found = producer()
    found.join_txn(102, is_transactional=True)
    assert found.check_marker(4, 1) is None
    assert found.take_marker(4, 1, 8) == TransactionEnded(102)
    assert found.entry(7) == ProducerEntry(7, 4, 9, 100, 0, 8, 1, -1)
    assert found.check_marker(3, 1) == EpochWentBack(3, 4)
    assert found.check_marker(4, 0) == CoordinatorWentBack(0, 1)
    assert found.take_marker(5, 2, 9) is None
    assert found.entry(7) == ProducerEntry(7, 5, -1, -1, 0, 9, 2, -1)


def test_the_first_open_transaction_holds_the_last_stable_offset() -> None:
    table = ProducerTable()
    table.load([ProducerEntry(7, 0, 1, 40, 0, 1, 1, 30), ProducerEntry(8, 0, 1, 41, 0, 1, 1, 20)])
    table.begin(9, 50)
    table.begin(6, 10)
    assert list(table.open_txns.items()) == [(10, 6), (20, 8), (30, 7), (50, 9)]
    txn = CompletedTxn(6, 10, 60, is_abort=True)
    assert table.stable_after(txn) == 20
    assert table.end(txn)
    assert not table.end(txn)
    table.forget_txn(table.producers[8])
    assert list(table.open_txns) == [30, 50]
    assert table.producers[8].txn_first_offset == -1


def test_pending_changes_count_all_together() -> None:
    table = ProducerTable()
    table.producer(7).take_batch(0, 0, 4, 4, 1)
    table.begin(8, 3)
    pending = PendingProducers(table)
    changed = pending.producer(7)
    changed.join_txn(5, is_transactional=True)
    pending.begin(7, 5)
    changed.take_batch(0, 1, 5, 6, 2)
    ended = [CompletedTxn(7, 5, 7, is_abort=True), CompletedTxn(8, 3, 8, is_abort=True)]
    for txn in (*ended, CompletedTxn(9, 1, 9, is_abort=False)):
        pending.end(txn)
    assert [stable_offset for _, stable_offset in pending.ended()] == [3, 9, 10]
    assert (table.producers[7].last_offset, table.open_txns) == (4, {3: 8})
    assert pending.apply() == [CompletedTxn(9, 1, 9, is_abort=False)]
    assert (table.producers[7].last_offset, table.open_txns) == (6, {})
