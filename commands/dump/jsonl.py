"""`kdump dump --fields --format jsonl`: one batch as an object. Records are written by kdump.interchange.jsonl."""

from __future__ import annotations

from kdump.operations.batch_fields import BatchApart

from ..shell.rows import fields_of, json_line


def fields_line(found: BatchApart) -> str:
    """Return the line of a batch, field by field."""
    batch = found.batch
    row = {
        "path": found.path,
        **fields_of(batch, "position length=size first_offset last_offset magic is_valid stored_crc computed_crc"),
        "fields": [
            {"position": each.position, "name": each.name, "bytes": each.data.hex(), "value": each.value}
            for each in batch.fields
        ],
        "records": [fields_of(each, "offset position length=size valueLength=value_size") for each in batch.records],
        "fault": batch.fault,
        "flippedBit": found.flipped and fields_of(found.flipped, "position bit byte"),
    }
    return json_line("batchFields", row)
