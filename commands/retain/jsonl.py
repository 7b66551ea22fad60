"""`kdump retain --format jsonl`: one JSON object a line, as docs/retain.md has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kdump.change.plan import CHECKPOINT, REMOVE, Operation, Plan
from kdump.retention.advice import advice_on
from kdump.retention.blocking_batch import BlockingBatch
from kdump.retention.partition import Block, DeletedAmount, PartitionRetention
from kdump.retention.policy import Policy
from kdump.retention.tombstones import Waiting
from kdump.retention.totals import Totals

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of

Row = dict[str, Any]


class JsonLines(RowPrinter):
    """Prints findings as JSON lines."""

    def partition(self, found: PartitionRetention, *, lists_segments: bool) -> None:
        """Write the partition's line, then those of its segments."""
        self.row("partition", _partition(found))
        for number in range(len(found.segments) if lists_segments else 0):
            self.row("segment", _segment(found, number))

    def directory(self, path: str, totals: Totals) -> None:
        """Write the log directory's line."""
        fields = {
            "path": path,
            **fields_of(totals, "partitions partitionsWithWork=working partitionsBlocked=blocked segments space"),
            "frees": _share(totals.freed),
            "byPolicy": _shares(totals.shares),
            "alone": _shares(totals.alone),
            "blockedSpace": totals.held_space,
        }
        self.row("logDirectory", fields)

    def done(self, path: str, plans: Sequence[Plan], kept: str | None) -> None:
        """Write the changes, and that they were made."""
        for plan in plans:
            for operation in plan.operations:
                self.row("operation", _operation(path, operation))
        operations = sum(len(plan.operations) for plan in plans)
        self.row("applied", place_of(path) | {"operations": operations, "change": kept})


def _partition(found: PartitionRetention) -> Row:
    config, name, following = found.config, found.log.name, found.next
    return {
        "path": found.log.path,
        **fields_of(name, "topic partition"),
        "now": found.now,
        "config": {
            "cleanup.policy": config.policy,
            config.time_name: config.time_limit_ms,
            config.size_name: config.size_limit,
            "delete.retention.ms": config.delete_retention_ms,
        },
        "configFrom": list(found.config.sources),
        "isTiered": config.has_remote_storage,
        **fields_of(found, "log_start_offset new_log_start_offset high_watermark"),
        **fields_of(found, "isHighWatermarkKnown=is_watermark_known logEndOffset=end_offset"),
        "segments": len(found.segments),
        "space": sum(state.space for state in found.segments),
        "deletes": len(found.reasons),
        "frees": found.space,
        "byPolicy": _shares(found.shares()),
        "alone": _shares(found.alone),
        "isRolled": found.rolls,
        "checkpoints": [change._asdict() for change in found.checkpoint_changes()],
        "next": fields_of(following, "base_offset due more_bytes log_start_offset") if following else None,
        "blocked": _block(found.block) if found.block else None,
        "advice": [fields_of(item, "text commands") for item in advice_on(found)],
        "tombstones": _waiting(found.tombstones.records) if found.tombstones else None,
        "transactionMarkers": _waiting(found.tombstones.markers) if found.tombstones else None,
        "problems": list(found.problems),
        "doubts": [
            {**fields_of(doubt, "reason firstOffset=first nextOffset=stop text advice"), "command": doubt.command_line}
            for doubt in found.doubts
        ],
    }


def _segment(found: PartitionRetention, number: int) -> Row:
    state = found.segments[number]
    return {
        "path": state.segment.log_path,
        **fields_of(found.log.name, "topic partition"),
        **fields_of(state, "base_offset nextOffset=end_offset size space largest_timestamp timestampFrom=source"),
        **fields_of(state, "modified"),
        "seemsToBeIn": found.wrong_unit(state),
        "deletedBy": found.reasons[number] if number < len(found.reasons) else None,
        "isBlocked": bool(found.block and state in found.block.held),
    }


def _operation(path: str, operation: Operation) -> Row:
    is_offset = operation.action == CHECKPOINT
    old = operation.old_size if operation.old_size >= 0 else None
    new = None if operation.action == REMOVE or operation.size < 0 else operation.size
    return place_of(path) | {
        "action": operation.action,
        "file": operation.name,
        "oldSize": None if is_offset else old,
        "size": None if is_offset else new,
        "oldOffset": old if is_offset else None,
        "offset": new if is_offset else None,
        "why": operation.why,
    }


def _block(block: Block) -> Row:
    return {
        **fields_of(block, "baseOffset=blocker.base_offset path=blocker.segment.log_path reason"),
        "blockedSegments": [state.base_offset for state in block.held],
        **fields_of(block, "blockedSpace=space free_offset"),
        "blockedBy": _blocking_batch(block.batch) if block.batch else None,
    }


def _blocking_batch(blocking: BlockingBatch) -> Row:
    return {
        **fields_of(blocking, "timestamp seemsToBeIn=unit isLogAppendTime=is_append_time position size base_offset"),
        **fields_of(blocking, "last_offset record_offset"),
        **fields_of(blocking if blocking.producer_id >= 0 else None, "producer_id producer_epoch"),
        **fields_of(blocking, "batches youngBatches=young largest_of_others?"),
    }


def _waiting(waiting: Waiting) -> Row:
    return fields_of(waiting, "due waiting unset next_horizon last_horizon")


def _shares(shares: Mapping[Policy, DeletedAmount]) -> Row:
    return {policy: _share(share) for policy, share in shares.items()}


def _share(share: DeletedAmount) -> Row:
    return fields_of(share, "segments space")
