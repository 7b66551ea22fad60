"""The lines of `kdump txns`; docs/groups-txns-metadata.md describes both forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, duration, number_words, offset_range
from kdump.operations.transactions import OpenTransaction
from kdump.topics.hanging import HangReason, abort_command, abort_command_before_3_0
from kdump.topics.transaction_ids import TransactionalId
from kdump.transactions.partition import OpenTxn, PartitionTxns, StableLimit
from kdump.transactions.txn_index import EndedTxn, IndexMismatch, Mismatch

from ..shell.rows import RowPrinter, fields_of
from ..shell.tables import aligned
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


class TextLines:
    """For people: the partitions with something open, what is to be done about it, and the verdict."""

    def __init__(self, write: Callable[[str], None], now: int, *, is_all: bool = False) -> None:
        """Show all partitions that are worth it if `is_all`, otherwise the first ones."""
        self._write = write
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
        for line in aligned(heading, ended, right=heading[1:-1], indent="  "):
            self._write(line)
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

    def finish(self, code: int) -> None:
        """Print the table of transactional ids, and the verdict."""
        if not self._is_all and self._shown > MAX_SHOWN:
            self._write(f"{number_words(self._shown - MAX_SHOWN, 'more partition')} with open transactions (-v)\n\n")
        heading = ("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "LAST UPDATE", "PARTITIONS")
        ids = self._ids if self._is_all else self._ids[:MAX_IDS]
        for line in aligned(heading, ids, right=("PRODUCER", "EPOCH")):
            self._write(line)
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


_OLD_PARTITION = {"blockedBy": "heldBy"}
_OLD_OPEN = {"isBlockingLastStableOffset": "holdsLastStableOffset"}
"""Fields that had another name: it stays for two releases."""


class JsonLines(RowPrinter):
    """One object a line."""

    def __init__(self, write: Callable[[str], None], now: int) -> None:
        self._write = write
        self._now = now

    def partition(self, found: PartitionTxns, rows: Sequence[OpenTransaction], *, is_shown: bool) -> None:
        """Print the objects of a partition; it is always shown."""
        del is_shown
        place = fields_of(found.replica, "topic partition path=log.path")
        holder = found.holder
        fields = place | {
            **fields_of(found, "logStartOffset=replica.log_start_offset last_stable_offset"),
            **fields_of(found, "highWatermark=replica.high_watermark logEndOffset=end_offset"),
            "blockedBy": holder.first_offset if holder else None,
            "open": len(rows),
            "hanging": sum(row.is_hanging for row in rows),
            **fields_of(found, "commitMarkers=commits abortMarkers=aborts emptyMarkers=empty batches"),
        }
        self.row("partition", fields, _OLD_PARTITION)
        for row in rows:
            self.row("openTransaction", place | self._open_fields(found, row), _OLD_OPEN)
        for txn in found.ended:
            self.row("endedTransaction", place | _ended_fields(txn))
        for mismatch in found.mismatches:
            self.row("indexMismatch", place | fields_of(mismatch, "kind path producer_id first_offset last_offset"))

    def transactional_id(self, found: TransactionalId, is_stuck: bool) -> None:
        """Print a transactional id's object."""
        fields = {
            **fields_of(found, "transactional_id statePartition=partition state"),
            "isStuck": is_stuck,
            **fields_of(found, "producer_id producer_epoch previous_producer_id? next_producer_id?"),
            **fields_of(found, "timeout_ms start_timestamp? last_update_timestamp"),
            "partitions": [{"topic": topic, "partitions": ids} for topic, ids in found.partitions.items()],
        }
        self.row("transactionalId", fields)

    def finish(self, code: int) -> None:
        """Do nothing: no line follows."""

    def _open_fields(self, found: PartitionTxns, row: OpenTransaction) -> dict[str, Any]:
        txn = row.txn
        return {
            **fields_of(txn, "producer_id producer_epoch coordinator_epoch? first_offset last_offset?"),
            **fields_of(txn, "first_timestamp? last_timestamp"),
            "ageMs": self._now - txn.last_timestamp,
            **fields_of(txn, "batches records bytes=size isOlderThanLog=is_older"),
            "isBlockingLastStableOffset": found.holder is txn,
            **fields_of(row.owner, "transactional_id state"),
            **fields_of(row, "is_hanging reasons"),
            "abortCommand": abort_command(found, txn),
            "abortCommandBefore30": abort_command_before_3_0(found, txn),
        }


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
    """Return the offsets of a log, and its markers."""
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


def _ended_fields(txn: EndedTxn) -> dict[str, Any]:
    return {
        **fields_of(txn, "producer_id producer_epoch coordinator_epoch"),
        "outcome": "abort" if txn.is_abort else "commit",
        **fields_of(txn, "first_offset? last_offset timestamp last_stable_offset"),
    }


def _mismatch(mismatch: IndexMismatch) -> str:
    return (
        f"aborted transaction of producer {mismatch.producer_id}, offsets"
        f" {offset_range(mismatch.first_offset, mismatch.last_offset)}: {safe_path(mismatch.path)}"
        f" {_MISMATCHES[mismatch.kind]}"
    )
