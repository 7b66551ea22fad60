"""The transaction index of a segment, compared with the markers that are in the segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn, check_aborted_txn_version
from kdump.storage.segment import Segment


class EndedTxn(NamedTuple):
    """A transaction that the marker at `last_offset` ended, or only a marker: `first_offset` is -1 then.

    `last_stable_offset` is the one that a broker puts into the transaction index with it.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    is_abort: bool
    coordinator_epoch: int
    timestamp: int
    last_stable_offset: int


class Mismatch(StrEnum):
    """What an entry of the index, or its absence, has against the transaction."""

    MISSING = "missing"  # no entry, so that consumers get the aborted records
    EXTRA = "extra"  # an entry without such a marker
    STARTS_LATE = "starts late"  # the entry begins after the transaction's first record


class IndexMismatch(NamedTuple):
    """What the transaction index at `path` has wrong of the transaction that an ABORT marker at `last_offset` ended.

    Offsets are absolute; `first_offset` is the entry's where there is one.
    """

    kind: Mismatch
    path: str
    producer_id: int
    first_offset: int
    last_offset: int


def index_mismatches(
    segment: Segment, aborted: Iterable[EndedTxn], report: Report, *, is_whole: bool
) -> Iterator[IndexMismatch]:
    """Yield what the index has wrong of the transactions that were aborted in a segment.

    Entries without a marker count only where the segment was read as a whole. What cannot be read is reported.
    """
    path = segment.path(names.TXN_INDEX)
    entries = index_entries(segment, report)
    for txn in aborted:
        found = entries.pop((txn.producer_id, txn.last_offset), None)
        if txn.first_offset < 0:  # nothing of it is left, which compaction and retention may have done
            continue
        if found is None:
            yield IndexMismatch(Mismatch.MISSING, path, txn.producer_id, txn.first_offset, txn.last_offset)
        elif found.first_offset > txn.first_offset:
            yield IndexMismatch(Mismatch.STARTS_LATE, path, txn.producer_id, found.first_offset, txn.last_offset)
    if is_whole:
        for entry in entries.values():
            yield IndexMismatch(Mismatch.EXTRA, path, entry.producer_id, entry.first_offset, entry.last_offset)


def index_entries(segment: Segment, report: Report) -> dict[tuple[int, int], AbortedTxn]:
    """Return the entries of a segment's index by producer and marker's offset; what cannot be read is reported."""
    path = segment.path(names.TXN_INDEX)
    entries: dict[tuple[int, int], AbortedTxn] = {}
    try:
        if segment.has(names.TXN_INDEX):
            with segment.txn_index() as index:
                for entry in index:
                    check_aborted_txn_version(entry, path)
                    entries[entry.producer_id, entry.last_offset] = entry
    except (KdumpError, OSError) as error:
        report(Problem.failed(path, error))
    return entries
