"""The lines of `kdump txns`; docs/groups-txns-metadata.md describes both forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import counted, duration, size_text
from kdump.operations.transactions import OpenTransaction
from kdump.topics.hanging import HangReason
from kdump.topics.transaction_ids import TransactionalId
from kdump.transactions.partition import OpenTxn, PartitionTxns
from kdump.transactions.txn_index import EndedTxn, IndexMismatch

from ..shell.rows import json_line
from ..shell.tables import aligned
from ..shell.times import iso_time

_TOOL = "kafka-transactions.sh --bootstrap-server HOST:PORT abort"
_MISMATCHES = {
    "missing": "has no entry of it: consumers get its records as if they were committed",
    "extra": "has an entry of it, but no abort marker is at that offset",
    "starts late": "lets it begin after its first record",
}
_REASONS = {
    HangReason.LATE: "its last record is older than the longest timeout and five minutes",
    HangReason.NOT_COVERED: "the state of its transactional id does not cover this partition any more",
}


def abort_line(found: PartitionTxns, txn: OpenTxn) -> str:
    """The command line that aborts a transaction; brokers from Kafka 3.0 on find the producer by its offset."""
    return f"{_TOOL} {_partition_options(found)} --start-offset {txn.first_offset}"


def old_abort_line(found: PartitionTxns, txn: OpenTxn) -> str:
    """The same for older brokers, which want the producer named; an unknown coordinator epoch is 0."""
    return (
        f"{_TOOL} {_partition_options(found)} --producer-id {txn.producer_id} --producer-epoch {txn.producer_epoch}"
        f" --coordinator-epoch {max(0, txn.coordinator_epoch)}"
    )


def _partition_options(found: PartitionTxns) -> str:
    return f"--topic {quote(found.replica.topic)} --partition {found.replica.partition}"


class TextLines:
    """For people."""

    def __init__(self, write: Callable[[str], None], now: int) -> None:
        self._write = write
        self._now = now
        self._partitions = self._open = self._hanging = self._stuck = self._mismatches = 0
        self._ids: list[tuple[str, ...]] = []

    def partition(self, found: PartitionTxns, rows: Sequence[OpenTransaction], *, is_shown: bool) -> None:
        """A partition with its open transactions."""
        self._partitions += 1
        self._open += len(rows)
        self._hanging += sum(row.is_hanging for row in rows)
        self._mismatches += len(found.mismatches)
        if not is_shown:
            return
        write = self._write
        watermark = str(found.high_watermark) if found.replica.high_watermark is not None else "unknown"
        write(
            f"{safe_path(found.replica.name)}: log start offset {found.replica.log_start_offset}, last stable offset"
            f" {found.last_stable_offset}, high watermark {watermark}, log end offset {found.end_offset}\n"
        )
        if found.last_stable_offset < found.end_offset:
            write(f"  {_held_by(found)}\n")
        for row in rows:
            self._open_row(found, row)
        if found.commits or found.aborts:
            ended_none = f"{found.empty} without an open transaction"
            write(f"  markers: {found.commits} COMMIT, {found.aborts} ABORT; {ended_none}\n")
        ended = [_ended_cells(txn) for txn in found.ended]
        heading = ("ENDED", "PRODUCER", "EPOCH", "FIRST OFFSET", "MARKER", "COORDINATOR EPOCH", "TIME")
        for line in aligned(heading, ended, right=heading[1:-1], indent="  "):
            write(line)
        for mismatch in found.mismatches:
            write(f"  {_mismatch(mismatch)}\n")
        write("\n")

    def transactional_id(self, found: TransactionalId, is_stuck: bool) -> None:
        """A row of the table of transactional ids."""
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

    def finish(self) -> None:
        """The table of transactional ids, and the sums."""
        heading = ("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "LAST UPDATE", "PARTITIONS")
        for line in aligned(heading, self._ids, right=("PRODUCER", "EPOCH")):
            self._write(line)
        if self._ids:
            self._write("\n")
        text = f"{counted(self._partitions, 'partition')}; {counted(self._open, 'open transaction')}"
        text += f", {self._hanging} hanging"
        if self._stuck:
            text += f"; {counted(self._stuck, 'transactional id')} stuck"
        if self._mismatches:
            text += f"; {counted(self._mismatches, 'mismatch', 'mismatches')} with the transaction index"
        self._write(f"{text}\n")

    def _open_row(self, found: PartitionTxns, row: OpenTransaction) -> None:
        txn, write = row.txn, self._write
        verdict = "HANGING" if row.is_hanging else "open"
        owner = ""
        if row.owner:
            owner = f', transactional id "{safe(row.owner.transactional_id)}" ({row.owner.state}'
            owner += f", epoch {row.owner.producer_epoch})"
        write(f"  {verdict} transaction at offset {txn.first_offset}: producer {txn.producer_id} epoch")
        write(f" {txn.producer_epoch}{owner}\n")
        if txn.batches:
            write(
                f"    up to offset {txn.last_offset}, {counted(txn.records, 'record')} in"
                f" {counted(txn.batches, 'batch', 'batches')}, {size_text(txn.size)}\n"
            )
        if txn.is_older:
            write("    its first records are no longer in the log: a producer snapshot tells of it\n")
        age = duration(self._now - txn.last_timestamp)
        write(f"    last record {iso_time(txn.last_timestamp)}, {age} ago")
        write(f"; first {iso_time(txn.first_timestamp)}\n" if txn.first_timestamp >= 0 else "\n")
        if row.owner and row.reasons and not row.is_hanging:
            write(f"    its coordinator has it as {row.owner.state} (timeout {duration(row.owner.timeout_ms)}),")
            write(" and ends it when it runs\n")
        if row.is_hanging:
            for reason in row.reasons:
                write(f"    it hangs: {_REASONS[reason]}\n")
            write(f"    {safe(abort_line(found, txn))}\n")
            write(f"    before Kafka 3.0: {safe(old_abort_line(found, txn))}\n")


class JsonLines:
    """One object a line."""

    def __init__(self, write: Callable[[str], None], now: int) -> None:
        self._write = write
        self._now = now

    def partition(self, found: PartitionTxns, rows: Sequence[OpenTransaction], *, is_shown: bool) -> None:
        """The objects of a partition; it is always shown."""
        del is_shown
        place: dict[str, Any] = {"topic": found.replica.topic, "partition": found.replica.partition}
        holder = found.holder
        fields = place | {
            "path": found.replica.log.path,
            "logStartOffset": found.replica.log_start_offset,
            "lastStableOffset": found.last_stable_offset,
            "highWatermark": found.replica.high_watermark,
            "logEndOffset": found.end_offset,
            "heldBy": holder.first_offset if holder else None,
            "open": len(rows),
            "hanging": sum(row.is_hanging for row in rows),
            "commitMarkers": found.commits,
            "abortMarkers": found.aborts,
            "emptyMarkers": found.empty,
            "batches": found.batches,
        }
        self._write(json_line("partition", fields))
        for row in rows:
            self._write(json_line("openTransaction", place | self._open_fields(found, row)))
        for txn in found.ended:
            self._write(json_line("endedTransaction", place | _ended_fields(txn)))
        for mismatch in found.mismatches:
            self._write(json_line("indexMismatch", place | _mismatch_fields(mismatch)))

    def transactional_id(self, found: TransactionalId, is_stuck: bool) -> None:
        """A transactional id's object."""
        fields = {
            "transactionalId": found.transactional_id,
            "statePartition": found.partition,
            "state": found.state,
            "isStuck": is_stuck,
            "producerId": found.producer_id,
            "producerEpoch": found.producer_epoch,
            "previousProducerId": _known(found.previous_producer_id),
            "nextProducerId": _known(found.next_producer_id),
            "timeoutMs": found.timeout_ms,
            "startTimestamp": _known(found.start_timestamp),
            "lastUpdateTimestamp": found.last_update_timestamp,
            "partitions": [{"topic": topic, "partitions": ids} for topic, ids in found.partitions.items()],
        }
        self._write(json_line("transactionalId", fields))

    def finish(self) -> None:
        """Nothing follows."""

    def _open_fields(self, found: PartitionTxns, row: OpenTransaction) -> dict[str, Any]:
        txn = row.txn
        return {
            "producerId": txn.producer_id,
            "producerEpoch": txn.producer_epoch,
            "coordinatorEpoch": _known(txn.coordinator_epoch),
            "firstOffset": txn.first_offset,
            "lastOffset": _known(txn.last_offset),
            "firstTimestamp": _known(txn.first_timestamp),
            "lastTimestamp": txn.last_timestamp,
            "ageMs": self._now - txn.last_timestamp,
            "batches": txn.batches,
            "records": txn.records,
            "bytes": txn.size,
            "isOlderThanLog": txn.is_older,
            "holdsLastStableOffset": found.holder is txn,
            "transactionalId": row.owner.transactional_id if row.owner else None,
            "state": row.owner.state if row.owner else None,
            "isHanging": row.is_hanging,
            "reasons": row.reasons,
            "abortCommand": abort_line(found, txn),
            "abortCommandBefore30": old_abort_line(found, txn),
        }


def _held_by(found: PartitionTxns) -> str:
    holder = found.holder
    if holder:
        whose = f"producer {holder.producer_id}"
        return f"blocked by the transaction of {whose} that is open at offset {holder.first_offset}"
    if found.unreplicated is not None and found.last_stable_offset < found.high_watermark:
        where = f"offset {found.unreplicated}"
        return f"blocked by the transaction at {where}, whose marker is not below the high watermark"
    return "blocked by the high watermark"


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
        "producerId": txn.producer_id,
        "producerEpoch": txn.producer_epoch,
        "coordinatorEpoch": txn.coordinator_epoch,
        "outcome": "abort" if txn.is_abort else "commit",
        "firstOffset": _known(txn.first_offset),
        "lastOffset": txn.last_offset,
        "timestamp": txn.timestamp,
        "lastStableOffset": txn.last_stable_offset,
    }


def _mismatch(mismatch: IndexMismatch) -> str:
    return (
        f"aborted transaction of producer {mismatch.producer_id}, offsets {mismatch.first_offset} to"
        f" {mismatch.last_offset}: {safe_path(mismatch.path)} {_MISMATCHES[mismatch.kind]}"
    )


def _mismatch_fields(mismatch: IndexMismatch) -> dict[str, Any]:
    return {
        "kind": mismatch.kind,
        "path": mismatch.path,
        "producerId": mismatch.producer_id,
        "firstOffset": mismatch.first_offset,
        "lastOffset": mismatch.last_offset,
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number
