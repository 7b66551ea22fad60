"""What repair, rebuild-index and trim plan and do as JSON lines; docs/repair.md has the fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.change.guard import DroppedBatches
from kdump.change.plan import Operation
from kdump.mend.decision import Decision
from kdump.mend.task import Task
from kdump.operations.repair import Repaired
from kdump.recovery.outcome import Loss

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of

if TYPE_CHECKING:
    from kdump.formats.producer_snapshot import ProducerEntry
    from kdump.mend.flipped_bit import FlippedBit
    from kdump.mend.lost_markers import NewMarker

Row = dict[str, Any]


class JsonPrinter(RowPrinter):
    """Prints plans as JSON lines."""

    def partition(self, done: Repaired, task: Task) -> None:
        """Write a line for each operation and for each range that is left out, then one for the partition."""
        place = place_of(done.path)
        for operation in task.plan.operations if task.plan else ():
            self.row("operation", place | _operation(operation))
        for cut in task.cuts:
            self.row("leftOut", place | cut._asdict())
        if task.decision is not None:
            self.row("decision", place | _decision(task.decision))
        for each in task.fixed:
            if each.flipped is not None:
                self.row("flippedBit", place | {"file": each.range.file} | _flipped(each.flipped))
        salvaged = task.salvaged
        fields = place | {
            "isComplete": task.plan is not None and not task.problems,
            "operations": len(task.plan.operations) if task.plan else 0,
            "isApplied": done.change is not None,
            "change": done.change.id if done.change and done.kept else None,
            "interrupted": [change.id for change in done.interrupted],
            "failure": fields_of(task.failure, "exception message=text file") if task.failure else None,
            "problems": list(task.problems),
            "notes": list(task.notes),
            "isDecisionNeeded": task.decision is not None,
            "dropped": _batches(task.dropped.lost),
            "droppedByKind": {kind.value: _batches(batches) for kind, batches in task.dropped.items()},
            "logStartOffset": task.extent[0] if task.extent else None,
            "logEndOffset": task.extent[1] if task.extent else None,
            "lost": _held(task.outcome.loss) if task.outcome and salvaged is None else None,
            "kept": _held(salvaged.kept) if salvaged and salvaged.kept else None,
            "kafkaKeeps": _held(salvaged.kafka_keeps) if salvaged and salvaged.kafka_keeps else None,
            "markers": [_marker(marker) for marker in salvaged.markers] if salvaged else None,
            "openTransactions": [_open_transaction(each) for each in salvaged.open_txns] if salvaged else None,
        }
        self.row("partition", fields)

    def left_alone(self, done: Repaired, reason: str, code: int) -> None:
        """Write a line for a partition to which nothing was done, but for what had been interrupted."""
        self.row("leftAlone", place_of(done.path) | {"reason": reason, "exitCode": code})

    def end(self, *, applies: bool, work: int, failed: int, refused: int, reason: str) -> None:  # noqa: ARG002 - as text
        """Write the sum of it."""
        counts = {"partitionsWithWork": work, "partitionsFailed": failed}
        fields = counts | {"isApplied": applies, "nothingChanged": reason or None}
        self.row("summary", fields)


def _batches(batches: DroppedBatches) -> Row:
    return fields_of(batches, "batches records first_offset last_offset")


def _operation(operation: Operation) -> Row:
    return {
        **fields_of(operation, "action file=name size old_size?"),
        "source": operation.source or None,
        "why": operation.why,
    }


def _marker(marker: NewMarker) -> Row:
    row = {"file": marker.gap.name, "offset": marker.offset} | _open_transaction(marker.producer)
    return row | {"isProven": marker.is_proven}


def _open_transaction(producer: ProducerEntry) -> Row:
    return fields_of(producer, "producer_id producer_epoch firstOffset=current_txn_first_offset")


def _decision(decision: Decision) -> Row:
    replicas = decision.replicas
    return {
        "damaged": [
            {
                **fields_of(each.range, "file start stop"),
                "firstOffset": each.offsets[0],
                "lastOffset": each.offsets[1],
                "why": each.range.why,
                "flippedBit": _flipped(each.flipped) if each.flipped else None,
            }
            for each in decision.damaged
        ],
        "after": _held(decision.after) if decision.after else None,
        "replicas": list(replicas.brokers) if replicas else None,
        "inSync": list(replicas.in_sync) if replicas else None,
        "offers": [{"way": offer.way.value, "losesRecords": offer.loses} for offer in decision.offers()],
    }


def _flipped(bit: FlippedBit) -> Row:
    return fields_of(bit, "position bit first_offset last_offset bitsConsidered=bits")


def _held(loss: Loss) -> Row:
    return fields_of(loss, "bytes batches records first_offset last_offset")
