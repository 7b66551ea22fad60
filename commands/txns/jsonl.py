"""`kdump txns --format jsonl`: one object a line, as docs/groups-txns-metadata.md has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kdump.operations.transactions import OpenTransaction
from kdump.topics.hanging import abort_command, abort_command_before_3_0
from kdump.topics.transaction_ids import TransactionalId
from kdump.txns.partition import PartitionTxns
from kdump.txns.txn_index import EndedTxn

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """One object a line."""

    def __init__(self, write: Callable[[str], None], now: int, **_how: Any) -> None:
        super().__init__(write)
        self._now = now

    def partition(self, found: PartitionTxns, rows: Sequence[OpenTransaction], *, is_shown: bool) -> None:
        """Print the objects of a partition; it is always shown."""
        del is_shown
        place = fields_of(found.replica, "topic partition path=log.path")
        blocking = found.blocking_txn
        fields = place | {
            **fields_of(found, "logStartOffset=replica.log_start_offset last_stable_offset"),
            **fields_of(found, "highWatermark=replica.high_watermark logEndOffset=end_offset"),
            "blockedBy": blocking.first_offset if blocking else None,
            "open": len(rows),
            "hanging": sum(row.is_hanging for row in rows),
            **fields_of(found, "commitMarkers=commits abortMarkers=aborts emptyMarkers=empty batches"),
        }
        self.row("partition", fields)
        for row in rows:
            self.row("openTransaction", place | self._open_fields(found, row))
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

    def _open_fields(self, found: PartitionTxns, row: OpenTransaction) -> dict[str, Any]:
        txn = row.txn
        return {
            **fields_of(txn, "producer_id producer_epoch coordinator_epoch? first_offset last_offset?"),
            **fields_of(txn, "first_timestamp? last_timestamp"),
            "ageMs": self._now - txn.last_timestamp,
            **fields_of(txn, "batches records bytes=size isOlderThanLog=is_older"),
            "isBlockingLastStableOffset": found.blocking_txn is txn,
            **fields_of(row.owner, "transactional_id state"),
            **fields_of(row, "is_hanging reasons"),
            "abortCommand": abort_command(found, txn),
            "abortCommandBefore30": abort_command_before_3_0(found, txn),
        }


def _ended_fields(txn: EndedTxn) -> dict[str, Any]:
    return {
        **fields_of(txn, "producer_id producer_epoch coordinator_epoch"),
        "outcome": "abort" if txn.is_abort else "commit",
        **fields_of(txn, "first_offset? last_offset timestamp last_stable_offset"),
    }
