"""The answers of `kdump lookup` as JSON objects; docs/lookup.md has the fields."""

from __future__ import annotations

from typing import Any

from kdump.operations.lookup import Answer, Located
from kdump.query.lookup import OffsetPosition, TimestampOffset

from ..shell.paths import place_of
from ..shell.rows import fields_of


def _found_fields(found: OffsetPosition | TimestampOffset | None) -> dict[str, Any]:
    """Return where an offset is, or what a search by time gives."""
    if found is None:
        return {"result": None}
    if isinstance(found, TimestampOffset):
        return {"result": fields_of(found, "offset timestamp leader_epoch")}
    return {
        "segment": found.segment,
        **fields_of(None if found.segment is None else found, "index_offset index_position"),
        "isFound": found.found,
        **fields_of(found if found.found else None, "batch_base_offset batch_last_offset position size is_valid"),
    }


def located_answer(located: Located) -> dict[str, Any]:
    """Return what was found in a partition, and where that begins and ends."""
    log = fields_of(located, "log_start_offset remoteLogStartOffset=remote_start_offset log_end_offset")
    return place_of(located.path) | log | _found_fields(located.found) | {"transaction": located.transaction}


def answer_fields(answer: Answer) -> dict[str, Any]:
    """Return the answer to one of many requests."""
    if answer.error is not None:
        return {"error": str(answer.error)}
    if answer.aborted is None:
        return _found_fields(answer.found)
    fields = "producer_id first_offset last_offset last_stable_offset"
    return {"aborted": [fields_of(txn, fields) for txn in answer.aborted]}
