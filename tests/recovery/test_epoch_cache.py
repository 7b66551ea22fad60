"""Leader epochs while a log is loaded."""

from __future__ import annotations

import pytest

from kdump.errors import LoadError
from kdump.formats.checkpoints import EpochEntry
from kdump.storage.leader_epochs import EpochCache


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


def test_entries_are_sorted_and_the_last_of_an_epoch_counts() -> None:
    assert cache((5, 50), (1, 10), (5, 40)).entries == [(1, 10), (5, 40)]
    assert cache((1, 10), (5, 40)).latest_epoch == 5
    assert cache().latest_epoch == -1


def test_a_later_epoch_is_added() -> None:
    epochs = cache((1, 10))
    epochs.assign(2, 20, "file")
    assert epochs.entries == [(1, 10), (2, 20)]
    assert epochs.is_written
    assert epochs.content() == b"0\n2\n1 10\n2 20\n"


def test_what_is_known_changes_nothing() -> None:
    epochs = cache((1, 10))
    epochs.assign(1, 15, "file")
    assert epochs.entries == [(1, 10)]
    assert not epochs.is_written


def test_entries_that_contradict_a_new_one_go() -> None:
    epochs = cache((1, 10), (2, 20), (4, 40))
    epochs.assign(3, 15, "file")
    assert epochs.entries == [(1, 10), (3, 15)]
    epochs.assign(3, 12, "file")
    assert epochs.entries == [(1, 10), (3, 12)]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_numbers_end_loading(entry: tuple[int, int]) -> None:
    with pytest.raises(LoadError, match="Received invalid partition leader epoch entry"):
        cache().assign(*entry, "file")


def test_truncation_from_the_end() -> None:
    epochs = cache((1, 10), (2, 20), (3, 30))
    epochs.truncate_from_end(31)
    assert (len(epochs.entries), epochs.is_written) == (3, False)
    epochs.truncate_from_end(20)
    assert (epochs.entries, epochs.is_written) == ([(1, 10)], True)
    epochs.truncate_from_end(-1)
    assert epochs.entries == [(1, 10)]


def test_truncation_from_the_start_moves_the_epoch_that_goes_on() -> None:
    epochs = cache((1, 10), (2, 20), (3, 30))
    epochs.truncate_from_start(9)
    assert not epochs.is_written
    epochs.truncate_from_start(25)
    assert epochs.entries == [(2, 25), (3, 30)]
    assert epochs.is_written


def test_clearing_writes_a_file_without_entries() -> None:
    epochs = cache((1, 10))
    epochs.clear()
    assert epochs.content() == b"0\n0\n"
    assert epochs.is_written
