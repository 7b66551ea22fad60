"""A partition as it is served: what a broker knows of it, its epochs, producers and transactions, beside its bytes."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.index_entries import AbortedTxn
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.time_units import wall_clock
from kdump.query.lookup import LogLookup, TimestampOffset
from kdump.server.served_log import CHECKED_AT_ONCE, ServedLog
from kdump.settings.table import PRODUCER_EXPIRATION_MS
from kdump.storage.leader_epochs import loaded_epochs
from kdump.txns.partition import PartitionTxns, transactions_since_snapshot


class ServedPartition(ServedLog):
    """One replica, read-only. Offsets are absolute. It may be asked by several threads."""

    @property
    def last_stable_offset(self) -> int:
        """How far a read_committed consumer may read. Raises OSError."""
        open_txns = self.transactions.open
        first = min((txn.first_offset for txn in open_txns), default=None)
        end = self.end_offset
        return end if first is None else min(end, max(first, self.log_start_offset))

    @cached_property
    def transactions(self) -> PartitionTxns:
        """The transactions that are open, and those that ended since the newest producer snapshot. Raises OSError."""
        with self._lock:
            # damage that matters is told of when a fetch meets it
            return transactions_since_snapshot(self.replica, self._end_of_log, lambda _problem: None)

    @property
    def producers(self) -> list[ProducerEntry]:
        """The producers that a broker would know: those that have written in the last day, or have one open.

        Raises OSError.
        """
        oldest = wall_clock() - PRODUCER_EXPIRATION_MS.default
        return [each for each in self.transactions.producers if each.has_open_txn or each.timestamp > oldest]

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The epochs from the log start offset on; none where their file cannot be read."""
        with suppress(KdumpError, OSError):
            return loaded_epochs(self.log.leader_epochs, self.log_start_offset, self.end_offset + 1)
        return []

    @property
    def last_epoch(self) -> int:
        """The epoch of the last leader that is known to have written; -1 without any."""
        entries = self.leader_epochs
        return entries[-1].epoch if entries else -1

    def find_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Search as LogLookup.find_timestamp, without what is not served. Raises OSError, KdumpError."""
        with LogLookup(self.log, self.log_start_offset, clean=self.log.closed_cleanly) as lookup:
            found = lookup.find_timestamp(timestamp)
        return None if found is None or found.offset >= self.end_offset else found

    def gives_stable_offset(self, *, is_committed: bool) -> bool:
        """Return whether a fetch is told the last stable offset: one that is not `is_committed` can do without it.

        To find it, old logs without producer snapshots are walked from their beginning. Raises OSError.
        """
        return is_committed or self.size <= CHECKED_AT_ONCE

    def is_known(self, *, is_committed: bool) -> bool:
        """Return whether its offsets are known, and its transactions if they are needed: then it answers at once."""
        known = self.__dict__.keys()
        if not {"_end_of_log", "size"} <= known or (is_committed and "_aborted_by_segment" not in known):
            return False
        return "transactions" in known or not self.gives_stable_offset(is_committed=is_committed)

    # --- aborted transactions ---

    def aborted(self, fetch_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Return what a read_committed fetch of [fetch_offset, upper_bound) is told to leave out. Raises OSError."""
        found = {
            (txn.producer_id, txn.last_offset): txn
            for txns in self._aborted_by_segment
            for txn in txns
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound
        }
        return [found[key] for key in sorted(found, key=lambda key: key[1])]

    @cached_property
    def _aborted_by_segment(self) -> list[list[AbortedTxn]]:
        """The transaction indexes, and what they lack of the part that a broker would recover."""
        found: list[list[AbortedTxn]] = []
        for segment in self.log.segments:
            if segment.has(names.TXN_INDEX):
                with segment.txn_index() as index:
                    found.append(list(index))
        found.append(
            [
                AbortedTxn(0, txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
                for txn in self.transactions.ended
                if txn.is_abort and txn.first_offset >= 0
            ]
        )
        return found
