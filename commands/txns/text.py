"""`kdump txns` for people: what is open, what to do about it, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, duration, number_words, offset_range
from kdump.operations.transactions import OpenTransaction
from kdump.topics.hanging import HangReason, abort_command, abort_command_before_3_0
from kdump.topics.transaction_ids import TransactionalId
from kdump.txns.partition import OpenTxn, PartitionTxns, StableLimit
from kdump.txns.txn_index import EndedTxn, IndexMismatch, Mismatch

from ..shell.tables import TextPrinter
from ..shell.times import iso_time
from ..shell.words import verdict

_MISMATCHES = {
    Mismatch.MISSING: "has no entry of it: consumers get its records as if they were committed",
    Mismatch.EXTRA: "has an entry of it, but no abort marker is at that offset",
    Mismatch.STARTS_LATE: "lets it begin after its first record",
}
_REASONS = {
    HangReason.LATE: "last record is older than transaction.max.timeout.ms plus 5 min",
    HangReason.NOT_COVERED: "the state of its transactional id does not cover this partition any more",
}
_FIRST = (
    "Start the broker and run this again: the coordinator may end it.",
    "Still open, and its transactional id is not in PrepareCommit:",
)
_BEFORE_3_0 = "Before Kafka 3.0: "
_LABEL = 9
MAX_SHOWN = 5
"""Partitions that are shown by default."""
MAX_IDS = 10
"""Transactional ids that are shown by default."""


class Text(TextPrinter):
    """Prints the partitions with something open, the transactional ids, and the verdict."""

    def __init__(self, write: Callable[[str], None], now: int, *, is_all: bool = False) -> None:
        """Show all partitions that are worth it if `is_all`, otherwise the first ones."""
        super().__init__(write)
        self._now = now
        self._is_all = is_all
        self._partitions = self._shown = self._open = self._stuck = self._mismatches = 0
        self._hanging = self._with_hanging = self._with_open = 0
        self._ids: list[tuple[str, ...]] = []

    def partition(self, found: PartitionTxns, rows: Sequence[OpenTransaction], *, is_shown: bool) -> None:
        """Print a partition with its open transactions."""
        hanging = sum(row.is_hanging for row in rows)
        self._partitions += 1
        self._open += len(rows)
        self._with_open += bool(rows)
        self._hanging += hanging
        self._with_hanging += bool(hanging)
        self._mismatches += len(found.mismatches)
        if not is_shown:
            return
        self._shown += 1
        if not self._is_all and self._shown > MAX_SHOWN:
            return
        self._write(f"{safe_path(found.replica.log.path)}   {_stable_words(found)}\n")
        if self._is_all or found.commits or found.aborts:
            self._field("log", _log_words(found))
        for row in rows:
            self._open_row(found, row)
        ended = [_ended_cells(txn) for txn in found.ended]
        heading = ("ENDED", "PRODUCER", "EPOCH", "FIRST OFFSET", "MARKER", "COORDINATOR EPOCH", "TIME")
        self._table(heading, ended, right=heading[1:-1], indent="  ")
        for mismatch in found.mismatches:
            self._field("index", _mismatch(mismatch))
        self._write("\n")

    def transactional_id(self, found: TransactionalId, is_stuck: bool) -> None:
        """Print a row of the table of transactional ids."""
        self._stuck += is_stuck
        partitions = " ".join(f"{safe(topic)}:{','.join(map(str, ids))}" for topic, ids in found.partitions.items())
        self._ids.append(
            (
                safe(found.transactional_id),
                f"{found.state}{' (STUCK)' if is_stuck else ''}",
                str(found.producer_id),
                str(found.producer_epoch),
                iso_time(found.last_update_timestamp),
                partitions or "-",
            )
        )

    def end(self, code: int) -> None:
        """Print the table of transactional ids, and the verdict."""
        if not self._is_all and self._shown > MAX_SHOWN:
            self._write(f"{number_words(self._shown - MAX_SHOWN, 'more partition')} with open transactions (-v)\n\n")
        heading = ("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "LAST UPDATE", "PARTITIONS")
        ids = self._ids if self._is_all else self._ids[:MAX_IDS]
        self._table(heading, ids, right=("PRODUCER", "EPOCH"))
        if len(ids) < len(self._ids):
            self._write(f"{number_words(len(self._ids) - len(ids), 'more transactional id')} (-v)\n")
        if ids:
            self._write("\n")
        of = f"of {number_words(self._partitions, 'partition')}"
        found = []
        if self._hanging:
            hanging = number_words(self._hanging, "hanging transaction")
            found.append(f"{hanging} in {count_text(self._with_hanging)} {of}")
        if self._stuck:
            found.append(f"{number_words(self._stuck, 'transactional id')} stuck")
        if self._mismatches:
            found.append(f"{number_words(self._mismatches, 'mismatch', 'mismatches')} with the transaction index")
        if self._open:
            fine = f"{number_words(self._open, 'open transaction')} in {count_text(self._with_open)} {of}, none hangs"
        else:
            fine = f"No open transaction in {number_words(self._partitions, 'partition')}"
        self._write(f"{verdict(code, found, fine)}\n")
        if self._stuck:
            self._write("Next: start the broker and run this again: a coordinator that runs writes the markers.\n")

    def _field(self, label: str, text: str) -> None:
        self._write(f"  {label:<{_LABEL}}{text}\n")

    def _open_row(self, found: PartitionTxns, row: OpenTransaction) -> None:
        txn = row.txn
        self._field("hanging" if row.is_hanging else "open", self._txn_words(txn))
        if txn.is_older:
            self._field("older", "its first records are no longer in the log; a producer snapshot has it")
        if row.owner:
            state = f"{row.owner.state}, epoch {row.owner.producer_epoch}, timeout {duration(row.owner.timeout_ms)}"
            self._field("id", f'"{safe(row.owner.transactional_id)}" ({state})')
        if row.is_hanging:
            for reason in row.reasons:
                self._field("why", _REASONS[reason])
            self._ways(found, row)
        elif row.owner and row.is_coordinators:
            self._field("do", f"nothing: its coordinator has it as {row.owner.state}, and ends it when it runs")

    def _txn_words(self, txn: OpenTxn) -> str:
        said = [f"producer {txn.producer_id} epoch {txn.producer_epoch}"]
        if txn.batches:
            noun = "offset" if txn.first_offset == txn.last_offset else "offsets"
            said.append(f"{noun} {offset_range(txn.first_offset, txn.last_offset)}")
            said.append(number_words(txn.records, "record"))
        else:
            said.append(f"since offset {txn.first_offset}")
        said.append(f"open {duration(self._now - txn.last_timestamp)} (last record {iso_time(txn.last_timestamp)})")
        return ", ".join(said)

    def _ways(self, found: PartitionTxns, row: OpenTransaction) -> None:
        """Print what ends a hanging transaction: the coordinator, if it still may, before the command that aborts."""
        ways = list(_FIRST) if row.may_end else []
        commands = abort_command(found, row.txn), abort_command_before_3_0(found, row.txn)
        ways += [safe(commands[0]), f"{_BEFORE_3_0}{safe(commands[1])}"]
        for number, text in enumerate(ways):
            self._field("" if number else "do", text)
        records = f"the {number_words(row.txn.records, 'record')}" if row.txn.records > 1 else "its record"
        self._field("", f"Loses {records} for read_committed consumers.")


def _stable_words(found: PartitionTxns) -> str:
    """Return how far read_committed consumers get, and what stops them."""
    limit = found.stable_limit
    if limit is None:
        return "no transaction is open" if not found.open else "the log is empty"
    stop = f"read_committed consumers stop at offset {found.last_stable_offset}"
    if limit is StableLimit.TRANSACTION:
        return stop
    if limit is StableLimit.MARKER:
        where = f"offset {found.unreplicated}"
        return f"{stop}: blocked by the transaction at {where}, whose marker is not below the high watermark"
    return f"{stop}: blocked by the high watermark"


def _log_words(found: PartitionTxns) -> str:
    watermark = str(found.high_watermark) if found.replica.high_watermark is not None else "unknown"
    said = (
        f"log start offset {found.replica.log_start_offset}, last stable offset {found.last_stable_offset},"
        f" high watermark {watermark}, log end offset {found.end_offset}"
    )
    if found.commits or found.aborts:
        said += f"; markers: {found.commits} COMMIT, {found.aborts} ABORT"
    if found.empty:
        said += f"; {number_words(found.empty, 'marker')} without an open transaction"
    return said


def _ended_cells(txn: EndedTxn) -> tuple[str, ...]:
    return (
        "ABORT" if txn.is_abort else "COMMIT",
        str(txn.producer_id),
        str(txn.producer_epoch),
        "-" if txn.first_offset < 0 else str(txn.first_offset),
        str(txn.last_offset),
        str(txn.coordinator_epoch),
        iso_time(txn.timestamp),
    )


def _mismatch(mismatch: IndexMismatch) -> str:
    return (
        f"aborted transaction of producer {mismatch.producer_id}, offsets"
        f" {offset_range(mismatch.first_offset, mismatch.last_offset)}: {safe_path(mismatch.path)}"
        f" {_MISMATCHES[mismatch.kind]}"
    )
