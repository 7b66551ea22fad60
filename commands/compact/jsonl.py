"""`kdump compact --format jsonl`: one JSON object a partition, as docs/compact.md has it."""

from __future__ import annotations

from typing import Any

from kdump.clean.cleaning import Cleaning, Group
from kdump.clean.state import LAG, TRANSACTION, Limit
from kdump.operations.compact import Compacted

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of

Row = dict[str, Any]


class JsonLines(RowPrinter):
    """Prints findings as JSON lines."""

    def partition(self, found: Compacted) -> None:
        """Write one pass over a partition."""
        state, config, cleaning = found.state, found.config, found.cleaning
        fields = place_of(state.log.path) | {
            "pass": found.number,
            "isDue": state.is_due(config),
            **fields_of(found, "is_done change=kept output error=failure"),
            **fields_of(state, "log_start_offset log_end_offset"),
            "highWatermark": state.high_watermark if state.is_watermark_known else None,
            **fields_of(state, "last_stable_offset checkpoint"),
            "checkpointReset": state.reset or None,
            **fields_of(state, "first_dirty_offset first_uncleanable_offset"),
            "limits": [_limit(limit) for limit in state.limits],
            **fields_of(state, "cleanBytes=clean_size cleanableBytes=cleanable_size dirty_ratio"),
            "minCleanableRatio": config.min_cleanable_ratio,
            **fields_of(state, "overdue_since bytes=size"),
            "cleaning": _cleaning(cleaning, found.capacity) if cleaning else None,
        }
        self.row("partition", fields)

    def skipped(self, path: str, why: str) -> None:
        """Write a partition that is none for the cleaner."""
        self.row("passedOver", place_of(path) | {"why": why})


def _limit(limit: Limit) -> Row:
    row: Row = {"kind": limit.kind, "offset": limit.offset}
    if limit.kind == TRANSACTION:
        row["producerId"] = limit.producer_id
    if limit.kind == LAG:
        row["until"] = limit.until
    return row


def _cleaning(cleaning: Cleaning, capacity: int | None) -> Row:
    counts = cleaning.counts
    return {
        "keys": cleaning.keys,
        "mapCapacity": capacity,
        **fields_of(cleaning, "isMapFull=is_full end_offset bytesAfter=size_after"),
        "before": {
            "segments": sum(len(group.segments) for group in cleaning.groups),
            **fields_of(counts, "bytes=size_before batches=batches_before records=records_before"),
        },
        "after": {
            "segments": len(cleaning.groups),
            **fields_of(counts, "bytes=size_after batches=batches_after records=records_after"),
        },
        "dropped": fields_of(counts, "superseded tombstones=expired keyless aborted markers"),
        **fields_of(counts, "tombstonesKept=tombstones firstDeleteHorizon=first_horizon emptyBatchesKept=emptied"),
        **fields_of(counts, "batchesConverted=converted"),
        "groups": [_group(group) for group in cleaning.groups],
    }


def _group(group: Group) -> Row:
    return {
        "baseOffset": group.base_offset,
        "segments": [facts.base_offset for facts in group.segments],
        **fields_of(group, "bytesBefore=size_before bytesAfter=size_after"),
    }
